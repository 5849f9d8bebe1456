//! `flowgated` and the reflectors of a laboratory: their configuration, their start, and what a test
//! asks the daemon for.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::process::Process;
use super::rpc::{Events, Flow, Rpc, flow_of};
use super::traffic::{Connection, PATIENCE};
use super::{LEFT, Lab, MTU, RIGHT, Side, UNDER, UNDERLAY, UNDERLAY_MTU, mac_text, wait_for};

/// What the daemon becomes once it has started: a user that every machine has, and that has nothing.
pub const USER: &str = "nobody";

pub const LOAD_BALANCER: &str = "inspection";
pub const TARGET_GROUP: &str = "firewalls";

/// Between two health checks of a target.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Failures in a row that make a target unhealthy.
pub const UNHEALTHY_THRESHOLD: u32 = 2;
/// The port on which the reflectors answer health checks.
const CHECK_PORT: u16 = 80;
/// Flows that a worker can hold.
const FLOWS: u32 = 16_384;

/// The counters of what became of packets that were not dropped: with those of the drops they come to what was received (C-1).
pub const OUTCOMES: [&str; 6] = [
    "ForwardedPackets",
    "DeliveredPackets",
    "AnsweredPackets",
    "CrossedPackets",
    "HostPackets",
    "FromHostPackets",
];

/// The same, with its numbers.
pub fn daemons_user() -> nix::unistd::User {
    nix::unistd::User::from_name(USER).expect("users are listed").expect("there is one")
}

/// A running daemon. Its socket and what else it keeps are in the laboratory's folder.
pub struct Gateway {
    pub process: Process,
    pub rpc: Rpc,
    pub events: Events,
}

impl Gateway {
    /// Lets the daemon have no descriptors above `limit`, or as many as it ever may. What is open stays so.
    pub fn limit_descriptors(&self, limit: Option<u32>) {
        let pid = self.process.id().to_string();
        let user = daemons_user();
        let prlimit = |arguments: &[&str]| {
            // As its user, who may without a right of root's that containers lack.
            let mut command = std::process::Command::new("setpriv");
            let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
            command.args(["--reuid", &uid, "--regid", &gid, "--clear-groups", "prlimit", "--pid", &pid]);
            command.args(arguments);
            let output = command.output();
            let output = output.expect("prlimit is installed");
            assert!(output.status.success(), "prlimit {arguments:?}");
            String::from_utf8(output.stdout).expect("text")
        };
        let most = prlimit(&["--nofile", "--output", "HARD", "--noheadings"]);
        let limit = limit.map_or_else(|| most.trim().to_owned(), |limit| limit.to_string());
        prlimit(&[&format!("--nofile={limit}:")]);
    }

    /// The daemon's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The daemon's resident memory, in bytes.
    pub fn resident(&self) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).expect("it runs");
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
        pages.expect("a number of pages") * 4096
    }

    /// How long the daemon's workers and its control core have waited for a CPU while they could have run: what the machine
    /// did to them, be it another program on the same core or the kernel.
    pub fn waited_for_a_cpu(&self) -> Duration {
        let pid = self.process.id().to_string();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let waited = threads.filter_map(|thread| {
            let thread = thread.ok()?;
            let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
            if thread.file_name().to_str() != Some(&pid) && !name.starts_with("worker-") {
                return None;
            }
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        Duration::from_nanos(waited.sum::<u64>())
    }

    /// How many descriptors the daemon has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it runs").count()
    }
}

/// What a test's gateway has besides the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    pub target_group: &'a [(&'a str, &'a str)],
    pub listener: &'a [(&'a str, &'a str)],
}

/// How many workers the present laboratory's gateway has, if it was asked for.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Has the next laboratory's gateway as many workers as the others.
pub(super) fn forget_workers() {
    WORKERS.store(0, Ordering::Relaxed);
}

