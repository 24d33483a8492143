/** A JSON Schema's properties as fields of a form: what kind each is, and its text as a checked value. */

import { number } from "./format.js";

const LONG_TEXT = 1000;

/** [{name, schema, kind, nullable, required}]; kinds: choice, flag, number, integer, text, long, several, list, json. */
export function fieldsOf(schema) {
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).map(([name, own]) => {
    const types = [own.type].flat().filter(Boolean);
    return {
      name,
      schema: own,
      kind: kindOf(own, types.filter((type) => type !== "null")),
      nullable: types.includes("null"),
      required: required.has(name),
    };
  });
}

function kindOf(schema, types) {
  if (schema.enum) return "choice";
  if (types.length !== 1) return "json";
  const [type] = types;
  if (type === "boolean") return "flag";
  if (type === "number" || type === "integer") return type;
  if (type === "string") return (schema.maxLength || 0) > LONG_TEXT ? "long" : "text";
  if (type === "array" && schema.items?.enum) return "several";
  if (type === "array" && ["string", "number", "integer"].includes(schema.items?.type)) return "list";
  return "json";
}

/** How a value (undefined: none) stands in the form's control. */
export function rawOf(field, value) {
  const given = value === undefined ? field.schema.default : value;
  switch (field.kind) {
    case "flag":
      return given === true;
    case "choice":
      return given === undefined ? "" : String(field.schema.enum.findIndex((one) => same(one, given)));
    case "several":
      return new Set(given || []);
    case "list":
      return (given || []).join("\n");
    case "json":
      return given === undefined ? "" : JSON.stringify(given, null, 2);
    default:
      return given === undefined || given === null ? "" : String(given);
  }
}

/** The control's content as {value} (undefined: left out), or {wrong}: what is wrong with it, for people. */
export function valueOf(field, raw) {
  const { kind, schema } = field;
  if (kind === "flag") return { value: raw };
  if (kind === "several") return items(field, schema.items.enum.filter((one) => raw.has(one)));
  if (kind === "list") return list(field, raw);
  if (kind === "text" || kind === "long") return textual(field, raw);
  if (!raw.trim()) return empty(field);
  if (kind === "choice") return { value: schema.enum[Number(raw)] };
  return kind === "json" ? json(raw) : numeric(schema, kind, raw);
}

function empty({ nullable, required, schema }) {
  if (nullable) return { value: null };
  return required || schema.default !== undefined ? { wrong: "A value is needed here." } : { value: undefined };
}

function textual(field, raw) {
  const { schema } = field;
  const length = [...raw].length;
  if (!raw && (schema.minLength || field.nullable)) return empty(field);
  if (!raw && !field.required && schema.default === undefined) return { value: undefined };
  if (length < (schema.minLength || 0)) return { wrong: `At least ${schema.minLength} characters are needed.` };
  if (length > (schema.maxLength ?? Infinity)) return { wrong: `${schema.maxLength} characters are the most.` };
  if (schema.pattern && !new RegExp(schema.pattern, "u").test(raw)) {
    return { wrong: `This does not have the form that is asked for (${schema.pattern}).` };
  }
  return { value: raw };
}

function numeric(schema, kind, raw) {
  const value = Number(raw.trim().replace(",", "."));
  if (!Number.isFinite(value)) return { wrong: "This is not a number." };
  if (kind === "integer" && !Number.isInteger(value)) return { wrong: "This must be a whole number." };
  if (value < schema.minimum) return { wrong: `${schema.minimum} is the least.` };
  if (value > schema.maximum) return { wrong: `${schema.maximum} is the most.` };
  if (value <= schema.exclusiveMinimum) return { wrong: `This must be more than ${schema.exclusiveMinimum}.` };
  if (value >= schema.exclusiveMaximum) return { wrong: `This must be less than ${schema.exclusiveMaximum}.` };
  const steps = schema.multipleOf ? value / schema.multipleOf : 0;
  if (Math.abs(steps - Math.round(steps)) > 1e-9) return { wrong: `This must be a multiple of ${schema.multipleOf}.` };
  return { value };
}

function list(field, raw) {
  const { schema } = field;
  const found = [];
  for (const line of raw.split("\n").map((one) => one.trim())) {
    if (!line) continue;
    const one =
      schema.items.type === "string"
        ? textual({ schema: schema.items, required: true }, line)
        : numeric(schema.items, schema.items.type, line);
    if (one.wrong) return { wrong: `“${line}”: ${one.wrong}` };
    found.push(one.value);
  }
  return items(field, found);
}

function items({ schema }, found) {
  if (found.length < (schema.minItems || 0)) return { wrong: `At least ${schema.minItems} must be given.` };
  if (found.length > (schema.maxItems ?? Infinity)) return { wrong: `${schema.maxItems} are the most.` };
  if (schema.uniqueItems && new Set(found).size < found.length) return { wrong: "Each may be given once only." };
  return { value: found };
}

function json(raw) {
  try {
    return { value: JSON.parse(raw) };
  } catch {
    return { wrong: "This is not JSON." };
  }
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** "0 to 100. Default: 2.", or nothing. */
export function boundsOf({ schema, kind }) {
  const said = [];
  if (kind === "number" || kind === "integer") {
    const { minimum, maximum } = schema;
    if (minimum !== undefined && maximum !== undefined) said.push(`${number(minimum, 9)} to ${number(maximum, 9)}.`);
    else if (minimum !== undefined) said.push(`${number(minimum, 9)} or more.`);
    else if (maximum !== undefined) said.push(`${number(maximum, 9)} or less.`);
  }
  if (["number", "integer", "text"].includes(kind) && schema.default !== undefined && schema.default !== "") {
    said.push(`Default: ${schema.default === null ? "none" : schema.default}.`);
  }
  return said.join(" ");
}
