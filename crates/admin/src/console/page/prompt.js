// CQL: the editor, and the results of its statements.

import { asUser, isLoggedIn, logout, who } from "./api.js";
import { makeEditor, setKeyspace, setSchema } from "./editor.js";
import { csv, json, save } from "./export.js";
import { placeOf, statements } from "./split.js";
import { byId, el, exact, micros, say, table } from "./text.js";

const HISTORY_MAX = 200;
/// Rows that an export fetches.
const EXPORT_MAX = 50_000;
const EXPORT_PAGE = 1000;

const past = [];
let at = 0;
let draft = "";
let running = false;
let editor = null;

/// Whether a text may stay in the history of the page.
export function isKept(text) {
  return !/password/i.test(text);
}

function remember(text) {
  if (isKept(text) && past[past.length - 1] !== text) past.push(text);
  if (past.length > HISTORY_MAX) past.shift();
  at = past.length;
}

function recall(step) {
  if (at === past.length) draft = editor.text();
  const to = Math.max(0, Math.min(past.length, at + step));
  if (to === at) return;
  at = to;
  editor.set(at === past.length ? draft : past[at]);
}

function value(cell) {
  if (cell === null) return el("span", { class: "dim" }, "null");
  if (typeof cell !== "object") return cell;
  return el("span", { title: "The value is longer than what is shown." }, `${cell.clipped}…`);
}

const numeric = /^(tinyint|smallint|int|bigint|varint|counter|float|double|decimal)$/;

/// The result of one statement, page by page.
class Result {
  constructor(asked) {
    Object.assign(this, { asked, page: 0, next: null });
    this.status = el("p", { class: "status", role: "status" });
    this.error = el("p", { class: "error", role: "alert", hidden: true });
    this.warnings = el("ul", { class: "warnings", hidden: true });
    this.rows = el("table", {});
    this.scroll = el("div", {
      class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Rows", hidden: true,
    }, this.rows);
    const button = (text, act) => {
      const made = el("button", { type: "button" }, text);
      made.addEventListener("click", act);
      return made;
    };
    this.more = button("Next page", () => this.turn());
    this.files = ["CSV", "JSON"].map((kind) => button(kind, () => this.export(kind)));
    this.tools = el("div", { class: "tools", hidden: true }, this.more,
      el("span", { class: "dim" }, "Export all rows:"), ...this.files);
    this.node = el("section", { class: "result" },
      el("pre", { class: "asked" }, asked.statement), this.status, this.error, this.warnings,
      this.scroll, this.tools);
  }

  /// Asks for the first page; the error where there was one.
  async run() {
    say(this.status, "Running …");
    try {
      this.show(await asUser("POST", "cql", this.asked), 1);
      return null;
    } catch (refused) {
      this.fail(refused.message);
      return refused.message;
    }
  }

  fail(message) {
    say(this.status, "");
    say(this.error, message);
    this.error.hidden = false;
  }

  async turn() {
    this.more.disabled = true;
    say(this.status, "Running …");
    try {
      const asked = { ...this.asked, paging_state: this.next };
      this.show(await asUser("POST", "cql", asked), this.page + 1);
      this.scroll.focus();
    } catch (refused) {
      this.fail(refused.message);
    }
    this.more.disabled = false;
  }

  show(told, page) {
    Object.assign(this, { page, next: told.next ?? null, columns: told.columns });
    this.warnings.hidden = !told.warnings.length;
    this.warnings.replaceChildren(...told.warnings.map((text) => el("li", {}, text)));
    const using = told.keyspace ? ` Keyspace: ${told.keyspace}.` : "";
    setKeyspace(told.keyspace);
    this.scroll.hidden = !told.columns;
    this.tools.hidden = !told.columns;
    this.more.hidden = this.next === null;
    const count = told.rows?.length === 1 ? "1 row" : `${told.rows?.length} rows`;
    const where = page > 1 || this.next ? `, page ${page}` : "";
    const what = told.columns ? `${count}${where}, ` : `${told.done} `;
    say(this.status, `${what}${micros(told.micros)}.${using}`);
    if (told.trace) {
      const href = `#trace/${encodeURIComponent(told.trace)}`;
      this.status.append(" ", el("a", { href }, "Trace"));
    }
    if (!told.columns) return;
    const columns = told.columns.map((column, place) => ({
      name: column, num: numeric.test(column.type), code: true, cell: (row) => value(row[place]),
    }));
    const heads = (column) => el("th", { scope: "col", class: column.num && "num" },
      column.name.name, el("span", { class: "type" }, column.name.type));
    table(this.rows, columns, told.rows, "No rows.", { heads });
  }

