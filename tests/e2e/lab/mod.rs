//! The laboratory: a client, a server, a gateway and its appliances as network namespaces joined by
//! veth pairs, with real kernels at every end.
//!
//! ```text
//!  client                       gateway                       server
//!  192.0.2.10 ──────────── left         right ──────────── 192.0.2.20
//!  2001:db8::10     (transparent wire: one subnet, no         2001:db8::20
//!                    address of the gateway's on it)
//!                           under 198.51.100.1
//!                                  │
//!                              a bridge
//!                              │      │
//!                        appliance 1  appliance 2 …
//!                        198.51.100.11  .12
//! ```
//!
//! Or the gateway is the router between client and server ([`Shape::Routed`]): the same addresses in two
//! networks, 192.0.2.0/28 and .16/28, 2001:db8::10/124 and ::20/124, with the gateway at their first
//! addresses.
//!
//! The names start with `fg-PID-`, so that labs of several runs never meet. A [`Lab`] takes all of
//! it away when dropped, in a failing test too, and ends only what it started. One process has one
//! lab at a time: its tests measure time, and would disturb each other.

pub mod capture;
pub mod frames;
pub mod gateway;
pub mod netns;
pub mod process;
pub mod prometheus;
pub mod routed;
pub mod rpc;
pub mod tap;
pub mod tmux;
pub mod traffic;
pub mod trunk;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netns::{Netns, ip};
use process::Process;

pub const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
pub const SERVER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
pub const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x20);
pub const UNDERLAY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 1];
pub const UNDERLAY_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];

/// The interface of the client, of the server and of each appliance, in its own namespace.
pub const ETH: &str = "eth0";
/// The gateway's interfaces.
pub const LEFT: &str = "left";
pub const RIGHT: &str = "right";
pub const UNDER: &str = "under";
/// The underlay's interface towards the gateway.
pub const TO_GATEWAY: &str = "gateway";

/// The client's and server's MTU; the underlay has room for the 68 bytes that GENEVE adds.
const MTU: u16 = 1500;
const UNDERLAY_MTU: u16 = 1600;

/// What a machine whose few cores others have too may keep any thread waiting for, be it a test's, a worker or the control
/// core. Where a test says how soon something is to be, it leaves room for this.
pub const PAUSE: Duration = Duration::from_millis(500);

/// The inner protocol version of a test that is done for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub fn client(self) -> IpAddr {
        match self {
            Self::V4 => CLIENT_V4.into(),
            Self::V6 => CLIENT_V6.into(),
        }
    }

    pub fn server(self) -> IpAddr {
        match self {
            Self::V4 => SERVER_V4.into(),
            Self::V6 => SERVER_V6.into(),
        }
    }
}

/// Which end of a connection a test is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// One appliance's machine, with or without a reflector running in it.
pub struct Appliance {
    pub netns: Netns,
    pub address: Ipv4Addr,
    pub mac: [u8; 6],
    reflector: Option<Process>,
}

impl Appliance {
    /// Whether a reflector was started in it and not killed.
    #[allow(dead_code, reason = "the soak's alone")]
    pub fn is_running(&self) -> bool {
        self.reflector.is_some()
    }
}

/// The laboratory. Fields are dropped in their order: programs before the namespaces they run in.
pub struct Lab {
    pub gateway: Option<gateway::Gateway>,
    pub appliances: Vec<Appliance>,
    pub client: Netns,
    pub server: Netns,
    pub router: Netns,
    /// The machine whose bridge the appliances and the gateway are on. What the gateway sends to them
    /// is seen here and not at its own interface: af_packet sends past the taps.
    pub underlay: Netns,
    /// How the gateway is between client and server.
    pub shape: routed::Shape,
    /// A client and a server with the same addresses as the others, behind ports of their own.
    pub twins: Option<(Netns, Netns)>,
    /// The tagged links of a [`Shape::Trunk`](routed::Shape).
    pub trunks: Vec<trunk::Trunk>,
    pub folder: tempfile::TempDir,
    /// Where the gateway keeps its flow tables over a restart; `None`: it does not.
    pub tables: Option<tempfile::TempDir>,
    _only_one: MutexGuard<'static, ()>,
}

impl Lab {
    /// Builds the machines and the links, the gateway a wire. Nothing runs in them yet.
    pub fn new(appliances: u8) -> Self {
        Self::shaped(appliances, routed::Shape::Wire)
    }

