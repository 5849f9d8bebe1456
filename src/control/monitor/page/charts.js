// Charts of the last minutes or of the last hour: one thing each, over the same time. Each can be gone along with the
// arrow keys, and read as a table.

import { el, say, set, svg, sync } from "./dom.js";
import { bits, clock, count, counted, packets, scaled } from "./words.js";

const HEIGHT = 132;
const BOTTOM = 20;
const TOP = 12;
/** Rows of a chart's table. */
const ROWS = 12;
/** How long each of both spans is, how often it is asked for, and where times are written. */
export const SPANS = {
  fine: { ms: 300_000, ask: 1000, tick: 60_000, words: "the last 5 minutes" },
  coarse: { ms: 3_600_000, ask: 5000, tick: 600_000, words: "the last hour" },
};

const flows = {
  title: "Live flows",
  read: (v) => counted(v, "flow"),
  axis: (v) => scaled(v, ""),
  series: [{ of: "Flows" }],
};
const traffic = { title: "Traffic", read: bits, axis: bits, series: [{ of: "Bytes" }] };
const both = {
  title: "Packets",
  read: packets,
  axis: packets,
  series: [
    { of: "PacketsToTarget", name: "to targets" },
    { of: "PacketsFromTarget", name: "returned", dashed: true },
  ],
};
const resets = {
  title: "Resets sent",
  read: (v) => counted(v, "reset"),
  axis: (v) => scaled(v, ""),
  series: [{ of: "Resets" }],
  bars: true,
};
const opened = {
  title: "New flows",
  read: (v) => scaled(v, "flows/s"),
  axis: (v) => scaled(v, "/s"),
  series: [{ of: "NewFlows" }],
};

/** The charts of the node, or of a target. */
export class Charts {
  #live;
  #target;
  #span = "fine";
  #timer = null;
  #charts;
  #box;
  #over = false;
  #none = el("p", { class: "hint", hidden: true });

  constructor(box, live, target) {
    this.#live = live;
    this.#target = target;
    this.#box = box;
    const kinds = target ? [flows, both, resets, opened] : [flows, traffic, both, resets];
    this.#charts = kinds.map((kind) => new Chart(kind));
    box.append(this.#none, ...this.#charts.map((chart) => chart.element));
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
  }

  choose(span) {
    this.#span = span;
    this.refresh();
  }

  /** Asks now, and from then on by itself. */
  async refresh() {
    clearTimeout(this.#timer);
    if (document.hidden || this.#over) return;
    const span = this.#span;
    const history = await this.#live.history(span, this.#target);
    if (span !== this.#span || this.#over) return;
    if (history) this.#charts.forEach((chart) => chart.show(history, span));
    this.#none.hidden = history !== null;
    if (!history)
      say(
        this.#none,
        this.#target
          ? "There is no history of this target: it is new, or there are too many to keep one of each."
          : "There is no history yet.",
      );
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), SPANS[span].ask);
  }

  end() {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#charts.forEach((chart) => chart.end());
    this.#box.replaceChildren();
  }
}

/** The least number of the kind 1, 2, 5, 10, ... that is not less than `value`. */
export function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value * 0.999);
}

class Chart {
  #kind;
  #history = null;
  #span = "fine";
  #at = null;
  #readout = el("span", { class: "value" });
  #when = el("span", { class: "when" });
  #svg = svg("svg", { "aria-hidden": "true" });
  #slider;
  #summary = el("p", { class: "unseen" });
  #table = el("table");
  #details;
  #observer;

