//! The command line's words: verbs and flags, and what each becomes as parameters of its method.

#![forbid(unsafe_code)]

mod audit;
mod aws;
mod capture;
mod change;
mod doctor;
mod explain;
mod local;
mod logs;
mod objects;
mod paging;
mod placement;
mod report;
mod running;
mod short;
mod tags;
mod targets;
mod wait;
mod whole;

pub(super) use audit::AuditFlags;
pub(super) use capture::CaptureFlags;
pub(super) use change::{ChangeFlags, Changing, Patience};
pub(super) use doctor::DoctorFlags;
pub(super) use explain::ExplainFlags;
pub(super) use local::{CompletionsFlags, ManFlags};
pub(super) use logs::{FlowLogVerb, LogLevelFlags};
pub(super) use objects::{ListenerFlag, LoadBalancerFlag, TargetGroupFlag};
pub(super) use paging::{Listing, NoFlags, Paging};
pub(super) use placement::SubnetsFlags;
pub(super) use report::ReportFlags;
pub(super) use running::TopFlags;
pub(super) use short::{DrainFlags, RpcFlags, SetFlags};
pub(super) use tags::TagsFlag;
pub(super) use wait::WaitFor;
pub(super) use whole::{DocumentFlags, RollbackFlags};

use super::lifecycle::{
    CreateListenerFlags, CreateLoadBalancerFlags, CreateTargetGroupFlags, ModifyDefaultActionFlags,
    ModifyHealthCheckFlags,
};
use super::output::{Format, Query};
use crate::control::socket::DEFAULT_PATH;
use aws::AwsFlags;
use clap::{Parser, Subcommand};
use objects::{
    ListenersFlags, LoadBalancersFlags, ModifyListenerFlags, ModifyLoadBalancerFlags, ModifyTargetGroupFlags,
    TargetGroupsFlags,
};
use placement::{RulesFlags, SetIpAddressTypeFlags, SetSubnetsFlags};
use running::{AdvanceFlags, CountersFlags, FlowsFlags, GlanceFlags, SubscribeFlags, WorkersFlags};
use std::path::PathBuf;
use tags::{AddTagsFlags, DescribeTagsFlags, RemoveTagsFlags};
use targets::{DeregisterFlags, RegisterFlags, TargetHealthFlags, TargetsFlags};

/// Below the verbs of `--help`, and in the man page.
const EXIT_CODES: &str = "\
Exit codes:
  0  it is done, or was so already
  1  it is refused, or the result cannot be shown
  2  the command line cannot be read
  3  no daemon answers
  4  what was waited for did not come to be in time
  5  it was not wanted when it was asked about, and was not done
  6  there are differences (diff)
  7  something to be warned of was found (audit, doctor)
  8  something critical was found (audit), or a problem (doctor)
  9  a change was asked for and not answered: it may still be made

Structures are given in the shorthand of aws (Key=KEY,Value=VALUE), as JSON, or as file://PATH with either in it.
Of aws's own options --region, --profile, --no-cli-pager and the like are taken and make no difference.
A name serves wherever an ARN does. Colour is for terminals, and not with NO_COLOR in the environment.";

/// What the options that every verb has are listed under.
const EVERY_VERB: &str = "Options of every verb";

