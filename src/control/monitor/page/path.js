// The path of traffic, drawn: endpoints, the gateway, targets. Links are as wide as their share of the live flows;
// what runs along them is traffic of this moment. On a narrow screen it goes from top to bottom.

import { set, svg, SIGNS, sync } from "./dom.js";
import { bits, count, counted, packets } from "./words.js";

const NARROW = 620;
/** Boxes drawn; the others are one box together. */
const TARGETS = { wide: 12, narrow: 8 };
const ENDPOINTS = 6;
/** All flows together, in pixels. */
const BAND = 36;
const ROW = 58;
const BOX = 46;

const ORDER = ["unhealthy", "unavailable", "draining", "initial", "healthy", "unused"];
const rank = (target) => ORDER.indexOf(target.state);

/** The boxes and links of what is shown. Pure. */
export function plan(shown, width) {
  const narrow = width < NARROW;
  const left = leftBoxes(shown);
  const right = rightBoxes(shown, narrow ? TARGETS.narrow : TARGETS.wide);
  return narrow ? narrowPlan(shown, left, right, width) : widePlan(shown, left, right, width);
}

function leftBoxes(shown) {
  const all = [...shown.endpoints].sort((a, b) => b.Flows - a.Flows);
  const boxes = all.slice(0, all.length > ENDPOINTS ? ENDPOINTS - 1 : ENDPOINTS).map((endpoint) => ({
    key: `endpoint ${endpoint.Name}`,
    title: endpoint.Name,
    flows: endpoint.Flows,
    state: endpoint.LoadBalancer ? "in" : "unused",
    lines: [
      endpoint.LoadBalancer ? `to ${endpoint.LoadBalancer}` : "leads nowhere",
      counted(endpoint.Flows, "flow"),
    ],
  }));
  const rest = all.slice(boxes.length);
  if (rest.length > 0) {
    const flows = rest.reduce((sum, endpoint) => sum + endpoint.Flows, 0);
    boxes.push({
      key: "endpoints",
      title: `${rest.length} more endpoints`,
      flows,
      state: "in",
      lines: [counted(flows, "flow")],
    });
  }
  return boxes;
}

// Of every group first those that are not well; what does not fit is one box a group.
function rightBoxes(shown, most) {
  const groups = [...shown.groups].sort(
    (a, b) => Math.min(...a.targets.map(rank), 9) - Math.min(...b.targets.map(rank), 9),
  );
  const each = Math.max(2, Math.floor(most / Math.max(1, groups.length)));
  const boxes = [];
  for (const group of groups) {
    if (boxes.length >= most + 2) break;
    const sorted = [...group.targets].sort((a, b) => rank(a) - rank(b) || b.flows - a.flows);
    const drawn = sorted.length <= each ? sorted : sorted.slice(0, each - 1);
    for (const target of drawn) boxes.push(targetBox(group, target, groups.length > 1));
    const rest = sorted.slice(drawn.length);
    if (rest.length > 0) boxes.push(restBox(group, rest));
  }
  const groupsLeft = groups.filter(
    (group) => group.targets.length > 0 && !boxes.some((box) => box.group === group.name),
  );
  if (groupsLeft.length > 0) {
    const sum = (of) => groupsLeft.reduce((all, group) => all + of(group), 0);
    boxes.push({
      key: "groups",
      group: "",
      title: `${groupsLeft.length} more target groups`,
      state: "healthy",
      href: "#targets-title",
      flows: sum((group) => group.flows),
      rate: sum((group) => group.to),
      lines: [
        counted(
          sum((group) => group.flows),
          "flow",
        ),
      ],
    });
  }
  return boxes;
}

function targetBox(group, target, named) {
  const state = target.said.Reason === "Target.NotRegistered" ? "not registered" : target.state;
  const sent = target.to >= 0.05 ? packets(target.to) : "no traffic";
  const traffic = target.to >= 0.05 && target.said.SilentForMs >= 1000 ? `${sent}, none back` : sent;
  return {
    key: target.key,
    group: group.name,
    title: target.address,
    state: target.state,
    flows: target.flows,
    rate: target.to,
    href: `#target/${encodeURIComponent(group.name)}/${target.address}`,
    lines: [`${state}${named ? ` · ${group.name}` : ""}`, `${counted(target.flows, "flow")} · ${traffic}`],
  };
}

