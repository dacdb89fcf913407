// The views beside plots and prompt: what the node told, as tables.

import { byId, bytes, count, el, exact, micros, percent, say, share, span, table } from "./text.js";

export function showCards(cards) {
  const node = byId("cards");
  if (node.children.length !== cards.length) {
    node.replaceChildren(...cards.map(() => el("div", {}, el("dt"), el("dd"))));
  }
  cards.forEach(([name, text, kind], at) => {
    const [term, value] = node.children[at].children;
    say(term, name);
    say(value, text);
    value.className = kind || "";
  });
}

const shardColumns = [
  { name: "Shard", head: true, cell: (row) => String(row.number) },
  { name: "Busy", cell: (row) => share(row.busy, percent(row.busy)) },
  { name: "Heap", cell: (row) => share(row.heap_bytes / row.memory_bytes, `${bytes(row.heap_bytes)} of ${bytes(row.memory_bytes)}`) },
  { name: "Memtables", num: true, cell: (row) => bytes(row.memtable_bytes) },
  { name: "Row cache", num: true, cell: (row) => bytes(row.cache_bytes) },
  { name: "Connections", num: true, cell: (row) => exact(row.connections) },
  { name: "Reads/s", num: true, cell: (row) => count(row.reads) },
  { name: "Writes/s", num: true, cell: (row) => count(row.writes) },
  { name: "Requests under way", num: true, cell: (row) => exact(row.under_way) },
  { name: "Waiting", num: true, cell: (row) => exact(row.waiting + row.reads_queued + row.writes_blocked) },
  { name: "Disk queue", num: true, cell: (row) => exact(row.disk_queued) },
  { name: "Compactions", num: true, cell: (row) => exact(row.compactions) },
  { name: "Shed", num: true, cell: (row) => exact(row.shed) },
  { name: "Errors", num: true, cell: (row) => exact(row.errors) },
  { name: "Stalls", num: true, cell: (row) => exact(row.stalls) },
];

export function showShards(shards) {
  const rows = shards.map((shard, number) => ({ number, ...shard }));
  table(byId("shards"), shardColumns, rows, "The first look takes a second.");
}

const nodeColumns = [
  { name: "State", head: true, cell: (row) => row.state === "UN" ? "up, normal" : row.state },
  { name: "Address", code: true, cell: (row) => row.address },
  { name: "Data center", cell: (row) => row.data_center },
  { name: "Rack", cell: (row) => row.rack },
  { name: "Tokens", num: true, cell: (row) => exact(row.tokens) },
  { name: "Host", code: true, cell: (row) => row.host_id },
];

export function showState(state) {
  say(byId("cluster"), state.cluster);
  say(byId("node"), `${state.address} · version ${state.version} · ${state.shards} shards · up ${span(state.up_seconds)}`);
  table(byId("nodes"), nodeColumns, state.nodes, "");
}

// Tables.

let order = { key: "disk_bytes", ascending: false };
let before = null;
let latest = null;

const tableColumns = [
  { name: "Table", key: "name", head: true, cell: (row) => nameCell(row) },
  { name: "On disk", key: "disk_bytes", num: true, cell: (row) => bytes(row.disk_bytes) },
  { name: "SSTables", key: "sstables", num: true, cell: (row) => exact(row.sstables) },
  { name: "In memory", key: "memtable_bytes", num: true, cell: (row) => bytes(row.memtable_bytes) },
  { name: "Partitions, about", key: "partitions", num: true, cell: (row) => count(row.partitions) },
  { name: "Reads/s", key: "read_rate", num: true, cell: (row) => count(row.read_rate) },
  { name: "Writes/s", key: "write_rate", num: true, cell: (row) => count(row.write_rate) },
  { name: "Reads", key: "reads", num: true, cell: (row) => count(row.reads) },
  { name: "Writes", key: "writes", num: true, cell: (row) => count(row.writes) },
  { name: "Mean read", key: "read_us", num: true, cell: (row) => micros(row.read_us) },
  { name: "Mean write", key: "write_us", num: true, cell: (row) => micros(row.write_us) },
  { name: "Compactions due", key: "pending", num: true, cell: (row) => exact(row.pending) },
];

