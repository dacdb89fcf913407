// Elements and texts. Whatever comes from the node becomes a text node or an attribute, never
// markup.

const SVG = "http://www.w3.org/2000/svg";

export function byId(id) {
  return document.getElementById(id);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
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
  const [d, h, m, s] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  if (m) return `${m} min ${s} s`;
  return `${s} s`;
}

/// Replaces what a table shows. Columns: { name, num, code, cell(row), head }.
export function table(node, columns, rows, empty, options) {
  const { caption, heads } = options || {};
  const head = columns.map((column) => heads ? heads(column) : el("th", { scope: "col", class: column.num && "num" }, column.name));
  const body = rows.map((row) => el("tr", {}, ...columns.map((column, at) => cell(column, row, at))));
  if (!rows.length) body.push(el("tr", {}, el("td", { colspan: columns.length, class: "empty" }, empty)));
  node.replaceChildren(
    ...(caption ? [el("caption", {}, caption)] : []),
    el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...body),
  );
}

function cell(column, row, at) {
  const value = column.cell(row);
  const kinds = [column.num && "num", column.code && "code", column.kind].filter(Boolean).join(" ");
  const tag = at === 0 && column.head ? "th" : "td";
  return el(tag, { class: kinds || null, scope: tag === "th" ? "row" : null }, value);
}

/// A bar of a share between 0 and 1, with its text.
export function share(part, text) {
  const kind = part >= 0.95 ? "part full" : part >= 0.8 ? "part high" : "part";
  const width = Math.max(0, Math.min(1, part || 0)) * 100;
  return el("span", { class: "share-of" },
    svg("svg", { class: "share", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { width: 100, height: 10 }), svg("rect", { width, height: 10, class: kind })),
    text);
}
