//! The control core with a worker's ends of the rings in the test's hand.

mod accounts;
mod failovers;
mod faults;
mod flow_log;
mod inband;
mod overview;
mod preview;
mod restarted;
mod resumed;
mod scans;
mod storing;
mod subscribers;

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

use rtrb::Consumer;
use tracing::level_filters::LevelFilter;

use super::*;
use crate::control::compile::NodeFacts;
use crate::control::flow_log::Threads;
use crate::control::health::NodeScope;
use crate::control::health::check::SocketChecker;
use crate::control::logging::Filter;
use crate::control::model::{Change, TargetChange};
use crate::control::neighbours::{Heard, Neighbours, Reachability};
use crate::control::netlink::News;
use crate::control::resume::Keeper;
use crate::control::socket::ChangeError;
use crate::control::socket::Service;
use crate::control::socket::views::{CounterScope, CounterSet};
use crate::control::workers::WorkerLink;
use crate::datapath::counters::WorkerCounters;
use crate::datapath::forwarding::{Condition, Forwarding, Underlay};
use crate::datapath::messages::ToWorker;
use crate::flow::HashSeed;
use crate::id::{InterfaceId, TargetId, WorkerId};
use crate::io::clock::Clock;
use crate::wire::ethernet::MacAddr;

/// Messages that fit into the ring to the worker.
const RING: usize = 64;

const OBJECTS: &str = r#"{
    "version": 1,
    "load_balancers": [{ "name": "gw", "listener": { "target_group": "fw" } }],
    "target_groups": [{
        "name": "fw",
        "attributes": { "deregistration_delay.timeout_seconds": 100 },
        "targets": [{ "address": "192.0.2.1" }, { "address": "192.0.2.2" }]
    }]
}"#;

const NODE: &str = r#"
[workers]
cores = [1]
[[ports]]
name = "left"
device = "net_null0"
[[ports]]
name = "right"
device = "net_null1"
[[ports]]
name = "under"
device = "net_null2"
[underlay]
port = "under"
address = "192.0.2.100/24"
[[endpoints]]
name = "edge"
id = 1
kind = "wire"
ports = ["left", "right"]
load_balancer = "gw"
"#;

struct Bench {
    core: Rc<Core>,
    inbox: Consumer<ToWorker>,
    counters: Arc<WorkerCounters>,
    folder: tempfile::TempDir,
    /// What the worker says.
    says: rtrb::Producer<FromWorker>,
    /// What the kernel is asked.
    asked: mpsc::Receiver<Hop>,
}

impl Bench {
    fn start() -> Bench {
        Bench::resumed(Keeper::shared())
    }

    /// A control core that takes over from one that has handed on so much.
    fn resumed(keeper: SharedKeeper) -> Bench {
        Bench::restarted(keeper, |_| Restart::nothing(crate::control::tables::Outcome::First))
    }

    /// One of a daemon of whose flow tables this has come, by the workers' clock.
    fn restarted(keeper: SharedKeeper, came: impl FnOnce(&Clock) -> Restart) -> Bench {
        Bench::of_life(Life::first(), keeper, came)
    }

