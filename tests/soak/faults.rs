//! What is done to the gateway, its appliances and its links: each fault with what ends it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::lab::gateway::{LOAD_BALANCER, TARGET_GROUP};
use crate::lab::process::Process;
use crate::lab::traffic::PATIENCE;
use crate::lab::{LEFT, RIGHT, UNDER, now, wait_for};
use crate::soak::Soak;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An appliance's program dies.
    Crash,
    /// An appliance answers no health checks, and goes on to forward.
    Sick,
    /// An appliance's link goes down.
    Cut,
    /// One of the gateway's own links goes down.
    Link,
    Deregister,
    Attributes,
    Capture,
    FlowLog,
    /// The workers' clock leaps: flows idle out.
    Leap,
    /// The control core panics, in a daemon that can be made to.
    Panic,
    /// The configuration is read anew, with another level of the log.
    Reload,
    /// The daemon is stopped as an operator does, and started: it takes the flow tables over.
    Restart,
    /// It is killed, and started, and takes them over.
    Kill,
    /// It is killed, its flow tables are damaged, and it is started: flows are adopted.
    Damage,
}

/// Each with how often it comes among the others; the daemon's ends have times of their own.
const OFTEN: [(Fault, u64); 11] = [
    (Fault::Crash, 5),
    (Fault::Sick, 5),
    (Fault::Cut, 4),
    (Fault::Link, 3),
    (Fault::Deregister, 6),
    (Fault::Attributes, 6),
    (Fault::Capture, 3),
    (Fault::FlowLog, 3),
    (Fault::Leap, 2),
    (Fault::Panic, 2),
    (Fault::Reload, 2),
];

