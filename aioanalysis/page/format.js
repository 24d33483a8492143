/** How figures are written for people. */

const UNITS = ["B", "KB", "MB", "GB", "TB"];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const STEPS = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** 1,536 → "1.5 KB"; units of 1,024. */
export function bytes(count) {
  if (count === null || count === undefined) return "unknown";
  let unit = 0;
  let left = count;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit && left < 10 ? left.toFixed(1) : Math.round(left)} ${UNITS[unit]}`;
}

export function number(value, digits = 1) {
  return value === null || value === undefined
    ? "unknown"
    : value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** "3 records", "1 record". */
export function count(value, noun) {
  return `${number(value, 0)} ${noun}${value === 1 ? "" : "s"}`;
}

/** 3,725 s → "1 h 2 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "unknown";
  const whole = Math.max(0, seconds);
  if (whole > 0 && whole < 1) return "under 1 s";
  if (whole < 60) return `${Math.round(whole)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole < 600 ? ` ${Math.floor(whole % 60)} s` : ""}`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** "2 min. ago", "in 3 hr."; `now` in milliseconds. */
export function relative(time, now) {
  const seconds = (Date.parse(time) - now) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return RELATIVE.format(Math.trunc(seconds / size), unit);
  }
  return seconds > 5 ? "in under a minute" : "just now";
}

export function moment(time) {
  return MOMENT.format(new Date(time));
}

/** A parameter's value on one line. */
export function value(given) {
  if (given === null || given === "") return "none";
  if (given === true) return "yes";
  if (given === false) return "no";
  return typeof given === "object" ? JSON.stringify(given) : String(given);
}
