// Lines over time, drawn by uPlot. Samples come column by column: { at: [..], reads: [..], .. },
// with times in milliseconds; null is a gap.

import uPlot from "./uplot.js";
import { el, moment, say } from "./text.js";

const HEIGHT = 180;
const CLASSES = 8;
/// Seconds between the marks of the axis of time.
const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200,
];
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

/// A round number that is not below `value`: 1, 2 or 5 times a power of ten, or a power of two.
export function roundUp(value, isBytes) {
  if (!(value > 0)) return 1;
  if (isBytes) return 2 ** Math.ceil(Math.log2(value) - 1e-9);
  const power = 10 ** Math.floor(Math.log10(value));
  const bounds = [1, 2, 5, 10].map((factor) => factor * power);
  return bounds.find((bound) => value <= bound * (1 + 1e-9));
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const lineColor = (at) => color(`--${"abcdefgh"[at % CLASSES]}`);

function clock(seconds, range) {
  const at = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return range < 240 ? `${minutes}:${two(at.getSeconds())}` : minutes;
}

export class Plot {
  /// Series: { name, of } where `of` names a column. `ceiling`: the least upper end of the axis.
  constructor(title, format, series, range, { ceiling = 0, area = false, isBytes = false } = {}) {
    Object.assign(this, { title, format, series, range, ceiling, area, isBytes, data: null });
    this.legend = el("span", { class: "legend" });
    this.canvas = el("div", { class: "canvas", role: "img" });
    this.figure = el("figure", { tabindex: "0" },
      el("figcaption", {}, el("span", {}, title), this.legend), this.canvas);
    this.values = series.map(() => el("b", {}, "–"));
    this.when = el("span", {});
    const key = (one, at) => el("span", {}, el("i", { class: `s${at % CLASSES}` }),
      `${one.name} `, this.values[at]);
    this.legend.replaceChildren(this.when, ...series.map(key));
    this.figure.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(this.figure);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
      () => this.plot?.redraw());
  }

  options(width) {
    const grid = { stroke: () => color("--line"), width: 1 };
    const axis = { stroke: () => color("--dim"), font: FONT, grid, ticks: { show: false } };
    const line = (one, at) => ({
      label: one.name, stroke: () => lineColor(at), width: 1.6, points: { show: false },
      ...(this.area ? { fill: () => `${lineColor(at)}1f` } : {}),
    });
    return {
      width, height: HEIGHT, legend: { show: false }, padding: [8, 10, 0, 0],
      cursor: {
        y: false, points: { size: 6 }, sync: { key: this.range.key },
        drag: { x: true, y: false, setScale: false },
      },
      scales: {
        x: { range: () => this.span() },
        y: { range: (_, __, greatest) => [0, this.top(greatest)] },
      },
      axes: [
        { ...axis, space: 52, size: 24, incrs: STEPS, values: (plot, splits) => {
          const range = plot.scales.x.max - plot.scales.x.min;
          return splits.map((at) => clock(at, range));
        } },
        { ...axis, size: 70, space: 34, splits: (plot) => {
          const { max } = plot.scales.y;
          return [0, max / 4, max / 2, (max * 3) / 4, max];
        }, values: (_, splits) => splits.map((at, place) =>
          place % 2 ? "" : this.format(at)) },
      ],
      series: [{}, ...this.series.map(line)],
      hooks: {
        setCursor: [() => this.tell()],
        setSelect: [(plot) => this.select(plot)],
      },
    };
  }

  span() {
    const last = this.data?.at.length ? this.data.at[this.data.at.length - 1] : Date.now();
    return this.range.shown(last).map((at) => at / 1000);
  }

  top(greatest) {
    if (this.ceiling && !(greatest > this.ceiling)) return this.ceiling;
    return roundUp(greatest, this.isBytes);
  }

  update(data) {
    this.data = data;
    const columns = [data.at.map((at) => at / 1000), ...this.series.map((one) => data[one.of])];
    const width = Math.floor(this.canvas.clientWidth);
    if (!width) return; // Not shown.
    if (this.plot) this.plot.setData(columns);
    else this.plot = new uPlot(this.options(width), columns, this.canvas);
    this.tell();
  }

  /// Forgets what was shown.
  clear() {
    this.data = null;
    this.plot?.destroy();
    this.plot = null;
    this.values.forEach((value) => say(value, "–"));
  }

  resize() {
    const width = Math.floor(this.canvas.clientWidth);
    if (!width) return;
    if (this.plot && this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
    else if (!this.plot && this.data) this.update(this.data);
  }

  select(plot) {
    const { left, width } = plot.select;
    if (width < 8) return;
    const at = (place) => plot.posToVal(place, "x") * 1000;
    this.range.zoom(at(left), at(left + width));
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  /// With the focus on a plot: + and - zoom, the arrows move, Escape shows the whole range.
  key(event) {
    const [from, to] = this.span().map((at) => at * 1000);
    const part = (to - from) / 4;
    const acts = {
      "+": () => this.range.zoom(from + part, to - part),
      "-": () => this.range.zoom(from - 2 * part, to + 2 * part),
      ArrowLeft: () => this.range.zoom(from - part, to - part),
      ArrowRight: () => this.range.zoom(from + part, to + part),
      Escape: () => this.range.reset(),
    };
    if (!acts[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  /// The values at the cursor, or the latest that are shown.
  tell() {
    if (!this.data) return;
    const { at } = this.data;
    const [, to] = this.range.shown(at[at.length - 1] ?? 0);
    let place = this.plot?.cursor.idx ?? null;
    say(this.when, place === null || !at[place] ? "" : moment(at[place]));
    if (place === null) place = at.findLastIndex((one) => one <= to);
    const texts = this.series.map((one) => this.format(this.data[one.of]?.[place]));
    texts.forEach((text, one) => say(this.values[one], text));
    const names = this.series.map((one, of) => `${one.name} ${texts[of]}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.title}: ${names}`);
  }
}
