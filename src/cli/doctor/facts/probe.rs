//! The way to each target, tried by pings: one as long as the target side carries, one short. Only where it is asked for, as
//! it sends packets.

use super::super::host::Host;
use super::Gateway;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

/// Targets that are tried at most.
const MOST: usize = 50;

/// Headers of IPv4 and ICMP, which ping's size leaves out.
const HEADERS: u16 = 20 + 8;

/// What a target answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// A packet of the target side's full size.
    Full,
    /// Only a short one.
    Short,
    /// Neither.
    Nothing,
}

const WORDS: [(Answered, &str); 3] =
    [(Answered::Full, "full"), (Answered::Short, "short"), (Answered::Nothing, "nothing")];

/// What each target answered, and how long the long packet was; none: nobody asked for it.
pub(super) fn of_targets(host: &Host, gateway: &Gateway) -> Option<BTreeMap<Ipv4Addr, (u16, Answered)>> {
    let text = host.answer("probes", || {
        let config = gateway.node().filter(|_| host.may_probe())?;
        let underlay = config.underlay.as_ref()?;
        let port = config.ports.iter().find(|port| port.name == underlay.port)?;
        let interfaces = config.interfaces();
        let device = &interfaces.first()?.host_interface;
        let ping = |target: Ipv4Addr, size: u16| {
            Command::new("ping")
                .args(["-n", "-q", "-c", "1", "-W", "1", "-M", "do", "-I", device, "-s"])
                .args([size.to_string(), target.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        };
        // All at once: one that is dead takes a second.
        let asked: Vec<_> = gateway
            .targets()
            .take(MOST)
            .map(|target| (target, ping(target, port.mtu.saturating_sub(HEADERS)), ping(target, 56)))
            .collect();
        let answers = |child: std::io::Result<Child>| {
            child.and_then(|mut child| child.wait()).is_ok_and(|end| end.success())
        };
        let lines = asked.into_iter().map(|(target, full, short)| {
            let answered = match (answers(full), answers(short)) {
                (true, _) => Answered::Full,
                (false, true) => Answered::Short,
                (false, false) => Answered::Nothing,
            };
            let word = WORDS.iter().find(|(known, _)| *known == answered).map_or("", |(_, word)| word);
            format!("{target} {} {word}", port.mtu)
        });
        Some(lines.collect::<Vec<_>>().join("\n"))
    })?;
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (target, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let word = words.next()?;
        Some((target, (size, WORDS.iter().find(|(_, known)| *known == word)?.0)))
    };
    Some(text.lines().filter_map(line).collect())
}
