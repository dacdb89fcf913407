// The page: which view is shown, when the node is asked for what, and whether it answers.

import { get, onAnswer, onLogin, setAsksPasswords } from "./api.js";
import { askLogin } from "./dialogs.js";
import * as logs from "./logs.js";
import * as overview from "./overview.js";
import * as prompt from "./prompt.js";
import * as settings from "./settings.js";
import * as statements from "./statements.js";
import * as oneTable from "./table.js";
import * as tables from "./tables.js";
import * as tasks from "./tasks.js";
import { byId, moment, say, span } from "./text.js";

const VIEWS = [
  "overview", "tables", "table", "tasks", "statements", "trace", "cql", "settings", "logs",
];
/// Views that have no link of their own belong to these.
const BELOW = { table: "tables", trace: "statements" };

let shown = "overview";

// Whether the node answers. What is shown is as old as its last answer: the page says so, and asks
// on until there is another.

let answered = null;
let isGone = false;

function health(text, kind) {
  say(byId("health"), text);
  byId("health").className = `pill ${kind}`;
}

/// What the node has its operator know, and that it serves.
let notice = null;

function well() {
  if (notice) health("refuses writes", "bad");
  else health("serving", "good");
}

function showNotice(text) {
  notice = text;
  byId("notice").hidden = !notice;
  if (notice) say(byId("notice"), `${notice[0].toUpperCase()}${notice.slice(1)}.`);
  well();
}

function sayGone() {
  const since = answered === null ? "" : ` What is shown is of ${moment(answered.getTime())}, `
    + `${span((Date.now() - answered) / 1000)} ago.`;
  say(byId("stale"), `The node does not answer.${since} The page tries again every second.`);
}

onAnswer((isThere) => {
  if (isThere) answered = new Date();
  if (isThere !== isGone) {
    if (isThere) well();
    else sayGone();
    return;
  }
  isGone = !isThere;
  document.body.classList.toggle("stale", isGone);
  byId("stale").hidden = !isGone;
  if (isGone) health("no answer", "bad");
  else well();
  if (isGone) sayGone();
  else restarted();
});

/// The node is there again, perhaps as another process.
function restarted() {
  logs.forget();
  state().catch(() => {});
}

// What is asked for again and again. Each waits for its answer, so that a slow node is not asked
// twice for the same.

function every(millis, wanted, act) {
  const turn = async () => {
    if (wanted()) {
      try {
        await act();
      } catch (refused) {
        if (refused.status === undefined) console.error(refused);
      }
    }
    setTimeout(turn, millis);
  };
  setTimeout(turn, millis);
}

async function state() {
  const told = await get("state");
  setAsksPasswords(told.login);
  overview.showState(told);
  showNotice(told.notice);
}

// Views.

function show() {
  const [wanted, ...rest] = location.hash.slice(1).split("/");
  const name = decodeURIComponent(rest.join("/"));
  shown = VIEWS.includes(wanted) && (!BELOW[wanted] || name) ? wanted : "overview";
  for (const view of VIEWS) {
    byId(view).hidden = view !== shown;
    const link = document.querySelector(`nav a[href="#${view}"]`);
    if (view === (BELOW[shown] || shown)) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  overview.show(shown === "overview");
  const begin = {
    tables: tables.look,
    table: () => oneTable.show(name),
    tasks: tasks.look,
    statements: () => statements.look(false),
    trace: () => statements.showTraceOf(name),
    cql: prompt.show,
    settings: settings.look,
    logs: () => logs.look(false),
  };
  Promise.resolve(begin[shown]?.()).catch(() => {});
}

onLogin(askLogin);
[overview, tables, oneTable, statements, prompt, settings, logs].forEach((view) => view.setUp());
window.addEventListener("hashchange", show);
await state().catch(() => {});
await overview.look().catch(() => {});
show();
const on = (view) => () => shown === view;
every(1000, () => true, overview.look);
every(10_000, on("overview"), overview.history);
every(10_000, () => true, state);
every(2000, on("tables"), tables.look);
every(2000, on("table"), oneTable.look);
every(5000, on("table"), oneTable.figures);
every(1000, on("tasks"), tasks.look);
every(3000, on("statements"), () => statements.look());
every(2000, on("logs"), () => logs.look());
