//! A disk that takes its time: changes wait for it, one after the other, and nothing else does.

use std::sync::MutexGuard;

use tokio::task::{JoinHandle, spawn_local};

use super::*;
use crate::control::health::check::Outcome as Check;
use crate::control::health::{ReasonCode, StateReason};
use crate::control::socket::Drafted;
use crate::control::store::read_state;

/// Long enough for everything that does not wait for the disk.
const A_WHILE: Duration = Duration::from_millis(30);

const FIRST: [u8; 4] = [192, 0, 2, 1];

/// Has a change made as the socket does.
fn make(bench: &Bench, change: Change) -> JoinHandle<Result<(), ChangeError>> {
    let core = Rc::clone(&bench.core);
    spawn_local(async move {
        let turn = Service::turn(&*core).await;
        let (next, outcome) = core.state().apply(&change)?;
        let drafted = Drafted { next, changes: vec![change], outcomes: vec![outcome], by: None };
        core.make(turn, drafted).await
    })
}

/// The disk hangs until this is called.
fn hung(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap()
}

fn delay_of(state: &State) -> u64 {
    state.target_group("fw").unwrap().settings().deregistration_delay.as_secs()
}

fn on_disk(bench: &Bench) -> State {
    read_state(&bench.folder.path().join("state"), None).unwrap()
}

#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn a_disk_that_hangs_holds_up_changes_in_their_order_and_nothing_else() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.core.hear_health();
        bench.published().expect("the first forwarding state");
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let changes = [make(&bench, delay("7")), make(&bench, delay("8"))];
        tokio::time::sleep(A_WHILE).await;
        assert!(changes.iter().all(|change| !change.is_finished()));
        let between = bench.core.change(&delay("9"), None).unwrap_err();
        assert!(matches!(between, ChangeError::NotStored(_)), "{between}");
        assert_eq!(delay_of(&bench.core.state()), 100, "what is not stored is not gone by");
        assert!(bench.published().is_none());

        // H-7: what checks find reaches the workers meanwhile.
        let key = TargetKey::new("fw", FIRST.into());
        for _ in 0..2 {
            let failure = Check::Failure(StateReason::plain(ReasonCode::Timeout));
            bench.core.inner.borrow().health.pretend(&key, failure);
        }
        bench.core.hear_health();
        let told = std::iter::from_fn(|| bench.inbox.pop().ok());
        let told: Vec<_> = told
            .filter_map(|message| match message {
                ToWorker::Condition { condition, .. } => Some(condition),
                _ => None,
            })
            .collect();
        assert_eq!(told, [Condition::Unhealthy]);

        drop(disk);
        for change in changes {
            change.await.unwrap().unwrap();
        }
        let state = bench.core.state();
        assert_eq!((state.generation(), delay_of(&state)), (2, 8));
        assert_eq!(on_disk(&bench), state);
        assert_eq!(bench.published().unwrap().configuration, 2);
        let kept: Vec<u64> = bench.core.history().await.iter().map(|entry| entry.generation).collect();
        assert_eq!(kept, [2, 1]);
    });
}

#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn a_change_that_is_being_stored_is_made_also_if_nobody_waits_for_it_any_more() {
    within_runtime(async || {
        let bench = Bench::start();
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let change = make(&bench, delay("7"));
        tokio::time::sleep(A_WHILE).await;
        // The connection is gone.
        change.abort();
        assert!(change.await.unwrap_err().is_cancelled());
        let next = make(&bench, delay("8"));
        drop(disk);
        next.await.unwrap().unwrap();
        let state = bench.core.state();
        assert_eq!((state.generation(), delay_of(&state)), (2, 8), "what came after it came after it");
        assert_eq!(on_disk(&bench), state);
    });
}

/// What is read for `history` and `rollback` is read by another thread, too.
#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn the_past_is_waited_for_by_who_asks_for_it_and_nobody_else() {
    within_runtime(async || {
        let bench = Bench::start();
        make(&bench, delay("7")).await.unwrap().unwrap();
        make(&bench, delay("8")).await.unwrap().unwrap();
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let core = Rc::clone(&bench.core);
        let history = spawn_local(async move { core.history().await });
        let core = Rc::clone(&bench.core);
        let earlier = spawn_local(async move { core.earlier(1).await });
        tokio::time::sleep(A_WHILE).await;
        assert!(!history.is_finished() && !earlier.is_finished());
        assert_eq!(delay_of(&bench.core.state()), 8);
        drop(disk);
        let kept: Vec<u64> = history.await.unwrap().iter().map(|entry| entry.generation).collect();
        assert_eq!(kept, [2, 1]);
        assert_eq!(delay_of(&earlier.await.unwrap().unwrap().unwrap()), 7);
    });
}

