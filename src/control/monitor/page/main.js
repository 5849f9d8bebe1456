// Brings the parts together: what comes in over `live` goes to whoever draws it.

import { Charts } from "./charts.js";
import { Detail } from "./detail.js";
import { el, say, set, sign, sync } from "./dom.js";
import { Failovers, isOne } from "./failovers.js";
import { Lanes } from "./lanes.js";
import { Live } from "./live.js";
import { digest, figures, verdict } from "./model.js";
import { Path } from "./path.js";
import { Tables } from "./tables.js";
import { startTheme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { clock, counted, duration } from "./words.js";

const at = (id) => document.getElementById(id);
/** Rates are over about so long: long enough not to jump, short enough to be of now. */
const RATE_MS = 2500;
/** Matters that are told one by one. */
const PROBLEMS = 12;

const live = new Live();
const timeline = new Timeline(at("events"), at("kinds"), at("older"), at("forgotten"));
const failovers = new Failovers(at("failovers"), at("earlier"), at("unsaved"), live);
const path = new Path(at("path"), at("path-hint"));
const charts = new Charts(at("charts"), live, null);
const lanes = new Lanes(at("lanes"), timeline);
const tables = new Tables(at("targets"), at("filter"), at("more"), at("workers"), at("ports"));
const detail = new Detail(at("detail"), live, timeline, failovers);

let overviews = [];
let status = { state: "connecting", since: Date.now() };
let lastAnswer = 0;
let announced = "";

live.addEventListener("overview", ({ detail: overview }) => {
  lastAnswer = Date.now();
  // A gateway that was started anew counts anew.
  if (overviews.at(-1)?.Node.UptimeMs > overview.Node.UptimeMs) overviews = [];
  const age = (earlier) => overview.Node.UptimeMs - earlier.Node.UptimeMs;
  const before = overviews.findLast((earlier) => age(earlier) >= RATE_MS) ?? overviews[0];
  overviews = [...overviews.filter((earlier) => age(earlier) < 2 * RATE_MS), overview];
  const shown = digest(overview, before);
  timeline.clock(shown.at);
  showNow(shown);
  path.show(shown);
  tables.show(shown);
  detail.show(shown);
  lanes.show(shown);
});

live.addEventListener("timeline", ({ detail: told }) => {
  timeline.restart(told);
  failovers.refresh();
});
live.addEventListener("happened", ({ detail: event }) => {
  timeline.add(event);
  if (isOne(event)) failovers.refresh();
  if (event.Event !== "TcpReset") live.soon();
});
live.addEventListener("status", ({ detail: told }) => {
  status = told;
  showStatus();
  // What came meanwhile is drawn at once.
  if (told.state !== "lost") charts.refresh();
});

function showNow(shown) {
  const { level, text } = verdict(shown);
  const section = at("now");
  set(section, "data-level", level);
  say(at("verdict"), text);
  document.title = `${level === "good" || level === "note" ? "" : "✕ "}${text} · Flowgate`;
  const told = shown.problems.slice(0, PROBLEMS);
  const rest = shown.problems.length - told.length;
  if (rest > 0)
    told.push({ level: "note", key: "rest", text: `And ${counted(rest, "matter")} more.`, live: "" });
  sync(at("problems"), told, (problem) => problem.key, makeProblem, updateProblem);
  sync(
    at("figures"),
    figures(shown),
    ([name]) => name,
    ([name]) => el("div", {}, el("dt", {}, name), el("dd")),
    (box, [, value]) => say(box.lastElementChild, value),
  );
  const { Product: product, Version: version, Generation: generation, UptimeMs: uptime } = shown.node;
  const { Ready: ready, Missing: missing } = shown.said.Readiness;
  const readiness = ready ? "ready" : `not ready: ${missing.join(", ")}`;
  set(at("node"), "data-ready", ready ? "yes" : "no");
  say(at("node"), `${product} ${version} · ${readiness} · configuration ${generation} · up ${duration(uptime)}`);
  // Read aloud once for each change of what is wrong, and not for each second that it lasts.
  const words = [text, ...shown.problems.map((problem) => problem.text)].slice(0, 5).join(". ");
  if (words !== announced) {
    announced = words;
    say(at("announce"), words);
  }
}

function makeProblem(problem) {
  const words = { bad: "Wrong", warn: "Look", note: "Note" }[problem.level];
  const body = problem.target ? el("a", { href: detail.link(problem.target) }) : el("span");
  return el(
    "li",
    { class: problem.level },
    sign(problem.level),
    el("span", { class: "unseen" }, `${words}: `),
    el("span", { class: "what" }, body),
    el("span", { class: "live" }),
    problem.todo ? el("span", { class: "todo" }, `${problem.todo} `, el("code")) : null,
  );
}

function updateProblem(item, problem) {
  say(item.querySelector(".what").firstElementChild, problem.text);
  say(item.querySelector(".live"), problem.live);
  const command = item.querySelector("code");
  if (command) say(command, problem.command);
}

function showStatus() {
  const words = {
    connecting: "Connecting",
    live: "Live",
    polling: "Without events",
    lost: "Connection lost",
  };
  set(at("link"), "data-state", status.state);
  say(at("link-words"), words[status.state]);
  const lost = at("lost");
  set(document.body, "data-state", status.state);
  if (status.state === "lost") {
    const age = lastAnswer
      ? ` What is shown is ${duration(Math.max(1000, Date.now() - lastAnswer))} old.`
      : "";
    const text = `The gateway does not answer since ${clock(status.since)}. Trying again.`;
    if (lost.hidden) {
      lost.replaceChildren(el("strong", {}, text), el("span", { "aria-hidden": "true" }));
      lost.hidden = false;
    }
    say(lost.lastElementChild, age);
  } else if (status.state === "polling") {
    const text =
      "The gateway gives this page no stream of events, perhaps as too many pages are open: figures come every 3 s, events later.";
    if (lost.textContent !== text) lost.replaceChildren(text);
    lost.hidden = false;
  } else {
    lost.hidden = true;
    lost.replaceChildren();
  }
}

// A stream that is being opened is no news for whoever looks on.
setInterval(() => status.state === "lost" && showStatus(), 1000);
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
say(
  at("zone"),
  zone === "UTC" ? "Times are in UTC." : `Times are in ${zone}; point at one in the timeline for UTC.`,
);
startTheme(at("theme"));
failovers.onchange = () => detail.failoversChanged();
timeline.onchange = () => {
  lanes.redraw();
  detail.timelineChanged();
};
const chosen = () => document.querySelector('input[name="span"]:checked').value;
at("span").addEventListener("change", () => {
  charts.choose(chosen());
  lanes.choose(chosen());
});
charts.choose(chosen());
lanes.choose(chosen());
showStatus();
live.start();
