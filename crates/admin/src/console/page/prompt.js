// The CQL prompt: one statement at a time, its result as a table, page by page.

import { asUser, isLoggedIn, logout, who } from "./api.js";
import { byId, el, micros, say, table } from "./text.js";

const HISTORY_MAX = 200;
const past = [];
let at = 0;
let draft = "";
let next = null;
let running = false;

/// Whether a statement may stay in the history of the page.
export function isKept(statement) {
  return !/password/i.test(statement);
}

function remember(statement) {
  if (isKept(statement) && past[past.length - 1] !== statement) past.push(statement);
  if (past.length > HISTORY_MAX) past.shift();
  at = past.length;
}

function recall(step) {
  const text = byId("cql-text");
  if (at === past.length) draft = text.value;
  const to = Math.max(0, Math.min(past.length, at + step));
  if (to === at) return;
  at = to;
  text.value = at === past.length ? draft : past[at];
  text.setSelectionRange(text.value.length, text.value.length);
}

function show(error) {
  const node = byId("cql-error");
  node.hidden = !error;
  say(node, error || "");
}

function value(cell) {
  if (cell === null) return el("span", { class: "dim" }, "null");
  if (typeof cell === "object") return el("span", { title: "The value goes on." }, cell.clipped + "…");
  return cell;
}

function draw(told, page) {
  const warnings = byId("cql-warnings");
  warnings.hidden = !told.warnings.length;
  warnings.replaceChildren(...told.warnings.map((text) => el("li", {}, text)));
  const using = told.keyspace ? ` Keyspace: ${told.keyspace}.` : "";
  const took = micros(told.micros);
  byId("cql-result").hidden = !told.columns;
  next = told.next ?? null;
  byId("cql-more").hidden = next === null;
  if (!told.columns) {
    say(byId("cql-status"), `${told.done} ${took}.${using}`);
    return;
  }
  const numeric = /^(tinyint|smallint|int|bigint|varint|counter|float|double|decimal)$/;
  const columns = told.columns.map((column, at) => ({
    name: column, num: numeric.test(column.type), code: true, cell: (row) => value(row[at]),
  }));
  const heads = (column) => el("th", { scope: "col", class: column.num && "num" }, column.name.name,
    el("span", { class: "type" }, column.name.type));
  table(byId("cql-table"), columns, told.rows, "No rows.", { heads });
  const rows = told.rows.length === 1 ? "1 row" : `${told.rows.length} rows`;
  const where = page > 1 || next ? `, page ${page}` : "";
  say(byId("cql-status"), `${rows}${where}, ${took}.${using}`);
}

function showUser() {
  say(byId("cql-user"), who() ? `as ${who()}` : "");
  byId("cql-logout").hidden = !(isLoggedIn() && who());
}

let current = null;

async function run(asked, page) {
  if (running) return;
  running = true;
  show(null);
  byId("cql-run").disabled = true;
  byId("cql-more").disabled = true;
  say(byId("cql-status"), "Running …");
  try {
    const told = await asUser("POST", "cql", asked);
    current = { asked, page };
    draw(told, page);
  } catch (refused) {
    show(refused.message);
    say(byId("cql-status"), "");
    byId("cql-result").hidden = true;
    byId("cql-more").hidden = true;
    byId("cql-warnings").hidden = true;
  }
  running = false;
  byId("cql-run").disabled = false;
  byId("cql-more").disabled = false;
  showUser();
}

function start() {
  const statement = byId("cql-text").value.trim();
  if (!statement) return;
  remember(statement);
  const page_size = Math.max(1, Math.min(1000, Number(byId("cql-rows").value) || 100));
  run({ statement, page_size, consistency: byId("cql-level").value }, 1);
}

export function setUp() {
  byId("cql-form").addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
  byId("cql-text").addEventListener("keydown", (event) => {
    const text = byId("cql-text");
    const ends = text.value.trimEnd().endsWith(";") && text.selectionEnd >= text.value.trimEnd().length;
    if (event.key === "Enter" && !event.shiftKey && (event.ctrlKey || event.metaKey || ends)) {
      event.preventDefault();
      start();
    } else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      recall(event.key === "ArrowUp" ? -1 : 1);
    }
  });
  byId("cql-more").addEventListener("click", async () => {
    if (next === null) return;
    await run({ ...current.asked, paging_state: next }, current.page + 1);
    byId("cql-result").focus();
  });
  byId("cql-logout").addEventListener("click", async () => {
    await logout();
    byId("cql-result").hidden = true;
    byId("cql-more").hidden = true;
    say(byId("cql-status"), "Logged out.");
    showUser();
  });
}
