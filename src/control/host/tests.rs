//! Frames between rings and links: links of memory, and a tap of the real kernel's.

use std::collections::VecDeque;
use std::io;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use super::*;
use crate::control::netlink::Links;
use crate::io::memory::MemoryBuf;
use crate::io::tap::Tap;

/// A link of memory, shared with the test.
#[derive(Clone, Default)]
struct MemoryLink(Arc<Mutex<Sides>>);

#[derive(Default)]
struct Sides {
    /// What the host was given.
    given: Vec<Vec<u8>>,
    /// What the host sends.
    sends: VecDeque<Vec<u8>>,
    /// The host takes nothing.
    down: bool,
}

impl MemoryLink {
    fn with<T>(&self, look: impl FnOnce(&mut Sides) -> T) -> T {
        look(&mut self.0.lock().expect("no test panics with it"))
    }
}

impl HostLink for MemoryLink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.with(|sides| match sides.down {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => {
                sides.given.push(frame.to_vec());
                Ok(())
            }
        })
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.with(|sides| sides.sends.pop_front()).map(|frame| {
            room[..frame.len()].copy_from_slice(&frame);
            frame.len()
        }))
    }

    fn wait(_: &[MemoryLink], patience: Duration) {
        std::thread::sleep(patience);
    }
}

const A: InterfaceId = InterfaceId(4);
const B: InterfaceId = InterfaceId(7);

type Mover = HostMover<MemoryBuf, MemoryLink>;

type Ports = Vec<HostPort<MemoryBuf>>;

fn mover(workers: usize) -> (Mover, Ports, [MemoryLink; 2], [Arc<HostCounters>; 2]) {
    let links = [MemoryLink::default(), MemoryLink::default()];
    let counters = [Arc::new(HostCounters::default()), Arc::new(HostCounters::default())];
    let interfaces = [A, B].into_iter().zip(&links).zip(&counters).map(|((interface, link), counters)| {
        HostInterface { interface, link: link.clone(), counters: Arc::clone(counters) }
    });
    let (mover, ports) =
        HostMover::new(workers, interfaces.collect(), |frame: &[u8]| Some(MemoryBuf::new(frame)));
    (mover, ports, links, counters)
}

fn push(port: &mut HostPort<MemoryBuf>, interface: InterfaceId, frame: &[u8]) -> bool {
    let to = port.to.as_mut().expect("every worker has one");
    to.push(ToHost { interface, packet: MemoryBuf::new(frame) }).is_ok()
}

fn counted(counters: &HostCounters) -> [u64; 3] {
    [&counters.to_host, &counters.from_host, &counters.lost].map(|counter| counter.load(Ordering::Relaxed))
}

#[test]
fn frames_of_every_worker_reach_the_link_of_their_interface() {
    let (mut mover, mut ports, links, counters) = mover(2);
    assert!(push(&mut ports[0], A, b"a by worker 0"));
    assert!(push(&mut ports[1], B, b"b by worker 1"));
    assert!(push(&mut ports[1], A, b"a by worker 1"));
    assert!(push(&mut ports[0], InterfaceId(9), b"of no host interface"));
    assert_eq!(mover.round(), 4);
    assert_eq!(
        links[0].with(|sides| sides.given.clone()),
        [b"a by worker 0".to_vec(), b"a by worker 1".to_vec()]
    );
    assert_eq!(links[1].with(|sides| sides.given.clone()), [b"b by worker 1".to_vec()]);
    assert_eq!([counted(&counters[0]), counted(&counters[1])], [[2, 0, 0], [1, 0, 0]]);
    assert_eq!(mover.round(), 0);
}

#[test]
fn the_hosts_frames_reach_worker_0_with_their_interface() {
    let (mut mover, mut ports, links, counters) = mover(2);
    links[1].with(|sides| sides.sends.push_back(b"from the host".to_vec()));
    assert!(ports[1].from.is_none(), "worker 0 alone sends for the host");
    assert_eq!(mover.round(), 1);
    let frame = ports[0].from.as_mut().expect("worker 0's").pop().expect("it was moved");
    assert_eq!((frame.interface, frame.packet.bytes()), (B, &b"from the host"[..]));
    assert_eq!([counted(&counters[0]), counted(&counters[1])], [[0, 0, 0], [0, 1, 0]]);
}

