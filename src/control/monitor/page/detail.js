// The details of a target, in a dialog that its address in the URL opens: `#target/GROUP/ADDRESS`.

import { Charts, SPANS } from "./charts.js";
import { el, say, sign, sync } from "./dom.js";
import { makeRecord, updateRecord } from "./failovers.js";
import { makeEntry, updateEntry } from "./timeline.js";
import { bits, clock, count, counted, duration, moment, packets, reason, seenBy, sentence } from "./words.js";

const ENTRIES = 30;
const SAMPLES = 10;

/** `{group, address}` of a fragment; null if it is none of a target's. */
export function parse(fragment) {
  const found = /^#target\/([^/]+)\/([^/]+)$/.exec(fragment);
  try {
    return found && { group: decodeURIComponent(found[1]), address: decodeURIComponent(found[2]) };
  } catch {
    return null;
  }
}

export class Detail {
  #dialog;
  #live;
  #timeline;
  #failovers;
  #shown = null;
  #open = null;
  #charts = null;
  #parts = null;
  #from = null;

  constructor(dialog, live, timeline, failovers) {
    this.#failovers = failovers;
    this.#dialog = dialog;
    this.#live = live;
    this.#timeline = timeline;
    window.addEventListener("hashchange", () => this.#follow());
    // Escape, or the button.
    dialog.addEventListener("close", () => this.#closed());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    this.#follow();
  }

  /** Where a target's details are. */
  link(key) {
    const at = key.lastIndexOf("/");
    return `#target/${encodeURIComponent(key.slice(0, at))}/${key.slice(at + 1)}`;
  }

  show(shown) {
    this.#shown = shown;
    if (this.#open) this.#draw();
  }

  timelineChanged() {
    if (this.#open) this.#drawEvents();
  }

  failoversChanged() {
    if (this.#open) this.#drawFailovers();
  }

  #follow() {
    const wanted = parse(location.hash);
    if (!wanted) {
      if (this.#dialog.open) this.#dialog.close();
      return;
    }
    if (this.#open?.group === wanted.group && this.#open.address === wanted.address) return;
    this.#charts?.end();
    this.#open = wanted;
    this.#from ??= document.activeElement;
    this.#build();
    if (!this.#dialog.open) this.#dialog.showModal();
    this.#draw();
    this.#drawEvents();
    this.#drawFailovers();
    this.#charts.choose("fine");
  }

  #closed() {
    this.#charts?.end();
    this.#charts = null;
    this.#open = null;
    // The address is that of the page again, and going back does not open the dialog once more.
    if (parse(location.hash)) history.replaceState(null, "", location.pathname + location.search);
    const from = this.#from;
    this.#from = null;
    if (from?.isConnected && from !== document.body) from.focus();
  }

  #build() {
    const { group, address } = this.#open;
    const title = el(
      "h2",
      { id: "detail-title", tabindex: -1, autofocus: true },
      el("span", { class: "of" }, `${group}/`),
      address,
    );
    const close = el(
      "button",
      { type: "button", class: "quiet", onclick: () => this.#dialog.close() },
      "Close",
    );
    const state = el("p", { class: "state" });
    const facts = el("dl", { class: "facts" });
    const choice = el(
      "fieldset",
      { class: "choice", onchange: (event) => this.#charts.choose(event.target.value) },
      el("legend", { class: "unseen" }, "Time shown"),
      ...Object.entries({ fine: "5 minutes", coarse: "1 hour" }).map(([value, words]) =>
        el(
          "label",
          {},
          el("input", { type: "radio", name: "detail-span", value, checked: value === "fine" }),
          " ",
          el("span", {}, words),
        ),
      ),
    );
    const box = el("div", { class: "charts" });
    const events = el("ol", { class: "events" });
    const samples = el("ol", { class: "events" });
    const failovers = el("ol", { class: "failovers" });
    const failoversTitle = el("h3", {}, "Its last failover");
    const command = el("code");
    this.#parts = {
      state,
      facts,
      events,
      samples,
      command,
      samplesTitle: el("h3"),
      failovers,
      failoversTitle,
    };
    this.#dialog.replaceChildren(
      el("div", { class: "row" }, title, close),
      state,
      facts,
      el("div", { class: "row" }, el("h3", {}, "Its last minutes"), choice),
      box,
      failoversTitle,
      failovers,
      el("h3", {}, "What happened to it"),
      events,
      this.#parts.samplesTitle,
      samples,
      el("p", { class: "hint" }, "To take it out of service without cutting its flows: ", command),
    );
    this.#charts = new Charts(box, this.#live, `${group}/${address}`);
  }

  #draw() {
    const { group, address } = this.#open;
    const { state, facts, command } = this.#parts;
    say(command, `flowgate drain ${address} --target-group ${group}`);
    const target = this.#shown?.targets.find((one) => one.key === `${group}/${address}`);
    if (!target) {
      const words = this.#shown
        ? "There is no such target now. What happened to it in the last hour is below."
        : "Reading the gateway…";
      state.replaceChildren(words);
      facts.replaceChildren();
      return;
    }
    const { said } = target;
    const why = reason(said.Reason, said.Description);
    const words = `${target.state}${said.Since ? ` since ${moment(said.Since.UnixMs)}` : ""}${why ? `: ${why}` : ""}`;
    if (state.dataset.words !== words) {
      state.dataset.words = words;
      state.className = `state ${target.state}`;
      state.replaceChildren(sign(target.state), ` ${words}`);
    }
    sync(
      facts,
      this.#facts(target),
      ([name]) => name,
      ([name]) => el("div", {}, el("dt", {}, name), el("dd")),
      (box, [, value]) => say(box.lastElementChild, value),
    );
  }

  #facts(target) {
    const { said, group } = target;
    const now = this.#shown.at;
    const checks = said.Checks;
    const rows = [
      ["Live flows", `${count(target.flows)}; ${count(said.WouldDie)} would end with it`],
      ["Traffic", `${packets(target.to)} to it · ${packets(target.from)} returned · ${bits(target.bytes)}`],
      [
        "Silent",
        said.SilentForMs >= 100
          ? `returned nothing for ${duration(said.SilentForMs)}${target.to > 0 ? "" : ", and is sent nothing now"}`
          : "no",
      ],
      [
        "Flows reset",
        `${count(said.Traffic.ResetFlows)}; ${count(said.ResetFlowsLastMinute)} in the last minute`,
      ],
      ["Resets sent", resetsInWords(said.Traffic.Resets)],
      ["New flows", `${count(said.Traffic.NewFlows)} in all`],
      ["Weight and zone", `${count(said.Weight)} · ${said.Zone ?? "every zone"}`],
      ["When it fails", fate(group)],
    ];
    if (said.Since) rows.splice(0, 0, ["For", duration(now - said.Since.UnixMs)]);
    if (said.Drain)
      rows.splice(1, 0, [
        "Drain",
        `from ${clock(said.Drain.Started.UnixMs)} to ${clock(said.Drain.Ends.UnixMs)}, ${duration(Math.max(0, said.Drain.Ends.UnixMs - now))} to go`,
      ]);
    if (checks) {
      rows.push([
        "Checks",
        `${count(checks.Made)} made, ${count(checks.Failed)} failed; ${checks.FailuresInRow ? `${counted(checks.FailuresInRow, "failure")} in a row` : `${counted(checks.SuccessesInRow, "success", "successes")} in a row`}`,
      ]);
      if (checks.Last)
        rows.push([
          "Last check",
          `${clock(checks.Last.At.UnixMs, 3)}, ${checks.Last.LatencyMs.toFixed(1)} ms: ${checks.Last.Failure ? seenBy(checks.Last.Failure) : "passed"}`,
        ]);
    }
    rows.push([
      "Check",
      `${group.HealthCheck}, every ${duration(group.HealthCheckIntervalMs)}; a death is seen within ${duration(group.WorstDetectionTimeMs)} at worst`,
    ]);
    if (said.Neighbour)
      rows.push([
        "Reached by",
        said.Neighbour.Mac
          ? `${said.Neighbour.NextHop ?? target.address} at ${said.Neighbour.Mac} (${said.Neighbour.State})`
          : `nothing: ${said.Neighbour.State}`,
      ]);
    return rows;
  }

  #drawFailovers() {
    const { group, address } = this.#open;
    const { failovers, failoversTitle } = this.#parts;
    const [last] = this.#failovers.of(group, address);
    failoversTitle.hidden = failovers.hidden = !last;
    sync(failovers, last ? [last] : [], (record) => record.Id, makeRecord, updateRecord);
  }

  #drawEvents() {
    const { group, address } = this.#open;
    const { events, samples, samplesTitle } = this.#parts;
    const own = this.#timeline
      .since(this.#timeline.now() - SPANS.coarse.ms, group, address)
      .slice(-ENTRIES)
      .reverse();
    list(events, own, "Nothing in the last hour.");
    const single = this.#timeline.samples(group, address).slice(0, SAMPLES);
    samplesTitle.hidden = samples.hidden = single.length === 0;
    say(samplesTitle, "Flows that were reset (a sample)");
    list(samples, single, "");
  }
}

function list(element, entries, none) {
  if (entries.length === 0) {
    sync(
      element,
      [none],
      () => "none",
      () => el("li"),
      (item) => say(item, none),
    );
    return;
  }
  sync(
    element,
    entries,
    (entry) => `${entry.At.UnixMs} ${sentence({ ...entry, Count: 0 })}`,
    makeEntry,
    updateEntry,
  );
}

function resetsInWords(resets) {
  const all = Object.values(resets).reduce((sum, value) => sum + value, 0);
  if (all === 0) return "none";
  const names = {
    Unhealthy: "unhealthy",
    Deregistration: "deregistration",
    IdleTimeout: "idle timeout",
    NoFlow: "no flow",
    BothEnds: "other end",
    Proactive: "unasked",
  };
  const parts = Object.entries(resets)
    .filter(([, value]) => value > 0)
    .map(([name, value]) => `${count(value)} ${names[name] ?? name}`);
  return parts.length === 1
    ? `${count(all)}: ${parts[0].replace(/^\S+ /, "")}`
    : `${count(all)}: ${parts.join(", ")}`;
}

function fate(group) {
  if (group.Rebalances) return "its flows move to other targets";
  const on = [
    group.ResetsOnUnhealthy && "when it is unhealthy",
    group.ResetsOnDeregistration && "when its drain is over",
  ].filter(Boolean);
  return on.length
    ? `TCP flows are reset ${on.join(" and ")}`
    : "its flows hang until they time out: resets are off";
}