/// How many workers the gateways of this run have: the environment variable `FLOWGATE_TEST_WORKERS`, or
/// one.
pub fn workers() -> usize {
    let asked = WORKERS.load(Ordering::Relaxed);
    if asked > 0 {
        return asked;
    }
    std::env::var("FLOWGATE_TEST_WORKERS").ok().map_or(1, |workers| workers.parse().expect("a number"))
}

/// The device of port `n`: a kernel's interface, with a queue for each worker.
pub(super) fn device(n: usize, interface: &str) -> String {
    let ring = "framecnt=4096,blocksz=65536,framesz=2048";
    format!("net_af_packet{n},iface={interface},qpairs={},{ring}", workers())
}

impl Lab {
    /// A laboratory with `appliances` reflectors, all of them healthy, and a gateway that serves
    /// them.
    pub fn started(appliances: u8, attributes: Attributes<'_>) -> Self {
        Self::started_as(appliances, super::routed::Shape::Wire, attributes)
    }

    /// The same with another gateway.
    pub fn started_as(appliances: u8, shape: super::routed::Shape, attributes: Attributes<'_>) -> Self {
        let mut lab = Self::shaped(appliances, shape);
        lab.start_all(attributes);
        lab
    }

    /// Starts the reflectors and the gateway, and waits until all is well.
    pub fn start_all(&mut self, attributes: Attributes<'_>) {
        let lab = self;
        for n in 0..lab.appliances.len() {
            lab.start_reflector(n, &[]);
        }
        lab.write_configuration(attributes);
        lab.start_gateway();
        for n in 0..lab.appliances.len() {
            lab.wait_for_state(n, "healthy");
        }
    }

    /// Has the gateway keep its flow tables over a restart, and as many workers. To be asked for before its
    /// configuration is written.
    pub fn keep_tables(&mut self, workers: usize) {
        WORKERS.store(workers, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("flowgate-lab-").tempdir_in("/dev/shm");
        self.tables = Some(folder.expect("there is memory for files"));
    }

    /// The daemon, which runs.
    pub fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("the test has started the gateway")
    }

    /// A file of the laboratory's.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the daemon's two documents, with every appliance of the laboratory as a target.
    pub fn write_configuration(&self, attributes: Attributes<'_>) {
        std::fs::write(self.path("node.toml"), self.node_toml()).expect("the folder is writable");
        std::fs::write(self.path("objects.json"), self.objects(attributes).to_string())
            .expect("the folder is writable");
    }

    /// What every node of a laboratory has. The flow table is small and no worker polls, as machines that
    /// run tests have few cores and little memory.
    pub(super) fn node_head(&self) -> String {
        let folder = self.folder.path().display();
        let prefix = self.router.name();
        let cores: Vec<usize> = (0..workers()).collect();
        let tables = match &self.tables {
            Some(tables) => format!("directory = \"{}\"", tables.path().join("tables").display()),
            None => "keep = false".to_owned(),
        };
        format!(
            r#"
state_directory = "{folder}/state"
objects = "{folder}/objects.json"

[socket]
path = "{folder}/flowgated.sock"

[privileges]
user = "{USER}"

[eal]
hugepages = "never"
file_prefix = "{prefix}"

[workers]
cores = {cores:?}
control_cores = [0, 1]
flows = {FLOWS}
idle = "sleep"

[tables]
{tables}
"#
        )
    }

    /// The node: three ports, one wire endpoint between two of them.
    pub fn node_toml(&self) -> String {
        if self.shape != super::routed::Shape::Wire {
            return self.routed_toml();
        }
        let (left, right, under) = (device(0, LEFT), device(1, RIGHT), device(2, UNDER));
        let mut toml = self.node_head();
        toml += &format!(
            r#"
[[ports]]
name = "left"
device = "{left}"
mtu = {MTU}

[[ports]]
name = "right"
device = "{right}"
mtu = {MTU}

[[ports]]
name = "under"
device = "{under}"
mtu = {UNDERLAY_MTU}

[underlay]
port = "under"
address = "{UNDERLAY}/24"

[[endpoints]]
name = "office"
id = "0x1122334455667788"
attachment_id = 7
kind = "wire"
ports = ["left", "right"]
load_balancer = "{LOAD_BALANCER}"
"#
        );
        for appliance in &self.appliances {
            let mac = mac_text(appliance.mac);
            toml += &format!("\n[[neighbours]]\naddress = \"{}\"\nmac = \"{mac}\"\n", appliance.address);
        }
        toml
    }