#[test]
fn a_host_that_takes_nothing_loses_its_own_frames_only() {
    let (mut mover, mut ports, links, counters) = mover(1);
    links[0].with(|sides| sides.down = true);
    for interface in [A, B, A] {
        assert!(push(&mut ports[0], interface, b"frame"));
    }
    assert_eq!(mover.round(), 3);
    assert_eq!([counted(&counters[0]), counted(&counters[1])], [[0, 0, 2], [1, 0, 0]]);
}

#[test]
fn a_flood_of_either_side_is_bounded_by_the_rings_and_a_round() {
    let (mut mover, mut ports, links, counters) = mover(1);
    links[0].with(|sides| sides.sends.extend((0..2000).map(|_| b"flood".to_vec())));
    for _ in 0..HOST_RING {
        assert!(push(&mut ports[0], A, b"flood"));
    }
    assert!(!push(&mut ports[0], A, b"one more"), "the worker counts it and goes on");
    assert_eq!(mover.round(), 2 * FRAMES_A_ROUND);
    while mover.round() > 0 {}
    // Nothing is lost of what worker 0 has no room for: it stays with the kernel.
    assert_eq!(counted(&counters[0]), [HOST_RING as u64, HOST_RING as u64, 0]);
    assert_eq!(links[0].with(|sides| sides.sends.len()), 2000 - HOST_RING);
    ports[0].from.as_mut().expect("worker 0's").pop().expect("full");
    assert_eq!(mover.round(), 1, "room for one");
}

#[test]
fn a_frame_over_which_the_mover_panics_is_lost_and_those_after_it_are_moved() {
    let link = MemoryLink::default();
    link.with(|sides| sides.sends.extend([b"poison".to_vec(), b"frame".to_vec()]));
    let counters = Arc::new(HostCounters::default());
    let host = HostInterface { interface: A, link, counters: Arc::clone(&counters) };
    let packet = |frame: &[u8]| {
        assert_ne!(frame, b"poison", "on purpose");
        Some(MemoryBuf::new(frame))
    };
    let (mut mover, mut ports) = HostMover::<MemoryBuf, _>::new(1, vec![host], packet);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| mover.run(&stop));
        let began = std::time::Instant::now();
        let from = ports[0].from.as_mut().expect("worker 0 has it");
        while from.is_empty() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        let came = from.pop().expect("the frame after it");
        assert_eq!(came.packet.bytes(), b"frame");
    });
    assert_eq!(counted(&counters), [0, 1, 0]);
}

#[test]
fn frames_that_find_no_buffer_are_counted() {
    let link = MemoryLink::default();
    link.with(|sides| sides.sends.push_back(b"frame".to_vec()));
    let counters = Arc::new(HostCounters::default());
    let host = HostInterface { interface: A, link, counters: Arc::clone(&counters) };
    let (mut mover, _ports) = HostMover::<MemoryBuf, _>::new(1, vec![host], |_| None);
    assert_eq!(mover.round(), 1);
    assert_eq!(counted(&counters), [0, 0, 1]);
}

/// A network namespace of this test's own, gone when dropped.
struct Netns(String);

impl Netns {
    fn new(what: &str) -> Netns {
        let netns = Netns(format!("fghost-{}-{what}", std::process::id()));
        let status = Command::new("ip").args(["netns", "add", &netns.0]).status();
        assert!(status.is_ok_and(|status| status.success()), "the tests run as root");
        netns
    }

