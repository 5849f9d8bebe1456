//! `flowgate subscribe`: how things stand, then one line an event as it happens. A connection that ends is made again, with
//! how many events were missed.

#![forbid(unsafe_code)]

use super::Session;
use super::client::{CliError, Client, Notice, typed};
use super::table::{Look, setting};
use crate::control::events::{Event, EventKind, Timestamp, What};
use crate::control::socket::Lost;
use crate::control::socket::methods::subscribe::{Snapshot, Subscribe};
use crate::control::telling::EventCounts;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// After this a daemon that is gone is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Prints events until the reader or the operator ends it, or the daemon does and it is not to be tried again. As JSON a
/// line is one object: the snapshot first, then each event.
pub(super) fn follow(session: &mut Session, params: &Subscribe, tries_again: bool) -> Result<(), CliError> {
    let mut heard = begin(session, params)?;
    loop {
        let Err(error) = listen(session, &mut heard);
        if !tries_again || !may_come_back(&error) {
            return Err(error);
        }
        let (gone, since) = (Timestamp::now(), Instant::now());
        let why = error.to_string();
        session.output.emit_line(
            || json!({"Gone": {"At": gone, "Why": why}}),
            |look| format!("{}\n", tagged(gone, "gone", &format!("{why}; it is tried again"), look)),
        )?;
        let before = heard;
        let snapshot = subscribe_again(session, params)?;
        heard = Heard::since(&typed(snapshot.clone())?, &params.events);
        let missed = heard.missed_since(&before);
        let away = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        session.output.emit_line(
            || json!({"Back": {"At": Timestamp::now(), "AwayMs": away, "Missed": missed.count, "SameDaemon": missed.same_daemon}}),
            |look| format!("{}\n", tagged(Timestamp::now(), "back", &missed.said(away), look)),
        )?;
        show(session, snapshot)?;
    }
}

/// What was heard of a daemon, by which it is known what was not.
struct Heard {
    started: Timestamp,
    /// How many events of the kinds that are wanted it had told when it was subscribed to, and since then.
    told: u64,
    kinds: Vec<EventKind>,
}

/// What was not heard while there was no connection.
struct Missed {
    count: u64,
    same_daemon: bool,
}

impl Heard {
    fn since(snapshot: &Snapshot, kinds: &[EventKind]) -> Heard {
        let Snapshot { started, events_so_far, .. } = *snapshot;
        Heard { started, told: EventCounts::of(&events_so_far, kinds), kinds: kinds.to_vec() }
    }

    /// So many more were told, or are known to be lost. Of whose kinds those are that were lost, is not told: where only
    /// some are wanted, they count as missed.
    fn lost(&mut self, count: u64) {
        if self.kinds.is_empty() {
            self.told += count;
        }
    }

    fn missed_since(&self, before: &Heard) -> Missed {
        let same_daemon = self.started == before.started;
        // Another one has told all that it has before anybody heard.
        let count = if same_daemon { self.told.saturating_sub(before.told) } else { self.told };
        Missed { count, same_daemon }
    }
}

impl Missed {
    fn said(&self, away_ms: u64) -> String {
        let (count, away) = (self.count, setting(away_ms));
        let events = if count == 1 { "event" } else { "events" };
        match (self.same_daemon, count) {
            (true, 0) => format!("after {away}; no event was missed"),
            (true, _) => format!("after {away}; {count} {events} missed"),
            (false, _) => format!(
                "after {away}, and it is another daemon; {count} {events} of it missed, and what the one before told at its end"
            ),
        }
    }
}

/// Subscribes, and prints how things stand.
fn begin(session: &mut Session, params: &Subscribe) -> Result<Heard, CliError> {
    let snapshot = session.client.call("subscribe", params)?;
    let heard = Heard::since(&typed(snapshot.clone())?, &params.events);
    show(session, snapshot)?;
    Ok(heard)
}

fn show(session: &mut Session, snapshot: Value) -> Result<(), CliError> {
    let standing_now: Snapshot = typed(snapshot.clone())?;
    session.output.emit_line(|| snapshot, |look| standing(&standing_now, look))
}

/// Prints events until there are no more to be had: why.
fn listen(session: &mut Session, heard: &mut Heard) -> Result<std::convert::Infallible, CliError> {
    loop {
        match session.client.next_notice()? {
            Notice::Event(event) => {
                heard.told += 1;
                let shown = |look: &Look| format!("{}\n", line(&event, look));
                session.output.emit_line(|| json!(event), shown)?;
            }
            Notice::Lost(count) => {
                heard.lost(count);
                let shown = |look: &Look| format!("{}\n", lost(count, look));
                session.output.emit_line(|| json!({"Lost": Lost { count }}), shown)?;
            }
        }
    }
}

/// Whether what ended a connection may be over in a moment: a control core that starts anew, a daemon that is restarted.
fn may_come_back(error: &CliError) -> bool {
    match error {
        CliError::NoSocket(_)
        | CliError::NobodyThere(_)
        | CliError::Connect(..)
        | CliError::Full
        | CliError::MadeRoom
        | CliError::NoAnswer
        | CliError::Closed
        | CliError::Broken(_) => true,
        CliError::Refused(error) => {
            matches!(error.data.kind.as_str(), "TooManySubscribers" | "ServiceUnavailable")
        }
        _ => false,
    }
}