/// What ends a fault.
pub enum Undo {
    Reflector(usize),
    Uncut(usize),
    LinkUp(&'static str),
    Register(usize),
    EndCapture(Process),
    EndFlowLog,
}

/// A fault by chance.
pub fn choose(chance: &mut Chance) -> Fault {
    let all: u64 = OFTEN.iter().map(|(_, often)| often).sum();
    let mut number = chance.below(all);
    for (fault, often) in OFTEN {
        if number < often {
            return fault;
        }
        number -= often;
    }
    Fault::Crash
}

impl Soak {
    /// Does it, unless there is nothing to do it to now, and says what was done.
    pub fn inflict(&mut self, fault: Fault) {
        let appliance = usize::try_from(self.chance.below(self.lab.appliances.len() as u64)).expect("few");
        let number = appliance + 1;
        let whole = !self.troubled.contains(&appliance);
        let lasts = Duration::from_millis(self.chance.between(300, 6000));
        match fault {
            Fault::Crash if whole => {
                self.did(fault, format!("appliance {number} crashes"));
                self.lab.kill_reflector(appliance);
                self.later(lasts, Undo::Reflector(appliance), Some(appliance));
            }
            Fault::Sick if whole => {
                self.did(fault, format!("appliance {number} refuses health checks and forwards"));
                self.lab.kill_reflector(appliance);
                self.lab.start_reflector_without_checks(appliance);
                self.later(lasts, Undo::Reflector(appliance), Some(appliance));
            }
            Fault::Cut if whole => {
                self.did(fault, format!("appliance {number}'s link goes down"));
                self.lab.set_link(appliance, "down");
                self.later(lasts, Undo::Uncut(appliance), Some(appliance));
            }
            Fault::Link => {
                let link = self.chance.of(&[LEFT, RIGHT, UNDER]);
                if !self.links_down.contains(&link) {
                    self.did(fault, format!("the gateway's link {link} goes down"));
                    if link == UNDER {
                        self.history.went_blind(now());
                    }
                    self.lab.router.ip(&format!("link set {link} down"));
                    self.links_down.push(link);
                    self.later(lasts / 4, Undo::LinkUp(link), None);
                }
            }
            Fault::Deregister if !self.away.contains(&appliance) => {
                let target = self.lab.appliances[appliance].address;
                self.did(fault, format!("target {number} ({target}) is deregistered"));
                let before = now();
                self.lab.deregister(appliance);
                self.history.deregistered(target, before);
                self.may_begin_anew.push(target);
                self.history.state(target, "draining", before);
                self.away.push(appliance);
                self.later(lasts, Undo::Register(appliance), None);
            }
            Fault::Attributes => {
                let (group, listener) = attributes(&mut self.chance);
                self.set(&group, &listener);
            }
            Fault::Capture if self.captures < 3 => {
                self.did(fault, "a capture of everything begins".to_owned());
                let file = self.lab.path("captured.pcapng");
                let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flowgate"));
                command
                    .arg("--socket")
                    .arg(self.lab.path("flowgated.sock"))
                    .args(["capture", "--write"])
                    .arg(file);
                let process = Process::start("capture", &mut command, self.lab.folder.path());
                self.captures += 1;
                self.later(lasts, Undo::EndCapture(process), None);
            }
            Fault::FlowLog if !self.flow_log => {
                self.did(fault, "a flow log begins".to_owned());
                self.ask("start-flow-log", json!({"File": "flows.jsonl"}));
                self.flow_log = true;
                self.later(lasts, Undo::EndFlowLog, None);
            }
            Fault::Leap => {
                let by = self.chance.of(&[11, 61, 121, 400]);
                self.did(fault, format!("the workers' clock leaps by {by} s"));
                self.history.leapt(now());
                self.lab.advance_clock(Duration::from_secs(by));
                self.history.leapt(now());
            }
            Fault::Panic if self.can_panic => {
                self.did(fault, "the control core panics".to_owned());
                self.hear();
                self.history.went_deaf(now());
                // Whoever asks for it is not answered.
                self.lab.gateway().rpc.send("debug-put-fault", json!({"Fault": "control-panic"}));
                self.listen_again();
                self.panic_is_told();
            }
            Fault::Reload => self.reload(),
            Fault::Restart => self.restart(fault, "stopped (SIGTERM)"),
            Fault::Kill => self.restart(fault, "killed (SIGKILL)"),
            Fault::Damage => self.restart(fault, "killed (SIGKILL), and its flow tables are damaged"),
            _ => {}
        }
    }

