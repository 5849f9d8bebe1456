// From two overviews to what is shown: rates, and what is wrong, in the gateway's words. Pure.

import { bits, count, counted, duration, moment, packets } from "./words.js";

// A count that fell is of a target that was registered anew: what it was before is not known.
const rateOf = (now, before, seconds) =>
  before === undefined || now < before ? 0 : (now - before) / seconds;
const sum = (values) => Object.values(values ?? {}).reduce((all, value) => all + value, 0);

/**
 * What the page shows, of the overview `now` and one some seconds before; without `before` there are no rates.
 */
export function digest(now, before) {
  // By the gateway's uptime, which no clock that is set moves.
  const seconds = before ? (now.Node.UptimeMs - before.Node.UptimeMs) / 1000 : 0;
  const rate = (of, earlier) => (earlier && seconds > 0 ? rateOf(of, earlier.value, seconds) : 0);
  const groupsBefore = new Map((before?.TargetGroups ?? []).map((group) => [group.Name, group]));
  const groups = now.TargetGroups.map((group) => {
    const targetsBefore = new Map(
      (groupsBefore.get(group.Name)?.Targets ?? []).map((target) => [target.Address, target]),
    );
    const targets = group.Targets.map((target) => {
      const earlier = targetsBefore.get(target.Address);
      const traffic = (name) => rate(target.Traffic[name], earlier && { value: earlier.Traffic[name] });
      return {
        key: `${group.Name}/${target.Address}`,
        group,
        address: target.Address,
        state: target.State,
        said: target,
        flows: target.Flows,
        resets: sum(target.Traffic.Resets),
        resetRate: rate(sum(target.Traffic.Resets), earlier && { value: sum(earlier.Traffic.Resets) }),
        to: traffic("PacketsToTarget"),
        from: traffic("PacketsFromTarget"),
        bytes: traffic("BytesToTarget") + traffic("BytesFromTarget"),
        opened: traffic("NewFlows"),
      };
    });
    const total = (of) => targets.reduce((all, target) => all + of(target), 0);
    return {
      name: group.Name,
      said: group,
      targets,
      flows: group.Flows,
      to: total((t) => t.to),
      from: total((t) => t.from),
      bytes: total((t) => t.bytes),
      opened: total((t) => t.opened),
      resetRate: total((t) => t.resetRate),
    };
  });
  const dropsBefore = before?.Totals.Drops ?? {};
  const drops = Object.entries(now.Totals.Drops)
    .map(([name, value]) => ({ name, rate: before ? rate(value, { value: dropsBefore[name] ?? 0 }) : 0 }))
    .filter((drop) => drop.rate > 0)
    .sort((a, b) => b.rate - a.rate);
  const shown = {
    at: now.At.UnixMs,
    node: now.Node,
    said: now,
    groups,
    drops,
    targets: groups.flatMap((group) => group.targets),
    endpoints: now.Endpoints,
    workers: workers(now, before),
    ports: ports(now, before, rate),
    flows: now.Totals.Flows,
    resets: sum(now.Totals.Resets),
    resetRate: rate(sum(now.Totals.Resets), before && { value: sum(before.Totals.Resets) }),
  };
  for (const name of ["to", "from", "bytes", "opened"])
    shown[name] = groups.reduce((all, group) => all + group[name], 0);
  shown.problems = problems(shown);
  return shown;
}

function workers(now, before) {
  const known = new Map((before?.Workers ?? []).map((worker) => [worker.Worker, worker]));
  return now.Workers.map((worker) => {
    const earlier = known.get(worker.Worker)?.Load;
    const cycles = earlier ? worker.Load.Cycles - earlier.Cycles : 0;
    const busyCycles = earlier ? worker.Load.BusyCycles - earlier.BusyCycles : 0;
    const received = earlier ? worker.Load.Received - earlier.Received : 0;
    return {
      said: worker,
      busy: cycles > 0 ? Math.min(1, busyCycles / cycles) : null,
      full: worker.Capacity > 0 ? worker.Flows / worker.Capacity : 0,
      received: cycles > 0 ? received / (cycles / worker.Load.CyclesPerSecond) : 0,
      cyclesPerPacket: received > 0 ? busyCycles / received : null,
    };
  });
}