/// Else clients that come and go would use up the threads that may wait for a disk.
#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn who_asks_for_the_past_and_goes_leaves_no_thread_more_at_a_disk_that_hangs() {
    within_runtime(async || {
        let bench = Bench::start();
        make(&bench, delay("7")).await.unwrap().unwrap();
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let before = Arc::strong_count(&store);
        for number in 0..20 {
            let core = Rc::clone(&bench.core);
            let asked = spawn_local(async move {
                match number % 2 {
                    0 => drop(core.history().await),
                    _ => drop(core.earlier(1).await),
                }
            });
            tokio::time::sleep(Duration::from_millis(2)).await;
            asked.abort();
            assert!(asked.await.unwrap_err().is_cancelled());
        }
        // Each thread that reads has the store.
        assert_eq!(Arc::strong_count(&store), before + 1);
        drop(disk);
        assert_eq!(bench.core.history().await.len(), 1);
    });
}

#[test]
fn a_change_that_cannot_be_stored_leaves_room_for_the_next() {
    within_runtime(async || {
        let bench = Bench::start();
        let folder = bench.folder.path().join("state");
        std::fs::rename(&folder, folder.with_extension("away")).unwrap();
        let refused = make(&bench, delay("7")).await.unwrap().unwrap_err();
        assert!(matches!(refused, ChangeError::NotStored(_)), "{refused}");
        assert_eq!(delay_of(&bench.core.state()), 100);
        std::fs::rename(folder.with_extension("away"), &folder).unwrap();
        make(&bench, delay("8")).await.unwrap().unwrap();
        assert_eq!(on_disk(&bench), bench.core.state());
    });
}

fn register(last: u8) -> Change {
    let address = [192, 0, 2, last].into();
    let targets = vec![crate::control::model::TargetDescription { address, zone: None, weight: None }];
    Change::RegisterTargets { target_group: "fw".to_owned(), targets }
}

/// The table that workers choose by, if they were sent one.
fn table(bench: &mut Bench) -> crate::balance::TargetMap {
    let forwarding = bench.published().expect("a forwarding state");
    forwarding.gateways[0].as_ref().expect("a load balancer").map.clone()
}

// F-4
#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn a_table_that_is_built_aside_is_the_one_that_would_have_been_built_and_the_present_one_serves_meanwhile() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let before = table(&mut bench);
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let change = make(&bench, register(3));
        tokio::time::sleep(A_WHILE).await;
        bench.core.sweep();
        // News of a neighbour, say.
        bench.core.inner.borrow_mut().publish();
        assert!(Arc::ptr_eq(&table(&mut bench).rows, &before.rows), "it is the very same");
        drop(disk);
        change.await.unwrap().unwrap();
        let after = table(&mut bench);
        let mut other = Bench::start();
        other.core.change(&register(3), None).unwrap();
        assert_eq!(after.rows, table(&mut other).rows);
        assert_ne!(after.rows, before.rows);
    });
}

// F-4
#[test]
fn a_table_that_was_built_for_a_state_which_could_not_be_stored_is_not_used() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let before = table(&mut bench);
        std::fs::remove_dir_all(bench.folder.path().join("state")).unwrap();
        make(&bench, register(3)).await.unwrap().unwrap_err();
        bench.core.inner.borrow_mut().publish();
        assert_eq!(table(&mut bench).rows, before.rows);
    });
}

// T-4
#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn a_drain_that_ends_while_a_change_is_stored_ends_after_it() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.deregister(FIRST);
        bench.core.advance_clock(100_000);
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let change = make(&bench, Change::DeleteListener { listener: "gw".to_owned() });
        tokio::time::sleep(A_WHILE).await;
        let end = bench.core.end_drains().expect("it waits for its turn");
        tokio::time::sleep(A_WHILE).await;
        assert!(bench.core.end_drains().is_none(), "one is at it");
        assert!(!end.is_finished());
        drop(disk);
        change.await.unwrap().unwrap();
        end.await.unwrap();
        let state = bench.core.state();
        assert!(!state.target_group("fw").unwrap().targets.contains_key(&FIRST.into()));
        assert_eq!((state.generation(), &on_disk(&bench)), (3, &state));
    });
}

