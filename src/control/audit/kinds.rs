//! Every kind of finding: its id, how much it matters, and why. The table is what docs/audit.md is held to.

use crate::control::socket::views::{Finding, Severity};

macro_rules! kinds {
    ($($kind:ident = $id:literal, $severity:ident, $why:literal;)+) => {
        /// A kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $(#[doc = $why] $kind,)+
        }

        impl Kind {
            /// Every kind, in the order of docs/audit.md.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)+];

            /// What it is called.
            pub fn id(self) -> &'static str {
                match self { $(Kind::$kind => $id,)+ }
            }

            /// How much it matters.
            pub fn severity(self) -> Severity {
                match self { $(Kind::$kind => Severity::$severity,)+ }
            }

            /// Why it matters.
            pub fn why(self) -> &'static str {
                match self { $(Kind::$kind => $why,)+ }
            }
        }
    };
}

kinds! {
    // Failover.
    LeftHanging = "left-hanging", Warning,
        "The TCP flows of a target that dies go on to it: clients wait until their own timeouts, minutes as a rule.";
    DrainLeftHanging = "drain-left-hanging", Notice,
        "TCP flows that outlive the deregistration delay go on to a target that was taken out: when it is switched off they hang.";
    MovesConnections = "moves-connections", Notice,
        "A flow that moves meets an appliance that has not seen it begin: a stateful one that does not share its sessions drops it in silence.";
    OverruledReset = "overruled-reset", Warning,
        "An attribute that is written as on has no effect: stickiness and rebalance win over resets.";
    ResetOptionsIdle = "reset-options-idle", Notice,
        "These attributes say how resets are sent, and none is: they have no effect until one is turned on.";
    DelayZero = "delay-zero", Warning,
        "Deregistering a target resets its TCP flows at once: nobody has time to end.";
    SynStaysOnDead = "syn-stays-on-dead", Warning,
        "A client that tries again from the same port is sent to the dead target again.";
    OneEndTold = "one-end-told", Notice,
        "Only the side that sends first is told that its connection is over; the other waits for its own timeout.";
    SilentNotTold = "silent-not-told", Notice,
        "A side that only listens is not told: it learns of the loss when it next sends.";
    LargestShare = "largest-share", Warning,
        "One target carries more than its weight: its loss hurts more than the number of targets suggests.";

    // Guards against a false positive.
    NoMinHealthy = "no-min-healthy", Warning,
        "A check that fails everywhere at once, by a fault of the check or of the network to it, resets every flow there is.";
    NoHold = "no-hold", Notice,
        "A target that is out for a moment loses all its flows, though it would have gone on with them.";
    NoRateLimit = "no-rate-limit", Notice,
        "The death of a busy target makes all its clients come back in the same moment.";
    RateTooLow = "rate-too-low", Warning,
        "The resets of one target's flows are spread over so long a time that most clients time out first.";
    GuardNeverOpens = "guard-never-opens", Warning,
        "With one target down fewer than the guard asks for are healthy: no flow of it will ever be reset.";
    HoldPastIdle = "hold-past-idle", Critical,
        "Flows idle out before the hold is over: they are never reset for their target's sake.";

    // Timers.
    IdleDropsSilently = "idle-drops-silently", Warning,
        "A connection that was idle for longer is dead without either side being told: the next packet vanishes.";
    KeepAliveTooRare = "keep-alive-too-rare", Notice,
        "Keep-alives must come more often than the idle timeout: Linux and Windows send the first after two hours.";
    IdleBeyondAppliances = "idle-beyond-appliances", Notice,
        "Firewalls forget an idle TCP session after an hour as a rule: the gateway then sends on what the appliance drops.";
    StickyIdleIgnored = "sticky-idle-ignored", Notice,
        "With stickiness the idle timeout of TCP is 350 s, whatever is written.";
    AdoptAgainstReset = "adopt-against-reset", Warning,
        "Two attributes pull in two directions: a connection that idled out is reset if it is remembered, and taken up again if its place was needed.";
    NoFlowUnlimited = "no-flow-unlimited", Warning,
        "Who forges packets of no flow has the gateway send a reset for each of them to whoever they seem to come from.";
    HalfOpenOutlives = "half-open-outlives", Notice,
        "What nobody answers is kept longer than what works: a flood of SYNs has that much longer to fill the table.";

    // Detection.
    DetectionSlow = "detection-slow", Warning,
        "For as long, new flows go to a dead target and those it had hang.";
    ShootsBusy = "shoots-busy", Critical,
        "A busy target whose answers come a little later is taken for dead, and its flows are ended.";
    ThresholdOne = "threshold-one", Warning,
        "One lost packet of one check is enough to take a target out.";
    ConnectOnly = "connect-only", Notice,
        "A TCP check says that the kernel of the appliance answers, not that the appliance works.";
    SilenceUnwatched = "silence-unwatched", Notice,
        "A target that answers its checks and forwards nothing is not noticed before its next check, if at all.";
    SilenceTooLate = "silence-too-late", Notice,
        "The checks have decided by then: the evidence of the traffic comes too late to bring anything.";

    // How it stands now.
    HealthyButSilent = "healthy-but-silent", Warning,
        "It answers its checks and returns nothing of what it is sent: unless it drops all of that on purpose, its flows are dead, and new ones follow.";
    NobodyHealthy = "nobody-healthy", Critical,
        "New flows are given to targets that fail their checks (fail open), as there is no other.";
    SomeUnhealthy = "some-unhealthy", Critical,
        "The others carry its share; flows that it had are reset, moved or hang, as the attributes say.";
    Unreachable = "unreachable", Critical,
        "No packet reaches it, whatever its checks say: what is meant for it is dropped.";

    // Room.
    NoTarget = "no-target", Critical,
        "Every new flow is rejected.";
    OneTarget = "one-target", Warning,
        "Its death is the end of all traffic: there is nobody to take over.";
    ZoneOneTarget = "zone-one-target", Warning,
        "The node's zone has one target and cross-zone is off: when it dies there is nobody to take over, though other zones have targets.";
    OutOfZone = "out-of-zone", Notice,
        "Targets of other zones are not checked and given no flows while cross-zone is off.";
    GroupUnused = "group-unused", Notice,
        "No listener forwards to it: it is not checked and carries nothing.";
    NoListener = "no-listener", Warning,
        "A load balancer without a listener drops what comes.";
    TargetSideMtu = "target-side-mtu", Warning,
        "GENEVE takes 68 bytes: what does not fit is fragmented, or its sender told to send less, which firewalls like to lose.";
    TargetSideMtuV6 = "target-side-mtu-v6", Critical,
        "IPv6 never goes below 1,280 bytes: packets of up to that size that do not fit are dropped, and nobody can be told.";
    TableFilling = "table-filling", Warning,
        "When a worker's flow table is full new flows go on without state: they are not counted, not reset and not moved.";
}

impl Kind {
    /// That it was found.
    pub fn found(self, object: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding {
            id: self.id().to_owned(),
            severity: self.severity(),
            object: object.into(),
            what: what.into(),
            why: self.why().to_owned(),
            command: None,
        }
    }
}

/// A finding and the command that changes what was found.
pub fn with_command(finding: Finding, command: impl Into<String>) -> Finding {
    Finding { command: Some(command.into()), ..finding }
}