    /// The same, in its first life or after a panic.
    fn of_life(life: Life, keeper: SharedKeeper, came: impl FnOnce(&Clock) -> Restart) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let config = crate::control::node::NodeConfig::parse(NODE).unwrap();
        let (to, inbox) = rtrb::RingBuffer::new(RING);
        let (says, from) = rtrb::RingBuffer::new(64);
        let counters = Arc::new(WorkerCounters::default());
        let link = WorkerLink::new(WorkerId(0), 1, 1024, Arc::clone(&counters), to, from);
        let node = NodeFacts {
            scope: NodeScope::default(),
            subnets: config.subnets,
            ports: Vec::new(),
            endpoints: Vec::new(),
            interfaces: Vec::new(),
            underlay: Underlay::default(),
            underlay_mac: MacAddr::BROADCAST,
            routes: config.underlay,
        };
        let clock = Clock::start();
        let restart = came(&clock);
        let (health, health_events) = HealthEngine::new(SocketChecker::default());
        let known = Hop { interface: InterfaceId(0), address: Ipv4Addr::new(192, 0, 2, 1).into() };
        let neighbours = Neighbours::new([(known, MacAddr([2, 0, 0, 0, 0, 1]))].into());
        let (questions, asked) = mpsc::channel(64);
        let core = Core::start(CoreParts {
            state: State::from_document(OBJECTS).unwrap(),
            store: Arc::new(Mutex::new(Store::open(&folder.path().join("state")).unwrap())),
            compiler: Compiler::new(node, HashSeed::from_secret(b"the tests' own secret")).into(),
            health,
            health_events,
            workers: Workers::new(vec![link], clock).into(),
            network: NetworkParts { neighbours: neighbours.into(), questions },
            ports: Box::new(Vec::new),
            buffers: Box::new(Vec::new),
            log: LogControl::detached(Filter::of(LevelFilter::INFO)),
            flow_logs: FlowLogs::new(FlowLogParts {
                folder: folder.path().join("flow-logs"),
                seed: HashSeed::from_secret(b"the tests' own secret"),
                threads: Threads::default(),
                from_start: None,
            })
            .into(),
            drains: Drains::default().into(),
            life,
            keeper,
            restart,
            not_ready_file: Rc::new(NotReadyFile::new(&folder.path().join("not-ready"))),
        });
        Bench { core, inbox, counters, folder, says, asked }
    }

    /// The forwarding state that was published last, if any was since it was last asked; from then on the
    /// worker goes by it.
    fn published(&mut self) -> Option<Arc<Forwarding>> {
        let mut last = None;
        while let Ok(message) = self.inbox.pop() {
            if let ToWorker::Forwarding(forwarding) = message {
                last = Some(forwarding);
            }
        }
        if let Some(forwarding) = &last {
            self.counters.configuration.set(forwarding.configuration);
        }
        last
    }

    /// Ends the drains that are over, and comes back when that is stored.
    async fn end_drains(&self) {
        if let Some(task) = self.core.end_drains() {
            task.await.unwrap();
        }
    }

    fn deregister(&self, address: [u8; 4]) {
        let change = Change::DeregisterTargets {
            target_group: "fw".to_owned(),
            targets: vec![address.into()],
            now_unix_ms: self.core.inner.borrow().unix_ms(),
        };
        self.core.change(&change, None).unwrap();
    }

    fn slot(&self, address: [u8; 4]) -> Option<TargetId> {
        let inner = self.core.inner.borrow();
        inner.slots.get(&TargetKey::new("fw", address.into())).map(|slot| slot.id)
    }
}

/// Runs a test where checks can be spawned.
fn within_runtime(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(test()));
}

fn delay(seconds: &str) -> Change {
    let attribute = ("deregistration_delay.timeout_seconds".to_owned(), seconds.to_owned());
    Change::ModifyTargetGroupAttributes { target_group: "fw".to_owned(), attributes: vec![attribute] }
}

#[test]
fn a_change_is_on_disk_and_on_its_way_to_the_workers_when_it_is_answered() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.published().expect("the first forwarding state");
        let generation = bench.core.change(&delay("7"), None).unwrap().generation;
        let state = bench.folder.path().join("state");
        let stored = crate::control::store::read_state(&state, None).unwrap();
        assert_eq!(stored.generation(), generation);
        assert_eq!(bench.published().expect("the next").configuration, generation);
        bench.core.change(&delay("7"), None).unwrap();
        assert!(bench.published().is_none(), "nothing has changed");
    });
}

#[test]
fn a_change_that_cannot_be_stored_changes_nothing() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.published().expect("the first forwarding state");
        std::fs::remove_dir_all(bench.folder.path().join("state")).unwrap();
        let before = bench.core.state();
        let refused = bench.core.change(&delay("7"), None).unwrap_err();
        assert!(matches!(refused, ChangeError::NotStored(_)), "{refused}");
        assert_eq!(bench.core.state(), before);
        assert!(bench.published().is_none());
    });
}

