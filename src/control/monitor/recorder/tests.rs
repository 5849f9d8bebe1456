//! What is asked for by many is made once.

use std::cell::Cell;

use super::*;
use crate::control::events::What;
use crate::control::failover::Cause;

/// A node that was asked so often for its failovers.
#[derive(Default)]
struct Node {
    asked: Cell<u64>,
}

impl Watched for Node {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(0)
    }

    fn overview(&self) -> Overview {
        unreachable!("nobody asks for it here")
    }

    fn failovers(&self) -> FailoverList {
        self.asked.set(self.asked.get() + 1);
        FailoverList { not_recorded: self.asked.get(), ..FailoverList::default() }
    }

    fn events(&self) -> Receiver<Event> {
        unreachable!("nobody listens here")
    }
}

#[tokio::test(start_paused = true)]
async fn failovers_are_gathered_once_for_all_who_ask_within_a_moment_and_anew_when_one_begins() {
    let node = Rc::new(Node::default());
    let recorder = Recorder::new(node.clone());
    let first = recorder.failovers();
    tokio::time::advance(FRESH / 2).await;
    assert_eq!((recorder.failovers(), node.asked.get()), (first.clone(), 1));
    tokio::time::advance(FRESH).await;
    let second = recorder.failovers();
    assert!(second != first && node.asked.get() == 2);
    // What is no failover changes nothing of them.
    recorder.note(Event::now(What::ConfigChanged { generation: 2 }));
    assert_eq!((recorder.failovers(), node.asked.get()), (second, 2));
    let begun = What::FailoverStarted {
        id: 1,
        cause: Cause::Unhealthy,
        target_group: "fw".to_owned(),
        target: [192, 0, 2, 1].into(),
        flows: 7,
    };
    recorder.note(Event::now(begun));
    recorder.failovers();
    assert_eq!(node.asked.get(), 3);
}
