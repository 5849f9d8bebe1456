// Lanes: how each target stood that changed in the time shown, and when its flows were reset. Made from the timeline, which
// says the same in words.

import { el, say, set, svg, sync } from "./dom.js";
import { SPANS } from "./charts.js";
import { clock, count, counted, duration } from "./words.js";

const MOST = 10;
const LANE = 40;
const BAR = 12;
const BOTTOM = 22;

/** The lanes of entries from `from` to `now`. Pure. */
export function lanes(entries, from, now) {
  const by = new Map();
  for (const entry of entries) {
    if (!entry.Target) continue;
    const key = `${entry.TargetGroup}/${entry.Target}`;
    const lane = by.get(key) ?? {
      key,
      name: entry.Target,
      group: entry.TargetGroup,
      parts: [],
      resets: [],
      marks: [],
      last: 0,
    };
    by.set(key, lane);
    lane.last = entry.Until.UnixMs;
    if (entry.Event === "TargetHealthChanged") {
      const at = entry.At.UnixMs;
      if (lane.parts.length === 0 && at > from) lane.parts.push({ state: entry.From, from, to: at });
      const before = lane.parts.at(-1);
      if (before) before.to = at;
      lane.parts.push({ state: entry.To, from: Math.max(from, at), to: now });
    } else if (entry.Event === "FlowsReset") {
      lane.resets.push({ from: Math.max(from, entry.At.UnixMs), to: entry.Until.UnixMs, count: entry.Count });
    } else if (entry.Event.startsWith("Drain")) {
      lane.marks.push({ at: entry.At.UnixMs, word: entry.Event === "DrainStarted" ? "drain" : "drained" });
    }
  }
  return [...by.values()]
    .filter((lane) => lane.parts.length + lane.marks.length + lane.resets.length > 0)
    .sort((a, b) => b.last - a.last);
}

export class Lanes {
  #box;
  #timeline;
  #span = "fine";
  #now = null;
  #started = 0;
  #targets = [];
  #svg = svg("svg", { role: "img" });
  #none = el("p", { class: "hint" });
  #rest = el("p", { class: "hint" });

  constructor(box, timeline) {
    this.#box = box;
    this.#timeline = timeline;
    box.append(this.#none, this.#svg, this.#rest);
    new ResizeObserver(() => this.redraw()).observe(box);
  }

  choose(span) {
    this.#span = span;
    this.redraw();
  }

  show(shown) {
    this.#now = shown.at;
    this.#started = shown.at - shown.node.UptimeMs;
    this.#targets = shown.targets;
    this.redraw();
  }

  // Targets that are not well and have been so for longer than the time shown.
  #unwell(lanes, from) {
    const known = new Set(lanes.map((lane) => lane.key));
    const unwell = this.#targets.filter(
      ({ key, state }) => (state === "unhealthy" || state === "draining") && !known.has(key),
    );
    return unwell.map(({ key, address, state, said }) => ({
      key,
      name: address,
      parts: [{ state, from: Math.max(from, said.Since?.UnixMs ?? from), to: this.#now }],
      resets: [],
      marks: [],
    }));
  }

  redraw() {
    const width = Math.floor(this.#box.clientWidth);
    if (this.#now === null || width < 50) return;
    const { ms, tick, words } = SPANS[this.#span];
    // Before it started it knew of nothing.
    const from = Math.max(this.#now - ms, this.#started);
    const all = lanes(this.#timeline.since(from), from, this.#now);
    all.push(...this.#unwell(all, from));
    const drawn = all.slice(0, MOST);
    // A target with resets alone has stood as it stands now.
    for (const lane of drawn)
      if (lane.parts.length === 0)
        lane.parts.push({
          state: this.#targets.find((target) => target.key === lane.key)?.state ?? "unused",
          from,
          to: this.#now,
        });
    say(this.#none, all.length ? "" : `No target changed in ${words}, and none is out of service.`);
    say(
      this.#rest,
      all.length > MOST
        ? `${count(all.length - MOST)} more: the timeline and the table of targets have them.`
        : "",
    );
    const height = drawn.length ? drawn.length * LANE + BOTTOM : 0;
    set(this.#svg, "viewBox", `0 0 ${width} ${Math.max(1, height)}`);
    set(this.#svg, "width", width);
    set(this.#svg, "height", height);
    set(
      this.#svg,
      "aria-label",
      drawn
        .map(
          (lane) =>
            `${lane.name}: ${lane.parts.map((part) => `${part.state} from ${clock(part.from)}`).join(", ")}; ${counted(
              lane.resets.reduce((sum, one) => sum + one.count, 0),
              "reset",
            )}`,
        )
        .join(". "),
    );
    const x = (time) => width * (1 - (this.#now - time) / ms);
    const ticks = [];
    for (let time = Math.ceil((this.#now - ms) / tick) * tick; time < this.#now; time += tick)
      if (x(time) > 18 && x(time) < width - 18) ticks.push({ key: `tick ${time}`, time });
    sync(
      this.#svg,
      [...(drawn.length ? ticks : []), ...drawn.map((lane, n) => ({ ...lane, n }))],
      (one) => one.key,
      (one) => svg("g", { class: one.time ? "mark" : "lane" }),
      (group, one) => {
        if (one.time) {
          group.replaceChildren(
            svg("path", { d: `M${x(one.time)} 0V${height - BOTTOM + 4}` }),
            svg(
              "text",
              { x: x(one.time), y: height - 6, "text-anchor": "middle" },
              clock(one.time).slice(0, 5),
            ),
          );
        } else drawLane(group, one, x);
      },
    );
  }
}

function drawLane(group, lane, x) {
  const top = lane.n * LANE;
  const y = top + 19;
  const total = lane.resets.reduce((sum, one) => sum + one.count, 0);
  const name = `${lane.name}${total ? ` · ${counted(total, "reset")}` : ""}`;
  const parts = lane.parts.flatMap((part) => {
    const left = x(part.from);
    const wide = Math.max(2, x(part.to) - left);
    const words = `${part.state} ${duration(part.to - part.from)}`;
    const thin = part.state === "healthy";
    return [
      svg(
        "rect",
        {
          class: `part ${part.state}`,
          x: left,
          y: thin ? y + BAR / 2 - 2 : y,
          width: wide,
          height: thin ? 4 : BAR,
          rx: 2,
        },
        svg("title", {}, `${lane.name}: ${words}`),
      ),
      !thin && wide > words.length * 6.6 + 8
        ? svg("text", { class: `in ${part.state}`, x: left + 5, y: y + BAR - 2 }, words)
        : null,
    ];
  });
  const resets = lane.resets.map((one) =>
    svg(
      "path",
      { class: "hit", d: `M${x(one.to)} ${y - 5}l-4 -7h8z` },
      svg("title", {}, `${counted(one.count, "reset")} until ${clock(one.to)}`),
    ),
  );
  const marks = lane.marks.map((one) =>
    svg(
      "path",
      { class: "drainmark", d: `M${x(one.at)} ${y - 2}v${BAR + 4}` },
      svg("title", {}, `${one.word} at ${clock(one.at)}`),
    ),
  );
  group.replaceChildren(
    ...parts.filter(Boolean),
    ...marks,
    ...resets,
    svg("text", { class: "name", x: 2, y: top + 13 }, name),
  );
}