// T-3, T-4, A-1
#[test]
fn a_drained_target_is_known_until_its_last_flow_has_ended() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let target = bench.slot([192, 0, 2, 1]).unwrap();
        bench.counters.target(target).active_flows.add(2);
        bench.deregister([192, 0, 2, 1]);
        let forwarding = bench.published().unwrap();
        assert_eq!(forwarding.conditions[target.index()], Condition::Draining);
        let members = &forwarding.gateways[0].as_ref().unwrap().map.members;
        assert!(members.iter().all(|member| member.target() != target), "no new flows");

        bench.core.advance_clock(99_000);
        bench.end_drains().await;
        assert!(bench.published().is_none(), "the delay is not over");
        bench.core.advance_clock(1_000);
        bench.end_drains().await;
        bench.counters.target(target).active_flows.sub(2);
        bench.core.sweep();
        assert_eq!(bench.slot([192, 0, 2, 1]), Some(target), "a worker may begin a flow with it yet");
        bench.counters.target(target).active_flows.add(2);
        let forwarding = bench.published().unwrap();
        assert_eq!(forwarding.conditions[target.index()], Condition::Removed);
        assert!(
            forwarding.targets[target.index()].as_ref().unwrap().template.is_some(),
            "T-4: still sent to"
        );

        bench.core.sweep();
        assert_eq!(bench.slot([192, 0, 2, 1]), Some(target), "it has flows");
        let group = bench.core.state();
        let statuses = bench.core.targets(group.target_group("fw").unwrap());
        assert_eq!((statuses[0].address.octets(), statuses[0].flows), ([192, 0, 2, 1], 2));
        bench.counters.target(target).active_flows.sub(2);
        bench.counters.target(target).packets_out.add(7);
        let packets_of_group = |bench: &Bench| {
            let sets = bench.core.counters().sets;
            let of_group = |set: &&CounterSet| set.scope == CounterScope::TargetGroup && set.name == "fw";
            sets.iter().find(of_group).unwrap().counters["PacketsToTarget"]
        };
        assert_eq!(packets_of_group(&bench), 7);
        bench.core.sweep();
        assert_eq!(bench.slot([192, 0, 2, 1]), None);
        assert!(bench.published().unwrap().targets[target.index()].is_none());
        assert_eq!(packets_of_group(&bench), 7, "what was counted stays counted");
    });
}

// T-4
#[test]
fn drains_that_end_together_are_one_change_of_the_forwarding_state_and_told_one_by_one() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.deregister([192, 0, 2, 1]);
        bench.deregister([192, 0, 2, 2]);
        bench.published().unwrap();
        let mut events = bench.core.events();
        bench.core.advance_clock(100_000);
        bench.end_drains().await;
        let mut states = 0;
        while let Ok(message) = bench.inbox.pop() {
            states += usize::from(matches!(message, ToWorker::Forwarding(_)));
        }
        assert_eq!(states, 1);
        let (mut ended, mut changed) = (0, 0);
        while let Ok(event) = events.try_recv() {
            match event.what {
                What::DrainEnded { .. } => ended += 1,
                What::ConfigChanged { .. } => changed += 1,
                _ => {}
            }
        }
        assert_eq!((ended, changed), (2, 1));
        assert!(bench.core.state().target_group("fw").unwrap().targets.is_empty());
    });
}

// T-7
#[test]
fn a_target_registered_again_while_it_drains_keeps_its_slot() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let target = bench.slot([192, 0, 2, 2]).unwrap();
        bench.deregister([192, 0, 2, 2]);
        let again = Change::RegisterTargets {
            target_group: "fw".to_owned(),
            targets: vec![crate::control::model::TargetDescription {
                address: [192, 0, 2, 2].into(),
                zone: None,
                weight: None,
            }],
        };
        bench.core.change(&again, None).unwrap();
        let forwarding = bench.published().unwrap();
        assert_eq!(bench.slot([192, 0, 2, 2]), Some(target));
        assert_eq!(forwarding.conditions[target.index()], Condition::Initial);
        bench.core.advance_clock(1_000_000);
        bench.end_drains().await;
        assert_eq!(bench.slot([192, 0, 2, 2]), Some(target), "the drain's clock was stopped");
    });
}

/// A neighbour on the underlay.
fn hop(last: u8) -> Hop {
    Hop { interface: InterfaceId(0), address: Ipv4Addr::new(192, 0, 2, last).into() }
}

/// The kernel says this of it; the workers have heard when this returns.
fn kernel_says(
    bench: &mut Bench,
    last: u8,
    state: Reachability,
    mac: Option<MacAddr>,
) -> Option<Arc<Forwarding>> {
    let heard = Heard::Is(hop(last), state, mac);
    let mut inner = bench.core.inner.borrow_mut();
    inner.hear_kernel(News::Neighbour(heard));
    inner.follow_network();
    std::thread::sleep(Duration::from_millis(11));
    inner.follow_network();
    drop(inner);
    bench.published()
}