function nameCell(row) {
  const comment = row.comment ? el("span", { class: "note-text" }, row.comment) : null;
  return el("span", {}, `${row.keyspace}.${row.name}`, comment);
}

function tableHead(column) {
  const sorted = order.key === column.key;
  const button = el("button", { type: "button" }, column.name);
  button.dataset.key = column.key;
  button.addEventListener("click", () => {
    order = { key: column.key, ascending: sorted ? !order.ascending : column.key === "name" };
    drawTables();
    byId("tables-list").querySelector(`button[data-key="${column.key}"]`)?.focus();
  });
  const sort = sorted ? (order.ascending ? "ascending" : "descending") : null;
  return el("th", { scope: "col", class: column.num && "num", "aria-sort": sort }, button);
}

/// Reads and writes a second, of two looks.
export function rated(told, old) {
  const seconds = old ? (told.at - old.at) / 1000 : 0;
  const name = (row) => `${row.keyspace}.${row.name}`;
  const known = new Map((old?.tables || []).map((row) => [name(row), row]));
  return told.tables.map((row) => {
    const last = known.get(name(row));
    const rate = (key) => last && seconds > 0 ? Math.max(0, row[key] - last[key]) / seconds : null;
    return { ...row, read_rate: rate("reads"), write_rate: rate("writes") };
  });
}

export function showTables(told) {
  before = latest;
  latest = told;
  drawTables();
  const select = byId("hot-table");
  const names = told.tables.map((row) => `${row.keyspace}.${row.name}`);
  if (names.join("\n") !== select.dataset.names) {
    const chosen = select.value;
    select.replaceChildren(el("option", { value: "" }, "all of users"), ...names.map((name) => el("option", { value: name }, name)));
    select.value = names.includes(chosen) ? chosen : "";
    select.dataset.names = names.join("\n");
  }
}

export function drawTables() {
  if (!latest) return;
  const word = byId("tables-filter").value.trim().toLowerCase();
  const rows = rated(latest, before).filter((row) => `${row.keyspace}.${row.name} ${row.comment}`.toLowerCase().includes(word));
  const value = (row) => order.key === "name" ? `${row.keyspace}.${row.name}` : row[order.key] ?? -1;
  rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (order.ascending ? 1 : -1));
  say(byId("tables-count"), `${rows.length} of ${latest.tables.length} tables, ${bytes(rows.reduce((sum, row) => sum + row.disk_bytes, 0))} on disk`);
  const held = document.activeElement?.dataset?.key;
  table(byId("tables-list"), tableColumns, rows, "No table matches.", { heads: tableHead });
  if (held) byId("tables-list").querySelector(`button[data-key="${held}"]`)?.focus();
}

const hotColumns = [
  { name: "Table", head: true, cell: (row) => row.table },
  { name: "Partition key", code: true, cell: (row) => row.key },
  { name: "Count, at most", num: true, cell: (row) => exact(row.count) },
  { name: "Error", num: true, cell: (row) => exact(row.error) },
  { name: "Share", num: true, cell: (row) => percent(row.part) },
];

export function showHot(told) {
  for (const [side, verb] of [["reads", "read"], ["writes", "written"]]) {
    const { total, partitions, top } = told[side];
    const rows = top.map((row) => ({ ...row, part: total ? row.count / total : 0 }));
    const caption = `${exact(total)} ${side} of about ${exact(partitions)} partitions`;
    table(byId(`hot-${side}`), hotColumns, rows, `Nothing was ${verb}.`, { caption });
  }
}

// Tasks.

