//! A flow table, whatever is done with it and in whatever state it is.
//!
//! Promises, held against a plain map: a flow is found under its key and its cookie until it is removed and never after
//! (F-11), no two have one cookie, room is made by who ended and then by who is half-open, oldest first, and by nobody
//! else (F-12), the hand ends what is over and nothing else (F-9), and the counts are those of the map.

use crate::bytes::Bytes;
use flowgate::flow::{
    Cookie, Entry, FlowFlags, FlowKey, FlowState, HashSeed, Inserted, LinkId, NewEntry, NotInserted, Pages,
    Table, TableConfig, Timers,
};
use flowgate::id::{EndpointId, Millis, TargetId, WorkerId};
use std::collections::BTreeMap;

/// Several times as many keys as the largest table has entries.
const KEYS: u8 = 150;
const STEPS: usize = 400;

const ENDED: [FlowState; 3] = [FlowState::Closed, FlowState::Expired, FlowState::Owing];
const BEGUN: [FlowState; 4] =
    [FlowState::HalfOpen, FlowState::HalfOpen, FlowState::Established, FlowState::Other];

#[derive(Clone, Copy, Debug)]
struct Flow {
    state: FlowState,
    /// Since when it is in that state, among all changes.
    since: usize,
    seen: Millis,
    cookie: Cookie,
}

fn key(n: u8) -> FlowKey {
    let (client, server) = (0xc000_0200 + u128::from(n), 0xc633_6401);
    FlowKey::new(EndpointId(u16::from(n % 2)), 4, 6, client, server, 1024 + u16::from(n), 443).0
}

fn timers(_: &Entry) -> Timers {
    Timers { tcp_idle_ms: 100, other_idle_ms: 70, closed_ms: 20, half_open_ms: 40 }
}

