//! What can be asked for on the command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use super::appliance::Behaviour;
use super::attack::Kind as Attack;
use super::attack::crowd::Doors;
use super::devices::Refusal;
use super::frames::LONGEST;
use super::measure::Played;
use super::names::{MAX_FLOWS, Way};

/// Drives a gateway with load: plays its clients, its servers and its appliances, and says what was lost, what
/// came back wrong and how long it took.
#[derive(Clone, Debug, Parser)]
#[command(name = "flowgate-load", version, after_help = "Documentation: docs/load-testing.md.")]
pub struct Options {
    /// Where the gateway's sockets are: `clients.sock`, `servers.sock` and `targets.sock` in this folder.
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["own_gateway", "clients", "servers", "appliances"])]
    pub dir: Option<PathBuf>,

    /// What the sockets in the folder are.
    #[arg(long, value_enum, default_value_t = Kind::Memif)]
    pub devices: Kind,

    /// Runs a gateway of one worker in this process, without a daemon: a quick look.
    #[arg(long = "self", conflicts_with_all = ["dir", "clients", "servers", "appliances", "write_config"])]
    pub own_gateway: bool,

    /// The device on which the clients are, such as 0000:3b:00.0. Without --dir, only the sides whose devices are
    /// given are played.
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir")]
    pub clients: Option<String>,

    /// The device on which the servers are.
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir")]
    pub servers: Option<String>,

    /// The device on which the appliances are.
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir")]
    pub appliances: Option<String>,

    /// Writes node.toml and objects.json into --dir, for a daemon that this load fits, and ends.
    #[arg(long, requires = "dir")]
    pub write_config: bool,

    /// Established flows.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FLOWS)))]
    pub flows: u32,

    /// Flows a second that end by FINs, with as many new ones in their place.
    #[arg(long, value_name = "PER SECOND", default_value_t = 0)]
    pub new_flows: u64,

    /// Length of the data frames with their check sequence, 64 to 1518, or `imix`: 7 of 64, 4 of 594, 1 of 1518.
    #[arg(long, default_value = "64")]
    pub size: Sizes,

    /// Which ends send data.
    #[arg(long, value_enum, default_value_t = Direction::Both)]
    pub direction: Direction,

    /// Data packets a second, both ways together; without it as many as the gateway takes.
    #[arg(long, value_name = "PER SECOND")]
    pub rate: Option<u64>,

    /// SYNs a second that belong to no flow.
    #[arg(long, value_name = "PER SECOND", default_value_t = 0)]
    pub syn_flood: u64,

    /// Attacks the gateway beside the flows: `all`, or some of the attacks in docs/load-testing.md, with commas. Rounds
    /// without an attack and rounds with it take turns; --duration is that of one.
    #[arg(long, value_name = "ATTACKS", default_value = "", conflicts_with_all = ["own_gateway", "find_rate", "die", "recover", "new_flows", "syn_flood"])]
    pub attack: Attacks,

    /// Packets a second of an attack, or `max`: as many as can be made, and then what the flows lose is no fault.
    #[arg(long, value_name = "PER SECOND", default_value = "100000")]
    pub attack_rate: AttackRate,

    /// Rounds without each attack, and as many with it.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// The gateway's control socket, from which attacks read what they were counted as; `flowgated.sock` in --dir.
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,

    /// The gateway's elbv2 endpoint, for slow clients of it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6080")]
    pub elbv2: SocketAddr,

    /// The gateway's monitoring endpoint, for slow clients of it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6082")]
    pub monitor: SocketAddr,

    /// With --write-config: the gateway is a router between clients and servers (a `routed` endpoint), not on a wire.
    #[arg(long, conflicts_with = "own_gateway")]
    pub routed: bool,

    /// The share of flows, and of an attack's packets, that have IPv6, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub ipv6: f64,

    /// Seconds of load, after all flows are open.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub duration: Duration,

    /// Seconds between the first health check of every target and the first flow: what the gateway takes to believe it.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub settle: Duration,

    /// The targets' addresses, or how many there are from 198.51.100.11 on.
    #[arg(long, value_name = "N|ADDRESSES", default_value = "4")]
    pub targets: Targets,

    /// The share of packets that appliances swallow, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub appliance_loses: f64,

    /// How long appliances keep each packet.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    pub appliance_delay: u64,

    /// Lets a target die: `2@5` is the second one, 5 seconds after the load has begun. It swallows everything and
    /// answers no health check. May be given several times.
    #[arg(long, value_name = "TARGET@SECOND")]
    pub die: Vec<Moment>,

    /// Lets a target live again.
    #[arg(long, value_name = "TARGET@SECOND")]
    pub recover: Vec<Moment>,

    /// The seed of addresses and ports: the same one gives the same flows.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Searches for the highest rate at which no more than this share is lost, 0 to 1 (RFC 2544 26.1).
    #[arg(long, value_name = "LOSS", value_parser = share, conflicts_with_all = ["rate", "die", "recover"])]
    pub find_rate: Option<f64>,

    /// The share of data packets that may be lost before the exit code says so, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub max_loss: f64,

    /// The generator's core, and one more for the appliances, if there is one; with --self, the gateway's comes before
    /// these: `0,1` or `0,1,2`.
    #[arg(long, value_delimiter = ',', value_name = "CORE")]
    pub cores: Vec<u16>,

    /// Sleeps for so long when there is nothing to do, instead of polling.
    #[arg(long, value_name = "MICROSECONDS")]
    pub sleep: Option<u64>,

    /// Never uses hugepages.
    #[arg(long)]
    pub no_huge: bool,

    /// Writes the summary as JSON into this file, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Draws rates and latencies over time into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Arguments for DPDK's EAL.
    #[arg(last = true, value_name = "EAL ARGUMENTS")]
    pub eal: Vec<String>,
}

