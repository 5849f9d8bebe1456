//! The comment of a captured packet: what became of it, in one line that begins alike for people and for filters
//! (`frame.comment contains "unknown_flow"`).

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::datapath::capture::record::{Point, Record, Verdict};
use crate::datapath::counters::DropReason;
use crate::id::{EndpointId, GatewayId};

/// What the ids of records stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By endpoint.
    pub endpoints: Vec<String>,
    /// By load balancer: its name, and its target group's, if it has one.
    pub gateways: Vec<(String, Option<String>)>,
}

impl Names {
    fn endpoint(&self, id: EndpointId) -> Option<&str> {
        self.endpoints.get(id.index()).map(String::as_str)
    }

    fn gateway(&self, id: GatewayId) -> Option<&(String, Option<String>)> {
        self.gateways.get(id.index())
    }
}

/// The comment of a packet.
pub fn comment(record: &Record, names: &Names) -> String {
    let mut text = String::with_capacity(160);
    say(&mut text, record, names).ok();
    text
}

/// Cannot fail, as it writes to a string.
fn say(text: &mut String, record: &Record, names: &Names) -> std::fmt::Result {
    let point = record.point.name();
    match (record.point, record.verdict) {
        (_, Verdict::Dropped(reason)) => {
            let dropped = if record.point == Point::Dropped { "" } else { ", dropped" };
            let (name, why) = (reason.name(), reason.description().trim());
            write!(text, "{point}{dropped}: {name}: {why}")?;
            if let Some(rule) = rule(reason) {
                write!(text, " ({rule})")?;
            }
        }
        (Point::Reset, Verdict::Reset(trigger)) => {
            write!(text, "reset: {}: {}", trigger.name(), trigger.description().trim())?;
        }
        (_, Verdict::Reset(trigger)) => {
            let why = trigger.description().trim();
            write!(text, "{point}, answered with a reset: {}: {why}", trigger.name())?;
        }
        (Point::Other, Verdict::Answered(answer)) => write!(text, "icmp error: {}", answer.name())?,
        (_, Verdict::Answered(answer)) => {
            write!(text, "{point}, answered with an icmp error: {}", answer.name())?;
        }
        (Point::Arrived, Verdict::Forwarded) => write!(text, "arrived, forwarded")?,
        (Point::Returned, Verdict::Delivered) => write!(text, "returned, delivered")?,
        (Point::Encapsulated | Point::Delivered, Verdict::Piece) => {
            write!(text, "{point}: a fragment made by the gateway (M-2)")?;
        }
        (Point::Other, Verdict::FromHost) => write!(text, "sent for the host")?,
        (Point::Other, Verdict::Crossed) => write!(text, "crossed the wire")?,
        (_, Verdict::FromHost) => write!(text, "from the host")?,
        (_, Verdict::Crossed) => write!(text, "{point}, crosses the wire untouched (O-4)")?,
        (_, Verdict::Host) => write!(text, "{point}, given to the host")?,
        (_, Verdict::HandedOff) => write!(text, "{point}, handed to the worker that owns its flow")?,
        (_, Verdict::Waits) => {
            write!(text, "{point}, waits for its first fragment or its next hop's link-layer address")?;
        }
        (_, Verdict::Forwarded | Verdict::Delivered | Verdict::Piece) => write!(text, "{point}")?,
    }
    let gateway = record.gateway.and_then(|id| names.gateway(id));
    if let Some(target) = record.target.map(Ipv4Addr::from_bits) {
        match gateway.and_then(|(_, group)| group.as_ref()) {
            Some(group) => write!(text, "; target {group}/{target}")?,
            None => write!(text, "; target {target}")?,
        }
    }
    if let Some(cookie) = record.cookie {
        write!(text, "; flow {cookie:08x}")?;
    }
    if let Some(endpoint) = record.endpoint.and_then(|id| names.endpoint(id)) {
        write!(text, "; endpoint {endpoint}")?;
    }
    if let Some((name, _)) = gateway {
        write!(text, "; load balancer {name}")?;
    }
    write!(text, "; worker {}", record.worker.0)
}

