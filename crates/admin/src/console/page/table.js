// One table: figures, plots, schema, shards, SSTables.

import { asUser, get } from "./api.js";
import { Plot } from "./plot.js";
import { extended, joined, Range } from "./ranges.js";
import {
  byId, bytes, cards, count, exact, micros, moment, percent, say, span, table,
} from "./text.js";

const LIVE_MAX = 300;

let name = null;
let live = null;
let day = null;

const range = new Range("table", byId("table-range"), (isSpan) => {
  if (isSpan) look().catch(() => {});
  draw();
});

const latencies = (side) => ["p50", "p95", "p99"].map((of) => ({ name: of, of: `${side}_${of}` }));

const plots = [
  new Plot("Operations per second", count, [
    { name: "reads", of: "reads" }, { name: "writes", of: "writes" },
  ], range, { area: true }),
  new Plot("Data on disk", bytes, [{ name: "data", of: "disk_bytes" }], range,
    { area: true, isBytes: true }),
  new Plot("Read latency", micros, latencies("read"), range),
  new Plot("Write latency", micros, latencies("write"), range),
];

function draw() {
  const data = joined(day, live);
  if (data?.at.length) plots.forEach((plot) => plot.update(data));
}

const shardColumns = [
  { name: "Shard", head: true, cell: (row) => String(row.number) },
  { name: "Data on disk", num: true, cell: (row) => bytes(row.disk_bytes) },
  { name: "SSTables", num: true, cell: (row) => exact(row.sstables) },
  { name: "Memtables", num: true, cell: (row) => bytes(row.memtable_bytes) },
  { name: "Partitions (est.)", num: true, cell: (row) => count(row.partitions) },
  { name: "Reads", num: true, cell: (row) => count(row.reads) },
  { name: "Writes", num: true, cell: (row) => count(row.writes) },
  { name: "Mean read", num: true, cell: (row) => micros(row.read_us) },
  { name: "Mean write", num: true, cell: (row) => micros(row.write_us) },
  { name: "Pending compactions", num: true, cell: (row) => exact(row.pending) },
];

/// Timestamps of writes are microseconds by convention; what cannot be is shown as it is.
function written(text) {
  const millis = Number(text) / 1000;
  return millis > 0 && millis < 8.64e15 ? moment(millis) : text;
}

const fileColumns = [
  { name: "SSTable", head: true, code: true, cell: (row) => row.generation },
  { name: "Shard", num: true, cell: (row) => exact(row.shard) },
  { name: "Format", cell: (row) => row.version },
  { name: "Level", num: true, cell: (row) => exact(row.level) },
  { name: "All files", num: true, cell: (row) => bytes(row.disk_bytes) },
  { name: "Uncompressed", num: true, cell: (row) => bytes(row.data_bytes) },
  { name: "Partitions", num: true, cell: (row) => count(row.partitions) },
  { name: "Rows", num: true, cell: (row) => count(row.rows) },
  { name: "Tombstones", num: true, cell: (row) => count(row.tombstones) },
  { name: "Droppable", num: true, cell: (row) => count(row.droppable) },
  { name: "Oldest write", num: true, cell: (row) => written(row.oldest) },
  { name: "Newest write", num: true, cell: (row) => written(row.newest) },
  { name: "Created", num: true, cell: (row) => moment(row.made_at) },
];

function showFigures(told) {
  const [p50, , p99] = told.partition_bytes;
  cards(byId("table-cards"), [
    ["Data on disk", bytes(told.disk_bytes)],
    ["With indexes", bytes(told.files_bytes)],
    ["Memtables", bytes(told.memtable_bytes)],
    ["Partitions (est.)", count(told.partitions)],
    ["Rows (est.)", count(told.rows)],
    ["Partition size p50", bytes(p50)],
    ["Partition size p99", bytes(p99)],
    ["SSTables", exact(told.sstable_count)],
    ["Tombstones", count(told.tombstones)],
    ["Droppable", count(told.droppable), told.droppable ? "warn" : ""],
    ["Pending compactions", exact(told.pending)],
  ]);
  const shards = told.shards.map((shard, number) => ({ number, ...shard }));
  table(byId("table-shards"), shardColumns, shards, "");
  table(byId("table-files"), fileColumns, told.files, "No SSTables: nothing was flushed yet.");
  const listed = told.files.length < told.sstable_count
    ? `The ${told.files.length} largest of ${exact(told.sstable_count)}. ` : "";
  const ratio = told.data_bytes ? told.disk_bytes / told.data_bytes : null;
  const packed = ratio === null ? ""
    : `Data files are ${percent(ratio)} of the uncompressed size. `;
  const grace = span(told.gc_grace_seconds);
  say(byId("table-files-status"), `${listed}${packed}Tombstones are deletions and expiring cells. `
    + `Droppable ones are older than gc_grace_seconds (${grace}): a compaction that reads all data `
    + "they may cover removes them.");
}

async function showSchema() {
  const quoted = name.split(".").map((part) => `"${part.replace(/"/g, '""')}"`).join(".");
  const asked = { statement: `DESCRIBE TABLE ${quoted}`, page: true };
  const of = name;
  let text;
  try {
    const told = await asUser("POST", "cql", asked, true);
    const at = told.columns.findIndex((column) => column.name === "create_statement");
    text = told.rows.map((row) => row[at]?.clipped ?? row[at]).join("\n\n");
  } catch (refused) {
    text = refused.message;
  }
  if (of === name) say(byId("table-schema"), text);
}

/// Figures, which change slowly, and cost more where there are many SSTables.
export async function figures() {
  const of = name;
  try {
    const told = await get(`table?name=${encodeURIComponent(of)}`);
    if (of !== name) return;
    byId("table-body").hidden = false;
    say(byId("table-status"), told.comment);
    showFigures(told);
  } catch (refused) {
    if (refused.status !== 404) throw refused;
    byId("table-body").hidden = true;
    say(byId("table-status"), refused.message);
  }
}

export async function look() {
  const of = name;
  const after = live?.last ?? 0;
  const query = `name=${encodeURIComponent(of)}&seconds=${range.seconds}&after=${after}`;
  const told = await get(`table/history?${query}`);
  if (of !== name) return;
  day = told.day.points;
  live = extended(live, told.live.points, LIVE_MAX);
  draw();
}

export function show(wanted) {
  if (wanted === name) return;
  name = wanted;
  live = null;
  day = null;
  plots.forEach((plot) => plot.clear());
  say(byId("table-title"), name);
  say(byId("table-schema"), "");
  look().catch(() => {});
  figures().catch(() => {});
  showSchema();
}

export function setUp() {
  byId("table-plots").replaceChildren(...plots.map((plot) => plot.figure));
}