impl Options {
    pub fn behaviour(&self) -> Behaviour {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2³²")]
        let loses = (self.appliance_loses * 4_294_967_296.0) as u64;
        Behaviour { loses, delay_ns: self.appliance_delay.saturating_mul(1000) }
    }

    /// The sides that are played.
    pub fn played(&self) -> Played {
        if self.own_gateway || self.dir.is_some() {
            return Played::ALL;
        }
        Played {
            clients: self.clients.is_some(),
            servers: self.servers.is_some(),
            targets: self.appliances.is_some(),
        }
    }

    /// Where the gateway's control side is.
    pub fn doors(&self) -> Result<Doors, Refusal> {
        let of_dir = || self.dir.as_ref().map(|dir| dir.join("flowgated.sock"));
        let socket = self.socket.clone().or_else(of_dir);
        let socket = socket.ok_or("which control socket? --socket says it")?;
        Ok(Doors { socket, elbv2: self.elbv2, monitor: self.monitor })
    }

    pub fn ways(&self) -> Vec<Way> {
        match self.direction {
            Direction::Both => Way::BOTH.to_vec(),
            Direction::Up => vec![Way::Up],
            Direction::Down => vec![Way::Down],
        }
    }
}

/// The attacks that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attacks(pub Vec<Attack>);

impl FromStr for Attacks {
    type Err = String;

    fn from_str(text: &str) -> Result<Attacks, String> {
        match text {
            "" => return Ok(Attacks::default()),
            "all" => return Ok(Attacks(Attack::value_variants().to_vec())),
            _ => {}
        }
        let known =
            || Attack::value_variants().iter().map(|attack| attack.name()).collect::<Vec<_>>().join(", ");
        let attack = |name| {
            Attack::from_str(name, false)
                .map_err(|_| format!("there is no attack '{name}', only {}", known()))
        };
        text.split(',').map(attack).collect::<Result<_, _>>().map(Attacks)
    }
}

/// How fast an attack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttackRate(pub u64);

impl AttackRate {
    /// As fast as can be.
    pub const MAX: AttackRate = AttackRate(u64::MAX);
}

impl FromStr for AttackRate {
    type Err = String;

    fn from_str(text: &str) -> Result<AttackRate, String> {
        if text == "max" {
            return Ok(AttackRate::MAX);
        }
        text.parse().map(AttackRate).map_err(|_| "expected a number, or max".to_owned())
    }
}

/// How two processes share a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The daemon's `net_memif` with `role=server`.
    Memif,
    /// The daemon's `net_vhost`; needs hugepages.
    Vhost,
}

/// Which ends send data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    Both,
    /// The clients alone.
    Up,
    /// The servers alone.
    Down,
}