/// Looks at and changes a running Flowgate gateway.
///
/// Verbs and flags are those of `aws elbv2`; a name serves wherever an ARN does.
#[derive(Debug, Parser)]
#[command(name = "flowgate", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(super) struct Arguments {
    /// The daemon's control socket.
    #[arg(long, global = true, help_heading = EVERY_VERB, env = "FLOWGATE_SOCKET", value_name = "PATH", default_value = DEFAULT_PATH)]
    pub(super) socket: PathBuf,
    /// The form of the result; a table, if nothing else is said.
    #[arg(long, global = true, help_heading = EVERY_VERB, value_enum, env = "FLOWGATE_OUTPUT", value_name = "FORMAT")]
    pub(super) output: Option<Format>,
    /// Short for --output json.
    #[arg(long, global = true, help_heading = EVERY_VERB)]
    pub(super) json: bool,
    /// What to print of the result: a JMESPath expression over its JSON.
    #[arg(long, global = true, help_heading = EVERY_VERB, value_parser = Query::read, value_name = "JMESPATH")]
    pub(super) query: Option<Query>,
    #[command(flatten)]
    _aws: AwsFlags,
    /// What to do; without a verb: `status`.
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Say how the daemon stands and what to do next; the same without a verb.
    Status,
    /// The targets at a glance: state, reason, since when, live flows.
    Targets(TargetsFlags),
    /// Take a target out of service: new flows go elsewhere, its own have the deregistration delay to end.
    Drain(Changing<DrainFlags>),
    /// Set attributes of a target group, a load balancer or its listener, whichever the keys are of.
    Set(Changing<SetFlags>),
    /// Print all objects as one document, to be kept, changed and applied.
    Export,
    /// Make the objects those of a document: all that differs is changed, or nothing is.
    Apply(Changing<DocumentFlags>),
    /// Say what applying a document would change.
    Diff(DocumentFlags),
    /// List the states that the objects were in, and the changes that led to them.
    History,
    /// Make the objects those of an earlier state.
    Rollback(Changing<RollbackFlags>),
    /// Review what will happen when a target fails: contradictions, detection times, what each loss would end.
    Audit(AuditFlags),
    /// Look at the host and the configuration: what is well, what is not, and the command that mends it.
    Doctor(DoctorFlags),
    /// Say what would become of a packet if it came in now, and why, step by step.
    Explain(ExplainFlags),
    /// How busy the workers are: packets a second, cycles a packet, burst fill, idle share, longest burst.
    Workers(GlanceFlags),
    /// What became of the flows of each target that failed or was drained, and how long each phase took.
    Report(Listing<ReportFlags>),
    /// Show the node live: what is wrong, targets, drains, workers, events; keys sort, filter, open and drain.
    Top(TopFlags),
    /// List load balancers.
    DescribeLoadBalancers(Listing<LoadBalancersFlags>),
    /// List listeners and where they forward to.
    DescribeListeners(Listing<ListenersFlags>),
    /// List target groups with their health checks and detection times.
    DescribeTargetGroups(Listing<TargetGroupsFlags>),
    /// Tell how the targets of a group stand, and how many flows the death of each would end.
    DescribeTargetHealth(TargetHealthFlags),
    /// Create a load balancer; it drops what comes until it has a listener.
    CreateLoadBalancer(Changing<CreateLoadBalancerFlags>),
    /// Delete a load balancer and its listener, unless it is protected.
    DeleteLoadBalancer(Changing<LoadBalancerFlag>),
    /// Give a load balancer its one listener.
    CreateListener(Changing<CreateListenerFlags>),
    /// Have a listener forward to another target group.
    ModifyListener(Changing<ModifyDefaultActionFlags>),
    /// Take a load balancer's listener away.
    DeleteListener(Changing<ListenerFlag>),
    /// Create a target group, without targets.
    CreateTargetGroup(Changing<CreateTargetGroupFlags>),
    /// Change how the targets of a group are checked.
    ModifyTargetGroup(Changing<ModifyHealthCheckFlags>),
    /// Delete a target group and its targets, unless a listener uses it.
    DeleteTargetGroup(Changing<TargetGroupFlag>),
    /// List a load balancer's attributes.
    DescribeLoadBalancerAttributes(LoadBalancerFlag),
    /// Set attributes of a load balancer.
    ModifyLoadBalancerAttributes(Changing<ModifyLoadBalancerFlags>),
    /// List a listener's attributes.
    DescribeListenerAttributes(ListenerFlag),
    /// Set attributes of a listener.
    ModifyListenerAttributes(Changing<ModifyListenerFlags>),
    /// List a target group's attributes and its detection time.
    DescribeTargetGroupAttributes(TargetGroupFlag),
    /// Set attributes of a target group.
    ModifyTargetGroupAttributes(Changing<ModifyTargetGroupFlags>),
    /// Register targets, or change the zone or weight of registered ones.
    RegisterTargets(Changing<RegisterFlags>),
    /// Deregister targets: their flows have the deregistration delay to end.
    DeregisterTargets(Changing<DeregisterFlags>),
    /// Have a load balancer serve other zones or subnets.
    SetSubnets(Changing<SetSubnetsFlags>),
    /// Let IPv6 travel through a load balancer, or no longer.
    SetIpAddressType(Changing<SetIpAddressTypeFlags>),
    /// List the rules of listeners, which have one each.
    DescribeRules(Listing<RulesFlags>),
    /// Tag load balancers, listeners and target groups.
    AddTags(Changing<AddTagsFlags>),
    /// Take tags away.
    RemoveTags(Changing<RemoveTagsFlags>),
    /// List tags.
    DescribeTags(DescribeTagsFlags),
    /// Tell how much of each kind this node can hold.
    DescribeAccountLimits(Listing<NoFlags>),
    /// Tell what capacity of a load balancer is reserved, which Terraform and others ask after: none ever is.
    DescribeCapacityReservation(LoadBalancerFlag),
    /// Wait until something is so, as the waiters of aws do.
    #[command(subcommand)]
    Wait(WaitFor),
    /// List flows.
    #[command(visible_alias = "flows")]
    DescribeFlows(FlowsFlags),
    /// Read counters.
    #[command(visible_alias = "counters")]
    GetCounters(CountersFlags),
    /// Print what happens as it happens: health changes, resets, drains, changes.
    Subscribe(SubscribeFlags),
    /// Capture live packets with what became of each: into a file for Wireshark, or a line a packet.
    Capture(CaptureFlags),
    /// List this node's endpoints.
    DescribeEndpoints,
    /// List this node's worker cores.
    DescribeWorkers(WorkersFlags),
    /// List this node's ports.
    DescribePorts,
    /// Show what the daemon logs, or have it log more or less.
    LogLevel(LogLevelFlags),
    /// Start, stop or show the flow log: a record of every flow that ends.
    #[command(subcommand)]
    FlowLog(FlowLogVerb),
    /// Call any method of the control socket with parameters in JSON.
    Rpc(RpcFlags),
    /// Print the script by which a shell completes this command's words.
    Completions(CompletionsFlags),
    /// Print this command's man page, or write one for each verb.
    Man(ManFlags),
    /// Let the daemon's time jump ahead; only of a daemon started for tests.
    #[command(hide = true)]
    DebugAdvanceClock(AdvanceFlags),
}