#[test]
fn a_target_is_sent_to_once_its_neighbour_is_known_and_shown_unresolved_until_then() {
    within_runtime(async || {
        let mut bench = Bench::start();
        assert_eq!(bench.asked.try_recv(), Ok(hop(2)), "the other is given");
        assert!(bench.asked.try_recv().is_err());
        let target = bench.slot([192, 0, 2, 2]).unwrap();
        let template =
            |forwarding: &Forwarding| forwarding.targets[target.index()].as_ref().unwrap().template.is_some();
        let shown = |bench: &Bench| {
            let state = bench.core.state();
            let statuses = bench.core.targets(state.target_group("fw").unwrap());
            statuses
                .into_iter()
                .map(|status| (status.neighbour.state, status.neighbour.mac))
                .collect::<Vec<_>>()
        };
        let given = ("static".to_owned(), Some("02:00:00:00:00:01".to_owned()));
        assert!(!template(&bench.published().unwrap()));
        assert_eq!(shown(&bench), [given.clone(), ("unknown".to_owned(), None)]);

        let mac = Some(MacAddr([2, 0, 0, 0, 0, 2]));
        let forwarding = kernel_says(&mut bench, 2, Reachability::Reachable, mac).expect("news");
        assert!(template(&forwarding));
        assert_eq!(shown(&bench)[1], ("reachable".to_owned(), Some("02:00:00:00:00:02".to_owned())));
        assert!(
            kernel_says(&mut bench, 2, Reachability::Stale, mac).is_none(),
            "the same address is no news"
        );
        let forwarding = kernel_says(&mut bench, 2, Reachability::Failed, None).expect("news");
        assert!(!template(&forwarding));
        assert_eq!(shown(&bench), [given, ("failed".to_owned(), None)]);
    });
}

#[test]
fn a_neighbour_that_a_worker_asks_for_is_asked_of_the_kernel_and_told_to_the_workers() {
    within_runtime(async || {
        let mut bench = Bench::start();
        while bench.asked.try_recv().is_ok() {}
        let wanted = Hop { interface: InterfaceId(3), address: "2001:db8::7".parse().unwrap() };
        let resolve = FromWorker::Resolve { interface: wanted.interface, address: wanted.address };
        bench.says.push(resolve).unwrap();
        bench.core.hear_workers();
        bench.core.inner.borrow_mut().follow_network();
        assert_eq!(bench.asked.try_recv(), Ok(wanted));
        bench.published();
        let mac = MacAddr([2, 0, 0, 0, 0, 7]);
        for (state, told) in [(Reachability::Reachable, Some(mac)), (Reachability::Failed, None)] {
            bench.core.inner.borrow_mut().hear_kernel(News::Neighbour(Heard::Is(wanted, state, Some(mac))));
            let message = bench.inbox.pop().unwrap();
            let ToWorker::Neighbour { interface, address, mac } = message else { panic!("{message:?}") };
            assert_eq!((interface, address, mac), (wanted.interface, wanted.address, told));
        }
    });
}

// H-7
#[test]
fn a_change_of_health_is_one_message_and_no_new_forwarding_state() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.published();
        let event = HealthEvent {
            key: TargetKey::new("fw", [192, 0, 2, 1].into()),
            from: crate::control::health::HealthState::Initial,
            to: crate::control::health::HealthState::Healthy,
            reason: None,
            at: crate::control::health::Moment::now(),
            first_failure_at: None,
            checks_in_row: 1,
            course: None,
        };
        bench.core.health_changed(event);
        let target = bench.slot([192, 0, 2, 1]).unwrap();
        let message = bench.inbox.pop().unwrap();
        assert!(matches!(message, ToWorker::Condition { target: told, .. } if told == target), "{message:?}");
        assert!(bench.inbox.pop().is_err());
    });
}

// R-8
#[test]
fn resets_are_summed_up_by_target_and_trigger_since_they_were_last_told() {
    within_runtime(async || {
        use crate::datapath::counters::ResetTrigger;
        let bench = Bench::start();
        let target = bench.slot([192, 0, 2, 1]).unwrap();
        let mut events = bench.core.events();
        let mut told = || {
            bench.core.sweep();
            let mut told = Vec::new();
            while let Ok(event) = events.try_recv() {
                if let What::FlowsReset { target, count, .. } = event.what {
                    told.push((target, count));
                }
            }
            told
        };
        bench.counters.target(target).resets[ResetTrigger::Unhealthy.index()].add(5);
        assert_eq!(told(), [(Some(Ipv4Addr::new(192, 0, 2, 1)), 5)]);
        assert_eq!(told(), []);
        bench.counters.target(target).resets[ResetTrigger::Unhealthy.index()].add(1);
        bench.counters.gateway(crate::id::GatewayId(0)).resets[ResetTrigger::NoFlow.index()].add(2);
        assert_eq!(told(), [(Some(Ipv4Addr::new(192, 0, 2, 1)), 1), (None, 2)]);
    });
}

