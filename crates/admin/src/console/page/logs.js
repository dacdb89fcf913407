// The latest lines of the node's log, the newest first.

import { asUser } from "./api.js";
import { byId, exact, pill, say, table } from "./text.js";

const KEPT_MAX = 2000;
const SHOWN_MAX = 500;
const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
const KINDS = { ERROR: "bad", WARN: "warn", INFO: "idle", DEBUG: "idle", TRACE: "idle" };

let lines = [];
let drawn = null;

const columns = [
  { name: "Time", head: true, num: true, cell: (row) => time(row.at) },
  { name: "Level", cell: (row) => pill(row.level.toLowerCase(), KINDS[row.level] || "idle") },
  { name: "Shard", num: true, cell: (row) => String(row.shard) },
  { name: "Logger", code: true, kind: "short", cell: (row) => row.logger },
  { name: "Message", code: true, kind: "statement", cell: (row) => row.text },
];

function time(millis) {
  const at = new Date(millis);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return `${day} ${clock}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

function draw() {
  const least = LEVELS.indexOf(byId("logs-level").value);
  const wanted = byId("logs-filter").value.trim().toLowerCase();
  const rows = lines.filter((row) => LEVELS.indexOf(row.level) <= least
    && `${row.logger} ${row.text}`.toLowerCase().includes(wanted));
  const key = `${rows.length} ${rows.at(-1)?.n} ${least} ${wanted}`;
  if (key === drawn) return;
  drawn = key;
  const latest = rows.slice(-SHOWN_MAX).reverse();
  table(byId("logs-list"), columns, latest, "No lines.");
  const most = latest.length < rows.length ? `, the latest ${SHOWN_MAX} shown` : "";
  say(byId("logs-count"), `${exact(rows.length)} of ${exact(lines.length)} lines${most}`);
}

export async function look(quietly = true) {
  const last = lines.at(-1)?.n ?? 0;
  try {
    const told = await asUser("GET", `logs?after=${last}`, undefined, quietly);
    lines = lines.concat(told.lines).slice(-KEPT_MAX);
    draw();
  } catch (refused) {
    if (refused.status === 0) throw refused;
    say(byId("logs-count"), refused.message);
  }
}

/// The node was started anew, and its lines begin with 1 again.
export function forget() {
  lines = [];
}

export function setUp() {
  byId("logs-level").addEventListener("change", draw);
  byId("logs-filter").addEventListener("input", draw);
}
