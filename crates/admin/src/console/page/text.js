// Elements and texts. Whatever comes from the node becomes a text node or an attribute, never
// markup.

const SVG = "http://www.w3.org/2000/svg";

export function byId(id) {
  return document.getElementById(id);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(name, "");
    else if (value || value === 0 || value === "") node.setAttribute(name, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

/// An element; strings among its children are texts.
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/// Sets a text where it has changed, so that nothing is announced twice.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const UNKNOWN = "–";

function known(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

export function count(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e9) return trim(value / 1e9) + " G";
  if (size >= 1e6) return trim(value / 1e6) + " M";
  if (size >= 1e4) return trim(value / 1e3) + " k";
  return size >= 100 || Number.isInteger(value) ? String(Math.round(value)) : trim(value);
}

export function exact(value) {
  return known(value) ? value.toLocaleString("en") : UNKNOWN;
}

function trim(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace(/\.0+$|(\.\d*?)0+$/, "$1");
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at + 1 < units.length) {
    value /= 1024;
    at += 1;
  }
  return trim(value) + " " + units[at];
}

export function micros(value) {
  if (!known(value)) return UNKNOWN;
  if (value >= 1e6) return trim(value / 1e6) + " s";
  if (value >= 1e3) return trim(value / 1e3) + " ms";
  return trim(value) + " µs";
}

export function percent(value) {
  if (!known(value)) return UNKNOWN;
  const all = value * 100;
  return (all && all < 9.95 ? trim(Math.round(all * 10) / 10) : Math.round(all)) + " %";
}

export function span(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const all = Math.floor(seconds);
  const [d, h] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24];
  const [m, s] = [Math.floor(all / 60) % 60, all % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  if (m) return `${m} min ${s} s`;
  return `${s} s`;
}

/// A moment, with its day where that is not today.
export function moment(millis) {
  if (!known(millis)) return UNKNOWN;
  const at = new Date(millis);
  const two = (number) => String(number).padStart(2, "0");
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  if (at.toDateString() === new Date().toDateString()) return clock;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
}

/// Replaces the children that differ, so that what is selected or has the focus stays.
function renew(node, fresh) {
  if (node.children.length !== fresh.length) {
    node.replaceChildren(...fresh);
    return;
  }
  fresh.forEach((one, at) => {
    const old = node.children[at];
    if (old.isEqualNode(one)) return;
    if (one.tagName === "TBODY" && old.tagName === "TBODY") renew(old, [...one.children]);
    else old.replaceWith(one);
  });
}

/// Replaces what a table shows. Columns: { name, num, code, cell(row), head, key, kind }.
export function table(node, columns, rows, empty, options) {
  const { caption, heads } = options || {};
  const plain = (column) => el("th", { scope: "col", class: column.num && "num" }, column.name);
  const head = columns.map((column) => (heads || plain)(column));
  const line = (row) => el("tr", { class: options?.line?.(row) },
    ...columns.map((column, at) => cell(column, row, at)));
  const body = rows.map(line);
  if (!rows.length) {
    body.push(el("tr", {}, el("td", { colspan: columns.length, class: "empty" }, empty)));
  }
  renew(node, [
    ...(caption ? [el("caption", {}, caption)] : []),
    el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...body),
  ]);
}

function cell(column, row, at) {
  const value = column.cell(row);
  const kinds = [column.num && "num", column.code && "code", column.kind].filter(Boolean).join(" ");
  const tag = at === 0 && column.head ? "th" : "td";
  const label = typeof column.name === "string" ? column.name : null;
  const scope = tag === "th" ? "row" : null;
  return el(tag, { class: kinds || null, scope, "data-label": label }, value);
}

/// Heads of columns that a table can be sorted by: `order` is { key, ascending }, which a click
/// changes before `drawn` is called.
export function sortable(node, order, drawn) {
  return (column) => {
    const sorted = order.key === column.key;
    const button = el("button", { type: "button" }, column.name);
    button.dataset.key = column.key;
    button.addEventListener("click", () => {
      const ascending = sorted ? !order.ascending : !column.num;
      Object.assign(order, { key: column.key, ascending });
      drawn();
      node.querySelector(`button[data-key="${column.key}"]`)?.focus();
    });
    const sort = sorted ? (order.ascending ? "ascending" : "descending") : null;
    return el("th", { scope: "col", class: column.num && "num", "aria-sort": sort }, button);
  };
}

/// Rows in an order of [`sortable`]; what is unknown comes last.
export function sorted(rows, { key, ascending }) {
  const compare = (a, b) => typeof a === "string" || typeof b === "string"
    ? String(a ?? "").localeCompare(String(b ?? "")) : (a ?? -1) - (b ?? -1);
  const of = (row) => (typeof key === "function" ? key(row) : row[key]);
  return [...rows].sort((a, b) => (ascending ? 1 : -1) * compare(of(a), of(b)));
}

/// Figures as cards: [name, text, kind].
export function cards(node, all) {
  if (node.children.length !== all.length) {
    node.replaceChildren(...all.map(() => el("div", {}, el("dt"), el("dd"))));
  }
  all.forEach(([name, text, kind], at) => {
    const [term, value] = node.children[at].children;
    say(term, name);
    say(value, text);
    value.className = kind || "";
  });
}

function bar(part, kind, text) {
  const width = Math.max(0, Math.min(1, part || 0)) * 100;
  const size = { class: "share", viewBox: "0 0 100 10", preserveAspectRatio: "none" };
  return el("span", { class: "share-of" },
    svg("svg", { ...size, "aria-hidden": "true" },
      svg("rect", { width: 100, height: 10 }),
      svg("rect", { width, height: 10, class: `part ${kind}` })),
    text);
}

/// A bar of how much of something is in use, with its text: red is nearly all.
export function load(part, text) {
  return bar(part, part >= 0.95 ? "bad" : part >= 0.8 ? "warn" : "good", text);
}

/// A bar of how much of something is done: `kind` is good, idle or bad, and not a matter of how
/// much it is.
export function progress(part, kind, text) {
  return bar(part, kind, text);
}

/// A word about how something is: good, idle, bad or busy.
export function pill(text, kind) {
  return el("span", { class: `pill ${kind}` }, text);
}