// A-9, O-1
#[test]
fn a_load_balancer_without_a_listener_or_gone_has_no_forwarding_state_and_its_targets_no_checks() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let target = bench.slot([192, 0, 2, 1]).unwrap();
        bench.counters.target(target).active_flows.add(1);
        assert!(bench.published().unwrap().gateways[0].is_some());
        let mut change = |change| {
            bench.core.change(&change, None).unwrap();
            let forwarding = bench.published().unwrap();
            let state = bench.core.state();
            let group = state.target_group("fw").ok().map(|group| bench.core.targets(group)[0].state);
            (forwarding.gateways[0].is_some(), forwarding.targets[target.index()].is_some(), group)
        };
        use crate::control::health::HealthState::{Initial, Unused};
        let gw = || "gw".to_owned();
        assert_eq!(change(Change::DeleteListener { listener: gw() }), (false, true, Some(Unused)));
        let listener = || Change::CreateListener {
            load_balancer: gw(),
            target_group: "fw".to_owned(),
            tags: Vec::new(),
        };
        assert_eq!(change(listener()), (true, true, Some(Initial)));
        assert_eq!(change(Change::DeleteLoadBalancer { load_balancer: gw() }), (false, true, Some(Unused)));
        let create = Change::CreateLoadBalancer {
            name: gw().try_into().unwrap(),
            ip_address_type: crate::control::model::IpAddressType::Ipv4,
            placement: crate::control::model::Placement::everywhere(),
            tags: Vec::new(),
            now_unix_ms: 0,
        };
        assert_eq!(change(create), (false, true, Some(Unused)));
        assert_eq!(change(listener()), (true, true, Some(Initial)), "under the number it had");
        change(Change::DeleteListener { listener: gw() });
        // T-4: a target whose group is gone is known until its last flow has ended.
        let gone = change(Change::DeleteTargetGroup { target_group: "fw".to_owned() });
        assert_eq!(gone, (false, true, None));
        bench.counters.target(target).active_flows.sub(1);
        bench.core.sweep();
        assert!(bench.published().unwrap().targets[target.index()].is_none());
    });
}

// O-1
#[test]
fn a_load_balancer_keeps_its_number_and_one_that_is_gone_gives_its_own_up_when_there_are_no_others() {
    within_runtime(async || {
        let bench = Bench::start();
        let mut inner = bench.core.inner.borrow_mut();
        let Inner { compiler, slots, .. } = &mut *inner;
        let mut number_among = |names: &[String], name: &str| {
            let balancers: Vec<_> = names.iter().map(|name| format!("{{\"name\":\"{name}\"}}")).collect();
            let document = format!("{{\"version\":1,\"load_balancers\":[{}]}}", balancers.join(","));
            compiler.compile(
                &State::from_document(&document).unwrap(),
                slots,
                |_| Verdict::Initial,
                |_| None,
            );
            compiler.gateway_id(&name.to_owned().try_into().unwrap()).unwrap()
        };
        let gw = "gw".to_owned();
        assert_eq!(number_among(std::slice::from_ref(&gw), "gw"), crate::id::GatewayId(0));
        let mut names: Vec<String> = (1..256).map(|n| format!("gw-{n:03}")).collect();
        names.push(gw.clone());
        assert_eq!(number_among(&names, "gw-255"), crate::id::GatewayId(255));
        // Every number is taken, and one of them is nobody's now.
        names[6] = "late".to_owned();
        assert_eq!(number_among(&names, "late"), crate::id::GatewayId(7));
        assert_eq!(number_among(&names, "gw"), crate::id::GatewayId(0));
        assert_eq!(number_among(&[gw, "late".to_owned()], "late"), crate::id::GatewayId(7));
    });
}

/// A neighbour's news is many forwarding states in a row, each with every table of the node.
#[test]
fn a_neighbours_news_copies_no_table_that_did_not_change() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let before = bench.published().unwrap();
        let mac = Some(MacAddr([2, 0, 0, 0, 0, 9]));
        let after = kernel_says(&mut bench, 2, Reachability::Reachable, mac).unwrap();
        let rows = |forwarding: &Forwarding| Arc::clone(&forwarding.gateways[0].as_ref().unwrap().map.rows);
        assert!(Arc::ptr_eq(&rows(&before), &rows(&after)));
        assert!(after.targets.iter().flatten().all(|target| target.template.is_some()));
    });
}