function askedColumns(stop) {
  return [
    { name: "Task", head: true, cell: (row) => row.kind },
    { name: "Of", cell: (row) => [row.keyspace, row.table].filter(Boolean).join(".") || "all" },
    { name: "State", cell: (row) => row.error ? el("span", {}, row.state, el("span", { class: "note-text" }, row.error)) : row.state },
    { name: "Progress", cell: (row) => row.progress === null ? "–" : share(row.progress, percent(row.progress)) },
    { name: "Began", num: true, cell: (row) => new Date(row.began_at).toLocaleTimeString() },
    { name: "Ran for", num: true, cell: (row) => span(row.elapsed_ms / 1000) },
    { name: "", cell: (row) => row.stoppable ? stopButton(row, stop, `Stop ${row.kind}`) : "" },
  ];
}

function taskColumns(stop) {
  return [
    { name: "Task", head: true, cell: (row) => row.kind },
    { name: "Table", cell: (row) => row.table },
    { name: "Shard", num: true, cell: (row) => exact(row.shard) },
    { name: "Progress", cell: (row) => share(row.progress, percent(row.progress)) },
    { name: "Input", num: true, cell: (row) => bytes(row.bytes_in) },
    { name: "Written", num: true, cell: (row) => bytes(row.bytes_written) },
    { name: "Runs for", num: true, cell: (row) => span(row.elapsed_ms / 1000) },
    { name: "Left, about", num: true, cell: (row) => row.remaining_ms === null ? "–" : span(row.remaining_ms / 1000) },
    { name: "", cell: (row) => stopButton(row, stop, `Stop ${row.kind} of ${row.table} on shard ${row.shard}`) },
  ];
}

function stopButton(row, stop, label) {
  const button = el("button", { type: "button", "aria-label": label }, "Stop");
  button.dataset.key = row.id;
  button.addEventListener("click", () => {
    button.disabled = true;
    stop(row);
  });
  return button;
}

const endedColumns = [
  { name: "Ended", head: true, cell: (row) => new Date(row.ended_at).toLocaleTimeString() },
  { name: "Task", cell: (row) => row.kind },
  { name: "Table", cell: (row) => row.table },
  { name: "Shard", num: true, cell: (row) => exact(row.shard) },
  { name: "Input", num: true, cell: (row) => bytes(row.bytes_in) },
  { name: "Output", num: true, cell: (row) => bytes(row.bytes_out) },
  { name: "Took", num: true, cell: (row) => micros(row.elapsed_ms * 1000) },
];

export function showTasks(told, stop) {
  const held = told.held ? `, ${exact(told.held)} wait for room on the disk` : "";
  say(byId("tasks-status"), `${exact(told.running.length)} running, ${exact(told.pending)} due${held}`);
  const focused = document.activeElement?.dataset?.key;
  table(byId("tasks-asked"), askedColumns(stop), told.asked, "None of late.");
  table(byId("tasks-running"), taskColumns(stop), told.running, "Nothing runs.");
  if (focused) byId("tasks").querySelector(`button[data-key="${focused}"]`)?.focus();
  table(byId("tasks-ended"), endedColumns, told.ended, "None within a week.");
}

// Slow queries.

const slowColumns = [
  { name: "When", head: true, cell: (row) => row.date },
  { name: "Took", num: true, cell: (row) => micros(row.duration_us) },
  { name: "Statement", code: true, kind: "statement", cell: (row) => row.statement ?? "" },
  { name: "Client", code: true, cell: (row) => row.client ?? "" },
  { name: "User", cell: (row) => row.user ?? "" },
  { name: "Shard", num: true, cell: (row) => row.shard ?? "" },
];

export function showSlow(told) {
  const rule = told.enabled
    ? `Requests that take more than ${micros(told.threshold_us)} are written down.`
    : "Slow requests are not written down now: POST /storage_service/slow_query?enable=true turns it on.";
  say(byId("slow-status"), `${rule} The latest of the last hour:`);
  table(byId("slow-list"), slowColumns, told.queries, "None.");
}
