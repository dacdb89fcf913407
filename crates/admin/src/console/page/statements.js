// Statements by fingerprint, slow queries, and the trace of one request.

import { asUser } from "./api.js";
import {
  byId, cards, count, el, exact, micros, moment, percent, progress, say, sortable, sorted, span,
  table,
} from "./text.js";

const order = { key: "share", ascending: false };
let latest = null;

const columns = [
  { name: "Statement", key: "form", code: true, kind: "statement", cell: (row) => row.form },
  { name: "Count", key: "count", num: true, cell: (row) => count(row.count) },
  { name: "Per second", key: "rate", num: true, cell: (row) => count(row.rate) },
  { name: "Mean", key: "mean_us", num: true, cell: (row) => micros(row.mean_us) },
  { name: "p99", key: "p99_us", num: true, cell: (row) => micros(row.p99_us) },
  { name: "Max", key: "max_us", num: true, cell: (row) => micros(row.max_us) },
  { name: "Rows", key: "rows", num: true, cell: (row) => count(row.rows) },
  { name: "Rows each", key: "rows_each", num: true, cell: (row) => count(row.rows_each) },
  { name: "Share of time", key: "share", num: true, cell: (row) =>
    progress(row.share, "good", percent(row.share)) },
];

function draw() {
  if (!latest) return;
  const { recording, seconds, forms } = latest;
  const button = byId("record");
  button.setAttribute("aria-pressed", String(recording));
  say(button, recording ? "Stop recording" : "Record");
  const ends = "It ends 10 minutes after this view was closed.";
  const begin = "Nothing is recorded now. Recording makes each request a little slower.";
  const last = `Recorded for ${span(seconds)}; recording is off.`;
  say(byId("record-status"), recording ? `Recording for ${span(seconds)}. ${ends}`
    : seconds === null ? begin : last);
  const rows = forms.map((row) => ({
    ...row, rate: seconds > 0 ? row.count / seconds : null, rows_each: row.rows / row.count,
  }));
  const node = byId("statements-list");
  const key = node.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const empty = recording ? "No statement was answered yet." : "Nothing was recorded.";
  table(node, columns, sorted(rows, order), empty, { heads: sortable(node, order, draw) });
  if (key) node.querySelector(`button[data-key="${key}"]`)?.focus();
}

async function record() {
  try {
    await asUser("POST", `statements?enable=${!latest?.recording}`);
    await look(false);
  } catch (refused) {
    say(byId("record-status"), refused.message);
  }
}

const slowColumns = [
  { name: "When", head: true, num: true, cell: (row) => moment(Date.parse(row.date)) },
  { name: "Took", num: true, cell: (row) => micros(row.duration_us) },
  { name: "Statement", code: true, kind: "statement", cell: (row) => row.statement ?? "" },
  { name: "Client", code: true, cell: (row) => row.client ?? "" },
  { name: "User", cell: (row) => row.user ?? "" },
  { name: "Shard", num: true, cell: (row) => row.shard ?? "" },
  { name: "", cell: (row) => row.trace
    ? el("a", { href: `#trace/${encodeURIComponent(row.trace)}` }, "Trace") : "" },
];

let rule = null;

function showSlow(told) {
  const state = told.enabled
    ? `Requests slower than ${micros(told.threshold_us)} are logged.`
    : "The slow query log is off.";
  say(byId("slow-status"), `${state} The latest of the last hour:`);
  const next = `${told.enabled} ${told.threshold_us}`;
  if (next !== rule) {
    rule = next;
    byId("slow-enabled").checked = told.enabled;
    byId("slow-threshold").value = told.threshold_us / 1000;
  }
  const node = byId("slow-list");
  const focused = node.contains(document.activeElement)
    ? document.activeElement.getAttribute("href") : null;
  table(node, slowColumns, told.queries, "None.");
  if (focused) node.querySelector(`a[href="${focused}"]`)?.focus();
}

async function setSlow() {
  const micros = Math.round(Number(byId("slow-threshold").value) * 1000);
  const enable = byId("slow-enabled").checked;
  try {
    await asUser("POST", `slow?enable=${enable}&threshold_us=${Math.max(0, micros)}`);
    await look(false);
  } catch (refused) {
    say(byId("slow-status"), refused.message);
  }
}

export async function look(quietly = true) {
  try {
    latest = await asUser("GET", "statements", undefined, quietly);
    draw();
    showSlow(await asUser("GET", "slow", undefined, quietly));
  } catch (refused) {
    if (refused.status === 0) throw refused;
    say(byId("slow-status"), refused.message);
  }
}

// Traces.

const events = (total) => [
  { name: "Since start", head: true, num: true, cell: (row) => micros(row.elapsed_us) },
  { name: "", cell: (row) => progress(row.elapsed_us / total, "good", "") },
  { name: "Activity", cell: (row) => row.activity },
  { name: "Where", cell: (row) => row.thread },
];

function showTrace(told) {
  const duration = told.duration ? Number(told.duration) : null;
  say(byId("trace-status"), told.complete ? told.request : "The trace is not written yet.");
  const text = byId("trace-text");
  const query = /'query': '((?:[^']|'')*)'/.exec(told.parameters || "");
  text.hidden = !query;
  say(text, query ? query[1].replace(/''/g, "'") : "");
  cards(byId("trace-cards"), [
    ["Duration", micros(duration)],
    ["Events", exact(told.events.length)],
    ["Client", told.client ?? "–"],
    ["User", told.username ?? "–"],
    ["Started", told.started_at ? moment(Date.parse(told.started_at)) : "–"],
  ]);
  const rows = [...told.events].sort((a, b) => a.elapsed_us - b.elapsed_us);
  const empty = told.complete
    ? "Only the slow request itself was logged, without its events." : "No events.";
  table(byId("trace-events"), events(duration || rows.at(-1)?.elapsed_us || 1), rows, empty);
}

/// Shows a trace. It is written after the answer to its request: so it is asked for again.
export async function showTraceOf(id) {
  say(byId("trace-status"), "Loading …");
  for (let again = 0; again < 20; again += 1) {
    if (decodeURIComponent(location.hash) !== `#trace/${id}`) return;
    try {
      const told = await asUser("GET", `trace?id=${encodeURIComponent(id)}`);
      showTrace(told);
      if (told.complete) return;
    } catch (refused) {
      say(byId("trace-status"), refused.message);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  say(byId("trace-status"), "There is no such trace, or only the slow request itself was logged.");
}

export function setUp() {
  byId("record").addEventListener("click", record);
  byId("slow-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setSlow();
  });
}
