// The options of the node.

import { get } from "./api.js";
import { byId, el, pill, say, sortable, sorted, table } from "./text.js";

const order = { key: "name", ascending: true };
let options = [];

const SOURCES = {
  default: ["default", "idle"], cli: ["command line", "busy"], config: ["options file", "busy"],
  cql: ["statement", "busy"], api: ["REST API", "busy"],
};

/// When a change takes effect.
const CHANGES = {
  live: () => pill("while it runs", "good"),
  restart: () => el("span", {}, "at a restart"),
  never: () => el("span", { class: "dim" }, "has no effect"),
};

const columns = [
  { name: "Option", key: "name", head: true, code: true, cell: (row) => row.name },
  { name: "Value", key: "text", code: true, cell: (row) => row.text },
  { name: "Source", key: "source", cell: (row) =>
    pill(...(SOURCES[row.source] || [row.source, "busy"])) },
  { name: "Type", key: "kind", cell: (row) => row.kind },
  { name: "Changes", key: "changes", cell: (row) => CHANGES[row.changes]() },
];

function shown(value) {
  if (value === null || value === "") return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function draw() {
  const wanted = byId("settings-filter").value.trim().toLowerCase();
  const isSet = byId("settings-set").checked;
  const rows = options.filter((row) => (!isSet || row.source !== "default")
    && `${row.name} ${row.text}`.toLowerCase().includes(wanted));
  const node = byId("settings-list");
  table(node, columns, sorted(rows, order), "No option.", { heads: sortable(node, order, draw) });
  say(byId("settings-count"), `${rows.length} of ${options.length} options`);
}

export async function look() {
  const told = await get("settings");
  options = told.options.map((row) => ({ ...row, text: shown(row.value) }));
  draw();
}

export function setUp() {
  byId("settings-filter").addEventListener("input", draw);
  byId("settings-set").addEventListener("change", draw);
}