/// The rule by which a packet is dropped, where one says so. A reset's is in its description.
fn rule(reason: DropReason) -> Option<&'static str> {
    Some(match reason {
        DropReason::UnknownFlow => "F-8",
        DropReason::ExpiredFlow => "R-3",
        DropReason::NotAnswerable => "R-5",
        DropReason::ResetSuppressed => "R-11",
        DropReason::NoTarget => "F-7",
        DropReason::CookieStale => "F-11",
        DropReason::NoLoadBalancer | DropReason::Ipv6NotEnabled => "O-1",
        DropReason::FragmentTiny
        | DropReason::FragmentInHeader
        | DropReason::FragmentTimeout
        | DropReason::FragmentFull => "M-4",
        DropReason::TooBigForTarget | DropReason::TooBigForLink => "M-2",
        DropReason::OuterMalformed
        | DropReason::GeneveVersion
        | DropReason::GeneveOptions
        | DropReason::GeneveCritical
        | DropReason::CookieMissing
        | DropReason::NotFromTarget
        | DropReason::InnerMalformed
        | DropReason::InnerMismatch => "W-5",
        DropReason::TtlExceeded => "W-6",
        DropReason::VlanUnknown | DropReason::NotOurMac | DropReason::NoRoute => "O-4",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::capture::Seen;
    use crate::datapath::counters::{IcmpAnswer, ResetTrigger};

    fn said(point: Point, verdict: Verdict, seen: Seen) -> String {
        let names = Names {
            endpoints: vec!["lan".to_owned()],
            gateways: vec![("gw".to_owned(), Some("fw".to_owned())), ("bare".to_owned(), None)],
        };
        comment(&Record::new(point, verdict, &seen, 60), &names)
    }

    #[test]
    fn a_comment_says_what_became_of_the_packet_and_all_that_is_known_of_it() {
        let seen = Seen {
            endpoint: Some(EndpointId(0)),
            gateway: Some(GatewayId(0)),
            target: Some(0xc633_640b),
            cookie: Some(0x2a),
            ..Seen::default()
        };
        let known = "target fw/198.51.100.11; flow 0000002a; endpoint lan; load balancer gw; worker 0";
        for (point, verdict, expected) in [
            (Point::Arrived, Verdict::Forwarded, "arrived, forwarded"),
            (Point::Encapsulated, Verdict::Forwarded, "encapsulated"),
            (Point::Returned, Verdict::Delivered, "returned, delivered"),
            (Point::Delivered, Verdict::Delivered, "delivered"),
            (
                Point::Arrived,
                Verdict::Reset(ResetTrigger::Unhealthy),
                "arrived, answered with a reset: unhealthy: The flow's target is unhealthy (R-1).",
            ),
            (
                Point::Reset,
                Verdict::Reset(ResetTrigger::Unhealthy),
                "reset: unhealthy: The flow's target is unhealthy (R-1).",
            ),
            (
                Point::Dropped,
                Verdict::Dropped(DropReason::CookieStale),
                "dropped: cookie_stale: An answer's cookie is not that of a live flow. (F-11)",
            ),
        ] {
            assert_eq!(said(point, verdict, seen), format!("{expected}; {known}"));
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let reason = Verdict::Dropped(DropReason::FrameTruncated);
        let expected = "arrived, dropped: frame_truncated: The frame is shorter than its own link-layer header.; worker 0";
        assert_eq!(said(Point::Arrived, reason, Seen::default()), expected);
        // Ids that are of nothing any more, and a load balancer without a target group.
        let gone = Seen {
            endpoint: Some(EndpointId(9)),
            gateway: Some(GatewayId(9)),
            target: Some(1),
            ..Seen::default()
        };
        assert_eq!(said(Point::Delivered, Verdict::Delivered, gone), "delivered; target 0.0.0.1; worker 0");
        let bare = Seen { gateway: Some(GatewayId(1)), ..Seen::default() };
        let answered = Verdict::Answered(IcmpAnswer::TimeExceeded);
        assert_eq!(
            said(Point::Other, answered, bare),
            "icmp error: time_exceeded; load balancer bare; worker 0"
        );
    }
}
