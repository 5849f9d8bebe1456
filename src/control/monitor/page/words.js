// Numbers, times and events, as people read them. Pure: nothing here knows of the page.

const THIN = "\u202f";
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** A count: `12,345`. */
export function count(value) {
  return whole.format(value);
}

/** `1 flow`, `12,345 flows`. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)}${"\u00a0"}${value === 1 ? one : many}`;
}

/** A number with a unit, shortened: `1.23 Mbit/s`. */
export function scaled(value, unit) {
  for (const [size, prefix] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ]) {
    if (Math.abs(value) >= size) {
      const divisor = prefix === "k" ? 1e3 : size;
      return `${short.format(value / divisor)}${THIN}${prefix}${unit}`;
    }
  }
  const plain = Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 10) / 10;
  return unit ? `${whole.format(plain)}${THIN}${unit}` : whole.format(plain);
}

/** A rate: `120 packets/s`. */
export const packets = (perSecond) => scaled(perSecond, "pkt/s");
/** Bytes per second as bits. */
export const bits = (bytesPerSecond) => scaled(bytesPerSecond * 8, "bit/s");

/** A minute and more, in its two largest units, as `flowgate report` and `flowgate top` write it: `2m 3s`, `3h 2m`, `4d 3h`. */
export function span(ms) {
  const seconds = Math.floor(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (hours === 0) return `${minutes}m ${seconds % 60}s`;
  if (hours < 24) return `${hours}h ${minutes % 60}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** A time that passed: `840 ms`, `3.2 s`, `42 s`, and from a minute on a `span`. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}${THIN}ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}${THIN}s`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)}${THIN}s`;
  return span(ms);
}

const two = (value) => String(value).padStart(2, "0");

/** A time of day where the reader is: `10:32:07`. */
export function clock(ms, digits = 0) {
  const time = new Date(ms);
  const plain = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  return digits ? `${plain}.${String(time.getMilliseconds()).padStart(3, "0")}` : plain;
}

/** A moment, with its day if that is not the day of `now`. */
export function moment(ms, now = Date.now()) {
  const day = new Date(ms);
  if (day.toDateString() === new Date(now).toDateString()) return clock(ms);
  return `${day.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })} ${clock(ms)}`;
}

/** A target as it is called everywhere: `GROUP/ADDRESS`. */
export const targetName = (group, address) => (address ? `${group}/${address}` : group);

/** What a check saw, without what is said beside it already: as the daemon says it of what is wrong. */
export function seenBy(description) {
  return (description ?? "")
    .replace(/^Health checks failed with these codes: /, "answered ")
    .replace(/^(Health checks failed|Request timed out): /, "")
    .replace(/ \(os error \d+\)/, "")
    .replace(/\.$/, "");
}

/** Why a target stands as it does. */
export function reason(code, description) {
  const words = {
    "Elb.RegistrationInProgress": "it is being registered",
    "Elb.InitialHealthChecking": "its first checks are running",
    "Target.Timeout": "its checks time out",
    "Target.ResponseCodeMismatch": "its checks answer with a wrong code",
    "Target.FailedHealthChecks": "its checks fail",
    "Target.NotRegistered": "it is not registered",
    "Target.NotInUse": "its group or zone is given no traffic here",
    "Target.DeregistrationInProgress": "it was deregistered",
    "Target.IpUnusable": "its address cannot be a target's",
    "Elb.InternalError": "this node cannot make its checks",
  }[code];
  if (!code) return description || "";
  const said = words ?? code;
  const seen = seenBy(description);
  // That they time out is said already.
  return seen && seen !== "Request timed out" ? `${said} (${seen})` : said;
}

const TRIGGERS = {
  unhealthy: "their target is unhealthy",
  deregistration: "their target was deregistered and its delay is over",
  "idle-timeout": "they had idled out",
  "no-flow": "their packets were of no flow",
  "both-ends": "the other end was told before",
  proactive: "their target is gone, told unasked",
};

/** What made resets. */
export const trigger = (name) => TRIGGERS[name] ?? name;

const ENDS = {
  recovered: "the target recovered",
  "failed-again": "the target failed again",
  deregistered: "the target was deregistered",
  "registered-again": "the target was registered again",
  "not-in-use": "the target is not in use any more",
  gone: "the target is gone, and has no flow left",
  "flows-left": "the target is gone, and some of its flows go on",
  interrupted: "the daemon ended",
};

/** Why a record ended. */
export const ending = (why) => ENDS[why] ?? why;

/** What kind of event an entry tells of: `health`, `resets`, `drains`, `failovers`, `config` or `lost`. */
export function kindOf(entry) {
  return (
    {
      TargetHealthChanged: "health",
      TargetSilent: "health",
      FlowsReset: "resets",
      TcpReset: "resets",
      FailoverStarted: "failovers",
      FailoverEnded: "failovers",
      DrainStarted: "drains",
      DrainEnded: "drains",
      ConfigChanged: "config",
      PortDown: "faults",
      PortUp: "faults",
      WorkerStuck: "faults",
      WorkerWentOn: "faults",
      WorkerPanicked: "faults",
      FlowTablesTakenOver: "faults",
      FlowTablesLost: "faults",
      EventsLost: "lost",
    }[entry.Event] ?? "other"
  );
}

/** The sign of an event. */
export function signOf(entry) {
  if (entry.Event === "TargetHealthChanged") return entry.To;
  if (entry.Event === "TargetSilent") return "warn";
  if (entry.Event === "FlowTablesTakenOver") return "note";
  if (kindOf(entry) === "faults") return "warn";
  return (
    { resets: "resets", drains: "drains", failovers: "failovers", config: "config", lost: "lost" }[
      kindOf(entry)
    ] ?? "note"
  );
}

/** An event in a sentence. */
export function sentence(entry) {
  const who = targetName(entry.TargetGroup, entry.Target);
  switch (entry.Event) {
    case "TargetHealthChanged": {
      const why = reason(entry.Reason, entry.Description);
      return `${who} is ${entry.To}, it was ${entry.From}${why ? `: ${why}` : ""}`;
    }
    case "TargetSilent":
      return `${who} returned nothing for ${duration(entry.SilentForMs)} and is checked out of turn`;
    case "FlowsReset": {
      const flows = counted(entry.Count, "reset");
      return `${flows} sent for ${entry.Target ? `flows of ${who}` : `packets at ${entry.LoadBalancer}`}: ${trigger(entry.Trigger)}`;
    }
    case "TcpReset":
      return `Reset sent to ${end(entry.SentTo, entry.SentToPort)}, from ${end(entry.Peer, entry.PeerPort)}: ${trigger(entry.Trigger)}`;
    case "DrainStarted":
      return `${who} drains, with ${counted(entry.Flows, "flow")}, until ${clock(entry.Ends.UnixMs)}`;
    case "DrainEnded":
      return `The drain of ${who} is over, with ${counted(entry.FlowsLeft, "flow")} left`;
    case "FailoverStarted":
      return `Failover ${entry.Id} of ${who} began, with ${counted(entry.Flows, "flow")}`;
    case "FailoverEnded":
      return `Failover ${entry.Id} of ${who} is over, as ${ending(entry.Why)}: of ${counted(entry.Flows, "flow")} ${count(entry.FlowsReset)} reset, ${count(entry.FlowsMoved)} moved, ${count(entry.FlowsLeft)} left`;
    case "ConfigChanged":
      return `The configuration changed: generation ${entry.Generation}`;
    case "PortDown":
      return `Port ${entry.Port} is down`;
    case "PortUp":
      return `Port ${entry.Port} is up again`;
    case "WorkerStuck":
      return `Worker ${entry.Worker} has gone no round for ${duration(entry.SilentForMs)}`;
    case "WorkerWentOn":
      return `Worker ${entry.Worker} goes on, it was stuck for ${duration(entry.StuckForMs)}`;
    case "WorkerPanicked":
      return `Worker ${entry.Worker} ended by a panic, and the daemon ends for it`;
    case "FlowTablesTakenOver":
      return `${counted(entry.Flows, "flow")} of the daemon before this one go on; nothing was forwarded for ${duration(entry.GapMs)}`;
    case "FlowTablesLost":
      return `The flow tables of the daemon before this one are lost: ${entry.Why}`;
    case "EventsLost":
      return `${counted(entry.Count, "event")} came too fast to be told`;
    default:
      return other(entry);
  }
}

// An event that this page does not know: its name and what it says, as words.
function other(entry) {
  const told = Object.entries(entry)
    .filter(
      ([name, value]) =>
        !["Event", "At", "Until", "Number", "Target", "TargetGroup"].includes(name) &&
        typeof value !== "object",
    )
    .map(([name, value]) => `${spaced(name)} ${value}`);
  const who = entry.TargetGroup ? ` (${targetName(entry.TargetGroup, entry.Target)})` : "";
  return `${spaced(entry.Event).replace(/^./, (letter) => letter.toUpperCase())}${who}${told.length ? `: ${told.join(", ")}` : ""}`;
}

const spaced = (name) => name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
const end = (address, port) => (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);
