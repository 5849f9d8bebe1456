//! Captures of live packets: what an operator names is turned into what workers compare.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use super::{Core, Inner};
use crate::control::capture::{CaptureParts, CaptureStream, Limits, Names};
use crate::control::socket::CaptureError;
use crate::control::socket::views::{AddressRange, CapturePoint, CaptureQuery};
use crate::control::wall;
use crate::datapath::capture::filter::{End, Filter, Points, Prefix, Reasons};
use crate::datapath::capture::record::Point;
use crate::datapath::capture::{Bounds, Capture, MAX_CAPTURES, RING};
use crate::datapath::counters::DropReason;
use crate::datapath::messages::ToWorker;
use crate::id::{EndpointId, GatewayId};
use crate::wire::ip::IpVersion;

impl Core {
    /// Has every worker capture. The capture ends when the stream is dropped.
    pub(super) fn begin_capture(&self, query: &CaptureQuery) -> Result<CaptureStream, CaptureError> {
        let ports: Vec<String> = (self.ports)().into_iter().map(|port| port.port_name).collect();
        let mut inner = self.inner.borrow_mut();
        let filter = inner.capture_filter(query)?;
        if Rc::strong_count(&inner.capture_slots) > MAX_CAPTURES {
            return Err(CaptureError::TooMany(MAX_CAPTURES));
        }
        inner.follow_names();
        let clock = inner.workers.clock().clone();
        let snap_len = query.snap_len.get();
        let bounds = Bounds {
            snap_len: usize::try_from(snap_len).unwrap_or(usize::MAX),
            rate: u32::try_from(query.packets_per_second.get()).unwrap_or(u32::MAX),
            ring: RING,
        };
        let workers = inner.workers.send_each(|| {
            let (capture, captured) = Capture::new(filter, bounds, ports.len(), clock.clone());
            (ToWorker::Capture(capture), captured)
        });
        tracing::info!(name: "capture_begun", filter = in_words(query), "a capture begins");
        Ok(CaptureStream::new(CaptureParts {
            workers,
            ports,
            names: Rc::clone(&inner.capture_names),
            began: (clock.cycles(), wall::now()),
            clock,
            limits: Limits {
                packets: query.packets,
                bytes: query.bytes.get(),
                duration: query.seconds.map(|seconds| Duration::from_secs(seconds.into())),
            },
            snap_len: u32::try_from(snap_len).unwrap_or(u32::MAX),
            filter: in_words(query),
            slot: Rc::clone(&inner.capture_slots),
        }))
    }
}

impl Inner {
    /// Keeps up what the ids in captures stand for, if there are any.
    pub(super) fn follow_names(&mut self) {
        let endpoints = self.compiler.node().endpoints.iter();
        let gateways = (0..self.compiler.gateways()).map(|number| {
            let name =
                self.compiler.gateway_name(GatewayId(number)).map(ToString::to_string).unwrap_or_default();
            let balancer = self.state.load_balancer(&name).ok();
            let group = balancer.and_then(|balancer| self.state.target_group_of(balancer));
            (name, group.map(|group| group.name.to_string()))
        });
        *self.capture_names.borrow_mut() = Names {
            endpoints: endpoints.map(|endpoint| endpoint.name.to_string()).collect(),
            gateways: gateways.collect(),
        };
    }

    fn capture_filter(&self, query: &CaptureQuery) -> Result<Filter, CaptureError> {
        let nothing = |parameter, name: &str| CaptureError::Unknown { parameter, name: name.to_owned() };
        let endpoint = query.endpoint.as_deref().map(|name| {
            let place =
                self.compiler.node().endpoints.iter().position(|endpoint| endpoint.name.as_str() == name);
            let id = place.and_then(|place| u16::try_from(place).ok()).map(EndpointId);
            id.ok_or_else(|| nothing("Endpoint", name))
        });
        let of_balancer = query.load_balancer_arn.as_deref().map(|name| {
            let balancer = self.state.load_balancer(name).ok();
            let id = balancer.and_then(|balancer| self.compiler.gateway_id(&balancer.name));
            id.ok_or_else(|| nothing("LoadBalancerArn", name))
        });
        let of_group = query
            .target_group_arn
            .as_deref()
            .map(|name| self.gateway_of_group(name).ok_or_else(|| nothing("TargetGroupArn", name)));
        let (of_balancer, of_group) = (of_balancer.transpose()?, of_group.transpose()?);
        if let (Some(balancer), Some(group)) = (of_balancer, of_group)
            && balancer != group
        {
            return Err(nothing("TargetGroupArn", query.target_group_arn.as_deref().unwrap_or_default()));
        }
        let reasons: Result<Vec<DropReason>, CaptureError> = query
            .reasons
            .iter()
            .map(|name| {
                let reason = DropReason::ALL.iter().find(|reason| reason.name() == name);
                reason.copied().ok_or_else(|| nothing("Reasons", name))
            })
            .collect();
        let reasons = reasons?;
        let end = |address: Option<AddressRange>, port| End { address: address.map(prefix), port };
        Ok(Filter {
            points: if query.points.is_empty() {
                Points::default()
            } else {
                Points::of(query.points.iter().map(|point| Point::from(*point)))
            },
            reasons: (!reasons.is_empty()).then(|| Reasons::of(reasons)),
            ends: [end(query.address, query.port), end(query.peer_address, query.peer_port)],
            protocol: query.protocol.map(|protocol| protocol.0),
            target: query.target.map(std::net::Ipv4Addr::to_bits),
            gateway: of_balancer.or(of_group),
            endpoint: endpoint.transpose()?,
        })
    }
}

fn prefix(range: AddressRange) -> Prefix {
    match range.address {
        IpAddr::V4(address) => Prefix::new(IpVersion::V4, address.to_bits().into(), range.length),
        IpAddr::V6(address) => Prefix::new(IpVersion::V6, address.to_bits(), range.length),
    }
}

impl From<CapturePoint> for Point {
    fn from(point: CapturePoint) -> Point {
        match point {
            CapturePoint::Arrived => Point::Arrived,
            CapturePoint::Encapsulated => Point::Encapsulated,
            CapturePoint::Returned => Point::Returned,
            CapturePoint::Delivered => Point::Delivered,
            CapturePoint::Dropped => Point::Dropped,
            CapturePoint::Reset => Point::Reset,
            CapturePoint::Other => Point::Other,
        }
    }
}

/// What a capture is of, as the file says it: the parameters that were given.
fn in_words(query: &CaptureQuery) -> String {
    let asked = serde_json::to_value(query).unwrap_or_default();
    let bounds: BTreeSet<&str> = ["SnapLen", "PacketsPerSecond", "Packets", "Bytes", "Seconds"].into();
    let conditions: Vec<String> = asked
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !bounds.contains(name.as_str()))
        .map(|(name, value)| {
            format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    if conditions.is_empty() { "all packets".to_owned() } else { conditions.join(", ") }
}
