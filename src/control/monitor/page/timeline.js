// The timeline: what happened, the newest first, in sentences.

import { el, say, sign, sync } from "./dom.js";
import { clock, duration, kindOf, sentence, signOf } from "./words.js";

/** Entries that the page keeps; the gateway keeps fewer. */
const KEPT = 3000;
const HOUR_MS = 3_600_000;
/** Shown at first, and more with each press of the button. */
const PAGE = 40;
/** As in the gateway: resets that go on are one entry, for a minute at most. */
const SAME_MS = 5000;
const LONGEST_MS = 60_000;

const KINDS = [
  ["health", "Health"],
  ["resets", "Resets"],
  ["drains", "Drains"],
  ["failovers", "Failovers"],
  ["config", "Changes"],
  ["other", "Other"],
];

export class Timeline {
  /** Called when there is something new. */
  onchange = () => {};
  #list;
  #older;
  #entries = [];
  #samples = [];
  #hidden = new Set();
  #shown = PAGE;
  #missing = 0;
  #drawing = false;
  #ahead = 0;

  constructor(list, kinds, older, note) {
    this.#note = note;
    this.#list = list;
    this.#older = older;
    older.addEventListener("click", () => {
      this.#shown += 5 * PAGE;
      this.#draw();
    });
    for (const [kind, words] of KINDS) {
      const box = el("input", {
        type: "checkbox",
        checked: true,
        onchange: () => this.#toggle(kind, box.checked),
      });
      kinds.append(
        el("label", { "data-kind": kind, hidden: kind === "other" }, box, " ", el("span", {}, words)),
      );
    }
    this.#kinds = kinds;
    this.#draw();
  }

  #kinds;
  #note;

  /** The gateway's clock, as it stands now: this one's may be another. */
  clock(unixMs) {
    this.#ahead = unixMs - Date.now();
  }

  /** Now, by the gateway's clock. */
  now() {
    return Date.now() + this.#ahead;
  }

  /** The entries of the last hour, anew. */
  restart(told) {
    this.#entries = told.Entries.filter((entry) => entry.Event !== "TcpReset");
    this.#samples = told.Entries.filter((entry) => entry.Event === "TcpReset");
    this.#missing = told.Forgotten;
    this.#changed();
  }

  /** One more event. */
  add(event) {
    const entry = { ...event, Until: event.At };
    if (entry.Event === "TcpReset") {
      this.#samples.push(entry);
      if (this.#samples.length > 400) this.#samples.splice(0, 200);
    } else if (!this.#goesOn(entry)) {
      this.#entries.push(entry);
      if (this.#entries.length > KEPT) this.#entries.splice(0, KEPT / 10);
    }
    this.#changed();
  }

  #goesOn(entry) {
    if (entry.Event !== "FlowsReset") return false;
    for (let n = this.#entries.length - 1; n >= 0 && n >= this.#entries.length - 64; n -= 1) {
      const before = this.#entries[n];
      if (entry.At.UnixMs - before.Until.UnixMs > SAME_MS) return false;
      const same = ["Event", "LoadBalancer", "TargetGroup", "Target", "Trigger"].every(
        (name) => before[name] === entry[name],
      );
      if (same && entry.At.UnixMs - before.At.UnixMs <= LONGEST_MS) {
        before.Count += entry.Count;
        before.Until = entry.At;
        return true;
      }
    }
    return false;
  }

  /** Entries since a moment, the oldest first; those of a target by its group and address. */
  since(ms, group, address) {
    return this.#entries.filter(
      (entry) =>
        entry.Until.UnixMs >= ms && (!group || (entry.TargetGroup === group && entry.Target === address)),
    );
  }

  /** Single resets of a target, the newest first. */
  samples(group, address) {
    return this.#samples.filter((entry) => entry.TargetGroup === group && entry.Target === address).reverse();
  }

  #toggle(kind, on) {
    if (on) this.#hidden.delete(kind);
    else this.#hidden.add(kind);
    this.#draw();
  }

  // Many events may come at once: they are drawn together.
  #changed() {
    if (this.#drawing) return;
    this.#drawing = true;
    setTimeout(() => {
      this.#drawing = false;
      const old = this.now() - HOUR_MS;
      while (this.#entries[0]?.Until.UnixMs < old) this.#entries.shift();
      this.#draw();
      this.onchange();
    }, 100);
  }

  #draw() {
    const kind = (entry) => (kindOf(entry) === "lost" ? "other" : kindOf(entry));
    const others = this.#kinds.querySelector('[data-kind="other"]');
    if (others.hidden && this.#entries.some((entry) => kind(entry) === "other")) others.hidden = false;
    const wanted = this.#entries.filter((entry) => !this.#hidden.has(kind(entry)));
    const shown = wanted.slice(-this.#shown).reverse();
    this.#list.classList.toggle("empty", shown.length === 0);
    if (shown.length === 0) {
      const words = this.#entries.length
        ? "Nothing of these kinds happened in the last hour."
        : "Nothing happened in the last hour.";
      sync(
        this.#list,
        [words],
        () => "none",
        () => el("li"),
        (item) => say(item, words),
      );
    } else {
      sync(
        this.#list,
        shown,
        (entry) =>
          `${entry.At.UnixMs} ${entry.Event} ${entry.TargetGroup ?? ""} ${entry.Target ?? ""} ${entry.Trigger ?? ""} ${entry.To ?? ""} ${entry.Generation ?? ""}`,
        makeEntry,
        updateEntry,
      );
    }
    const rest = wanted.length - shown.length;
    this.#older.hidden = rest === 0;
    say(this.#older, `Show older (${rest})`);
    say(this.#note, this.#missing ? `${this.#missing} more of the last hour were too many to keep.` : "");
  }
}

/** An entry as an item of a list. */
export function makeEntry(entry) {
  return el(
    "li",
    { class: kindOf(entry) },
    el("time", { datetime: entry.At.Rfc3339, title: entry.At.Rfc3339 }, clock(entry.At.UnixMs, 3)),
    sign(signOf(entry)),
    el("span", { class: "what" }),
  );
}

export function updateEntry(item, entry) {
  const lasted = entry.Until.UnixMs - entry.At.UnixMs;
  say(item.lastElementChild, `${sentence(entry)}${lasted >= 1000 ? `, over ${duration(lasted)}` : ""}`);
}
