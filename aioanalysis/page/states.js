/** States, actions and reasons in people's words. */

/** Each state: what it is called, its meaning, and the shape that goes with its colour. */
export const STATES = {
  waiting: { label: "Waiting", text: "Recorded; its records have not been fetched yet.", shape: "ring" },
  queued: { label: "Queued", text: "Packaged; waiting for a worker.", shape: "lines" },
  running: { label: "Running", text: "A worker has it.", shape: "arc" },
  complete: { label: "Complete", text: "The report and the result package are there.", shape: "tick" },
  failed: { label: "Failed", text: "It has ended without a result.", shape: "cross" },
  blocked: { label: "On hold", text: "Held until something or somebody releases it.", shape: "bars" },
  failing: { label: "Failing", text: "Not finished; at least one of its runs has failed.", shape: "alert" },
  retrying: { label: "Retrying", text: "A run failed and was put back automatically.", shape: "again" },
  killed: { label: "Killed", text: "Ended by a user.", shape: "stop" },
};

export const FINISHED = new Set(["complete", "failed", "killed"]);

/** Paths in a box of 16 by 16, drawn as strokes. */
export const SHAPES = {
  ring: "M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10",
  lines: "M3 5h10M3 8h10M3 11h10",
  arc: "M8 3a5 5 0 1 1-5 5",
  tick: "M3.5 8.5l3 3l6-7",
  cross: "M4 4l8 8M12 4l-8 8",
  bars: "M6 4v8M10 4v8",
  alert: "M8 3v6M8 12.2v.3",
  again: "M12.5 6.5A5 5 0 1 0 13 9M13 3v4h-4",
  stop: "M4.5 4.5h7v7h-7z",
};

/**
 * The actions as buttons, in the order in which they are offered. `confirm` is asked first; `danger` ends
 * something. `path` and `query` are of POST /v1/jobs/{id}/actions/.
 */
export const ACTIONS = {
  unblock: { label: "Release", text: "Let it start.", path: "unblock" },
  retry: { label: "Retry", text: "Run it again as it is, under the same id.", path: "retry" },
  block: { label: "Hold", text: "What has not started waits until it is released.", path: "block" },
  suspend: { label: "Suspend", text: "What runs may finish; the rest goes back in line.", path: "suspend" },
  interrupt: {
    label: "Interrupt",
    text: "End the run now and put it back in line.",
    confirm: "The run is ended and starts again from the beginning later.",
    path: "interrupt",
  },
  block_now: {
    label: "Stop and hold",
    text: "End the run now and hold it until it is released.",
    confirm: "The run is ended. It starts again from the beginning once it is released.",
    path: "block",
    query: { when: "now" },
  },
  kill: {
    label: "Kill",
    text: "End it for good; it can be retried.",
    confirm: "It is ended and does not start again by itself. It can still be retried.",
    danger: true,
    path: "kill",
  },
};

/** What a history tells. */
export const EVENTS = {
  submit: "Submitted",
  split: "Records parted",
  queue: "Packaged",
  claim: "Taken by a worker",
  gone: "Left the queue",
  result: "Result came",
  fail: "Failed",
  fail_r: "Failed, put back",
  deadline: "Time limit passed",
  lease: "Worker lost, put back",
  lease_x: "Workers lost too often",
  dep_t: "What it waited for has ended",
  aggregate: "Worked out from its runs",
  wrangle: "Held after failures in a row",
  release: "Method released",
  rebuild: "Made again from storage",
  override: "State set by hand",
  block: "Held",
  block_now: "Stopped and held",
  unblock: "Released",
  interrupt: "Interrupted",
  suspend: "Suspended",
  kill: "Killed",
  retry: "Retried",
};

/** Why a run failed, as a sentence. */
export const REASONS = {
  stage: "A step of the analysis stopped with an error.",
  input: "The package of records was incomplete or damaged.",
  image: "The method's environment could not be built.",
  method: "The worker does not know this method, or its definition is wrong.",
  container: "The run could not be started, or was lost.",
  out_of_memory: "It needed more memory than it may use.",
  disk: "Its files grew larger than they may be.",
  silent: "It printed nothing for too long.",
  time_limit: "It ran out of time.",
  worker_lost: "The workers that ran it vanished.",
  records: "Its records could not be had.",
  dependency: "The analysis it waits for did not end in time.",
  killed: "It was ended by a user.",
};

/** What to do about it. */
export const ADVICE = {
  stage: "Look at the output below; other parameters or records may help.",
  input: "Submit it again with its records.",
  image: "Tell the method's author; what the build printed is below.",
  method: "Tell the operators: this worker's methods are not those of the service.",
  container: "Retry it. If that does not help, tell the operators.",
  out_of_memory: "Try fewer records, or split them into parts.",
  disk: "Try fewer records, or split them into parts.",
  silent: "Try fewer records, or tell the method's author.",
  time_limit: "Try fewer records, or split them into parts.",
  worker_lost: "Retry it. If that does not help, tell the operators.",
  records: "Check the recordset code and that you may read it, then resubmit.",
  dependency: "Look at the analysis it waited for, then retry this one.",
  killed: "Retry it if it should run after all.",
};