    /// The objects: one load balancer, one group.
    pub fn objects(&self, attributes: Attributes<'_>) -> Value {
        let mut group: Map<String, Value> =
            attributes.target_group.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let interval = CHECK_INTERVAL.as_millis().to_string();
        for key in ["flowgate.health_check.interval_ms", "flowgate.health_check.timeout_ms"] {
            // A test may have its own.
            group.entry(key).or_insert_with(|| json!(interval));
        }
        let listener: Map<String, Value> =
            attributes.listener.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let targets: Vec<Value> =
            self.appliances.iter().map(|appliance| json!({"address": appliance.address})).collect();
        json!({
            "version": 1,
            "load_balancers": [{
                "name": LOAD_BALANCER,
                "ip_address_type": "dualstack",
                "listener": {"target_group": TARGET_GROUP, "attributes": listener},
            }],
            "target_groups": [{
                "name": TARGET_GROUP,
                "health_check": {
                    "protocol": "HTTP",
                    "port": CHECK_PORT,
                    "healthy_threshold": 1,
                    "unhealthy_threshold": UNHEALTHY_THRESHOLD,
                },
                "attributes": group,
                "targets": targets,
            }],
        })
    }

    /// Starts `flowgated` on the configuration that was written, and waits until it serves.
    pub fn start_gateway(&mut self) {
        let log = self.folder.path().to_owned();
        let config = self.path("node.toml");
        let mut command = self.router.command(env!("CARGO_BIN_EXE_flowgated"));
        command.arg("--config").arg(&config).arg("--debug-clock");
        let mut process = Process::start("flowgated", &mut command, &log);
        let rpc = Rpc::new(self.path("flowgated.sock"));
        wait_for("flowgated to listen on its socket", Duration::from_secs(20), || {
            process.must_run();
            rpc.answers().then_some(())
        });
        let events = rpc.subscribe();
        self.gateway = Some(Gateway { process, rpc, events });
    }

    /// Kills the daemon as a crash would.
    pub fn kill_gateway(&mut self) {
        self.gateway.take().expect("the test has started the gateway").process.kill();
    }

    /// Stops the daemon as an operator would.
    pub fn stop_gateway(&mut self) {
        let gateway = self.gateway.take().expect("the test has started the gateway");
        let status = gateway.process.terminate();
        assert!(status.success(), "flowgated ended with {status} after SIGTERM");
    }

    /// Stops the daemon and starts it again on what it kept.
    pub fn restart_gateway(&mut self) {
        self.stop_gateway();
        self.start_gateway();
        for n in 0..self.appliances.len() {
            self.wait_for_state(n, "healthy");
        }
    }

    /// Starts a reflector in appliance `n` (from 0).
    pub fn start_reflector(&mut self, n: usize, more: &[&str]) {
        let log = self.folder.path().to_owned();
        let appliance = &mut self.appliances[n];
        let mut command = appliance.netns.command(env!("CARGO_BIN_EXE_flowgate-reflector"));
        command.args(more);
        appliance.reflector = Some(Process::start(&format!("reflector-{}", n + 1), &mut command, &log));
    }

    /// Starts a reflector in appliance `n` that forwards, but answers no health check.
    pub fn start_reflector_without_checks(&mut self, n: usize) {
        self.start_reflector(n, &["--health", "refuse"]);
    }