function ports(now, before, rate) {
  const known = new Map((before?.Ports ?? []).map((port) => [port.PortName, port]));
  return now.Ports.map((port) => {
    const earlier = known.get(port.PortName);
    const grown = (name) => rate(port[name], earlier && { value: earlier[name] });
    return { said: port, received: grown("Received"), sent: grown("Sent"), missed: grown("Missed") };
  });
}

const LEVELS = { critical: "bad", warning: "warn", notice: "note" };

/**
 * What is wrong, as the gateway judges it, the worst first: `{level, key, text, live, todo, command, target}`. `text` is the
 * same from one second to the next as long as the matter is, so that a screen reader says it once; `live` goes on.
 */
function problems(shown) {
  const targets = new Set(shown.targets.map((target) => target.key));
  return shown.said.Troubles.map((trouble) => {
    const objects = trouble.Objects ?? [];
    const since = trouble.Since.UnixMs;
    return {
      level: LEVELS[trouble.Severity],
      key: `${trouble.Kind} ${objects[0] ?? ""}`,
      text: `${trouble.What}.`,
      live: [
        `since ${moment(since, shown.at)} (${duration(Math.max(0, shown.at - since))})`,
        ...(trouble.Figures ? [trouble.Figures] : []),
      ].join(" · "),
      todo: trouble.Severity === "notice" ? "" : trouble.ToDo,
      command: trouble.Command ?? "",
      target: objects.find((object) => targets.has(object)),
    };
  });
}

/** The first sentence on the page: how it stands. */
export function verdict(shown) {
  const { targets, problems: wrong } = shown;
  const inUse = targets.filter((target) => target.state !== "unused");
  const healthy = inUse.filter((target) => target.state === "healthy").length;
  const bad = wrong.filter((problem) => problem.level === "bad").length;
  const warn = wrong.filter((problem) => problem.level === "warn").length;
  const down = inUse.filter((target) => target.state === "unhealthy").length;
  if (targets.length === 0 && bad === 0) return { level: "note", text: "No targets are registered yet" };
  if (bad > 0 && down > 0)
    return {
      level: "bad",
      text: `${down} of ${counted(inUse.length, "target")} ${down === 1 ? "is" : "are"} down`,
    };
  if (bad > 0) return { level: "bad", text: bad === 1 ? "One thing is wrong" : `${bad} things are wrong` };
  if (warn > 0)
    return { level: "warn", text: warn === 1 ? "One thing needs a look" : `${warn} things need a look` };
  if (healthy < inUse.length)
    return {
      level: "note",
      text: `${healthy} of ${counted(inUse.length, "target")} ${healthy === 1 ? "is" : "are"} healthy, nothing is wrong`,
    };
  return {
    level: "good",
    text:
      inUse.length === 1
        ? "All is well: the one target is healthy"
        : `All is well: all ${count(inUse.length)} targets are healthy`,
  };
}

/** The figures under the verdict. */
export function figures(shown) {
  return [
    ["Live flows", count(shown.flows)],
    ["New flows", `${count(Math.round(shown.opened))} /s`],
    ["Traffic", bits(shown.bytes)],
    ["Sent to targets", packets(shown.to)],
    ["Returned", packets(shown.from)],
    [
      "Resets sent",
      shown.resetRate >= 0.5
        ? `${count(shown.resets)} (${count(Math.round(shown.resetRate))} /s)`
        : count(shown.resets),
    ],
    [
      "Dropped",
      shown.drops.length
        ? `${packets(shown.drops.reduce((all, drop) => all + drop.rate, 0))} (${shown.drops[0].name})`
        : "none",
    ],
  ];
}
