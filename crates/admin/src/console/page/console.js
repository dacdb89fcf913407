// The page: which view is shown, and when the node is asked for what.

import { asUser, get, onLogin, post, setAsksPasswords } from "./api.js";
import { Plot } from "./plot.js";
import * as prompt from "./prompt.js";
import { byId, bytes, count, micros, percent, say } from "./text.js";
import { drawTables, showCards, showHot, showShards, showSlow, showState, showTables, showTasks } from "./views.js";

const VIEWS = ["overview", "tables", "tasks", "slow", "cql"];
const KEPT_MAX = 600;
const SHARD_LINES_MAX = 8;

const points = [];
let shardCount = null;
let shown = "overview";

function health(text, kind) {
  const pill = byId("health");
  say(pill, text);
  pill.className = `pill ${kind}`;
}

// Plots.

const quantiles = (name) => ["p50", "p95", "p99"].map((title, at) => ({ name: title, value: (point) => point[name]?.[at] ?? null }));

const plots = {
  work: new Plot("Operations per second", count, [
    { name: "reads", value: (point) => point.reads },
    { name: "writes", value: (point) => point.writes },
    { name: "CQL requests", value: (point) => point.requests },
  ], { area: true }),
  busy: new Plot("Busy shards", percent, [{ name: "mean", value: mean }], { ceiling: 1 }),
  reads: new Plot("Read latency", micros, quantiles("read_us")),
  writes: new Plot("Write latency", micros, quantiles("write_us")),
  disk: new Plot("Disk", (value) => value === null ? "–" : `${bytes(value)}/s`, [
    { name: "read", value: (point) => point.disk_read },
    { name: "written", value: (point) => point.disk_write },
  ], { area: true, isBytes: true }),
  errors: new Plot("Errors answered per second", count, [{ name: "errors", value: (point) => point.errors }]),
};

function mean(point) {
  return point.busy.length ? point.busy.reduce((sum, part) => sum + part, 0) / point.busy.length : null;
}

function busySeries(shards) {
  if (shards <= SHARD_LINES_MAX) {
    return Array.from({ length: shards }, (_, at) => ({ name: `shard ${at}`, value: (point) => point.busy[at] ?? null }));
  }
  return [
    { name: "busiest", value: (point) => Math.max(...point.busy) },
    { name: "mean", value: mean },
    { name: "idlest", value: (point) => Math.min(...point.busy) },
  ];
}

function showLive(told) {
  const last = told.points[told.points.length - 1];
  if (last && points.length && last.n <= points[points.length - 1].n) points.length = 0; // The node was started anew.
  points.push(...told.points);
  if (points.length > KEPT_MAX) points.splice(0, points.length - KEPT_MAX);
  const { shards } = told;
  if (shards.length && shards.length !== shardCount) {
    shardCount = shards.length;
    plots.busy.setSeries(busySeries(shardCount));
  }
  if (shown !== "overview") return;
  Object.values(plots).forEach((plot) => plot.update(points));
  showShards(shards);
  const now = points[points.length - 1];
  if (!now || !shards.length) return;
  const sum = (name) => shards.reduce((all, shard) => all + shard[name], 0);
  const busiest = Math.max(...now.busy);
  const heap = sum("heap_bytes") / sum("memory_bytes");
  const waiting = sum("waiting") + sum("reads_queued") + sum("writes_blocked");
  showCards([
    ["Reads/s", count(now.reads)],
    ["Writes/s", count(now.writes)],
    ["Read p99", micros(now.read_us[2])],
    ["Write p99", micros(now.write_us[2])],
    ["Busiest shard", percent(busiest), busiest >= 0.95 ? "bad" : busiest >= 0.8 ? "warn" : ""],
    ["Heap", bytes(sum("heap_bytes")), heap >= 0.95 ? "warn" : ""],
    ["Connections", count(sum("connections"))],
    ["Waiting", count(waiting), waiting ? "warn" : ""],
    ["Errors/s", count(now.errors), now.errors ? "warn" : ""],
  ]);
}

