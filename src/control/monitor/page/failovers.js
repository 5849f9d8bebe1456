// Failovers: of each target that was lost, what became of its flows and how long each phase took. The records are
// the gateway's (`flowgate report` prints the same).

import { el, say, set, sign, sync } from "./dom.js";
import { count, counted, ending, moment, span, targetName } from "./words.js";

/** How often records are asked for while one goes on; else they are when one begins or ends. */
const OPEN_MS = 1500;
const SHOWN = 3;

/** Microseconds as `flowgate report` has them: `0.018 ms`, `112.3 ms`, `3.214 s`, `2m 5s`. */
export function took(microseconds) {
  const ms = Math.floor(microseconds / 1000);
  if (ms < 10) return `${ms}.${String(microseconds % 1000).padStart(3, "0")} ms`;
  if (ms < 1000) return `${ms}.${Math.floor((microseconds % 1000) / 100)} ms`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, "0")} s`;
  return span(ms);
}

function phases(record) {
  const all = record.DurationsMicroseconds;
  const decision = record.Cause === "unhealthy" ? "Decision" : "End of the drain";
  return [
    ["First failed check to decision", all.FirstFailureToDecision],
    [`${decision} to the last worker`, all.DecisionToApplied],
    [`${decision} to first reset`, all.DecisionToFirstReset],
    ["First failed check to first reset", all.FirstFailureToFirstReset],
    ["Last returned packet to first reset", all.LastReturnedToFirstReset],
    ["First reset to last reset", all.FirstToLastReset],
    ["Decision to recovery", all.DecisionToRecovery],
  ].filter(([, value]) => value !== undefined);
}

function sums(record) {
  const { Flows: flows, Resets: resets, Clients: clients } = record;
  const begun = flows.Begun > 0 ? ` and ${count(flows.Begun)} that began since` : "";
  const fates = [
    [flows.Reset, "reset"],
    [flows.Moved, "moved"],
    [flows.Ended, "ended otherwise"],
    [flows.Left, "left"],
  ];
  const words = [
    `Of ${counted(flows.AtDecision, "flow")}${begun}: ${fates.map(([value, what]) => `${count(value)} ${what}`).join(", ")}.`,
  ];
  if (resets.Total > 0) words.push(`${counted(resets.Total, "reset")} sent.`);
  const held = Object.values(record.Suppressed ?? {}).reduce((sum, value) => sum + value, 0);
  if (held > 0) words.push(`${counted(held, "packet")} whose reset a guard held back.`);
  if (clients?.Watched > 0) {
    const when =
      clients.FastestMicroseconds === undefined
        ? ""
        : `, the first ${took(clients.FastestMicroseconds)} after its reset`;
    words.push(
      `${count(clients.CameBack)} of ${counted(clients.Watched, "client")} that ${clients.Watched === 1 ? "was" : "were"} watched came back${when}.`,
    );
  }
  if (record.MessagesLost > 0)
    words.push(
      "Some of the workers' messages were lost: the first and the last reset and the clients are of the others.",
    );
  return words.join(" ");
}

function title(record) {
  const what = record.Cause === "unhealthy" ? "was unhealthy" : "was deregistered";
  const end = record.Ended ? `; ${ending(record.Ended.Why)}` : "; it goes on";
  return `${targetName(record.TargetGroup, record.Target)} ${what} at ${moment(record.Decided.UnixMs)}${end}`;
}

/** A record as an item of a list. */
export function makeRecord(record) {
  return el(
    "li",
    {},
    el(
      "p",
      { class: "title" },
      sign(record.Cause === "unhealthy" ? "unhealthy" : "draining"),
      " ",
      el("span", { class: "id" }, `Failover ${record.Id}`),
      ": ",
      el("span", { class: "what" }),
    ),
    el("p", { class: "sums" }),
    el("dl", { class: "facts" }),
  );
}

export function updateRecord(item, record) {
  say(item.querySelector(".what"), title(record));
  say(item.querySelector(".sums"), sums(record));
  sync(
    item.querySelector("dl"),
    phases(record),
    ([name]) => name,
    ([name]) => el("div", {}, el("dt", {}, name), el("dd")),
    (box, [, value]) => say(box.lastElementChild, took(value)),
  );
  set(item, "data-open", record.Ended ? null : true);
}

export class Failovers {
  /** Called when there is something new. */
  onchange = () => {};
  #list;
  #more;
  #note;
  #live;
  #records = [];
  #all = false;
  #timer = null;

  constructor(list, more, note, live) {
    this.#note = note;
    this.#list = list;
    this.#more = more;
    this.#live = live;
    more.addEventListener("click", () => {
      this.#all = true;
      this.#draw();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
  }

  /** Those of a target, the newest first. */
  of(group, address) {
    return this.#records.filter((record) => record.TargetGroup === group && record.Target === address);
  }

  async refresh() {
    clearTimeout(this.#timer);
    const told = await this.#live.failovers();
    if (told) {
      this.#records = told.Failovers;
      const lost = told.NotRecorded
        ? `${count(told.NotRecorded)} more were not recorded, as too many were under way at once. `
        : "";
      say(this.#note, `${lost}${told.NotStored ? `These records are not on disk: ${told.NotStored}` : ""}`);
      this.#draw();
      this.onchange();
    }
    clearTimeout(this.#timer);
    const goesOn = !told || this.#records.some((record) => !record.Ended);
    if (goesOn && !document.hidden) this.#timer = setTimeout(() => this.refresh(), OPEN_MS);
  }

  #draw() {
    const shown = this.#all ? this.#records : this.#records.slice(0, SHOWN);
    if (shown.length === 0) {
      sync(
        this.#list,
        ["none"],
        (none) => none,
        () => el("li"),
        (item) => say(item, "There has been no failover yet."),
      );
    } else {
      sync(this.#list, shown, (record) => record.Id, makeRecord, updateRecord);
    }
    const rest = this.#records.length - shown.length;
    this.#more.hidden = rest === 0;
    say(this.#more, `Show ${rest} earlier`);
  }
}

/** Whether an event says that there is something new here. */
export const isOne = (entry) => entry.Event === "FailoverStarted" || entry.Event === "FailoverEnded";