/// Subscribes on a new connection as soon as that can be had.
fn subscribe_again(session: &mut Session, params: &Subscribe) -> Result<Value, CliError> {
    let path = session.client.path().to_owned();
    loop {
        let client = Client::connect(&path);
        let subscribed = client.and_then(|client| {
            session.client = client;
            session.client.call("subscribe", params)
        });
        match subscribed {
            Err(error) if may_come_back(&error) => wait_for_reader_to_go(RETRY)?,
            outcome => return outcome,
        }
    }
}

/// Waits for so long, unless whoever reads what is printed goes: then there is nobody to come back for.
fn wait_for_reader_to_go(long: Duration) -> Result<(), CliError> {
    let stdout = std::io::stdout();
    let mut reader = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let patience = PollTimeout::try_from(long).unwrap_or(PollTimeout::MAX);
    match poll(&mut reader, patience) {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(CliError::ReaderGone),
    }
}

/// The snapshot: a line a target.
fn standing(snapshot: &Snapshot, look: &Look) -> String {
    let mut text = String::new();
    for group in &snapshot.target_groups {
        for target in &group.target_health_descriptions {
            let (id, state) = (target.target.id, target.target_health.state);
            let reason = target.target_health.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let said = format!("{}/{id} is {state}{reason}, {} flows", group.target_group_name, target.flows);
            text.push_str(&format!("{}\n", tagged(snapshot.at, "state", &said, look)));
        }
    }
    text
}

/// One event on one line.
pub(super) fn line(event: &Event, look: &Look) -> String {
    let (tag, said) = match &event.what {
        What::TargetHealthChanged { target_group, target, from, to, reason, description } => {
            let why = match reason {
                None => String::new(),
                Some(reason) if description.is_empty() => format!(" ({reason})"),
                Some(reason) => format!(" ({reason}: {description})"),
            };
            ("health", format!("{target_group}/{target} {from} -> {to}{why}"))
        }
        What::TargetSilent { target_group, target, silent_for_ms } => {
            let said =
                format!("{target_group}/{target} has returned nothing for {}", setting(*silent_for_ms));
            ("silent", format!("{said}, and is checked"))
        }
        What::FlowsReset { load_balancer, target_group, target, trigger, count } => {
            let whose = target.map(|target| format!("/{target}")).unwrap_or_default();
            (
                "resets",
                format!("{target_group}{whose} {count} TCP resets sent ({trigger}) by {load_balancer}"),
            )
        }
        What::TcpReset {
            endpoint,
            target_group,
            target,
            trigger,
            sent_to,
            sent_to_port,
            peer,
            peer_port,
        } => {
            let whose = target.map(|target| format!("/{target}")).unwrap_or_default();
            let (to, from) = (side(*sent_to, *sent_to_port), side(*peer, *peer_port));
            let said =
                format!("{target_group}{whose} reset sent to {to}, peer {from}, on {endpoint} ({trigger})");
            ("reset", said)
        }
        What::DrainStarted { target_group, target, flows, ends } => {
            let ends = look.time(*ends);
            ("drain", format!("{target_group}/{target} drains {flows} flows until {ends}"))
        }
        What::DrainEnded { target_group, target, flows_left } => {
            ("drain", format!("{target_group}/{target} drained, {flows_left} flows left"))
        }
        What::FailoverStarted { id, cause, target_group, target, flows } => {
            ("failover", format!("{id} begins: {target_group}/{target} ({cause}), {flows} flows"))
        }
        What::FailoverEnded {
            id,
            target_group,
            target,
            why,
            flows,
            flows_reset,
            flows_moved,
            flows_left,
            ..
        } => {
            let flows =
                format!("of {flows} flows {flows_reset} reset, {flows_moved} moved, {flows_left} left");
            ("failover", format!("{id} ends: {target_group}/{target}, {why}; {flows}"))
        }
        What::ConfigChanged { generation } => ("config", format!("generation {generation}")),
        What::PortDown { port } => ("fault", format!("port {port} is down")),
        What::PortUp { port } => ("fault", format!("port {port} is up again")),
        What::WorkerStuck { worker, silent_for_ms } => {
            ("fault", format!("worker {worker} has gone no round for {}", setting(*silent_for_ms)))
        }
        What::WorkerWentOn { worker, stuck_for_ms } => {
            ("fault", format!("worker {worker} goes on, it was stuck for {}", setting(*stuck_for_ms)))
        }
        What::WorkerPanicked { worker } => {
            ("fault", format!("worker {worker} ended by a panic, and the daemon ends for it"))
        }
        What::FlowTablesTakenOver { flows, torn, gap_ms, .. } => (
            "restart",
            format!("{flows} flows go on, {torn} were torn; nothing was forwarded for {}", setting(*gap_ms)),
        ),
        What::FlowTablesLost { why, .. } => ("fault", format!("the flow tables are lost: {why}")),
        What::FlowRecordsLost { lost, failed } => {
            ("lost", format!("{lost} flow records that came too fast, {failed} that could not be written"))
        }
    };
    tagged(event.at, tag, &said, look)
}

