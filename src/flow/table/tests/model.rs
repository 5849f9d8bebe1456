//! Random calls against a model made of a hash map and three queues. Tables are so small that they are
//! full, evict and wrap cookie generations all the time.

#![expect(clippy::cast_possible_truncation, reason = "the model is small")]

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert {
        n: u32,
        state: FlowState,
    },
    SetState {
        n: u32,
        state: FlowState,
    },
    Renew {
        n: u32,
    },
    Remove {
        n: u32,
    },
    Touch {
        n: u32,
    },
    Age {
        steps: u32,
        ms: u32,
    },
    /// The process ends and another takes over.
    TakeOver,
}

/// Three times as many keys as the largest table has entries.
const KEYS: u32 = 150;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let start = prop_oneof![3 => Just(FlowState::HalfOpen), 1 => Just(FlowState::Established), 1 => Just(FlowState::Other)];
    let any_state = prop_oneof![
        Just(FlowState::HalfOpen),
        Just(FlowState::Established),
        Just(FlowState::Closed),
        Just(FlowState::Expired),
        Just(FlowState::Other),
        Just(FlowState::Owing),
    ];
    let op = prop_oneof![
        6 => (0..KEYS, start).prop_map(|(n, state)| Op::Insert { n, state }),
        4 => (0..KEYS, any_state).prop_map(|(n, state)| Op::SetState { n, state }),
        1 => (0..KEYS).prop_map(|n| Op::Renew { n }),
        2 => (0..KEYS).prop_map(|n| Op::Remove { n }),
        2 => (0..KEYS).prop_map(|n| Op::Touch { n }),
        1 => (0..60_u32, 0..50_u32).prop_map(|(steps, ms)| Op::Age { steps, ms }),
        1 => Just(Op::TakeOver),
    ];
    proptest::collection::vec(op, 1..400)
}

struct Flow {
    state: FlowState,
    last_seen: Millis,
    target: TargetId,
    cookie: Cookie,
}

#[derive(Default)]
struct Model {
    flows: HashMap<u32, Flow>,
    half_open: VecDeque<u32>,
    ended: VecDeque<u32>,
}

impl Model {
    fn leave(&mut self, n: u32) {
        self.half_open.retain(|other| *other != n);
        self.ended.retain(|other| *other != n);
    }

    fn enter(&mut self, n: u32, state: FlowState) {
        self.leave(n);
        match state {
            FlowState::HalfOpen => self.half_open.push_back(n),
            FlowState::Closed | FlowState::Expired | FlowState::Owing => self.ended.push_back(n),
            FlowState::Free | FlowState::Established | FlowState::Other => {}
        }
    }

    fn remove(&mut self, n: u32) -> Option<Flow> {
        self.leave(n);
        self.flows.remove(&n)
    }

    fn set_state(&mut self, n: u32, state: FlowState) {
        if let Some(flow) = self.flows.get_mut(&n)
            && flow.state != state
        {
            flow.state = state;
            self.enter(n, state);
        }
    }
}

fn timers(_: &Entry) -> Timers {
    Timers { tcp_idle_ms: 100, other_idle_ms: 70, closed_ms: 20, half_open_ms: 40 }
}

fn number_of(key: &FlowKey) -> u32 {
    (0..KEYS).find(|n| super::key(*n) == *key).unwrap()
}

