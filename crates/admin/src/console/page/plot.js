// Lines over time, drawn as SVG.

import { el, say, svg } from "./text.js";

const [WIDTH, HEIGHT] = [640, 170];
const [LEFT, RIGHT, TOP, BOTTOM] = [66, 8, 8, 20];
const CLASSES = 8;

/// A round number that is not below `value`: 1, 2 or 5 times a power of ten; of bytes a power of two.
export function roundUp(value, isBytes) {
  if (!(value > 0)) return 1;
  if (isBytes) return 2 ** Math.ceil(Math.log2(value) - 1e-9);
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((bound) => value <= bound * (1 + 1e-9));
}

/// The lines of a series: points without a value part it.
export function path(values, place) {
  let out = "";
  let open = false;
  values.forEach(([at, value]) => {
    if (value === null || value === undefined) {
      open = false;
      return;
    }
    const [x, y] = place(at, value);
    out += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    open = true;
  });
  return out;
}

export class Plot {
  /// Series: { name, value(point) }. `ceiling`: the least upper end of the axis, if it has one.
  constructor(title, format, series, { seconds = 300, ceiling = 0, area = false, isBytes = false } = {}) {
    Object.assign(this, { title, format, series, seconds, ceiling, area, isBytes, points: [], cursor: null });
    this.legend = el("span", { class: "legend" });
    this.canvas = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" });
    this.figure = el("figure", {}, el("figcaption", {}, el("span", {}, title), this.legend), this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.cursor = null; this.draw(); });
    this.setSeries(series);
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  setSeries(series) {
    this.series = series;
    this.values = series.map(() => el("b", {}, "–"));
    this.when = el("span", {});
    this.legend.replaceChildren(this.when, ...series.map((one, at) =>
      el("span", {}, el("i", { class: `s${at % CLASSES}` }), one.name + " ", this.values[at])));
  }

  update(points) {
    this.points = points;
    this.draw();
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    this.cursor = (event.clientX - box.left) / box.width;
    this.draw();
  }

  draw() {
    const width = Math.max(260, Math.round(this.canvas.clientWidth || WIDTH));
    this.canvas.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const last = this.points.length ? this.points[this.points.length - 1].at : Date.now();
    const first = last - this.seconds * 1000;
    const shown = this.points.filter((point) => first <= point.at);
    const lines = this.series.map((one) => shown.map((point) => [point.at, one.value(point)]));
    const greatest = Math.max(this.ceiling, ...lines.flat().map(([, value]) => value || 0));
    const top = this.ceiling && greatest <= this.ceiling ? this.ceiling : roundUp(greatest, this.isBytes);
    const x = (at) => LEFT + ((at - first) / (last - first)) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const place = (at, value) => [x(at), y(value)];
    const parts = [];
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const at = Math.round(y(part * top)) + 0.5;
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      if (part * 4 % 2 === 0) {
        parts.push(svg("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, this.format(part * top)));
      }
    }
    for (let back = 0; back <= this.seconds; back += 60) {
      const text = back ? `-${back / 60} min` : "now";
      parts.push(svg("text", { x: x(last - back * 1000), y: HEIGHT - 4, "text-anchor": back ? "middle" : "end" }, text));
    }
    lines.forEach((line, at) => {
      const d = path(line, place);
      const ends = line.filter(([, value]) => value !== null && value !== undefined);
      if (this.area && ends.length > 1) {
        const floor = y(0).toFixed(1);
        const closed = `${d.replace(/(?!^)M/g, "L")}L${x(ends[ends.length - 1][0]).toFixed(1)} ${floor}L${x(ends[0][0]).toFixed(1)} ${floor}Z`;
        parts.push(svg("path", { class: `area s${at % CLASSES}`, d: closed }));
      }
      parts.push(svg("path", { class: `line s${at % CLASSES}`, d }));
    });
    this.tell(shown, { first, last, width, x, parts });
    this.canvas.replaceChildren(...parts);
  }

  /// The values at the cursor, or the latest.
  tell(shown, { first, last, width, x, parts }) {
    let told = shown[shown.length - 1];
    say(this.when, "");
    if (this.cursor !== null && shown.length) {
      const at = first + ((this.cursor * width - LEFT) / (width - LEFT - RIGHT)) * (last - first);
      told = shown.reduce((best, point) => Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best);
      parts.push(svg("line", { class: "cursor", x1: x(told.at), x2: x(told.at), y1: TOP, y2: HEIGHT - BOTTOM }));
      say(this.when, new Date(told.at).toLocaleTimeString());
    }
    const texts = this.series.map((one) => told ? this.format(one.value(told)) : "–");
    texts.forEach((text, at) => say(this.values[at], text));
    const names = this.series.map((one, at) => `${one.name} ${texts[at]}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.title}: ${names}`);
  }
}