    /// Kills the reflector of appliance `n` as a crash would; its machine stays up, so that its
    /// kernel refuses the next health check.
    pub fn kill_reflector(&mut self, n: usize) {
        self.appliances[n].reflector.take().expect("it runs").kill();
    }

    /// The reflector of appliance `n`, for a test that kills it while others use the laboratory.
    pub fn take_reflector(&mut self, n: usize) -> Process {
        self.appliances[n].reflector.take().expect("it runs")
    }

    /// Cuts appliance `n` off the network, or joins it again: nothing answers, not even a refusal.
    pub fn set_link(&self, n: usize, state: &str) {
        self.appliances[n].netns.ip(&format!("link set {} {state}", super::ETH));
    }

    /// The appliance whose address is `target`.
    pub fn appliance_at(&self, target: Ipv4Addr) -> usize {
        let found = self.appliances.iter().position(|appliance| appliance.address == target);
        found.unwrap_or_else(|| panic!("{target} is no appliance of this laboratory"))
    }

    /// Every flow that the gateway knows.
    pub fn flows(&self) -> Vec<Flow> {
        let result = self.gateway().rpc.must("describe-flows", json!({"Limit": 1000}));
        result["Flows"].as_array().expect("a list of flows").iter().map(flow_of).collect()
    }

    /// The live flow of a connection.
    pub fn flow_of(&self, connection: &Connection) -> Flow {
        let (client, server) = (connection.address(Side::Client), connection.address(Side::Server));
        self.flow_between(client, server)
            .unwrap_or_else(|| panic!("no flow {client} to {server} in {:?}", self.flows()))
    }

    /// The flow that `initiator` began with `responder`, if there is one.
    pub fn flow_between(&self, initiator: SocketAddr, responder: SocketAddr) -> Option<Flow> {
        self.flows().into_iter().find(|flow| flow.initiator == initiator && flow.responder == responder)
    }

    /// The appliance (from 0) through which a connection goes.
    pub fn appliance_of(&self, connection: &Connection) -> usize {
        self.appliance_at(self.flow_of(connection).target)
    }