    /// Runs `test` on a thread of its own inside the namespace.
    fn inside<T: Send>(&self, test: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = std::fs::File::open(format!("/run/netns/{}", self.0)).expect("it is there");
                nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).expect("the tests run as root");
                test()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // There is nothing more to be done about one that cannot be taken away.
        Command::new("ip").args(["netns", "del", &self.0]).status().ok();
    }
}

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 7, 1];
const THEIR_MAC: [u8; 6] = [2, 0, 0, 0, 7, 2];

/// Who has 10.78.0.1? Tell 10.78.0.2 (RFC 826).
fn arp_request() -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &THEIR_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend(THEIR_MAC);
    frame.extend([10, 78, 0, 2, 0, 0, 0, 0, 0, 0, 10, 78, 0, 1]);
    frame
}

#[test]
fn the_kernel_answers_arp_and_ping_by_a_tap_for_what_a_worker_hands_over() {
    let netns = Netns::new("tap");
    netns.inside(|| {
        let tap = Tap::open("fg-lan.100").expect("a right of root");
        let mut links = Links::open().expect("netlink");
        let index = links.index("fg-lan.100").expect("it was made");
        links.set_up(index, OUR_MAC, 1500).expect("set up");
        links.add_address(index, "10.78.0.1".parse().expect("an address"), 24).expect("added");
        assert!(
            links.all().expect("told").iter().any(|link| link.index == index && link.is_tap() && link.up)
        );

        let counters = Arc::new(HostCounters::default());
        let host = HostInterface { interface: A, link: tap, counters: Arc::clone(&counters) };
        let (mut mover, mut ports) =
            HostMover::new(1, vec![host], |frame: &[u8]| Some(MemoryBuf::new(frame)));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| mover.run(&stop));
            assert!(push(&mut ports[0], A, &arp_request()));
            let reply = answer(&mut ports[0], |frame| frame[12..14] == [8, 6] && frame[21] == 2);
            assert_eq!(
                reply[..12],
                [THEIR_MAC, OUR_MAC].concat(),
                "to the asker, from the port's own address"
            );
            assert_eq!(reply[22..32], [&OUR_MAC[..], &[10, 78, 0, 1]].concat());

            assert!(push(&mut ports[0], A, &echo_request()));
            let reply = answer(&mut ports[0], |frame| frame[12..14] == [8, 0] && frame[34] == 0);
            assert_eq!(reply[26..34], [10, 78, 0, 1, 10, 78, 0, 2]);
            stop.store(true, Ordering::Relaxed);
            thread.join().expect("it ends in peace");
        });
        assert!(
            counters.to_host.load(Ordering::Relaxed) == 2 && counters.from_host.load(Ordering::Relaxed) >= 2
        );
        drop(mover);
        assert!(links.index("fg-lan.100").is_err(), "the tap goes with its owner");
    });
}

/// An ICMP echo request from 10.78.0.2, with its checksums.
fn echo_request() -> Vec<u8> {
    let mut frame = [&OUR_MAC[..], &THEIR_MAC, &[8, 0]].concat();
    frame.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 78, 0, 2, 10, 78, 0, 1]);
    frame.extend([8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    for (at, until) in [(24, 34), (36, 42)] {
        let start = if at == 24 { 14 } else { 34 };
        let words =
            frame[start..until].chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum = words.sum::<u32>();
        let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("one carry is enough here");
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

fn answer(port: &mut HostPort<MemoryBuf>, is: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let from = port.from.as_mut().expect("worker 0's");
    loop {
        assert!(Instant::now() < deadline, "the kernel says nothing");
        match from.pop() {
            Ok(frame) if is(frame.packet.bytes()) => return frame.packet.bytes().to_vec(),
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn a_tap_that_cannot_be_made_says_why() {
    let netns = Netns::new("notap");
    netns.inside(|| {
        let told = Tap::open("lo").expect_err("it is no tap").to_string();
        assert_eq!(told, "the tap lo cannot be made: Invalid argument (os error 22); there is a device of that name that is no tap");
        let _first = Tap::open("fg-one").expect("made");
        let told = Tap::open("fg-one").expect_err("it is taken").to_string();
        assert!(told.ends_with("another program has it"), "{told}");
    });
}
