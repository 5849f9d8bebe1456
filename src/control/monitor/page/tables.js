// Tables: every target, and the workers and ports. What is drawn elsewhere is here in words and numbers.

import { el, say, set, sign, sync } from "./dom.js";
import { bits, count, duration, moment, packets } from "./words.js";

/** Rows shown before somebody asks for all. */
const PAGE = 50;
const BAD_FIRST = ["unhealthy", "unavailable", "draining", "initial", "healthy", "unused"];

const COLUMNS = [
  {
    key: "state",
    name: "State",
    of: (t) => BAD_FIRST.indexOf(t.state),
    cell: (t) => [sign(t.state), ` ${t.said.Reason === "Target.NotRegistered" ? "not registered" : t.state}`],
  },
  {
    key: "address",
    name: "Target",
    of: (t) => t.address.split(".").reduce((all, part) => all * 256 + Number(part), 0),
    head: true,
  },
  { key: "group", name: "Group", of: (t) => t.group.Name, text: (t) => t.group.Name },
  { key: "zone", name: "Zone", of: (t) => t.said.Zone ?? "", text: (t) => t.said.Zone ?? "every" },
  {
    key: "weight",
    name: "Weight",
    of: (t) => t.said.Weight,
    text: (t) => count(t.said.Weight),
    number: true,
  },
  { key: "flows", name: "Flows", of: (t) => t.flows, text: (t) => count(t.flows), number: true },
  {
    key: "die",
    name: "Would end",
    title: "Flows that its sudden death would end",
    of: (t) => t.said.WouldDie,
    text: (t) => count(t.said.WouldDie),
    number: true,
  },
  { key: "to", name: "Sent to it", of: (t) => t.to, text: (t) => packets(t.to), number: true },
  { key: "from", name: "Returned", of: (t) => t.from, text: (t) => packets(t.from), number: true },
  { key: "bytes", name: "Traffic", of: (t) => t.bytes, text: (t) => bits(t.bytes), number: true },
  {
    key: "cut",
    name: "Flows reset",
    title: "Flows that a reset ended, however many of their ends were told",
    of: (t) => t.said.Traffic.ResetFlows,
    text: (t) => count(t.said.Traffic.ResetFlows),
    number: true,
  },
  { key: "resets", name: "Resets sent", of: (t) => t.resets, text: (t) => count(t.resets), number: true },
  {
    key: "since",
    name: "Since",
    of: (t) => t.said.Since?.UnixMs ?? 0,
    text: (t) => (t.said.Since ? moment(t.said.Since.UnixMs) : ""),
  },
];

export class Tables {
  #targets;
  #filter;
  #more;
  #body = el("tbody");
  #heads;
  #sort = { column: COLUMNS[0], up: true };
  #all = false;
  #shown = null;
  #workers;
  #ports;