    /// The state and the reason code of appliance `n`, if the gateway knows it.
    pub fn state_of(&self, n: usize) -> Option<(String, Option<String>)> {
        let address = json!(self.appliances[n].address);
        let result =
            self.gateway().rpc.must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}));
        let described = result["TargetHealthDescriptions"].as_array().expect("a list of targets");
        let health = &described.iter().find(|entry| entry["Target"]["Id"] == address)?["TargetHealth"];
        let reason = health["Reason"].as_str().map(str::to_owned);
        Some((health["State"].as_str().expect("a state").to_owned(), reason))
    }

    /// Waits until appliance `n` is in `state`.
    pub fn wait_for_state(&self, n: usize, state: &str) {
        wait_for(&format!("appliance {} to be {state}", n + 1), PATIENCE, || {
            self.state_of(n).filter(|(now, _)| now == state)
        });
    }

    /// Registers or deregisters appliance `n`.
    pub fn register(&self, n: usize) {
        self.change_registration("register-targets", n);
    }

    /// Registers or deregisters appliance `n`.
    pub fn deregister(&self, n: usize) {
        self.change_registration("deregister-targets", n);
    }

    fn change_registration(&self, method: &str, n: usize) {
        let targets = json!([{"Id": self.appliances[n].address}]);
        self.gateway().rpc.must(method, json!({"TargetGroupArn": TARGET_GROUP, "Targets": targets}));
    }

    /// Sets an attribute of the target group.
    pub fn set_group_attribute(&self, key: &str, value: &str) {
        let attributes = json!([{"Key": key, "Value": value}]);
        self.gateway().rpc.must(
            "modify-target-group-attributes",
            json!({"TargetGroupArn": TARGET_GROUP, "Attributes": attributes}),
        );
    }

    /// How appliance `n` stands by the traffic itself: packets sent, packets returned, and for how long
    /// it has been silent.
    pub fn inband_of(&self, n: usize) -> (u64, u64, Duration) {
        let targets = json!([{"Id": self.appliances[n].address}]);
        let result = self
            .gateway()
            .rpc
            .must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP, "Targets": targets}));
        let seen = &result["TargetHealthDescriptions"][0]["InBand"];
        let [to, from, silent] =
            ["PacketsToTarget", "PacketsFromTarget", "SilentForMs"].map(|name| number(seen, name));
        (to, from, Duration::from_millis(silent))
    }

    /// Sets the clock by which flows age forward.
    pub fn advance_clock(&self, by: Duration) {
        let ms = u32::try_from(by.as_millis()).expect("a test's leap is short");
        self.gateway().rpc.must("debug-advance-clock", json!({"Milliseconds": ms}));
    }

    /// The counters of the node (`node`), or of the one load balancer (`load-balancer`).
    pub fn counters(&self, scope: &str) -> Value {
        let mut result = self.gateway().rpc.must("get-counters", json!({"Scope": scope}));
        let sets = result["Sets"].as_array_mut().expect("a list of sets");
        assert_eq!(sets.len(), 1, "one {scope}: {sets:?}");
        sets[0].take()
    }

    /// Waits until a counter of the load balancer stands at `count`: a worker tells what it counted a moment after it
    /// has sent it.
    #[allow(dead_code, reason = "not the soak's")]
    pub fn wait_until_counted(&self, name: &str, count: u64) {
        let mut last = 0;
        wait_for(&format!("{name} to be {count}"), PATIENCE, || {
            last = self.counted(name);
            assert!(last <= count, "{name} is {last}, more than {count}");
            (last == count).then_some(())
        });
    }

    /// Waits until every worker goes by the last target's fall: one may still forward to it a moment after the control core
    /// has said so.
    #[allow(dead_code, reason = "not the soak's")]
    pub fn wait_until_applied(&self) {
        let workers =
            self.gateway().rpc.must("describe-workers", json!({}))["Workers"].as_array().map(Vec::len);
        wait_for("every worker to go by the target's fall", PATIENCE, || {
            let records = self.gateway().rpc.must("describe-failovers", json!({}));
            (records["Failovers"][0]["Applied"].as_array().map(Vec::len) == workers).then_some(())
        });
    }

    /// One counter of the load balancer.
    pub fn counted(&self, name: &str) -> u64 {
        number(&self.counters("load-balancer")["Counters"], name)
    }

    /// H-7: how long it took, at worst so far, from a health decision until the last worker went by it.
    pub fn slowest_condition(&self) -> Duration {
        Duration::from_micros(number(&self.counters("node")["Counters"], "SlowestConditionMicroseconds"))
    }

    /// Packets dropped so far for `reason`.
    pub fn dropped(&self, reason: &str) -> u64 {
        number(&self.counters("node")["Drops"], reason)
    }

    /// Packets that came in, once no more do: each of them is counted by what became of it (C-1).
    pub fn all_counted_at_rest(&self) -> u64 {
        let (received, accounted) = wait_for("the counters to be at rest", PATIENCE, || {
            let before = self.packet_sums();
            std::thread::sleep(Duration::from_millis(50));
            (self.packet_sums() == before).then_some(before)
        });
        assert_eq!(received, accounted, "C-1: {}", self.counters("node"));
        received
    }

    /// Packets that came in, and the sum of everything that became of packets (C-1).
    fn packet_sums(&self) -> (u64, u64) {
        let set = self.counters("node");
        let ended: u64 = OUTCOMES.iter().map(|name| number(&set["Counters"], name)).sum();
        let dropped: u64 =
            set["Drops"].as_object().expect("drops by reason").values().filter_map(Value::as_u64).sum();
        assert_eq!(dropped, number(&set["Counters"], "DroppedPackets"), "{set}");
        (number(&set["Counters"], "ReceivedPackets"), ended + dropped)
    }
}

fn number(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counters}"))
}