function restBox(group, rest) {
  const by = Map.groupBy(rest, (target) => target.state);
  const states = ORDER.filter((state) => by.has(state)).map(
    (state) => `${count(by.get(state).length)} ${state}`,
  );
  const flows = rest.reduce((sum, target) => sum + target.flows, 0);
  const rate = rest.reduce((sum, target) => sum + target.to, 0);
  return {
    key: `rest ${group.name}`,
    group: group.name,
    title: `${count(rest.length)} more of ${group.name}`,
    flows,
    rate,
    href: "#targets-title",
    state: rest[0].state,
    lines: [states.join(", "), `${counted(flows, "flow")} · ${packets(rate)}`],
  };
}

function gateway(shown) {
  const busy = shown.workers.map((worker) => worker.busy).filter((value) => value !== null);
  return {
    key: "gateway",
    title: "Gateway",
    state: "gateway",
    lines: [
      counted(shown.flows, "flow"),
      bits(shown.bytes),
      busy.length
        ? `${counted(shown.workers.length, "worker")}, ${Math.round(Math.max(...busy) * 100)}% busy`
        : counted(shown.workers.length, "worker"),
    ],
  };
}

const band = (flows, all) => (flows > 0 ? Math.max(2, (BAND * flows) / Math.max(1, all)) : 1);

function widePlan(shown, left, right, width) {
  const rows = Math.max(left.length, right.length, 2);
  const height = rows * ROW + 8;
  const side = Math.min(250, Math.floor(width * 0.3));
  const middle = Math.min(190, Math.floor(width * 0.22));
  const gx = Math.floor((width - middle) / 2);
  const center = height / 2;
  const box = { ...gateway(shown), x: gx, y: center - 44, w: middle, h: 88 };
  const column = (boxes, x) =>
    boxes.map((one, n) => ({
      ...one,
      x,
      y: center + (n - boxes.length / 2) * ROW + (ROW - BOX) / 2,
      w: side,
      h: BOX,
    }));
  const ends = [column(left, 1), column(right, width - side - 1)];
  const links = ends.flatMap((boxes, place) => {
    const widths = boxes.map((one) => band(one.flows, shown.flows));
    let y =
      center -
      Math.min(
        80,
        widths.reduce((all, one) => all + one, 0),
      ) /
        2;
    return boxes.map((one, n) => {
      const middleY = Math.min(box.y + box.h, y + widths[n] / 2);
      y += widths[n];
      const oneY = one.y + one.h / 2;
      const [x1, y1, x2, y2] =
        place === 0 ? [side + 1, oneY, gx, middleY] : [gx + middle, middleY, width - side - 1, oneY];
      const bend = (x2 - x1) / 2;
      return link(
        one,
        shown,
        widths[n],
        `M${r(x1)} ${r(y1)}C${r(x1 + bend)} ${r(y1)} ${r(x2 - bend)} ${r(y2)} ${r(x2)} ${r(y2)}`,
      );
    });
  });
  return { width, height, boxes: [...ends[0], box, ...ends[1]], links };
}

// One below the other, with a trunk at the left edge that the links leave.
function narrowPlan(shown, left, right, width) {
  const indent = 58;
  let y = 4;
  const place = (one, x, h) => {
    const box = { ...one, x, y, w: width - x - 1, h };
    y += h + (ROW - BOX);
    return box;
  };
  const tops = left.map((one) => place(one, indent, BOX));
  const box = place(gateway(shown), 1, 86);
  const bottoms = right.map((one) => place(one, indent, BOX));
  const links = [tops, bottoms].flatMap((boxes, side) => {
    let x = 8;
    return boxes.map((one) => {
      const wide = band(one.flows, shown.flows);
      const trunk = Math.min(44, x + wide / 2);
      x += wide;
      const to = one.y + one.h / 2;
      const from = side === 0 ? box.y : box.y + box.h;
      const bend = side === 0 ? Math.min(from, to + 12) : Math.max(from, to - 12);
      const out = `M${r(trunk)} ${r(from)}L${r(trunk)} ${r(bend)}Q${r(trunk)} ${r(to)} ${r(trunk + 12)} ${r(to)}L${indent} ${r(to)}`;
      const back = `M${indent} ${r(to)}L${r(trunk + 12)} ${r(to)}Q${r(trunk)} ${r(to)} ${r(trunk)} ${r(bend)}L${r(trunk)} ${r(from)}`;
      return link(one, shown, wide, side === 0 ? back : out);
    });
  });
  return { width, height: y, boxes: [...tops, box, ...bottoms], links };
}

const r = (value) => Math.round(value * 10) / 10;

function link(box, shown, width, d) {
  const rate = box.rate ?? (box.flows > 0 ? shown.to : 0);
  const pace = rate < 0.05 ? "still" : rate < 100 ? "slow" : rate < 10_000 ? "quick" : "fast";
  return {
    key: box.key,
    d,
    width: r(width),
    state: box.flows > 0 || box.state !== "healthy" ? box.state : "idle",
    pace,
  };
}