  constructor(targets, filter, more, workers, ports) {
    this.#targets = targets;
    this.#filter = filter;
    this.#more = more;
    this.#heads = COLUMNS.map((column) =>
      el(
        "th",
        { scope: "col", class: column.number ? "number" : null, title: column.title },
        el(
          "button",
          { type: "button", onclick: () => this.#by(column) },
          column.name,
          el("span", { class: "arrow", "aria-hidden": "true" }),
        ),
      ),
    );
    targets.append(
      el("caption", { class: "unseen" }, "All targets"),
      el("thead", {}, el("tr", {}, ...this.#heads)),
      this.#body,
    );
    filter.addEventListener("input", () => this.#draw());
    more.addEventListener("click", () => {
      this.#all = true;
      this.#draw();
    });
    this.#workers = new Plain(workers, "Workers", [
      "Worker",
      "Core",
      "Busy",
      "Received",
      "Cycles a packet",
      "Flow table",
      "Last round",
      "Configuration",
    ]);
    this.#ports = new Plain(ports, "Ports", ["Port", "Link", "Received", "Sent", "Lost", "Driver", "MTU"]);
  }

  show(shown) {
    this.#shown = shown;
    this.#draw();
    this.#workers.show(
      shown.workers.map(({ said, busy, full, received, cyclesPerPacket }) => [
        String(said.Worker),
        String(said.Core),
        busy === null ? "" : `${Math.round(busy * 100)} %`,
        packets(received),
        cyclesPerPacket === null ? "" : count(Math.round(cyclesPerPacket)),
        `${count(said.Flows)} of ${count(said.Capacity)} (${Math.round(full * 100)} %)`,
        duration(said.HeartbeatAgeMs),
        String(said.Generation),
      ]),
    );
    this.#ports.show(
      shown.ports.map(({ said, received, sent, missed }) => [
        said.PortName,
        said.LinkUp ? "up" : "down",
        packets(received),
        packets(sent),
        said.Missed ? `${count(said.Missed)}${missed > 0 ? ` (${packets(missed)})` : ""}` : "none",
        said.Driver,
        count(said.Mtu),
      ]),
    );
  }

  #by(column) {
    const again = this.#sort.column === column;
    // Of numbers the largest is asked for first.
    this.#sort = { column, up: again ? !this.#sort.up : !column.number };
    this.#draw();
  }

  #draw() {
    if (!this.#shown) return;
    const words = this.#filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (target) => {
      const text =
        `${target.address} ${target.group.Name} ${target.said.Zone ?? ""} ${target.state} ${target.said.Reason ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const { column, up } = this.#sort;
    const order = (a, b) => {
      const [x, y] = [column.of(a), column.of(b)];
      const sign_ = x < y ? -1 : x > y ? 1 : 0;
      return (up ? sign_ : -sign_) || COLUMNS[1].of(a) - COLUMNS[1].of(b);
    };
    const wanted = this.#shown.targets.filter(matches).sort(order);
    const rows = this.#all ? wanted : wanted.slice(0, PAGE);
    this.#heads.forEach((head, n) => {
      const sorted = COLUMNS[n] === column;
      set(head, "aria-sort", sorted ? (up ? "ascending" : "descending") : null);
      say(head.querySelector(".arrow"), sorted ? (up ? " ▲" : " ▼") : "");
    });
    if (rows.length === 0) {
      const text = this.#shown.targets.length ? "No target matches." : "There are no targets.";
      sync(
        this.#body,
        [text],
        () => "none",
        () => el("tr", {}, el("td", { colspan: COLUMNS.length })),
        (row) => say(row.firstElementChild, text),
      );
    } else {
      sync(this.#body, rows, (target) => target.key, makeRow, updateRow);
    }
    this.#more.hidden = rows.length === wanted.length;
    say(this.#more, `Show all ${count(wanted.length)} targets`);
  }
}

function makeRow(target) {
  const link = el(
    "a",
    { href: `#target/${encodeURIComponent(target.group.Name)}/${target.address}` },
    target.address,
  );
  return el(
    "tr",
    {},
    ...COLUMNS.map((column) =>
      column.head
        ? el("th", { scope: "row" }, link)
        : el("td", { class: column.number ? "number" : column.key }),
    ),
  );
}

function updateRow(row, target) {
  COLUMNS.forEach((column, n) => {
    const cell = row.children[n];
    if (column.text) say(cell, column.text(target));
    else if (column.cell && cell.dataset.shown !== `${target.state}${target.said.Reason ?? ""}`) {
      cell.dataset.shown = `${target.state}${target.said.Reason ?? ""}`;
      cell.replaceChildren(...column.cell(target));
    }
  });
}

/** A table of text, by rows. */
class Plain {
  #body = el("tbody");

  constructor(table, caption, heads) {
    table.append(
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      this.#body,
    );
  }

  show(rows) {
    const make = (row) =>
      el("tr", {}, ...row.map((_, n) => (n === 0 ? el("th", { scope: "row" }) : el("td"))));
    sync(
      this.#body,
      rows,
      (row) => row[0],
      make,
      (element, row) => row.forEach((cell, n) => say(element.children[n], cell)),
    );
  }
}