fn is_over(flow: &Flow, now: Millis) -> bool {
    let limit = match flow.state {
        FlowState::Established | FlowState::Owing => 100,
        FlowState::Other => 70,
        FlowState::Closed => 20,
        FlowState::HalfOpen => 40,
        FlowState::Free | FlowState::Expired => return false,
    };
    now.0.wrapping_sub(flow.seen.0) >= limit
}

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    let capacity = u32::from(bytes.byte() % 48) + 1;
    let workers = bytes.byte() % 4 + 1;
    let worker = WorkerId(bytes.byte() % workers);
    let mut now = Millis(if bytes.bit() { u32::MAX - 300 } else { 1000 });
    let seed = HashSeed::from_secret(b"fuzzing");
    let config = TableConfig { capacity, worker, workers, pages: Pages::Small, seed };
    let mut table = Table::new(config).unwrap();
    let mut flows: BTreeMap<u8, Flow> = BTreeMap::new();
    // Who enters a state after whom: several may in one step.
    let mut changes = 0;
    let mut change = || {
        changes += 1;
        changes
    };
    for step in 0..STEPS {
        if bytes.is_empty() {
            break;
        }
        let (what, n) = (bytes.below(6), bytes.byte() % KEYS);
        let found = table.find(table.hash(&key(n)), &key(n));
        assert_eq!(found.is_some(), flows.contains_key(&n), "flow {n} at step {step}");
        let new = |state, now| NewEntry {
            state,
            flags: FlowFlags::default(),
            target: TargetId(n.into()),
            target_generation: 0,
            link: [LinkId::NONE; 2],
            now,
        };
        match (what, found) {
            (0 | 1, _) => {
                let state = bytes.of(&BEGUN);
                match table.insert(table.hash(&key(n)), &key(n), new(state, now)) {
                    Err(NotInserted::Exists(id)) => assert_eq!(Some(id), found),
                    Err(NotInserted::Full) => {
                        let may_go =
                            |flow: &&Flow| flow.state == FlowState::HalfOpen || ENDED.contains(&flow.state);
                        assert_eq!(
                            (flows.len(), flows.values().find(may_go).map(|f| f.state)),
                            (capacity as usize, None)
                        );
                    }
                    Ok(Inserted { id, evicted }) => {
                        assert!(found.is_none());
                        let victim = goes(&flows, capacity);
                        assert_eq!(evicted.map(|entry| *entry.key()), victim.map(key), "who made room");
                        if let Some(gone) = victim.and_then(|gone| flows.remove(&gone)) {
                            table.by_cookie(gone.cookie).expect_err("F-11");
                        }
                        let cookie = table.cookie(id);
                        flows.insert(n, Flow { state, since: change(), seen: now, cookie });
                    }
                }
            }
            (2, Some(id)) => {
                let state = bytes.of(&FlowState::IN_USE);
                table.set_state(id, state);
                let flow = flows.get_mut(&n).unwrap();
                if flow.state != state {
                    (flow.state, flow.since) = (state, change());
                }
            }
            (3, Some(id)) => {
                let before = flows[&n].cookie;
                if bytes.bit() {
                    table.renew(id, new(FlowState::HalfOpen, now));
                    let cookie = table.cookie(id);
                    flows.insert(n, Flow { state: FlowState::HalfOpen, since: change(), seen: now, cookie });
                } else {
                    table.remove(id);
                    flows.remove(&n);
                }
                table.by_cookie(before).expect_err("F-11");
            }
            (4, Some(id)) => {
                table.entry_mut(id).last_seen = now;
                flows.get_mut(&n).unwrap().seen = now;
            }
            (5, _) => {
                now = now.plus(bytes.byte().into());
                let steps = u32::from(bytes.byte() % 64);
                let mut over = Vec::new();
                table.age(steps, now, timers, |_, entry, _| over.push(*entry.key()));
                for ended in over {
                    let n = (0..KEYS).find(|n| key(*n) == ended).unwrap();
                    let flow = flows.get_mut(&n).expect("it had ended before");
                    assert!(is_over(flow, now), "{flow:?} at {now:?}");
                    if flow.state == FlowState::Established {
                        (flow.state, flow.since) = (FlowState::Expired, change());
                    } else {
                        flows.remove(&n);
                    }
                }
                assert!(
                    steps < capacity || !flows.values().any(|flow| is_over(flow, now)),
                    "a whole round ends all"
                );
            }
            _ => {}
        }
        is_sound(&table, &flows);
    }
}

/// Who makes room for a newcomer.
fn goes(flows: &BTreeMap<u8, Flow>, capacity: u32) -> Option<u8> {
    let oldest = |of: &[FlowState]| {
        let among = flows.iter().filter(|(_, flow)| of.contains(&flow.state));
        among.min_by_key(|(_, flow)| flow.since).map(|(n, _)| *n)
    };
    let full = flows.len() == capacity as usize;
    oldest(&ENDED).or_else(|| oldest(&[FlowState::HalfOpen])).filter(|_| full)
}

fn is_sound(table: &Table, flows: &BTreeMap<u8, Flow>) {
    assert_eq!(table.len() as usize, flows.len());
    for state in FlowState::IN_USE {
        let expected = flows.values().filter(|flow| flow.state == state).count();
        assert_eq!(table.count(state) as usize, expected, "{state:?}");
    }
    let mut cookies = Vec::new();
    for (n, flow) in flows {
        let id = table.find(table.hash(&key(*n)), &key(*n)).expect("a flow that is not found");
        let entry = table.entry(id);
        assert_eq!(
            (entry.state(), entry.last_seen, entry.target),
            (flow.state, flow.seen, TargetId((*n).into()))
        );
        assert_eq!((table.cookie(id), table.by_cookie(flow.cookie)), (flow.cookie, Ok(id)), "F-11");
        cookies.push(flow.cookie.0);
    }
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), flows.len(), "F-11: two flows with one cookie");
    let mut walked = 0;
    let mut from = Some(0);
    while let Some(at) = from {
        from = table.scan(at, 16, |_, _| walked += 1);
    }
    assert_eq!(walked, flows.len(), "a walk sees each flow once");
}