    /// Ends a fault.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Reflector(n) => {
                self.note(format!("appliance {} is started again", n + 1));
                if self.lab.appliances[n].is_running() {
                    self.lab.kill_reflector(n);
                }
                self.lab.start_reflector(n, &[]);
                self.troubled.retain(|other| *other != n);
            }
            Undo::Uncut(n) => {
                self.note(format!("appliance {}'s link comes up", n + 1));
                self.lab.set_link(n, "up");
                self.troubled.retain(|other| *other != n);
            }
            Undo::LinkUp(link) => {
                self.note(format!("the gateway's link {link} comes up"));
                self.lab.router.ip(&format!("link set {link} up"));
                if link == UNDER {
                    self.history.sees_again(now());
                }
                self.links_down.retain(|other| *other != link);
            }
            Undo::Register(n) => {
                let target = self.lab.appliances[n].address;
                self.note(format!("target {} ({target}) is registered again", n + 1));
                self.history.state(target, "initial", now());
                self.lab.register(n);
                self.away.retain(|other| *other != n);
            }
            Undo::EndCapture(process) => {
                self.note("the capture ends".to_owned());
                process.kill();
                self.captures -= 1;
            }
            Undo::EndFlowLog => {
                self.note("the flow log ends".to_owned());
                self.flow_log = false;
                self.ask("stop-flow-log", json!({}));
            }
        }
    }

    fn restart(&mut self, fault: Fault, how: &str) {
        self.did(fault, format!("the daemon is {how}"));
        self.end_of_life();
        self.history.went_down(now());
        if fault == Fault::Restart {
            self.lab.stop_gateway();
        } else {
            self.lab.kill_gateway();
        }
        if fault == Fault::Damage {
            let tables = self.lab.tables.as_ref().expect("they are kept").path().join("tables");
            let worker = tables.join("worker-0");
            let table = std::fs::File::options().write(true).open(worker).expect("it is there");
            // In its header.
            std::os::unix::fs::FileExt::write_all_at(&table, b"damaged!", 8).expect("it is writable");
            self.damaged = true;
        }
        self.begin_life();
    }

    /// Has the daemon read its configuration anew, and waits until it goes by it.
    fn reload(&mut self) {
        let level = self.chance.of(&["info", "warn"]);
        self.did(Fault::Reload, format!("the configuration is read anew, with log.level = {level}"));
        let node = format!("{}\n[log]\nlevel = \"{level}\"\n", self.lab.node_toml());
        std::fs::write(self.lab.path("node.toml"), node).expect("the folder is writable");
        let pid = nix::unistd::Pid::from_raw(self.lab.gateway().id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("it runs");
        wait_for("the new level of the log", PATIENCE, || {
            let told = self.lab.gateway().rpc.must("describe-log-level", json!({}));
            (told["Configured"] == level).then_some(())
        });
    }

    /// Sets attributes, and remembers from when on they hold.
    pub fn set(&mut self, group: &[(&str, &str)], listener: &[(&str, &str)]) {
        let told: Vec<String> =
            group.iter().chain(listener).map(|(key, value)| format!("{key}={value}")).collect();
        self.did(Fault::Attributes, format!("attributes are set: {}", told.join(", ")));
        let list = |all: &[(&str, &str)]| -> Value {
            all.iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect()
        };
        let asked = now();
        self.ask(
            "modify-target-group-attributes",
            json!({"TargetGroupArn": TARGET_GROUP, "Attributes": list(group)}),
        );
        let listeners = self.ask("describe-listeners", json!({"LoadBalancerArn": LOAD_BALANCER}));
        let arn = listeners["Listeners"][0]["ListenerArn"].clone();
        self.ask("modify-listener-attributes", json!({"ListenerArn": arn, "Attributes": list(listener)}));
        let done = now();
        for (key, value) in group.iter().chain(listener) {
            self.history.attribute(key, value, asked, done);
        }
    }
}

/// Attributes.
type Set = Vec<(&'static str, &'static str)>;

/// All attributes of the target group and of the listener that a soak changes, as chance has it and as may stand beside each
/// other.
pub fn attributes(chance: &mut Chance) -> (Set, Set) {
    let mut on = |one_in| if chance.one_in(one_in) { "true" } else { "false" };
    let (sticky, moves) = (on(4), on(3));
    let free = sticky == "false" && moves == "false";
    let mut reset = || if free { on(2) } else { "false" };
    let (unhealthy, gone) = (reset(), reset());
    let failover = if moves == "true" { "rebalance" } else { "no_rebalance" };
    let (both_ends, proactive, idle) = (on(2), on(2), on(3));
    let group = vec![
        ("stickiness.enabled", sticky),
        ("target_failover.on_deregistration", failover),
        ("target_failover.on_unhealthy", failover),
        ("send_tcp_reset.on_unhealthy.enabled", unhealthy),
        ("send_tcp_reset.on_deregistration.enabled", gone),
        ("flowgate.reset.both_ends", both_ends),
        ("flowgate.reset.proactive", proactive),
        ("deregistration_delay.timeout_seconds", chance.of(&["0", "1", "4"])),
    ];
    let unknown = chance.of(&["drop", "drop", "adopt", "reset"]);
    let listener = vec![
        ("send_tcp_reset.on_idle_timeout.enabled", idle),
        ("flowgate.tcp.unknown_flow", unknown),
        ("flowgate.tcp.mss_clamp", chance.of(&["true", "false"])),
    ];
    (group, listener)
}
