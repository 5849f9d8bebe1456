//! Every kind of trouble: its id, how bad it is, the alerts that tell of the same, when it is found, and what to do.
//! docs/troubles.md is made from this table.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::socket::views::Severity;

macro_rules! kinds {
    ($($kind:ident = $id:literal, $severity:ident, [$($alert:literal),*], $when:literal, $to_do:literal;)+) => {
        /// A kind of trouble. Ids stay what they are from version to version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Kind {
            $(#[doc = $when] #[serde(rename = $id)] $kind,)+
        }

        impl Kind {
            /// Every kind, in the order of docs/troubles.md.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)+];

            /// What it is called.
            pub fn id(self) -> &'static str {
                match self { $(Kind::$kind => $id,)+ }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $(Kind::$kind => Severity::$severity,)+ }
            }

            /// The alerts in docs/monitoring that tell of the same.
            pub fn alerts(self) -> &'static [&'static str] {
                match self { $(Kind::$kind => &[$($alert),*],)+ }
            }

            /// When it is found.
            pub fn when(self) -> &'static str {
                match self { $(Kind::$kind => $when,)+ }
            }

            /// What to do about it.
            pub fn to_do(self) -> &'static str {
                match self { $(Kind::$kind => $to_do,)+ }
            }
        }
    };
}