  constructor(kind) {
    this.#kind = kind;
    const key =
      kind.series.length > 1
        ? el(
            "span",
            { class: "key" },
            ...kind.series.map((one) => el("span", { class: one.dashed ? "dashed" : "solid" }, one.name)),
          )
        : null;
    this.#slider = el(
      "div",
      {
        class: "plot",
        tabindex: 0,
        role: "slider",
        "aria-label": `${kind.title}, by time`,
        "aria-valuemin": 0,
        "aria-valuemax": 1,
        "aria-valuenow": 1,
        onkeydown: (event) => this.#key(event),
        onpointermove: (event) => this.#point(event),
        onpointerleave: () => this.#leave(),
        onblur: () => this.#leave(),
      },
      this.#svg,
    );
    this.#details = el(
      "details",
      { ontoggle: () => this.#tabulate() },
      el("summary", {}, "As a table", el("span", { class: "unseen" }, `: ${kind.title}`)),
      el("div", { class: "wide" }, this.#table),
    );
    this.element = el(
      "figure",
      { class: "chart" },
      el("figcaption", {}, el("span", { class: "title" }, kind.title), this.#when, this.#readout),
      this.#summary,
      this.#slider,
      el("div", { class: "under" }, this.#details, key),
    );
    this.#observer = new ResizeObserver(() => this.#draw());
    this.#observer.observe(this.#slider);
  }

  end() {
    this.#observer.disconnect();
  }

  show(history, span) {
    if (span !== this.#span) this.#at = null;
    this.#history = history;
    this.#span = span;
    this.#draw();
    this.#summarise();
    if (this.#details.open) this.#tabulate();
  }

  get #end() {
    return this.#history.At.UnixMs - this.#history.EndedMsAgo;
  }

  get #columns() {
    return this.#kind.series.map((one) => this.#history[one.of]);
  }

  // The column of the sample `n`, and its moment.
  #time(n) {
    return this.#end - (this.#columns[0].length - 1 - n) * this.#history.StepMs;
  }

  #draw() {
    const width = Math.floor(this.#slider.clientWidth);
    if (!this.#history || width < 50) return;
    const { ms, tick } = SPANS[this.#span];
    const now = this.#history.At.UnixMs;
    const columns = this.#columns;
    const top = niceTop(Math.max(0, ...columns.flat().filter((value) => value !== null)));
    const x = (time) => width * (1 - (now - time) / ms);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    set(this.#svg, "viewBox", `0 0 ${width} ${HEIGHT}`);
    set(this.#svg, "width", width);
    set(this.#svg, "height", HEIGHT);
    const marks = [0, top / 2, top].map((value) => ({
      key: `y${value}`,
      line: `M0 ${y(value)}H${width}`,
      x: 2,
      y: y(value) - 3,
      words: value === top ? this.#kind.axis(value) : "",
      anchor: "start",
    }));
    for (let time = Math.ceil((now - ms) / tick) * tick; time < now; time += tick) {
      if (x(time) > 18 && x(time) < width - 18)
        marks.push({
          key: `x${time}`,
          line: `M${x(time)} ${HEIGHT - BOTTOM}v4`,
          x: x(time),
          y: HEIGHT - 4,
          words: clock(time).slice(0, 5),
          anchor: "middle",
        });
    }
    const parts = [
      ...marks.map((mark) => ({ ...mark, kind: "mark" })),
      ...columns.map((column, n) => ({
        key: `s${n}`,
        kind: "series",
        column,
        dashed: this.#kind.series[n].dashed,
      })),
      ...(this.#at === null ? [] : [{ key: "cursor", kind: "cursor" }]),
    ];
    sync(
      this.#svg,
      parts,
      (part) => part.key,
      (part) => this.#make(part),
      (element, part) => {
        if (part.kind === "mark") {
          const [line, words] = element.children;
          set(line, "d", part.line);
          set(words, "x", part.x);
          set(words, "y", part.y);
          set(words, "text-anchor", part.anchor);
          say(words, part.words);
        } else if (part.kind === "series") {
          const shape = this.#kind.bars
            ? bars(part.column, (n) => x(this.#time(n)), y, Math.max(1, (width * this.#history.StepMs) / ms))
            : line(part.column, (n) => x(this.#time(n)), y);
          const [area, stroke] = element.children;
          set(area, "d", part.dashed ? "" : shape.area);
          set(stroke, "d", shape.line);
        } else {
          const place = x(this.#time(this.#at));
          set(element, "d", `M${place} ${TOP - 6}V${HEIGHT - BOTTOM}`);
        }
      },
    );
    this.#read();
  }

  #make(part) {
    if (part.kind === "mark") return svg("g", { class: "mark" }, svg("path"), svg("text"));
    if (part.kind === "cursor") return svg("path", { class: "cursor" });
    return svg(
      "g",
      { class: part.dashed ? "series dashed" : "series" },
      svg("path", { class: "area" }),
      svg("path", { class: "stroke" }),
    );
  }

  #read() {
    const columns = this.#columns;
    const last = columns[0].length - 1;
    const n = this.#at ?? last;
    const values = columns.map((column) => column[n]);
    const read = (value, how) => (value === null || value === undefined ? "none" : how(value));
    // The unit once: there is little room.
    const words = values
      .map((value, s) => read(value, s < values.length - 1 ? (v) => scaled(v, "") : this.#kind.read))
      .join(" · ");
    say(this.#readout, last < 0 ? "none yet" : words);
    say(this.#when, this.#at === null ? "" : `at ${clock(this.#time(n))}`);
    set(this.#slider, "aria-valuemax", Math.max(0, last));
    set(this.#slider, "aria-valuenow", Math.max(0, n));
    set(
      this.#slider,
      "aria-valuetext",
      last < 0 ? "nothing yet" : `${clock(this.#time(n))}: ${this.#inFull(values)}`,
    );
  }

  #inFull(values) {
    const names = this.#kind.series.map((one) => (one.name ? `${one.name} ` : ""));
    return values
      .map((value, s) => `${names[s]}${value === null ? "none" : this.#kind.read(value)}`)
      .join(", ");
  }

  #summarise() {
    const [column] = this.#columns;
    const there = column.filter((value) => value !== null);
    if (there.length === 0) return;
    const most = column.indexOf(Math.max(...there));
    const total = this.#kind.bars
      ? `${count(there.reduce((sum, value) => sum + value, 0))} in all, most`
      : "most";
    say(
      this.#summary,
      `${this.#kind.title}, ${SPANS[this.#span].words}: ${total} ${this.#kind.read(column[most])} at ${clock(this.#time(most))}.`,
    );
  }

  #tabulate() {
    if (!this.#details.open || !this.#history) return;
    const columns = this.#columns;
    const length = columns[0].length;
    const step = Math.max(1, Math.ceil(length / ROWS));
    const rows = [];
    for (let n = length - 1; n >= 0; n -= step) {
      const cells = columns.map((column) => {
        const part = column.slice(Math.max(0, n - step + 1), n + 1).filter((value) => value !== null);
        if (part.length === 0) return "none";
        // What is counted is summed up, of what is measured the last is told.
        return this.#kind.read(this.#kind.bars ? part.reduce((sum, value) => sum + value, 0) : part.at(-1));
      });
      rows.push(
        el(
          "tr",
          {},
          el("th", { scope: "row" }, clock(this.#time(n))),
          ...cells.map((cell) => el("td", {}, cell)),
        ),
      );
    }
    const names = this.#kind.series.map((one) => one.name ?? this.#kind.title);
    this.#table.replaceChildren(
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "Time"),
          ...names.map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el("tbody", {}, ...rows),
    );
  }

  #move(n) {
    const last = this.#columns[0].length - 1;
    this.#at = Math.max(0, Math.min(last, n));
    this.#draw();
  }

  #key(event) {
    if (!this.#history) return;
    const last = this.#columns[0].length - 1;
    const at = this.#at ?? last;
    const to = {
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      PageUp: at + 10,
      PageDown: at - 10,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#move(to);
  }

  #point(event) {
    if (!this.#history) return;
    const box = this.#slider.getBoundingClientRect();
    const time =
      this.#history.At.UnixMs - SPANS[this.#span].ms * (1 - (event.clientX - box.left) / box.width);
    this.#move(this.#columns[0].length - 1 - Math.round((this.#end - time) / this.#history.StepMs));
  }

  #leave() {
    this.#at = null;
    if (this.#history) this.#draw();
  }
}

const f = (value) => Math.round(value * 10) / 10;

// A line with gaps where there is nothing, and the area below it.
function line(column, x, y) {
  let path = "";
  let area = "";
  let begun = null;
  const close = (n) => {
    if (begun !== null) area += `V${f(y(0))}H${f(x(begun))}Z`;
    begun = null;
    return n;
  };
  column.forEach((value, n) => {
    if (value === null) {
      close(n);
      return;
    }
    const point = `${f(x(n))} ${f(y(value))}`;
    path += `${begun === null ? "M" : "L"}${point}`;
    area += `${begun === null ? "M" : "L"}${point}`;
    begun ??= n;
  });
  close(column.length);
  return { line: path, area };
}

function bars(column, x, y, width) {
  let path = "";
  const wide = Math.max(1.5, width * 0.8);
  column.forEach((value, n) => {
    if (value)
      path += `M${f(x(n) - wide)} ${f(y(0))}V${f(Math.min(y(value), y(0) - 2))}h${f(wide)}V${f(y(0))}Z`;
  });
  return { line: "", area: path };
}
