// All tables, and hot partitions.

import { asUser, get } from "./api.js";
import {
  byId, bytes, count, el, exact, micros, moment, percent, say, sortable, sorted, table,
} from "./text.js";

const order = { key: "disk_bytes", ascending: false };
let before = null;
let latest = null;

const columns = [
  { name: "Table", key: "name", head: true, cell: (row) => nameCell(row) },
  { name: "Data on disk", key: "disk_bytes", num: true, cell: (row) => bytes(row.disk_bytes) },
  { name: "SSTables", key: "sstables", num: true, cell: (row) => exact(row.sstables) },
  { name: "Memtables", key: "memtable_bytes", num: true, cell: (row) => bytes(row.memtable_bytes) },
  { name: "Partitions (est.)", key: "partitions", num: true, cell: (row) => count(row.partitions) },
  { name: "Reads/s", key: "read_rate", num: true, cell: (row) => count(row.read_rate) },
  { name: "Writes/s", key: "write_rate", num: true, cell: (row) => count(row.write_rate) },
  { name: "Reads", key: "reads", num: true, cell: (row) => count(row.reads) },
  { name: "Writes", key: "writes", num: true, cell: (row) => count(row.writes) },
  { name: "Mean read", key: "read_us", num: true, cell: (row) => micros(row.read_us) },
  { name: "Mean write", key: "write_us", num: true, cell: (row) => micros(row.write_us) },
  { name: "Pending compactions", key: "pending", num: true, cell: (row) => exact(row.pending) },
];

const nameOf = (row) => `${row.keyspace}.${row.name}`;

function nameCell(row) {
  const comment = row.comment ? el("span", { class: "note-text" }, row.comment) : null;
  const href = `#table/${encodeURIComponent(nameOf(row))}`;
  return el("span", {}, el("a", { href }, nameOf(row)), comment);
}

/// Reads and writes a second, of two samples.
export function rated(told, old) {
  const seconds = old ? (told.at - old.at) / 1000 : 0;
  const known = new Map((old?.tables || []).map((row) => [nameOf(row), row]));
  return told.tables.map((row) => {
    const last = known.get(nameOf(row));
    const rate = (key) => last && seconds > 0
      ? Math.max(0, row[key] - last[key]) / seconds : null;
    return { ...row, read_rate: rate("reads"), write_rate: rate("writes") };
  });
}

function draw() {
  if (!latest) return;
  const wanted = byId("tables-filter").value.trim().toLowerCase();
  const all = rated(latest, before);
  const rows = all.filter((row) => nameOf(row).toLowerCase().includes(wanted));
  const by = order.key === "name" ? { ...order, key: nameOf } : order;
  const focused = document.activeElement;
  const node = byId("tables-list");
  const key = node.contains(focused) ? focused.dataset.key : null;
  const link = node.contains(focused) ? focused.getAttribute("href") : null;
  table(node, columns, sorted(rows, by), "No tables.", { heads: sortable(node, order, draw) });
  const again = [...node.querySelectorAll("a, button")]
    .find((one) => (key && one.dataset.key === key) || (link && one.getAttribute("href") === link));
  if (again) again.focus();
  say(byId("tables-count"), `${rows.length} of ${all.length} tables`);
  choices(all);
}

function choices(all) {
  const select = byId("hot-table");
  const names = all.map(nameOf).sort();
  const known = [...select.options].slice(1).map((option) => option.value);
  if (names.join() === known.join()) return;
  const chosen = select.value;
  const options = names.map((name) => el("option", { value: name }, name));
  select.replaceChildren(select.options[0], ...options);
  select.value = names.includes(chosen) ? chosen : "";
}

export async function look() {
  const told = await get(`tables?system=${byId("tables-system").checked}`);
  before = latest;
  latest = told;
  draw();
}

const hotColumns = [
  { name: "Table", head: true, cell: (row) => row.table },
  { name: "Partition key", code: true, cell: (row) => row.key },
  { name: "Count (at most)", num: true, cell: (row) => exact(row.count) },
  { name: "Error", num: true, cell: (row) => exact(row.error) },
  { name: "Share", num: true, cell: (row) => percent(row.part) },
];

function showHot(told) {
  for (const [side, verb] of [["reads", "read"], ["writes", "written"]]) {
    const { total, partitions, top } = told[side];
    const rows = top.map((row) => ({ ...row, part: total ? row.count / total : 0 }));
    const caption = `${exact(total)} ${side} of about ${exact(partitions)} partitions`;
    table(byId(`hot-${side}`), hotColumns, rows, `Nothing was ${verb}.`, { caption });
  }
}

async function sample() {
  const [button, status] = [byId("hot-start"), byId("hot-status")];
  const seconds = Math.max(1, Math.min(60, Number(byId("hot-seconds").value) || 5));
  const chosen = encodeURIComponent(byId("hot-table").value);
  button.disabled = true;
  say(status, `Sampling for ${seconds} s …`);
  try {
    showHot(await asUser("POST", `hot?seconds=${seconds}&table=${chosen}`));
    const until = moment(Date.now());
    say(status, `Sampled for ${seconds} s until ${until}. Range scans are not counted.`);
  } catch (refused) {
    say(status, refused.message);
  }
  button.disabled = false;
}

export function setUp() {
  byId("tables-filter").addEventListener("input", draw);
  byId("tables-system").addEventListener("change", () => look().catch(() => {}));
  byId("hot-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sample();
  });
}
