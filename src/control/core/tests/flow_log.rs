//! The flow log as the control core goes about it, with the worker's part in the test's hand.

use std::time::{Duration, Instant};

use super::*;
use crate::control::socket::FlowLogRefused;
use crate::control::socket::methods::flow_log::StartFlowLog;
use crate::control::socket::views::{FlowLogState, FlowLogView};
use crate::datapath::flow_log::FlowLog;
use crate::datapath::messages::FromWorker;

fn to_file() -> StartFlowLog {
    StartFlowLog { file: Some("flows.jsonl".to_owned().try_into().unwrap()), ..StartFlowLog::default() }
}

/// Looks into the rings until something comes of it.
fn until<T>(bench: &mut Bench, mut look: impl FnMut(&mut Bench) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        bench.core.hear_workers();
        if let Some(found) = look(bench) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "it did not come to be");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn given(bench: &mut Bench) -> Option<Box<FlowLog>> {
    while let Ok(message) = bench.inbox.pop() {
        if let ToWorker::StartFlowLog(log) = message {
            return Some(log);
        }
    }
    None
}

fn is_off(bench: &mut Bench) -> Option<FlowLogView> {
    Some(bench.core.flow_log()).filter(|view| view.state == FlowLogState::Off)
}

#[tokio::test]
async fn a_log_is_handed_to_the_workers_and_over_when_they_have_given_it_back() {
    let mut bench = Bench::start();
    assert_eq!(bench.core.flow_log(), FlowLogView::default());
    assert_eq!(bench.core.stop_flow_log(), Err(FlowLogRefused::NotOn));
    let view = bench.core.start_flow_log(&to_file()).await.unwrap();
    let path = bench.folder.path().join("flow-logs/flows.jsonl");
    assert_eq!((view.state, view.to.as_deref()), (FlowLogState::Starting, path.to_str()));
    let again = bench.core.start_flow_log(&to_file()).await.unwrap_err();
    assert_eq!(again, FlowLogRefused::OnAlready(path.display().to_string()));

    let log = until(&mut bench, given);
    assert_eq!(bench.core.flow_log().state, FlowLogState::On);
    assert_eq!(bench.core.stop_flow_log().unwrap().state, FlowLogState::Stopping);
    let asked =
        std::iter::from_fn(|| bench.inbox.pop().ok()).any(|message| matches!(message, ToWorker::StopFlowLog));
    assert!(asked);
    for _ in 0..20 {
        bench.core.hear_workers();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.core.flow_log().state, FlowLogState::Stopping, "a worker has it yet");
    bench.says.push(FromWorker::FlowLogOver(log)).unwrap();
    let view = until(&mut bench, is_off);
    assert_eq!((view.written, view.lost, view.failed, view.error), (0, 0, 0, None));
    assert!(path.exists());
    // And another.
    bench.core.start_flow_log(&to_file()).await.unwrap();
    drop(until(&mut bench, given));
    until(&mut bench, is_off);
}

#[tokio::test]
async fn a_log_that_is_stopped_before_it_began_is_over_all_the_same() {
    let mut bench = Bench::start();
    bench.core.start_flow_log(&to_file()).await.unwrap();
    bench.core.stop_flow_log().unwrap();
    until(&mut bench, is_off);
    assert!(given(&mut bench).is_none());
}

#[tokio::test]
async fn what_workers_lose_is_told_once() {
    let mut bench = Bench::start();
    bench.counters.flow_reports_lost.add(5);
    bench.core.start_flow_log(&to_file()).await.unwrap();
    let log = until(&mut bench, given);
    let mut events = bench.core.events();
    bench.core.sweep();
    assert!(events.try_recv().is_err(), "what was lost before is not this log's");
    bench.counters.flow_reports_lost.add(3);
    bench.core.sweep();
    bench.core.sweep();
    let Ok(Event { what, .. }) = events.try_recv() else { panic!("nothing was told") };
    assert_eq!(what, What::FlowRecordsLost { lost: 3, failed: 0 });
    assert!(events.try_recv().is_err());
    assert_eq!(bench.core.flow_log().lost, 3);
    drop(log);
}

/// Where the log is to be, a file that opens when somebody reads it.
fn long_in_opening(bench: &Bench) -> std::path::PathBuf {
    let folder = bench.folder.path().join("flow-logs");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("flows.jsonl");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    path
}

/// A disk that hangs holds up who asks for a log, and nobody else.
#[test]
fn a_file_that_is_long_in_opening_is_waited_for_by_another_thread() {
    within_runtime(async || {
        let bench = Bench::start();
        let path = long_in_opening(&bench);
        let start = || {
            let core = Rc::clone(&bench.core);
            tokio::task::spawn_local(async move { core.start_flow_log(&to_file()).await })
        };
        let logs = [start(), start()];
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(logs.iter().all(|log| !log.is_finished()));
        assert_eq!(bench.core.flow_log().state, FlowLogState::Off);
        let reader = std::thread::spawn(move || std::fs::File::open(path).unwrap());
        let [one, other] = logs;
        assert_eq!(one.await.unwrap().unwrap().state, FlowLogState::Starting);
        assert!(matches!(other.await.unwrap(), Err(FlowLogRefused::OnAlready(_))));
        drop(reader.join().unwrap());
    });
}

/// Else clients that come and go would use up the threads that may wait for a disk.
#[test]
fn who_asks_for_a_file_and_goes_leaves_the_turn_with_the_thread_that_opens_it() {
    within_runtime(async || {
        let bench = Bench::start();
        let path = long_in_opening(&bench);
        let core = Rc::clone(&bench.core);
        let asked = tokio::task::spawn_local(async move { core.start_flow_log(&to_file()).await });
        tokio::time::sleep(Duration::from_millis(30)).await;
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        let may_begin = bench.core.opening_flow_log.try_lock().is_ok();
        let reader = std::thread::spawn(move || std::fs::File::open(path).unwrap());
        assert!(!may_begin, "the next thread may not begin yet");
        drop(bench.core.opening_flow_log.lock().await);
        assert_eq!(bench.core.flow_log().state, FlowLogState::Off);
        drop(reader.join().unwrap());
    });
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_told_with_the_reason() {
    let bench = Bench::start();
    std::fs::write(bench.folder.path().join("flow-logs"), "a file where the folder should be").unwrap();
    let refused = bench.core.start_flow_log(&to_file()).await.unwrap_err();
    assert!(matches!(&refused, FlowLogRefused::NotOpened(why) if why.contains("flows.jsonl")), "{refused}");
    assert_eq!(bench.core.flow_log().state, FlowLogState::Off);
}
