// What operators have started, and compactions.

import { get, post } from "./api.js";
import { askSure } from "./dialogs.js";
import {
  byId, bytes, el, exact, micros, moment, percent, pill, progress, say, span, table,
} from "./text.js";

/// How each state looks: green is well, grey neither, red is what somebody has to look at.
const STATES = {
  created: ["waiting", "idle"],
  running: ["running", "busy"],
  stopping: ["stopping", "idle"],
  done: ["done", "good"],
  stopped: ["stopped by an operator", "idle"],
  damaged: ["found damage", "bad"],
  failed: ["failed", "bad"],
};

function stateCell(row) {
  const [text, kind] = STATES[row.state] || [row.state, "idle"];
  const why = row.why ? el("span", { class: "note-text" }, row.why) : null;
  return el("span", {}, pill(text, kind), why);
}

function progressCell(row) {
  if (row.progress === null) return "–";
  const [, kind] = STATES[row.state] || ["", "idle"];
  return progress(row.progress, kind === "busy" ? "good" : kind, percent(row.progress));
}

const askedColumns = [
  { name: "Task", head: true, cell: (row) => row.kind },
  { name: "Of", cell: (row) => scopeOf(row) },
  { name: "State", cell: stateCell },
  { name: "Progress", cell: progressCell },
  { name: "Started", num: true, cell: (row) => moment(row.began_at) },
  { name: "Duration", num: true, cell: (row) => span(row.elapsed_ms / 1000) },
  { name: "", cell: (row) =>
    row.stoppable ? stopButton(row, `${row.kind} of ${scopeOf(row)}`) : "" },
];

const scopeOf = (row) => [row.keyspace, row.table].filter(Boolean).join(".") || "all tables";

const runningColumns = [
  { name: "Compaction", head: true, cell: (row) => row.kind },
  { name: "Table", cell: (row) => row.table },
  { name: "Shard", num: true, cell: (row) => exact(row.shard) },
  { name: "Progress", cell: (row) => progress(row.progress, "good", percent(row.progress)) },
  { name: "Input", num: true, cell: (row) => bytes(row.bytes_in) },
  { name: "Written", num: true, cell: (row) => bytes(row.bytes_written) },
  { name: "Duration", num: true, cell: (row) => span(row.elapsed_ms / 1000) },
  { name: "Remaining (est.)", num: true, cell: (row) =>
    row.remaining_ms === null ? "–" : span(row.remaining_ms / 1000) },
  { name: "", cell: (row) =>
    stopButton(row, `${row.kind} compaction of ${row.table} on shard ${row.shard}`) },
];

function stopButton(row, what) {
  const button = el("button", { type: "button", "aria-label": `Stop ${what}` }, "Stop");
  button.dataset.key = row.id;
  button.addEventListener("click", () => stop(row, what));
  return button;
}

async function stop(row, what) {
  const text = "What it has done so far is dropped; no data is lost. It has to be started again "
    + "to be completed.";
  if (!await askSure(`Stop the ${what}?`, text, "Stop it")) return;
  try {
    await post(`tasks/stop?id=${encodeURIComponent(row.id)}`);
    say(byId("tasks-status"), `The ${what} was told to stop.`);
  } catch (refused) {
    say(byId("tasks-status"), refused.message);
  }
  look().catch(() => {});
}

const endedColumns = [
  { name: "Finished", head: true, cell: (row) => moment(row.ended_at) },
  { name: "Compaction", cell: (row) => row.kind },
  { name: "Table", cell: (row) => row.table },
  { name: "Shard", num: true, cell: (row) => exact(row.shard) },
  { name: "Input", num: true, cell: (row) => bytes(row.bytes_in) },
  { name: "Output", num: true, cell: (row) => bytes(row.bytes_out) },
  { name: "Duration", num: true, cell: (row) => micros(row.elapsed_ms * 1000) },
];

let status = null;

export async function look() {
  const told = await get("tasks");
  const held = told.held ? `, ${exact(told.held)} wait for disk space` : "";
  const now = `${exact(told.running.length)} running, ${exact(told.pending)} pending${held}`;
  // What was answered to a click stays until figures change.
  if (now !== status) say(byId("tasks-status"), now);
  status = now;
  const focused = document.activeElement?.dataset?.key;
  table(byId("tasks-asked"), askedColumns, told.asked, "No recent tasks.");
  table(byId("tasks-running"), runningColumns, told.running, "No compaction is running.");
  if (focused) byId("tasks").querySelector(`button[data-key="${focused}"]`)?.focus();
  table(byId("tasks-ended"), endedColumns, told.ended, "None in the last week.");
}
