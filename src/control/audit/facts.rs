//! What an audit goes by, gathered in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::control::health::{AnswerTimes, HealthState};
use crate::control::model::{
    AttributeSet, IpAddressType, ListenerSettings, State, TargetGroup, TargetGroupSettings,
};
use crate::control::socket::views::InBandView;
use crate::control::socket::{Service, TargetStatus};

/// What the control core knows of its node, beyond objects and targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFigures {
    /// The node's zone; none: it serves every zone.
    pub zone: Option<String>,
    /// The name of the target side's port.
    pub target_side: String,
    /// The largest IP packet that it takes, in bytes.
    pub target_side_mtu: u16,
    /// Where packets come in.
    pub entrances: Vec<Entrance>,
    /// How fast each target answers its checks, by group and address.
    pub answers: BTreeMap<(String, Ipv4Addr), AnswerTimes>,
    /// The targets, by group and address, that return nothing and were sent packets within the last ten seconds.
    pub sent_to: BTreeSet<(String, Ipv4Addr)>,
}

/// A port of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The load balancer that it leads to.
    pub load_balancer: String,
    /// The endpoint.
    pub endpoint: String,
    /// The port.
    pub port: String,
    /// The largest IP packet that it takes, in bytes.
    pub mtu: u16,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The configuration's number.
    pub generation: u64,
    /// The node.
    pub node: NodeFigures,
    /// Its target groups.
    pub groups: Vec<GroupFacts>,
    /// Its load balancers that forward nowhere.
    pub without_listener: Vec<String>,
    /// Its workers.
    pub workers: Vec<WorkerFacts>,
}

/// A worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Its number.
    pub worker: u8,
    /// Entries in its flow table.
    pub flows: u64,
    /// How many it has room for.
    pub capacity: u64,
}

/// A target group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFacts {
    /// Its name.
    pub name: String,
    /// What its attributes mean.
    pub settings: TargetGroupSettings,
    /// Its attributes as they are written.
    pub attributes: AttributeSet,
    /// Who uses it.
    pub balancer: Option<BalancerFacts>,
    /// Its targets, those that are gone and still have flows too.
    pub targets: Vec<TargetFacts>,
}

/// The load balancer that uses a group.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerFacts {
    /// Its name.
    pub name: String,
    /// Whether it takes IPv6.
    pub dualstack: bool,
    /// Whether targets of every zone are in scope.
    pub cross_zone: bool,
    /// What its listener's attributes mean.
    pub listener: ListenerSettings,
    /// The idle timeout of TCP that is written, whether or not it holds.
    pub written_idle_timeout: Duration,
}

/// A target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetFacts {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its share of new flows relative to the others'.
    pub weight: u16,
    /// Whether it is of the group still.
    pub registered: bool,
    /// Its state.
    pub state: HealthState,
    /// Its live flows.
    pub flows: u64,
    /// Of these, how many its sudden death would end.
    pub would_end: u64,
    /// What the traffic says of it.
    pub in_band: Option<InBandView>,
    /// Whether it was sent packets within the last ten seconds. Only of one that returns none it is known.
    pub is_sent_to: bool,
    /// Whether packets reach it: its next hop's link-layer address is known.
    pub reachable: bool,
    /// How fast it answers its checks.
    pub answers: AnswerTimes,
}

impl Facts {
    /// As they are now.
    pub fn gather(service: &dyn Service) -> Facts {
        let (state, node) = (service.state(), service.figures());
        let groups = state.target_groups().map(|group| group_facts(service, &state, &node, group)).collect();
        let idle = state.load_balancers().filter(|balancer| balancer.listener.is_none());
        let without_listener = idle.map(|balancer| balancer.name.to_string()).collect();
        let workers = service.workers(Duration::from_secs(1)).into_iter().map(|worker| WorkerFacts {
            worker: worker.worker,
            flows: worker.flows,
            capacity: worker.capacity,
        });
        Facts { generation: state.generation(), groups, without_listener, workers: workers.collect(), node }
    }
}

fn group_facts(service: &dyn Service, state: &State, node: &NodeFigures, group: &TargetGroup) -> GroupFacts {
    use crate::control::model::registry::TCP_IDLE_TIMEOUT;
    use crate::control::model::registry::Value;
    let balancer = state.load_balancer_using(&group.name).and_then(|balancer| {
        let written = balancer.listener.as_ref()?.attributes.get(&TCP_IDLE_TIMEOUT);
        Some(BalancerFacts {
            name: balancer.name.to_string(),
            dualstack: balancer.ip_address_type == IpAddressType::Dualstack,
            cross_zone: balancer.settings().cross_zone,
            listener: state.listener_settings(balancer)?,
            written_idle_timeout: match written {
                Value::Number(seconds) => Duration::from_secs(seconds),
                Value::Flag(_) | Value::Choice(_) => Duration::ZERO,
            },
        })
    });
    let target = |status: TargetStatus| {
        let registered = group.targets.get(&status.address).is_some_and(|target| target.is_registered());
        let key = (group.name.to_string(), status.address);
        TargetFacts {
            address: status.address,
            weight: status.weight,
            registered,
            state: status.state,
            flows: status.flows,
            would_end: status.would_die,
            in_band: status.in_band,
            is_sent_to: node.sent_to.contains(&key),
            reachable: status.neighbour.mac.is_some(),
            answers: node.answers.get(&key).copied().unwrap_or_default(),
        }
    };
    GroupFacts {
        name: group.name.to_string(),
        settings: group.settings(),
        attributes: group.attributes.clone(),
        balancer,
        targets: service.targets(group).into_iter().map(target).collect(),
    }
}

impl GroupFacts {
    /// The targets that new flows may go to: registered, and in scope (H-6).
    pub fn in_scope(&self) -> impl Iterator<Item = &TargetFacts> {
        self.targets.iter().filter(|target| target.registered && target.state != HealthState::Unused)
    }

    /// Its live flows.
    pub fn flows(&self) -> u64 {
        self.targets.iter().map(|target| target.flows).sum()
    }

    /// Whether any reset is sent for a target's sake.
    pub fn resets(&self) -> bool {
        self.settings.reset_on_unhealthy || self.settings.reset_on_deregistration
    }

    /// `GROUP/ADDRESS`.
    pub fn target_name(&self, target: &TargetFacts) -> String {
        format!("{}/{}", self.name, target.address)
    }
}
