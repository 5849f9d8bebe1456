// From two overviews to what is shown: rates, and what is wrong, in words. Pure.

import { bits, clock, count, counted, duration, packets, reason, targetName } from "./words.js";

/** A worker that went no round for so long is in trouble (as `/readyz` has it). */
const SILENT_WORKER_MS = 1000;
/** A flow table fuller than this is told. */
const FULL = 0.9;
/** More unhealthy targets of a group than this are told as a number. */
const EACH = 3;

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
    balancers: balancers(now, before, rate),
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

function balancers(now, before, rate) {
  const known = new Map((before?.LoadBalancers ?? []).map((balancer) => [balancer.Name, balancer]));
  return now.LoadBalancers.map((balancer) => {
    const earlier = known.get(balancer.Name);
    const grown = (of) => rate(of(balancer), earlier && { value: of(earlier) });
    return {
      name: balancer.Name,
      said: balancer,
      held: grown((b) => sum(b.HeldResets)),
      rejected: grown((b) => b.RejectedFlows),
      failOpen: grown((b) => b.FailOpenFlows),
      stateless: grown((b) => b.StatelessPackets),
    };
  });
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

/**
 * What is wrong, the worst first: `{level, key, text, live, target}`. `text` is the same from one second to the next as
 * long as the matter is, so that a screen reader says it once; `live` goes on.
 */
export function problems(shown) {
  const found = [];
  const add = (level, key, text, live, target) => found.push({ level, key, text, live: live ?? "", target });
  // Workers that have stopped are told below, each.
  const out = shown.said.Readiness?.Missing ?? [];
  if (out.length > 0) {
    add(
      "warn",
      "readiness",
      "This node is not ready: whoever asks by /readyz is told to give it no traffic.",
      out.join("; "),
    );
  }
  for (const group of shown.groups) ofGroup(group, shown.at, add);
  for (const balancer of shown.balancers) ofBalancer(balancer, add);
  for (const endpoint of shown.endpoints) {
    if (!endpoint.LoadBalancer)
      add(
        "warn",
        `endpoint ${endpoint.Name}`,
        `The endpoint ${endpoint.Name} leads to no load balancer: its traffic is dropped.`,
      );
  }
  for (const { said: worker, full } of shown.workers) {
    if (worker.HeartbeatAgeMs > SILENT_WORKER_MS) {
      add(
        "bad",
        `worker ${worker.Worker}`,
        `Worker ${worker.Worker} on core ${worker.Core} has stopped.`,
        `No round for ${duration(worker.HeartbeatAgeMs)}`,
      );
    }
    if (full > FULL) {
      add(
        "warn",
        `table ${worker.Worker}`,
        `The flow table of worker ${worker.Worker} is nearly full.`,
        `${count(worker.Flows)} of ${count(worker.Capacity)}`,
      );
    }
  }
  for (const { said: port, missed } of shown.ports) {
    if (!port.LinkUp) add("bad", `port ${port.PortName}`, `The port ${port.PortName} has no link.`);
    if (missed > 0)
      add(
        "warn",
        `missed ${port.PortName}`,
        `The port ${port.PortName} loses packets before a worker sees them.`,
        packets(missed),
      );
  }
  const rank = { bad: 0, warn: 1, note: 2 };
  return found.sort((a, b) => rank[a.level] - rank[b.level]);
}

function ofGroup(group, now, add) {
  const { name, said, targets } = group;
  const of = (state) => targets.filter((target) => target.state === state);
  const registered = targets.filter(
    (target) => target.said.Reason !== "Target.NotRegistered" && target.state !== "draining",
  );
  const down = of("unhealthy");
  const since = (target) => target.said.Since?.UnixMs ?? now;
  if (said.LoadBalancer && registered.length > 0 && down.length === registered.length) {
    add(
      "bad",
      `none ${name}`,
      `No target of ${name} is healthy: flows are given to unhealthy ones all the same.`,
    );
  }
  if (said.LoadBalancer && registered.length === 0) {
    add("bad", `empty ${name}`, `${name} has no target: new flows of ${said.LoadBalancer} are refused.`);
  }
  const one = (target) => {
    const why = reason(target.said.Reason, target.said.Description);
    const fate = said.Rebalances
      ? "its flows move to others"
      : said.ResetsOnUnhealthy
        ? "its flows are reset as their packets come"
        : "its flows hang, as nothing resets or moves them";
    add(
      "bad",
      `down ${target.key}`,
      `${targetName(name, target.address)} is unhealthy since ${clock(since(target))}: ${why}. ${fate[0].toUpperCase()}${fate.slice(1)}.`,
      `${duration(now - since(target))} · ${counted(target.flows, "flow")} on it · ${counted(target.resets, "reset")} sent`,
      target.key,
    );
  };
  if (down.length <= EACH) down.forEach(one);
  else {
    const first = down.reduce((a, b) => (since(a) < since(b) ? a : b));
    const flows = down.reduce((all, target) => all + target.flows, 0);
    const resets = down.reduce((all, target) => all + target.resets, 0);
    add(
      "bad",
      `down ${name}`,
      `${down.length} of ${counted(registered.length, "target")} of ${name} are unhealthy, the first since ${clock(since(first))}: ${targetName(name, first.address)}.`,
      `${counted(flows, "flow")} on them · ${counted(resets, "reset")} sent`,
      first.key,
    );
  }
  const draining = of("draining");
  if (draining.length > EACH) {
    add(
      "note",
      `drains ${name}`,
      `${count(draining.length)} targets of ${name} drain.`,
      `${counted(
        draining.reduce((all, t) => all + t.flows, 0),
        "flow",
      )} left`,
    );
  } else {
    for (const target of draining) {
      const ends = target.said.Drain?.Ends.UnixMs;
      add(
        "note",
        `drain ${target.key}`,
        `${targetName(name, target.address)} drains${ends ? ` until ${clock(ends)}` : ""}.`,
        `${counted(target.flows, "flow")} left${ends > now ? ` · ${duration(ends - now)} to go` : ""}`,
        target.key,
      );
    }
  }
  for (const target of targets) {
    const { said: told } = target;
    if (told.SilentForMs >= 1000 && target.to > 0 && target.state === "healthy") {
      add(
        "warn",
        `silent ${target.key}`,
        `${targetName(name, target.address)} answers its checks and returns nothing of what it is sent.`,
        `For ${duration(told.SilentForMs)}`,
        target.key,
      );
    }
    if (told.Neighbour && !told.Neighbour.Mac && target.state !== "unused") {
      const why =
        told.Neighbour.State === "no-route"
          ? "there is no route to it"
          : "its link-layer address is not known";
      add(
        "warn",
        `neighbour ${target.key}`,
        `${targetName(name, target.address)} cannot be sent anything: ${why}.`,
        "",
        target.key,
      );
    }
    if (told.Reason === "Target.NotRegistered" && target.flows > 0) {
      add(
        "note",
        `gone ${target.key}`,
        `${targetName(name, target.address)} is not registered any more and still has flows.`,
        counted(target.flows, "flow"),
        target.key,
      );
    }
    if (target.state === "unavailable") {
      add(
        "warn",
        `unavailable ${target.key}`,
        `${targetName(name, target.address)} cannot be checked: ${reason(told.Reason, told.Description)}.`,
        "",
        target.key,
      );
    }
  }
}

function ofBalancer({ name, said, held, rejected, failOpen, stateless }, add) {
  if (!said.TargetGroup) add("warn", `listener ${name}`, `${name} has no listener: its traffic is dropped.`);
  if (held > 0)
    add("warn", `held ${name}`, `Resets of ${name} are held back by a guard.`, `${Math.ceil(held)} a second`);
  if (rejected > 0)
    add(
      "bad",
      `rejected ${name}`,
      `New flows of ${name} are refused, as no target is registered.`,
      `${Math.ceil(rejected)} a second`,
    );
  if (failOpen > 0)
    add(
      "bad",
      `open ${name}`,
      `New flows of ${name} are given to targets that are not healthy.`,
      `${Math.ceil(failOpen)} a second`,
    );
  if (stateless > 0)
    add(
      "warn",
      `stateless ${name}`,
      `The flow table is full: packets of ${name} are forwarded without state.`,
      packets(stateless),
    );
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
  if (down > 0)
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