/// The lengths of data frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The distinct ones.
    pub lengths: Vec<u16>,
    /// The order in which they are sent, as indices.
    pub order: Vec<usize>,
    pub name: String,
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Sizes {
                lengths: vec![64, 594, 1518],
                // The long ones apart from each other.
                order: vec![0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0],
                name: "IMIX 7:4:1 of 64, 594, 1518".to_owned(),
            });
        }
        match text.parse() {
            Ok(length @ 64..=LONGEST) => {
                Ok(Sizes { lengths: vec![length], order: vec![0], name: format!("{length} bytes") })
            }
            _ => Err(format!("expected 64 to {LONGEST}, or imix")),
        }
    }
}

/// The targets, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(pub Vec<Ipv4Addr>);

/// Where targets begin whose addresses nobody gave.
const FIRST_TARGET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 11);
/// As many as fit into that network of 24 bits.
const MOST_NUMBERED: u32 = 240;
/// As many as a group is made for, and some.
const MOST: usize = 4096;

impl FromStr for Targets {
    type Err = String;

    fn from_str(text: &str) -> Result<Targets, String> {
        if let Ok(count) = text.parse::<u32>() {
            return match count {
                1..=MOST_NUMBERED => {
                    let address = |n| Ipv4Addr::from_bits(FIRST_TARGET.to_bits() + n);
                    Ok(Targets((0..count).map(address).collect()))
                }
                _ => Err(format!("expected 1 to {MOST_NUMBERED}, or addresses")),
            };
        }
        let parsed: Result<Vec<Ipv4Addr>, _> = text.split(',').map(str::parse).collect();
        let mut addresses = parsed.map_err(|_| "expected a number, or IPv4 addresses with commas")?;
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.len() > MOST { Err(format!("at most {MOST}")) } else { Ok(Targets(addresses)) }
    }
}

/// When something happens to a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// From 0.
    pub target: usize,
    pub at: Duration,
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        let expected = || "expected TARGET@SECOND, the first target is 1".to_owned();
        let (target, second) = text.split_once('@').ok_or_else(expected)?;
        let target = target.parse::<usize>().ok().and_then(|target| target.checked_sub(1));
        Ok(Moment { target: target.ok_or_else(expected)?, at: seconds(second)? })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share @ 0.0..=1.0) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_is_seven_to_four_to_one() {
        let sizes: Sizes = "IMIX".parse().expect("known");
        let count = |index| sizes.order.iter().filter(|&&at| at == index).count();
        assert_eq!((count(0), count(1), count(2)), (7, 4, 1));
        assert!("63".parse::<Sizes>().is_err() && "1519".parse::<Sizes>().is_err());
        assert_eq!("1518".parse::<Sizes>().map(|sizes| sizes.lengths), Ok(vec![1518]));
    }

    #[test]
    fn targets_are_numbered_or_named_and_sorted() {
        let numbered: Targets = "2".parse().expect("a number");
        assert_eq!(numbered.0, [FIRST_TARGET, Ipv4Addr::new(198, 51, 100, 12)]);
        let named: Targets = "10.0.0.9,10.0.0.1,10.0.0.9".parse().expect("addresses");
        assert_eq!(named.0, [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 9)]);
        assert!("0".parse::<Targets>().is_err() && "241".parse::<Targets>().is_err());
    }

    #[test]
    fn attacks_have_names_and_are_all_or_some() {
        let some: Attacks = "syn-flood,cookies".parse().expect("known");
        assert_eq!(some.0, [Attack::SynFlood, Attack::Cookies]);
        assert_eq!("all".parse::<Attacks>().map(|all| all.0.len()), Ok(Attack::value_variants().len()));
        assert!("syn".parse::<Attacks>().is_err_and(|error| error.contains("udp-flood")));
        assert_eq!("max".parse(), Ok(AttackRate::MAX));
    }

    #[test]
    fn the_command_line_is_sound_and_needs_to_know_where_the_gateway_is() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        assert!(Options::try_parse_from(["flowgate-load"]).is_err());
        let options = Options::try_parse_from(["flowgate-load", "--self", "--die", "2@1.5"]).expect("sound");
        assert_eq!(options.die, [Moment { target: 1, at: Duration::from_millis(1500) }]);
    }
}
