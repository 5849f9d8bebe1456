//! The idle timeout against the timers of clients, servers and appliances.

use std::time::Duration;

use super::facts::{Facts, GroupFacts};
use super::kinds::{Kind, with_command};
use crate::control::explain::words::{LONGEST_IDLE_SECONDS, set};
use crate::control::model::{Stickiness, UnknownFlow};
use crate::control::socket::views::Finding;

/// When Linux (`net.ipv4.tcp_keepalive_time`) and Windows (`KeepAliveTime`) send the first keep-alive, by default.
const USUAL_KEEP_ALIVE: Duration = Duration::from_secs(7200);

/// How long firewalls know an idle TCP session as a rule: an hour.
const USUAL_SESSION: Duration = Duration::from_secs(3600);

pub(super) fn look(_: &Facts, group: &GroupFacts, found: &mut Vec<Finding>) {
    let Some(balancer) = &group.balancer else { return };
    let (listener, name) = (&balancer.listener, &balancer.name);
    let (idle, sticky) = (listener.tcp_idle_timeout, group.settings.stickiness != Stickiness::FiveTuple);
    let seconds = idle.as_secs();
    if !listener.reset_on_idle_timeout && listener.unknown_flow != UnknownFlow::Adopt {
        let what =
            format!("TCP idles out after {seconds} s, and send_tcp_reset.on_idle_timeout.enabled is false.");
        let command = set(name, "send_tcp_reset.on_idle_timeout.enabled=true");
        found.push(with_command(Kind::IdleDropsSilently.found(name, what), command));
    }
    if idle < USUAL_KEEP_ALIVE {
        let what = format!(
            "TCP idles out after {seconds} s: keep-alives of clients, servers and applications must come sooner (net.ipv4.tcp_keepalive_time is {} s by default).",
            USUAL_KEEP_ALIVE.as_secs()
        );
        let finding = Kind::KeepAliveTooRare.found(name, what);
        // With stickiness it cannot be changed.
        found.push(if sticky || seconds >= LONGEST_IDLE_SECONDS {
            finding
        } else {
            with_command(finding, set(name, &format!("tcp.idle_timeout.seconds={LONGEST_IDLE_SECONDS}")))
        });
    }
    if idle > USUAL_SESSION {
        let what = format!(
            "TCP idles out after {seconds} s: the appliances must know an idle session for longer than that."
        );
        let command = set(name, &format!("tcp.idle_timeout.seconds={}", USUAL_SESSION.as_secs() - 100));
        found.push(with_command(Kind::IdleBeyondAppliances.found(name, what), command));
    }
    if sticky && balancer.written_idle_timeout != idle {
        let what = format!(
            "tcp.idle_timeout.seconds is written as {}, and {seconds} s hold, as stickiness is on.",
            balancer.written_idle_timeout.as_secs()
        );
        let command = set(&group.name, "stickiness.enabled=false");
        found.push(with_command(Kind::StickyIdleIgnored.found(name, what), command));
    }
    if listener.tcp_half_open_timeout > idle {
        let what = format!(
            "flowgate.tcp.half_open_timeout_seconds is {}, and an established flow idles out after {seconds} s.",
            listener.tcp_half_open_timeout.as_secs()
        );
        let command = set(name, "flowgate.tcp.half_open_timeout_seconds=60");
        found.push(with_command(Kind::HalfOpenOutlives.found(name, what), command));
    }
    if listener.unknown_flow == UnknownFlow::Adopt && listener.reset_on_idle_timeout {
        let what = "flowgate.tcp.unknown_flow is adopt, and send_tcp_reset.on_idle_timeout.enabled is true.";
        let command = set(name, "flowgate.tcp.unknown_flow=drop");
        found.push(with_command(Kind::AdoptAgainstReset.found(name, what), command));
    }
    let answers = listener.reset_on_idle_timeout || listener.unknown_flow == UnknownFlow::Reset;
    if answers && listener.no_flow_resets_per_second == 0 {
        let what =
            "flowgate.reset.no_flow_max_per_second is 0, and packets of no flow are answered with resets.";
        let command = set(name, "flowgate.reset.no_flow_max_per_second=1000");
        found.push(with_command(Kind::NoFlowUnlimited.found(name, what), command));
    }
}