// T-4
#[test]
fn a_drain_ends_in_its_turn_however_many_changes_are_waiting() {
    within_runtime(async || {
        let bench = Rc::new(Bench::start());
        bench.deregister(FIRST);
        bench.core.advance_clock(200_000);
        let clients = ["7", "8"].map(|seconds| {
            let bench = Rc::clone(&bench);
            spawn_local(async move {
                for n in 0.. {
                    make(&bench, delay(["60", seconds][n % 2])).await.unwrap().unwrap();
                }
            })
        });
        tokio::time::sleep(A_WHILE).await;
        // As the control core asks.
        let ended = async {
            loop {
                match bench.core.end_drains() {
                    Some(end) => return end.await.unwrap(),
                    None => tokio::time::sleep(POLL).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), ended).await.expect("it gets its turn");
        clients.iter().for_each(JoinHandle::abort);
        assert!(!bench.core.state().target_group("fw").unwrap().targets.contains_key(&FIRST.into()));
    });
}

// T-3
#[test]
fn a_drain_whose_end_cannot_be_stored_keeps_its_clock_and_is_tried_again_a_second_after_the_failure() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.deregister(FIRST);
        bench.core.advance_clock(100_000);
        let key = TargetKey::new("fw", FIRST.into());
        let deadline = || bench.core.inner.borrow().drains.ends(&key, bench.core.inner.borrow().now());
        let ends = deadline();
        assert!(ends.is_some());
        let folder = bench.folder.path().join("state");
        std::fs::rename(&folder, folder.with_extension("away")).unwrap();
        let end = bench.core.end_drains().expect("it is over");
        tokio::time::sleep(2 * A_WHILE).await;
        assert_eq!(bench.core.inner.borrow().not_stored, 1);
        std::fs::rename(folder.with_extension("away"), &folder).unwrap();
        assert!(bench.core.end_drains().is_none(), "not at once");
        assert_eq!(deadline(), ends, "it is shown when it should have ended");
        end.await.unwrap();
        bench.end_drains().await;
        assert_eq!(deadline(), None);
        assert_eq!(on_disk(&bench), bench.core.state());
    });
}

#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn how_long_a_change_waits_is_seen_while_it_waits_and_a_target_that_it_brings_only_when_it_is_stored() {
    use crate::control::monitor::Source as _;
    within_runtime(async || {
        let bench = Bench::start();
        let targets = || bench.core.snapshot().targets.len();
        assert_eq!((bench.core.snapshot().storing_for, targets()), (Duration::ZERO, 2));
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let change = make(&bench, register(3));
        tokio::time::sleep(A_WHILE).await;
        // News of a neighbour, say.
        bench.core.inner.borrow_mut().publish();
        assert!(bench.core.snapshot().storing_for >= A_WHILE / 2);
        assert_eq!(targets(), 2);
        drop(disk);
        change.await.unwrap().unwrap();
        assert_eq!((bench.core.snapshot().storing_for, targets()), (Duration::ZERO, 3));
    });
}

/// A log that tests look into.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
#[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
fn a_change_that_waits_and_one_that_is_refused_are_told_in_the_log() {
    let lines = Lines::default();
    let told = || String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _log = tracing::subscriber::set_default(log);
    within_runtime(async || {
        let bench = Bench::start();
        let store = Arc::clone(&bench.core.inner.borrow().store);
        let disk = hung(&store);
        let change = make(&bench, delay("7"));
        tokio::time::sleep(A_WHILE).await;
        assert!(!told().contains("waits for the disk"), "a disk may be slow: {}", told());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(told().contains("WARN") && told().contains("a change waits for the disk"), "{}", told());
        assert!(!change.is_finished());
        drop(disk);
        change.await.unwrap().unwrap();
        std::fs::remove_dir_all(bench.folder.path().join("state")).unwrap();
        assert!(!told().contains("ERROR"), "{}", told());
        make(&bench, delay("8")).await.unwrap().unwrap_err();
        assert!(told().contains("ERROR") && told().contains("a change was refused"), "{}", told());
    });
}
