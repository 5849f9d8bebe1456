use super::super::counters::{Counter, Outcome};
use super::*;
use crate::id::TargetId;
use crate::io::memory::{MemoryBuf, MemoryPort};

// F-2
#[test]
fn no_worker_that_hands_over_ever_so_much_starves_the_others() {
    let counters = WorkerCounters::default();
    let mut ends = Handoff::mesh(3);
    for sender in [0, 1] {
        for _ in 0..3 * BURST {
            let packet = MemoryBuf::new(&[sender]);
            ends[usize::from(sender)].give(WorkerId(2), PortId(0), packet, &counters);
        }
    }
    let mut senders = Vec::new();
    let (mut burst, mut stages) = (Burst::new(), ArrayVec::new());
    while ends[2].take(&mut burst, &mut stages).is_some() {
        senders.push(burst[0].bytes()[0]);
        assert!(burst.iter().all(|packet| packet.bytes() == burst[0].bytes()));
        burst.clear();
    }
    assert_eq!(senders, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn the_fullest_ring_tells_how_full_it_is_and_was() {
    let counters = WorkerCounters::default();
    let mut ends = Handoff::mesh(3);
    let give = |ends: &mut [Handoff<MemoryBuf>], sender: usize, count| {
        for _ in 0..count {
            ends[sender].give(WorkerId(2), PortId(0), MemoryBuf::new(&[0]), &counters);
        }
    };
    assert_eq!((ends[2].capacity(), ends[2].fill()), (HANDOFF_RING, (0, 0)));
    give(&mut ends, 0, 100);
    give(&mut ends, 1, 70);
    assert_eq!(ends[2].fill(), (100, 0), "none was taken yet");
    let (mut burst, mut stages) = (Burst::new(), ArrayVec::new());
    while ends[2].take(&mut burst, &mut stages).is_some() {
        burst.clear();
    }
    assert_eq!(ends[2].fill(), (0, 100));
    give(&mut ends, 1, HANDOFF_RING + 9);
    assert_eq!(ends[2].fill(), (HANDOFF_RING, 0));
    assert_eq!(counters.drops[DropReason::HandoffFull.index()].get(), 9);
    assert_eq!(Handoff::<MemoryBuf>::mesh(1)[0].capacity(), 0);
}

const TARGET: TargetId = TargetId(3);

/// Ports that take so many packets each, and what is queued for them.
fn queued(room: [Option<usize>; 2]) -> (Outbound<MemoryBuf>, [MemoryPort; 2], WorkerCounters) {
    let ports = room.map(|room| MemoryPort { room, ..MemoryPort::default() });
    (Outbound::new(2), ports, WorkerCounters::default())
}

/// Packets and bytes to the target and back from it, packets forwarded, delivered and refused.
fn counted(counters: &WorkerCounters) -> ([u64; 4], [u64; 3]) {
    let of = counters.target(TARGET);
    let outcome = |outcome: Outcome| counters.outcomes[outcome.index()].get();
    (
        [&of.packets_out, &of.bytes_out, &of.packets_back, &of.bytes_back].map(Counter::get),
        [
            outcome(Outcome::Forwarded),
            outcome(Outcome::Delivered),
            counters.drops[DropReason::TransmitFull.index()].get(),
        ],
    )
}

fn burst(count: u8) -> BoxedBurst<MemoryBuf> {
    Box::new((0..count).map(|n| MemoryBuf::new(&[n])).collect())
}

struct Leaves(Delivery);

impl AsRef<Delivery> for Leaves {
    fn as_ref(&self) -> &Delivery {
        &self.0
    }
}

/// Ways out by these ports, of packets of 100, 101, … bytes.
fn ways(ports: &[u16]) -> Vec<Leaves> {
    let note = |bytes| Note { target: TARGET, bytes };
    (100..)
        .zip(ports)
        .map(|(bytes, port)| Leaves(Delivery { port: PortId(*port), note: note(bytes) }))
        .collect()
}

fn note(outbound: &mut Outbound<MemoryBuf>, count: u32) {
    let free = outbound.free_notes(PortId(0)).iter_mut();
    (0..count).zip(free).for_each(|(n, note)| *note = Note { target: TARGET, bytes: 100 + n });
}

// C-1
#[test]
fn what_a_port_does_not_take_is_counted_at_no_target() {
    for room in 0..=5 {
        let (mut outbound, mut ports, counters) = queued([Some(room), None]);
        // In the ways in which packets come: noted ones, some that were not, and such behind them.
        let (mut first, mut behind) = (burst(2), burst(2));
        note(&mut outbound, 2);
        outbound.take_noted(PortId(0), &mut first, 2);
        outbound.send(PortId(0), MemoryBuf::new(&[9]), Fate::Crossed, &counters);
        note(&mut outbound, 2);
        outbound.take_noted(PortId(0), &mut behind, 2);
        outbound.flush(&mut ports, &counters);
        outbound.end_round(false, 8, &counters);
        let sent: Vec<u64> = [100, 101, 0, 100, 101].into_iter().take(room).collect();
        let forwarded = sent.iter().filter(|bytes| **bytes > 0).count() as u64;
        let expected = ([forwarded, sent.iter().sum(), 0, 0], [forwarded, 0, 5 - room as u64]);
        assert_eq!(counted(&counters), expected, "room for {room}");
        assert_eq!(counters.outcomes[Outcome::Crossed.index()].get(), u64::from(room > 2));
    }
}

// C-1
#[test]
fn what_comes_back_is_counted_once_whether_it_leaves_by_one_port_or_by_two() {
    for (leave_by, room, delivered, bytes) in [
        (&[1, 1, 1][..], None, 3, 303),
        (&[1, 1, 1], Some(1), 1, 100),
        (&[1, 0, 1], None, 3, 303),
        (&[1, 0, 1], Some(1), 2, 201),
        (&[0, 1, 1], Some(0), 1, 100),
    ] {
        let (mut outbound, mut ports, counters) = queued([None, room]);
        let (mut back, ways) = (burst(3), ways(leave_by));
        outbound.deliver_from_front(&mut back, &ways, &counters);
        outbound.flush(&mut ports, &counters);
        outbound.end_round(false, 8, &counters);
        assert_eq!(
            counted(&counters),
            ([0, 0, delivered, bytes], [0, delivered, 3 - delivered]),
            "{leave_by:?}"
        );
        let sent: Vec<u8> =
            ports.iter().flat_map(|port| &port.sent).map(|packet| packet.bytes()[0]).collect();
        assert_eq!(sent.len() as u64, delivered);
    }
}

// C-1
#[test]
fn what_leaves_without_a_port_or_behind_a_full_queue_is_taken_off_again() {
    let (mut outbound, mut ports, counters) = queued([Some(BURST + 2), None]);
    let forwarded = Fate::Forwarded { target: TARGET, bytes: 50 };
    outbound.send(PortId(7), MemoryBuf::new(&[0]), forwarded, &counters);
    (0..BURST + 5).for_each(|_| outbound.send(PortId(0), MemoryBuf::new(&[0]), forwarded, &counters));
    outbound.flush(&mut ports, &counters);
    outbound.end_round(false, 8, &counters);
    let left = BURST as u64 + 2;
    assert_eq!(counted(&counters), ([left, 50 * left, 0, 0], [left, 0, 3]));
    assert_eq!(counters.drops[DropReason::PortUnused.index()].get(), 1);
}
