// The whole node: figures, plots, shards.

import { get } from "./api.js";
import { Plot } from "./plot.js";
import { extended, joined, Range } from "./ranges.js";
import {
  byId, bytes, cards, count, exact, load, micros, percent, pill, say, span, table,
} from "./text.js";

const LIVE_MAX = 600;

let live = null;
let past = null;
let shown = false;

const range = new Range("overview", byId("overview-range"), (isSpan) => {
  if (isSpan) {
    past = null;
    history().catch(() => {});
  }
  draw();
});

const latencies = (side) => ["p50", "p95", "p99"].map((name) => ({ name, of: `${side}_${name}` }));
const perSecond = (value) => value === null || value === undefined ? "–" : `${bytes(value)}/s`;

const plots = [
  new Plot("Operations per second", count, [
    { name: "reads", of: "reads" },
    { name: "writes", of: "writes" },
    { name: "CQL requests", of: "requests" },
  ], range, { area: true }),
  new Plot("Shard utilisation", percent, [
    { name: "busiest", of: "busy_max" },
    { name: "mean", of: "busy_mean" },
    { name: "idlest", of: "busy_min" },
  ], range, { ceiling: 1 }),
  new Plot("Read latency", micros, latencies("read"), range),
  new Plot("Write latency", micros, latencies("write"), range),
  new Plot("Disk", perSecond, [
    { name: "read", of: "disk_read" },
    { name: "written", of: "disk_write" },
  ], range, { area: true, isBytes: true }),
  new Plot("Errors per second", count, [{ name: "errors", of: "errors" }], range),
  new Plot("Memory", bytes, [
    { name: "heap", of: "heap_bytes" },
    { name: "memtables", of: "memtable_bytes" },
  ], range, { isBytes: true }),
  new Plot("Connections", count, [{ name: "connections", of: "connections" }], range),
];

function samples() {
  if (range.seconds > LIVE_MAX) return past || { at: [] };
  return joined(past, live) || { at: [] };
}

function draw() {
  if (!shown) return;
  const data = samples();
  if (data.at.length) plots.forEach((plot) => plot.update(data));
}

const shardColumns = [
  { name: "Shard", head: true, cell: (row) => String(row.number) },
  { name: "Utilisation", cell: (row) => load(row.busy, percent(row.busy)) },
  { name: "Heap", cell: (row) => load(row.heap_bytes / row.memory_bytes,
    `${bytes(row.heap_bytes)} of ${bytes(row.memory_bytes)}`) },
  { name: "Memtables", num: true, cell: (row) => bytes(row.memtable_bytes) },
  { name: "Row cache", num: true, cell: (row) => bytes(row.cache_bytes) },
  { name: "Connections", num: true, cell: (row) => exact(row.connections) },
  { name: "Reads/s", num: true, cell: (row) => count(row.reads) },
  { name: "Writes/s", num: true, cell: (row) => count(row.writes) },
  { name: "In flight", num: true, cell: (row) => exact(row.under_way) },
  { name: "Queued", num: true, cell: (row) =>
    exact(row.waiting + row.reads_queued + row.writes_blocked) },
  { name: "Disk queue", num: true, cell: (row) => exact(row.disk_queued) },
  { name: "Compactions", num: true, cell: (row) => exact(row.compactions) },
  { name: "Shed", num: true, cell: (row) => exact(row.shed) },
  { name: "Errors", num: true, cell: (row) => exact(row.errors) },
  { name: "Stalls", num: true, cell: (row) => exact(row.stalls) },
];

function showShards(shards) {
  const rows = shards.map((shard, number) => ({ number, ...shard }));
  table(byId("shards"), shardColumns, rows, "The first sample takes a second.");
}

function showCards(shards) {
  const last = (name) => live?.[name]?.[live[name].length - 1] ?? null;
  if (!shards.length || !live?.at.length) return;
  const sum = (name) => shards.reduce((all, shard) => all + shard[name], 0);
  const [busiest, errors] = [last("busy_max"), last("errors")];
  const heap = sum("heap_bytes") / sum("memory_bytes");
  const queued = sum("waiting") + sum("reads_queued") + sum("writes_blocked");
  cards(byId("cards"), [
    ["Reads/s", count(last("reads"))],
    ["Writes/s", count(last("writes"))],
    ["Read p99", micros(last("read_p99"))],
    ["Write p99", micros(last("write_p99"))],
    ["Busiest shard", percent(busiest), busiest >= 0.95 ? "bad" : busiest >= 0.8 ? "warn" : ""],
    ["Heap", bytes(sum("heap_bytes")), heap >= 0.95 ? "warn" : ""],
    ["Connections", count(sum("connections"))],
    ["Queued", count(queued), queued ? "warn" : ""],
    ["Errors/s", count(errors), errors ? "warn" : ""],
  ]);
}

// As `nodetool status` has them.
const nodeStates = {
  UN: ["up, normal", "good"], UJ: ["up, joining", "warn"], UL: ["up, leaving", "warn"],
  DN: ["down", "bad"], DJ: ["down, joining", "bad"], DL: ["down, leaving", "bad"],
};

const nodeColumns = [
  { name: "State", head: true, cell: (row) =>
    pill(...(nodeStates[row.state] || [row.state, "warn"])) },
  { name: "Address", code: true, cell: (row) =>
    row.here ? `${row.address} (this node)` : row.address },
  { name: "Data center", cell: (row) => row.data_center },
  { name: "Rack", cell: (row) => row.rack },
  { name: "Busiest shard", cell: (row) =>
    row.busy === null ? "" : load(row.busy, percent(row.busy)) },
  { name: "Reads/s", num: true, cell: (row) => count(row.reads) },
  { name: "Writes/s", num: true, cell: (row) => count(row.writes) },
  { name: "Load", num: true, cell: (row) => bytes(row.load_bytes) },
  { name: "Schema", cell: (row) =>
    row.agrees === null ? "" : row.agrees ? "the same" : pill("another", "warn") },
  { name: "Shards", num: true, cell: (row) => exact(row.shards) },
  { name: "Tokens", num: true, cell: (row) => exact(row.tokens) },
  { name: "Host ID", code: true, cell: (row) => row.host_id },
];

export function showState(state) {
  const { address, version, shards, up_seconds: up } = state;
  say(byId("cluster"), state.cluster);
  say(byId("node"), `${address} · version ${version} · ${shards} shards · up ${span(up)}`);
  table(byId("nodes"), nodeColumns, state.nodes, "");
}

export async function history() {
  const { seconds } = range;
  const told = await get(`history?seconds=${seconds}`);
  if (seconds !== range.seconds) return;
  past = told.points;
  draw();
}

export async function look() {
  const told = await get(`live?after=${live?.last ?? 0}`);
  live = extended(live, told.points, LIVE_MAX);
  if (!shown) return;
  showShards(told.shards);
  showCards(told.shards);
  if (range.seconds <= LIVE_MAX) draw();
}

export function show(isShown) {
  shown = isShown;
  if (!shown) return;
  history().catch(() => {});
  draw();
}

export function setUp() {
  byId("plots").replaceChildren(...plots.map((plot) => plot.figure));
  showShards([]);
}