/** Draws it into an element, and a sentence about it into another. */
export class Path {
  #box;
  #hint;
  #shown = null;
  #links = svg("g", { "aria-hidden": "true" });
  #nodes = svg("g");
  #svg = svg(
    "svg",
    { class: "way", role: "group", "aria-label": "Endpoints, gateway and targets" },
    this.#links,
    this.#nodes,
  );

  constructor(box, hint) {
    this.#box = box;
    this.#hint = hint;
    box.append(this.#svg);
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  show(shown) {
    this.#shown = shown;
    this.#draw();
  }

  #draw() {
    const width = Math.floor(this.#box.clientWidth);
    if (!this.#shown || width < 50) return;
    const drawn = plan(this.#shown, width);
    set(this.#svg, "viewBox", `0 0 ${drawn.width} ${drawn.height}`);
    set(this.#svg, "width", drawn.width);
    set(this.#svg, "height", drawn.height);
    sync(
      this.#links,
      drawn.links,
      (one) => one.key,
      () => svg("g", {}, svg("path"), svg("path", { class: "run" })),
      (group, one) => {
        set(group, "class", `band ${one.state}`);
        const [wide, run] = group.children;
        set(wide, "d", one.d);
        set(wide, "stroke-width", one.width);
        set(run, "d", one.d);
        set(run, "class", `run ${one.pace}`);
        set(run, "stroke-width", Math.min(3, Math.max(1, one.width / 3)));
      },
    );
    sync(this.#nodes, drawn.boxes, (one) => one.key, makeBox, updateBox);
    const healthy = this.#shown.targets.filter((target) => target.state === "healthy").length;
    const ends = this.#shown.endpoints.length;
    const words = `${counted(ends, "endpoint")} ${ends === 1 ? "sends" : "send"} ${packets(this.#shown.to)} through ${counted(this.#shown.targets.length, "target")}, ${count(healthy)} of them healthy. A link is as wide as its share of the live flows.`;
    if (this.#hint.textContent !== words) this.#hint.textContent = words;
  }
}

function makeBox(one) {
  const texts = one.lines.map(() => svg("text", { class: "line" }));
  const inside = [
    svg("rect", { rx: 8 }),
    svg("rect", { class: "edge", rx: 2 }),
    svg("text", { class: "title" }),
    svg("text", { class: "mark", "aria-hidden": "true" }),
    ...texts,
  ];
  return one.href
    ? svg("a", { href: one.href }, svg("title"), ...inside)
    : svg("g", {}, svg("title"), ...inside);
}

function updateBox(element, one) {
  set(element, "class", `box ${one.state}`);
  set(element, "transform", `translate(${r(one.x)} ${r(one.y)})`);
  const [title, frame, edge, name, mark, ...lines] = element.children;
  const words = [one.title, ...one.lines].join(", ");
  if (title.textContent !== words) title.textContent = words;
  if (one.href) set(element, "aria-label", words);
  set(frame, "width", one.w);
  set(frame, "height", one.h);
  set(edge, "width", 5);
  set(edge, "height", one.h - 12);
  set(edge, "x", 0);
  set(edge, "y", 6);
  const signed = ORDER.includes(one.state);
  text(mark, 12, 19, signed ? SIGNS[one.state] : "", one.w);
  text(name, signed ? 28 : 14, 19, one.title, one.w - (signed ? 34 : 20), 8.2);
  const gap = one.h > 60 ? 18 : 16;
  if (one.lines.length === 2 && one.h < 60 && one.w > 210) {
    // Room for both in one row: the state stands beside the address.
    text(lines[0], one.w - 10, 19, one.lines[0], one.w - 46 - one.title.length * 8.2, 6.6);
    set(lines[0], "text-anchor", "end");
    text(lines[1], 14, 19 + 18, one.lines[1], one.w - 22, 6.6);
    return;
  }
  const joined = one.h < 60 ? [one.lines.join(" · ")] : one.lines;
  lines.forEach((line, n) => {
    set(line, "text-anchor", null);
    text(line, 14, 19 + gap * (n + 1), joined[n] ?? "", one.w - 22, 6.6);
  });
}

function text(element, x, y, words, room, each = 8) {
  set(element, "x", x);
  set(element, "y", y);
  const fits = Math.max(3, Math.floor(room / each));
  const shortened = words.length > fits ? `${words.slice(0, fits - 1)}…` : words;
  if (element.textContent !== shortened) element.textContent = shortened;
}
