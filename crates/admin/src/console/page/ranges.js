// The range of time that a group of plots shows, and what of it is zoomed in.

import { el } from "./text.js";

const SPANS = [["5 min", 300], ["1 h", 3600], ["6 h", 21600], ["24 h", 86400]];
const LEAST_MS = 10_000;
const DAY_MS = 86_400_000;

export class Range {
  /// Buttons in `node`; `changed(isSpan)` is called when another range is shown: with true where
  /// other samples are needed.
  constructor(key, node, changed) {
    Object.assign(this, { key, changed, seconds: SPANS[0][1], zoomed: null });
    this.buttons = SPANS.map(([name, seconds]) => {
      const button = el("button", { type: "button" }, name);
      button.addEventListener("click", () => this.choose(seconds));
      return [button, seconds];
    });
    this.whole = el("button", { type: "button", hidden: true }, "Reset zoom");
    this.whole.addEventListener("click", () => this.reset());
    node.classList.add("range");
    node.setAttribute("role", "group");
    node.setAttribute("aria-label", "Range of time");
    node.replaceChildren(this.whole, ...this.buttons.map(([button]) => button));
    this.draw();
  }

  draw() {
    for (const [button, seconds] of this.buttons) {
      button.setAttribute("aria-pressed", String(seconds === this.seconds));
    }
    this.whole.hidden = !this.zoomed;
  }

  choose(seconds) {
    this.seconds = seconds;
    this.zoomed = null;
    this.draw();
    this.changed(true);
  }

  zoom(from, to) {
    if (to - from < LEAST_MS || DAY_MS * 1.1 < to - from) return;
    this.zoomed = [from, to];
    this.draw();
    this.changed(false);
  }

  reset() {
    this.zoomed = null;
    this.draw();
    this.changed(false);
  }

  /// From when to when, in milliseconds, where the last sample is of `last`.
  shown(last) {
    return this.zoomed || [last - this.seconds * 1000, last];
  }
}

/// Samples of two series column by column: `old` up to where `fresh` begins, then `fresh`.
export function joined(old, fresh) {
  if (!old?.at.length) return fresh;
  if (!fresh?.at.length) return old;
  const count = old.at.findLastIndex((at) => at < fresh.at[0]) + 1;
  const out = {};
  for (const name of Object.keys(fresh)) {
    const column = fresh[name];
    if (Array.isArray(column)) out[name] = (old[name] || []).slice(0, count).concat(column);
  }
  return out;
}

/// Adds samples to a series that keeps so many; one that begins anew replaces what was there.
export function extended(series, told, kept) {
  if (!series || told.last < series.last) return told;
  const out = { last: told.last };
  for (const [name, column] of Object.entries(told)) {
    if (Array.isArray(column)) out[name] = series[name].concat(column).slice(-kept);
  }
  return out;
}