kinds! {
    // Of one severity they are told in this order.
    WorkerStuck = "worker-stuck", Critical, ["FlowgateWorkerStuck"],
        "A worker has gone no round for half a second or longer. Its flows stand still, and the node is not ready.",
        "Look into the daemon's log, and for whatever else runs on its core; a worker that stays away needs a restart.";
    NoTarget = "no-target", Critical, ["FlowgateFlowsRejected"],
        "The target group of a load balancer has no registered target: its new flows are refused.",
        "Register a target.";
    NobodyHealthy = "nobody-healthy", Critical, ["FlowgateNoHealthyTarget", "FlowgateFailOpen"],
        "No target of a load balancer's group is healthy: new flows are given to any of them (fail open).",
        "See what the checks say: a fault of the check, or of the way to all of them, looks like this.";
    ForwardsWithoutState = "forwards-without-state", Critical, ["FlowgateForwardsWithoutState"],
        "A load balancer forwarded packets without state in the last ten seconds, as a flow table is full of live flows: they are not reset and not moved.",
        "Look for who opens so many flows, and give the workers larger tables (workers.flows).";
    StoreWaits = "store-waits", Critical, ["FlowgateStoreHangs"],
        "A change has waited for the disk for longer than five seconds; so do all after it, and ends of drains.",
        "See to the disk under the state directory: traffic and health checks go on without it.";
    ChangesNotStored = "changes-not-stored", Critical, ["FlowgateChangesNotStored"],
        "A change was refused in the last minute, as the state directory could not be written to.",
        "Look into the daemon's log for why, and whether the disk is full.";
    PortDown = "port-down", Critical, ["FlowgatePortDown"],
        "The link of a port is down.",
        "Look at the cable, the switch, and whether somebody took the interface down.";
    TargetUnreachable = "target-unreachable", Critical, [],
        "The link-layer address of the way to a target that is in use is not known: what is meant for it is dropped.",
        "See whether it answers ARP, and whether there is a route to it.";
    TargetUnhealthy = "target-unhealthy", Critical, ["FlowgateTargetUnhealthy"],
        "A target fails its checks. It is given no new flows while another is healthy.",
        "See to the appliance: what the checks saw is behind its name.";
    FewHealthy = "few-healthy", Critical, ["FlowgateFewHealthyTargets"],
        "More than half of the targets in use of a load balancer's group are unhealthy or cannot be checked, and not all.",
        "Bring targets back before the others have more than they can carry.";
    TakenOut = "taken-out", Warning, [],
        "Somebody took the node out of service: whoever asks /readyz is told to give it no traffic.",
        "Remove the file that is named when the node is to have traffic again.";
    NotReady = "not-ready", Warning, ["FlowgateNotReady"],
        "The node is not ready for another reason, which is told.",
        "Ask /readyz, and look into the daemon's log.";
    WorkerBehind = "worker-behind", Warning, ["FlowgateWorkerConfigurationBehind"],
        "A worker does not go by the present configuration a second after it came into force. The node is not ready.",
        "Look into the daemon's log: a worker that goes its rounds follows within one.";
    PortMisses = "port-misses", Warning, ["FlowgatePortMissesPackets"],
        "A port lost more than a packet a second over the last ten seconds, as the workers did not take them fast enough.",
        "docs/tuning.md says what makes room.";
    PacketsDropped = "packets-dropped", Warning, ["FlowgatePacketsDropped"],
        "More than a packet a second was dropped over the last ten seconds for a reason that is this node's or its neighbours' fault.",
        "flowgate get-counters has the reason in a sentence.";
    TargetSilent = "target-silent", Warning, ["FlowgateTargetSilent"],
        "A healthy target is sent packets and has returned none for a second or longer.",
        "Look at the appliance's forwarding: its checks see nothing of that. Drain it if it stays so.";
    TargetUnavailable = "target-unavailable", Warning, ["FlowgateHealthCheckFails"],
        "This node cannot make the checks of a target.",
        "Look at this node's route to it and at its limit of open files.";
    TableFilling = "table-filling", Warning, ["FlowgateFlowTableNearlyFull"],
        "A worker's flow table is 85 % full or more.",
        "Look for who opens so many flows, and give the workers larger tables (workers.flows).";
    WorkerBusy = "worker-busy", Warning, ["FlowgateWorkerBusy"],
        "A worker was busy for more than 90 % of the last ten seconds.",
        "docs/tuning.md says what makes room.";
    TablesLost = "tables-lost", Warning, ["FlowgateFlowTablesLost"],
        "The flow tables of the daemon before this one could not be taken over within the last ten minutes: its flows were lost, and those of TCP are adopted for a time.",
        "See docs/restart.md for why; what becomes of connections says flowgate get-counters.";
    TablesNotKept = "tables-not-kept", Warning, ["FlowgateFlowTablesNotKept"],
        "The flow tables cannot be kept in memory that outlives the daemon, though they are to be: a restart ends every flow.",
        "It says why. Where room is missing, flowgate doctor has the command that makes it (kept-tables); it takes a restart.";
    ResetsHeldBack = "resets-held-back", Warning, ["FlowgateResetsHeldBack"],
        "Guards held resets back in the last ten seconds: the flows that they are due to go on to a target that is out.",
        "See whether the guard is right: it is there for checks that fail everywhere by a fault of their own.";
    DrainReset = "drain-reset", Warning, ["FlowgateFlowsReset"],
        "Flows of a deregistered target were reset in the last minute, as they outlived its drain.",
        "Give drains more time (deregistration_delay.timeout_seconds) if that was not meant.";
    NoFlowResets = "no-flow-resets", Warning, ["FlowgateNoFlowResets"],
        "Packets of no known flow were answered with resets in the last minute, as after a restart or with asymmetric ways.",
        "If the daemon was not just started, see whether both directions of flows come this way.";
    NoListener = "no-listener", Warning, [],
        "A load balancer has no listener: its traffic is dropped.",
        "Create a listener.";
    EndpointUnused = "endpoint-unused", Warning, [],
        "An endpoint leads to no load balancer that there is: its traffic is dropped.",
        "Create the load balancer that the node's configuration names.";
    TargetDraining = "target-draining", Notice, [],
        "A deregistered target drains.",
        "Nothing: it ends by itself. Registering it again takes it back.";
    TargetGone = "target-gone", Notice, [],
        "A target that is not registered any more still has flows (T-4).",
        "Nothing, or turn on resets for deregistered targets (send_tcp_reset.on_deregistration.enabled).";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