    /// The same with another gateway.
    pub fn shaped(appliances: u8, shape: routed::Shape) -> Self {
        static ONLY_ONE: Mutex<()> = Mutex::new(());
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // A failed test poisons the lock; the lab it had is gone all the same.
        let only_one = ONLY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("fg-{}-{number}-{what}", std::process::id());

        let client = Netns::create(name("client"));
        let server = Netns::create(name("server"));
        let router = Netns::create(name("gateway"));
        let underlay = Netns::create(name("underlay"));

        // The kernel of the gateway must neither answer for nor forward what crosses the wire.
        router.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        router.sysctl("net/ipv4/ip_forward", "0");
        underlay.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        underlay.ip("link add bridge type bridge stp_state 0 mcast_snooping 0");
        underlay.ip(&format!("link set bridge mtu {UNDERLAY_MTU} up"));

        let trunks = shape.join(&router, (&client, LEFT), (&server, RIGHT));
        link((&router, UNDER, Some(UNDERLAY_MAC)), (&underlay, TO_GATEWAY, None), UNDERLAY_MTU);
        underlay.ip(&format!("link set {TO_GATEWAY} master bridge"));
        shape.address_router(&router);
        for (host, side) in [(&client, Side::Client), (&server, Side::Server)] {
            shape.address_host(host, side);
        }

        let appliances = (1..=appliances)
            .map(|n| {
                let netns = Netns::create(name(&format!("a{n}")));
                let mac = [2, 0, 0, 0, 4, n];
                let address = Ipv4Addr::new(198, 51, 100, 10 + n);
                netns.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
                let port = format!("a{n}");
                link((&netns, ETH, Some(mac)), (&underlay, &port, None), UNDERLAY_MTU);
                underlay.ip(&format!("link set {port} master bridge"));
                netns.ip(&format!("addr add {address}/24 dev {ETH}"));
                Appliance { netns, address, mac, reflector: None }
            })
            .collect();

        let folder = tempfile::Builder::new().prefix("flowgate-lab-").tempdir().expect("a temporary folder");
        // The daemon takes its socket away as the user that it is then.
        let user =
            nix::unistd::User::from_name(gateway::USER).expect("users are listed").expect("there is one");
        nix::unistd::chown(folder.path(), Some(user.uid), Some(user.gid)).expect("as root");
        Self {
            gateway: None,
            appliances,
            client,
            server,
            router,
            underlay,
            shape,
            twins: None,
            trunks,
            folder,
            tables: None,
            _only_one: only_one,
        }
    }

    /// The machine at one end of the wire.
    pub fn host(&self, side: Side) -> &Netns {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// Joins client and server by a plain bridge where the gateway would be: what a test asks of
    /// the network is first asked of this, so that its failure is the gateway's.
    pub fn bridge_instead_of_gateway(&self) {
        self.router.ip("link add bridge type bridge stp_state 0 mcast_snooping 0");
        self.router.ip("link set bridge up");
        for port in [LEFT, RIGHT] {
            self.router.ip(&format!("link set {port} master bridge"));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        gateway::forget_workers();
        if thread::panicking() {
            self.report();
        }
    }
}

impl Lab {
    /// What the gateway counted and what the programs printed, for whoever reads a failed test.
    fn report(&self) {
        if let Some(gateway) = self.gateway.as_ref().filter(|gateway| gateway.rpc.answers()) {
            for (method, params) in [
                ("get-counters", serde_json::json!({"Scope": "node"})),
                ("describe-flows", serde_json::json!({})),
            ] {
                match gateway.rpc.call(method, params) {
                    Ok(said) | Err(said) => eprintln!("---- {method}\n{said}"),
                }
            }
        }
        let Ok(entries) = std::fs::read_dir(self.folder.path()) else { return };
        for path in entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "log"))
        {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(40)..];
            eprintln!("---- {} (last {} lines)\n{}", path.display(), last.len(), last.join("\n"));
        }
    }
}

/// A veth pair with checksums and segments made in software: af_packet hands packets on as the
/// sender's kernel left them, and a veth's kernel leaves both to hardware that is not there.
pub fn link(one: (&Netns, &str, Option<[u8; 6]>), other: (&Netns, &str, Option<[u8; 6]>), mtu: u16) {
    let mtu = mtu.to_string();
    ip(&[
        "link",
        "add",
        one.1,
        "netns",
        one.0.name(),
        "mtu",
        &mtu,
        "type",
        "veth",
        "peer",
        "name",
        other.1,
        "netns",
        other.0.name(),
        "mtu",
        &mtu,
    ]);
    for (netns, interface, mac) in [one, other] {
        if let Some(mac) = mac {
            netns.ip(&format!("link set {interface} address {}", mac_text(mac)));
        }
        netns.output(&format!("ethtool -K {interface} tx off rx off tso off gso off gro off"));
        netns.ip(&format!("link set {interface} up"));
    }
}

/// A link-layer address as people write it.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// So many flows in words.
pub fn flows(number: u64) -> String {
    if number == 1 { "1 flow".to_owned() } else { format!("{number} flows") }
}

/// Looks again and again until there is an answer; gives up with a sentence that says what it
/// waited for.
pub fn wait_for<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < within, "waited {within:?} in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The wall clock, as tcpdump stamps packets.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set")
}