fn lost(count: u64, look: &Look) -> String {
    let said = format!("{count} events, as they were read too slowly");
    tagged(Timestamp::now(), "lost", &said, look)
}

/// `20:47:37.123  health  …`.
fn tagged(at: Timestamp, tag: &str, said: &str, look: &Look) -> String {
    format!("{}  {tag:<6}  {said}", look.time(at))
}

fn side(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::ResetTrigger;
    use crate::control::health::{HealthState, ReasonCode};
    use jiff::tz::TimeZone;
    use std::net::Ipv4Addr;

    #[test]
    fn what_was_missed_is_what_the_same_daemon_told_and_nobody_heard() {
        let at = Timestamp::from_unix_ms;
        let heard = |started, told| Heard { started: at(started), told, kinds: Vec::new() };
        let mut before = heard(5, 10);
        before.lost(7);
        let said = |now: &Heard| now.missed_since(&before).said(1200);
        assert_eq!(said(&heard(5, 17)), "after 1200 ms; no event was missed");
        assert_eq!(said(&heard(5, 18)), "after 1200 ms; 1 event missed");
        assert_eq!(
            said(&heard(6, 3)),
            "after 1200 ms, and it is another daemon; 3 events of it missed, and what the one before told at its end"
        );
        // Of what kinds those were that were lost nobody says.
        let mut some = Heard { kinds: vec![EventKind::Drains], ..heard(5, 10) };
        some.lost(7);
        assert_eq!(heard(5, 12).missed_since(&some).count, 2);
    }

    #[test]
    fn every_event_is_one_line_with_local_time_to_the_millisecond() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::fixed(jiff::tz::offset(1)));
        let target_group = "fw".to_owned();
        let target = Ipv4Addr::new(10, 0, 0, 2);
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let server = "2001:db8::2".parse().unwrap();
        let shown = |what| line(&Event { at: Timestamp::from_unix_ms(1_795_985_257_007), what }, &look);
        assert_eq!(
            shown(What::TargetHealthChanged {
                target_group: target_group.clone(),
                target,
                from: HealthState::Healthy,
                to: HealthState::Unhealthy,
                reason: Some(ReasonCode::Timeout),
                description: "Request timed out".to_owned(),
            }),
            "21:47:37.007  health  fw/10.0.0.2 healthy -> unhealthy (Target.Timeout: Request timed out)"
        );
        assert_eq!(
            shown(What::TargetSilent { target_group: target_group.clone(), target, silent_for_ms: 52 }),
            "21:47:37.007  silent  fw/10.0.0.2 has returned nothing for 52 ms, and is checked"
        );
        assert_eq!(
            shown(What::FlowsReset {
                load_balancer: "gw".to_owned(),
                target_group: target_group.clone(),
                target: None,
                trigger: ResetTrigger::NoFlow,
                count: 3
            }),
            "21:47:37.007  resets  fw 3 TCP resets sent (no-flow) by gw"
        );
        assert_eq!(
            shown(What::TcpReset {
                endpoint: "e".to_owned(),
                target_group: target_group.clone(),
                target: Some(target),
                trigger: ResetTrigger::Unhealthy,
                sent_to: client,
                sent_to_port: 40000,
                peer: server,
                peer_port: 443
            }),
            "21:47:37.007  reset   fw/10.0.0.2 reset sent to 192.0.2.1:40000, peer [2001:db8::2]:443, on e (unhealthy)"
        );
        let ends = Timestamp::from_unix_ms(1_795_985_557_007);
        assert_eq!(
            shown(What::DrainStarted { target_group: target_group.clone(), target, flows: 7, ends }),
            "21:47:37.007  drain   fw/10.0.0.2 drains 7 flows until 21:52:37.007"
        );
        assert_eq!(
            shown(What::DrainEnded { target_group, target, flows_left: 0 }),
            "21:47:37.007  drain   fw/10.0.0.2 drained, 0 flows left"
        );
        assert_eq!(shown(What::ConfigChanged { generation: 9 }), "21:47:37.007  config  generation 9");
        assert_eq!(
            shown(What::WorkerStuck { worker: 1, silent_for_ms: 500 }),
            "21:47:37.007  fault   worker 1 has gone no round for 500 ms"
        );
        assert_eq!(
            shown(What::FlowTablesTakenOver { flows: 26, torn: 1, refused: 0, gap_ms: 214 }),
            "21:47:37.007  restart  26 flows go on, 1 were torn; nothing was forwarded for 214 ms"
        );
        assert_eq!(
            shown(What::FlowTablesLost { why: "worker-0 is missing".to_owned(), adopt_seconds: 350 }),
            "21:47:37.007  fault   the flow tables are lost: worker-0 is missing"
        );
    }
}