fn check(capacity: u32, start: Millis, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let place = takeover::Place::new(capacity);
    let mut table = place.create();
    let mut model = Model::default();
    let mut now = start;
    let fresh = |n: u32, state, now| NewEntry { target: TargetId(n as u16), now, ..new(state) };
    for op in ops {
        let newest = TargetId(0);
        match op {
            Op::TakeOver => {}
            Op::Insert { n, state } => {
                let key = super::key(n);
                match table.insert(table.hash(&key), &key, fresh(n, state, now)) {
                    Err(NotInserted::Exists(id)) => {
                        prop_assert!(model.flows.contains_key(&n));
                        prop_assert_eq!(table.entry(id).key(), &key);
                    }
                    Err(NotInserted::Full) => {
                        prop_assert_eq!(model.flows.len() as u32, capacity);
                        prop_assert!(model.ended.is_empty() && model.half_open.is_empty());
                    }
                    Ok(Inserted { id, evicted }) => {
                        let full = model.flows.len() as u32 == capacity;
                        let first = model.ended.front().or(model.half_open.front()).copied();
                        let victim = first.filter(|_| full);
                        prop_assert_eq!(evicted.as_ref().map(|e| number_of(e.key())), victim);
                        if let (Some(gone), Some(entry)) = (victim, &evicted) {
                            let flow = model.remove(gone).unwrap();
                            prop_assert_eq!(entry.state(), flow.state);
                            prop_assert_eq!(entry.target, flow.target);
                            prop_assert_eq!(entry.last_seen, flow.last_seen);
                        }
                        let cookie = table.cookie(id);
                        let flow = Flow { state, last_seen: now, target: TargetId(n as u16), cookie };
                        prop_assert!(model.flows.insert(n, flow).is_none());
                        model.enter(n, state);
                    }
                }
            }
            Op::SetState { n, state } => {
                if let Some(id) = find(&table, n) {
                    table.set_state(id, state);
                }
                model.set_state(n, state);
            }
            Op::Renew { n } => {
                if let Some(id) = find(&table, n) {
                    table.renew(id, NewEntry { target: newest, ..fresh(n, FlowState::HalfOpen, now) });
                    let cookie = table.cookie(id);
                    let before = model.remove(n).unwrap();
                    prop_assert_ne!(before.cookie, cookie);
                    prop_assert_eq!(table.by_cookie(before.cookie), Err(StaleCookie));
                    let flow = Flow { state: FlowState::HalfOpen, last_seen: now, target: newest, cookie };
                    model.flows.insert(n, flow);
                    model.enter(n, FlowState::HalfOpen);
                }
            }
            Op::Remove { n } => {
                if let Some(id) = find(&table, n) {
                    table.remove(id);
                }
                if let Some(gone) = model.remove(n) {
                    prop_assert_eq!(table.by_cookie(gone.cookie), Err(StaleCookie));
                }
            }
            Op::Touch { n } => {
                if let Some(id) = find(&table, n) {
                    table.entry_mut(id).last_seen = now;
                    model.flows.get_mut(&n).unwrap().last_seen = now;
                }
            }
            Op::Age { steps, ms } => {
                now = now.plus(ms);
                let mut over = Vec::new();
                table.age(steps, now, timers, |_, entry, why| over.push((number_of(entry.key()), why)));
                prop_assert!(over.len() <= steps as usize);
                for (n, why) in over {
                    let flow = &model.flows[&n];
                    let limit = match (flow.state, why) {
                        (FlowState::Established, Ended::TcpIdle) => 100,
                        (FlowState::Other, Ended::OtherIdle) => 70,
                        (FlowState::Closed, Ended::Closed) => 20,
                        (FlowState::HalfOpen, Ended::HalfOpen) => 40,
                        (FlowState::Owing, Ended::Owing) => 100,
                        other => return Err(TestCaseError::fail(format!("{other:?}"))),
                    };
                    prop_assert!(now.0.wrapping_sub(flow.last_seen.0) >= limit);
                    if why == Ended::TcpIdle {
                        model.set_state(n, FlowState::Expired);
                    } else {
                        model.remove(n);
                    }
                }
                if steps >= capacity {
                    let due = |f: &&Flow| expired(f, now);
                    prop_assert_eq!(model.flows.values().filter(due).count(), 0, "a whole round ends all");
                }
            }
        }
        if matches!(op, Op::TakeOver) {
            table = place.find();
            let came = table.take_over(|_| Keep::Yes);
            prop_assert_eq!(came, TakenOver { kept: model.flows.len() as u32, ..TakenOver::default() });
        }
        table.audit();
        prop_assert_eq!(table.len() as usize, model.flows.len());
    }
    for n in 0..KEYS {
        let found = find(&table, n);
        prop_assert_eq!(found.is_some(), model.flows.contains_key(&n));
        if let (Some(id), Some(flow)) = (found, model.flows.get(&n)) {
            prop_assert_eq!(table.entry(id).state(), flow.state);
            prop_assert_eq!(table.entry(id).target, flow.target);
            prop_assert_eq!(table.entry(id).last_seen, flow.last_seen);
            prop_assert_eq!(table.cookie(id), flow.cookie, "F-11: one cookie for life");
            prop_assert_eq!(table.by_cookie(flow.cookie), Ok(id));
        }
    }
    Ok(())
}

fn expired(flow: &Flow, now: Millis) -> bool {
    let limit = match flow.state {
        FlowState::Established | FlowState::Owing => 100,
        FlowState::Other => 70,
        FlowState::Closed => 20,
        FlowState::HalfOpen => 40,
        FlowState::Free | FlowState::Expired => return false,
    };
    now.0.wrapping_sub(flow.last_seen.0) >= limit
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn f_11_f_12_the_table_does_what_the_model_does(
        capacity in 1..50_u32, start in prop_oneof![Just(0), Just(u32::MAX - 500)], ops in ops(),
    ) {
        check(capacity, Millis(start), ops)?;
    }
}
