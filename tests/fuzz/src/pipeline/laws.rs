//! What holds whatever was played.

use crate::harness::*;
use crate::reading::{be16, read};
use flowgate::datapath::counters::{Outcome, ResetTrigger};
use flowgate::datapath::messages::{FlowFilter, FlowRecord, FromWorker, ToWorker};
use flowgate::flow::{Cookie, FlowState};
use flowgate::id::{GatewayId, TargetId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The largest packet that a routed interface takes.
const INTERFACE_MTU: usize = 1500;
/// Ethernet, two tags.
const LONGEST_LINK: usize = 22;
const SLOTS: u16 = 8;

/// One end of a conversation.
type End = (u128, u16);

/// What an encapsulated packet is of: endpoint, protocol, and both ends in order.
type Conversation = (u64, u8, [End; 2]);

pub struct Laws {
    capacity: u64,
    /// Frames that came out so far.
    out: u64,
    /// The largest packet that the target side ever took.
    pub mtu: u16,
    /// Flows may move: A-4 was on.
    pub may_move: bool,
    /// A port had no room at times, and resets may have been lost unsent.
    pub cookies: BTreeMap<u32, (Conversation, [u8; 4])>,
    is_routed: bool,
}

impl Laws {
    pub fn new(bench: &Bench, capacity: u64) -> Laws {
        let is_routed = !bench.network.interfaces.is_empty();
        Laws { capacity, out: 0, mtu: bench.mtu, may_move: false, cookies: BTreeMap::new(), is_routed }
    }

    /// What is at the front of every frame to a target.
    pub fn is_encapsulated(&self, frame: &[u8]) -> bool {
        frame.len() >= 82
            && be16(frame, 12) == Some(0x0800)
            && frame[23] == 17
            && be16(frame, 36) == Some(6081)
    }

    /// A frame that came out.
    pub fn frame(&mut self, bench: &Bench, port: usize, frame: &[u8]) {
        self.out += 1;
        if port != UNDER || !self.is_encapsulated(frame) {
            // The host may send by an interface what it likes, and a wire takes what the other end of it sent.
            let of_host = bench.outcome(Outcome::FromHost) > 0;
            let most = LONGEST_LINK + INTERFACE_MTU;
            assert!(!self.is_routed || of_host || frame.len() <= most, "a frame of {} bytes", frame.len());
            return;
        }
        let length = usize::from(be16(frame, 16).unwrap());
        assert_eq!(frame.len(), 14 + length, "an outer length that is not the frame's");
        assert!(length <= self.mtu.into(), "a packet of {length} bytes for {}", self.mtu);
        assert_eq!(checksum(&[&frame[14..34]]), 0, "the outer header's checksum");
        let (cookie, inside) = (cookie(frame), inner(frame));
        let reading = read(inside).expect("what is inside was read before");
        assert_eq!(reading.total, inside.len(), "padding, or less than the packet");
        if Cookie(cookie).is_stateless() || reading.quotes.is_some() || reading.fragment.is_some() {
            return;
        }
        let endpoint = u64::from_be_bytes(frame[54..62].try_into().unwrap());
        let mut ends = [(reading.src, reading.ports.0), (reading.dst, reading.ports.1)];
        ends.sort_unstable();
        let target: [u8; 4] = frame[30..34].try_into().unwrap();
        let now = ((endpoint, reading.protocol, ends), target);
        let before = self.cookies.insert(cookie, now).unwrap_or(now);
        assert_eq!(before.0, now.0, "F-11: {cookie:08x} is of two flows");
        assert!(before.1 == now.1 || self.may_move, "F-5: {cookie:08x} goes to two targets");
    }

    /// C-1: all that came in is counted, and all that came out.
    pub fn at_rest(&self, bench: &mut Bench) {
        let all = || bench.counters.iter();
        let received: u64 = all().map(|all| all.received.get()).sum();
        let settled: u64 = all().map(|all| all.settled()).sum();
        let waits: usize = bench.workers.iter().map(|worker| worker.unsettled()).sum();
        assert_eq!(received, settled + waits as u64, "C-1; drops: {:?}", bench.drops());
        let ends =
            [Outcome::Forwarded, Outcome::Delivered, Outcome::Answered, Outcome::Crossed, Outcome::FromHost];
        let left: u64 = ends.iter().map(|end| bench.outcome(*end)).sum();
        let told = |all: &flowgate::datapath::counters::WorkerCounters| {
            (0..3)
                .map(|id| all.gateway(GatewayId(id)).resets[ResetTrigger::Proactive.index()].get())
                .sum::<u64>()
        };
        let pieces: u64 = all().map(|all| all.fragments_sent.get() + told(all)).sum();
        assert_eq!(left + pieces, self.out, "what came out and what is counted of it");
        // each flow that ever was has two ends to be told.
        let begun: u64 =
            all().map(|all| (0..SLOTS).map(|n| all.target(TargetId(n)).new_flows.get()).sum::<u64>()).sum();
        let unasked: u64 = all().map(|all| told(all)).sum();
        assert!(unasked <= 2 * begun, "{unasked} resets to the ends of {begun} flows");
    }

    /// What the tables hold.
    pub fn tables(&self, bench: &mut Bench) {
        let kept = std::mem::take(&mut bench.told);
        bench.tell(|| ToWorker::ScanFlows(FlowFilter { scan: 77, limit: u32::MAX, ..FlowFilter::default() }));
        for _ in 0..8 {
            bench.rounds();
        }
        let told = std::mem::replace(&mut bench.told, kept);
        let records: Vec<FlowRecord> = told
            .into_iter()
            .filter_map(|told| match told {
                FromWorker::Flow(record) if record.scan == 77 => Some(record),
                _ => None,
            })
            .collect();
        assert!(records.len() as u64 <= self.capacity, "{} flows in {}", records.len(), self.capacity);
        let (mut cookies, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for record in &records {
            assert!(cookies.insert(record.cookie), "F-11: {record:?} and another have one cookie");
            let mut ends: [(IpAddr, u16); 2] = [record.initiator, record.responder];
            ends.sort_unstable();
            assert!(keys.insert((record.endpoint, record.protocol, ends)), "two entries of {record:?}");
            assert_ne!(record.state, FlowState::Free);
        }
        let live = |record: &&FlowRecord| !matches!(record.state, FlowState::Expired | FlowState::Owing);
        for target in 0..SLOTS {
            let of = |record: &&FlowRecord| record.target == TargetId(target);
            let walked = records.iter().filter(live).filter(of).count() as u64;
            assert_eq!(walked, bench.live_flows(target), "live flows of target {target}: {records:?}");
        }
    }
}
