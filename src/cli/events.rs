//! `flowgate subscribe`: how things stand, then one line an event as it happens.

#![forbid(unsafe_code)]

use super::Session;
use super::client::{CliError, Notice, typed};
use super::table::{Look, setting};
use crate::control::events::{Event, Timestamp, What};
use crate::control::socket::Lost;
use crate::control::socket::methods::subscribe::{Snapshot, Subscribe};
use std::net::{IpAddr, SocketAddr};

/// Prints events until the daemon, the reader or the operator ends it. As JSON a line is one object:
/// the snapshot first, then each event.
pub(super) fn follow(session: &mut Session, params: &Subscribe) -> Result<(), CliError> {
    let snapshot = session.client.call("subscribe", params)?;
    let standing_now: Snapshot = typed(snapshot.clone())?;
    session.output.emit_line(|| snapshot, |look| standing(&standing_now, look))?;
    loop {
        match session.client.next_notice()? {
            Notice::Event(event) => {
                let shown = |look: &Look| format!("{}\n", line(&event, look));
                session.output.emit_line(|| serde_json::json!(event), shown)?;
            }
            Notice::Lost(count) => {
                let shown = |look: &Look| format!("{}\n", lost(count, look));
                session.output.emit_line(|| serde_json::json!({"Lost": Lost { count }}), shown)?;
            }
        }
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
    }
}