// What is asked for again and again. Each waits for its answer, so that a slow node is not asked
// twice for the same.

function every(millis, wanted, act) {
  const turn = async () => {
    if (wanted()) {
      try {
        await act();
      } catch (refused) {
        if (refused.status === 0) health("no answer", "bad");
      }
    }
    setTimeout(turn, millis);
  };
  turn();
  return turn;
}

async function live() {
  const after = points.length ? points[points.length - 1].n : 0;
  showLive(await get(`live?after=${after}`));
  health("serving", "good");
}

async function state() {
  const told = await get("state");
  setAsksPasswords(told.login);
  showState(told);
}

async function tables() {
  showTables(await get(`tables?system=${byId("tables-system").checked}`));
}

async function tasks() {
  showTasks(await get("tasks"), async (row) => {
    try {
      await post(`tasks/stop?id=${encodeURIComponent(row.id)}`);
      say(byId("tasks-status"), `${row.kind} is asked to stop.`);
    } catch (refused) {
      say(byId("tasks-status"), refused.message);
    }
  });
}

async function slow(quietly = true) {
  try {
    showSlow(await asUser("GET", "slow", undefined, quietly));
  } catch (refused) {
    say(byId("slow-status"), refused.message);
  }
}

async function sample() {
  const [button, status] = [byId("hot-start"), byId("hot-status")];
  const seconds = Math.max(1, Math.min(60, Number(byId("hot-seconds").value) || 5));
  const chosen = encodeURIComponent(byId("hot-table").value);
  button.disabled = true;
  say(status, `Samples for ${seconds} s …`);
  try {
    showHot(await asUser("POST", `hot?seconds=${seconds}&table=${chosen}`));
    say(status, `Of ${seconds} s until ${new Date().toLocaleTimeString()}. Scans of ranges are not counted.`);
  } catch (refused) {
    say(status, refused.message);
  }
  button.disabled = false;
}

// Views.

function show() {
  const wanted = location.hash.slice(1);
  shown = VIEWS.includes(wanted) ? wanted : "overview";
  for (const view of VIEWS) {
    byId(view).hidden = view !== shown;
    const link = document.querySelector(`nav a[href="#${view}"]`);
    if (view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  if (shown === "overview") Object.values(plots).forEach((plot) => plot.update(points));
  if (shown === "tables") tables().catch(() => {});
  if (shown === "tasks") tasks().catch(() => {});
  if (shown === "slow") slow(false);
  if (shown === "cql") byId("cql-text").focus();
}

// Logging in.

function loginForm(error) {
  const dialog = byId("login");
  const message = byId("login-error");
  message.hidden = !error;
  say(message, error || "");
  return new Promise((resolve) => {
    const done = (given) => {
      byId("login-password").value = "";
      dialog.removeEventListener("close", cancelled);
      byId("login-form").onsubmit = null;
      byId("login-cancel").onclick = null;
      if (dialog.open) dialog.close();
      resolve(given);
    };
    const cancelled = () => done(null);
    dialog.addEventListener("close", cancelled);
    byId("login-form").onsubmit = (event) => {
      event.preventDefault();
      done({ name: byId("login-name").value, password: byId("login-password").value });
    };
    byId("login-cancel").onclick = () => done(null);
    if (!dialog.open) dialog.showModal();
    byId(byId("login-name").value ? "login-password" : "login-name").focus();
  });
}

byId("plots").replaceChildren(...Object.values(plots).map((plot) => plot.figure));
showShards([]);
onLogin(loginForm);
prompt.setUp();
byId("tables-filter").addEventListener("input", drawTables);
byId("tables-system").addEventListener("change", () => tables().catch(() => {}));
byId("hot-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sample();
});
window.addEventListener("hashchange", show);
await state().catch((refused) => health(refused.message, "bad"));
show();
every(1000, () => true, live);
every(10000, () => true, state);
every(2000, () => shown === "tables", tables);
every(1000, () => shown === "tasks", tasks);
every(5000, () => shown === "slow", () => slow());