  /// Fetches all pages anew, and gives them to the operator as a file.
  async export(kind) {
    const rows = [];
    let [columns, state, clipped] = [this.columns, null, 0];
    this.files.forEach((button) => { button.disabled = true; });
    try {
      do {
        const asked = { ...this.asked, page_size: EXPORT_PAGE, paging_state: state, trace: false };
        const told = await asUser("POST", "cql", asked);
        columns = told.columns;
        for (const row of told.rows) {
          clipped += row.filter((cell) => cell?.clipped !== undefined).length;
          rows.push(row.map((cell) => cell?.clipped ?? cell));
        }
        state = told.next ?? null;
        say(this.status, `${exact(rows.length)} rows fetched …`);
      } while (state !== null && rows.length < EXPORT_MAX);
      const cut = clipped ? ` ${exact(clipped)} long values are cut.` : "";
      const rest = state === null ? "" : " There are more rows: an export ends there.";
      const text = kind === "CSV" ? csv(columns, rows) : json(columns, rows);
      const type = kind === "CSV" ? "text/csv" : "application/json";
      save(`result.${kind.toLowerCase()}`, type, text);
      say(this.status, `${exact(rows.length)} rows exported.${cut}${rest}`);
    } catch (refused) {
      this.fail(refused.message);
    }
    this.files.forEach((button) => { button.disabled = false; });
  }
}

function showUser() {
  say(byId("cql-user"), who() ? `as ${who()}` : "");
  byId("cql-logout").hidden = !(isLoggedIn() && who());
}

/// Runs what is selected, or all; ends at the first error, which is marked at its place.
async function run() {
  if (running) return;
  const chosen = editor.chosen();
  const all = statements(chosen.text);
  if (!all.length) return;
  running = true;
  remember(editor.text().trim());
  editor.mark(0, 0, null);
  byId("cql-run").disabled = true;
  byId("cql-results").replaceChildren();
  const page_size = Math.max(1, Math.min(1000, Number(byId("cql-rows").value) || 100));
  const options = {
    page_size, consistency: byId("cql-level").value, trace: byId("cql-trace").checked,
  };
  let done = 0;
  for (const one of all) {
    const place = all.length > 1 ? `Statement ${done + 1} of ${all.length} …` : "Running …";
    say(byId("cql-status"), place);
    const result = new Result({ statement: one.text, ...options });
    byId("cql-results").append(result.node);
    const error = await result.run();
    if (error !== null) {
      const { from, to } = placeOf(error, one.text);
      const start = chosen.from + one.from;
      editor.mark(start + from, start + to, error);
      break;
    }
    done += 1;
  }
  const many = all.length === 1 ? "" : `${done} of ${all.length} statements were executed.`;
  say(byId("cql-status"), many);
  running = false;
  byId("cql-run").disabled = false;
  showUser();
  learn();
}

/// What completion knows of the schema.
async function learn() {
  const told = await asUser("GET", "schema", undefined, true).catch(() => null);
  if (told) setSchema(told.tables);
}

export function show() {
  learn();
  editor.focus();
}

export function setUp() {
  editor = makeEditor(byId("cql-editor"), { run, recall });
  byId("cql-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  byId("cql-logout").addEventListener("click", async () => {
    await logout();
    byId("cql-results").replaceChildren();
    say(byId("cql-status"), "Logged out.");
    showUser();
  });
}
