//! A link between a host and the gateway on which every frame is of a VLAN, for kernels that have none: a
//! tap at either end, and a thread between them that puts the host's tags in and takes the gateway's out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use flowgate::io::tap::{HostLink, Tap};

use super::mac_text;
use super::netns::Netns;

/// Where a frame's addresses end and its tags begin.
const ADDRESSES: usize = 12;

/// Such a link; gone when dropped.
pub struct Trunk {
    gateway: Arc<Mutex<Tap>>,
    strays: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Trunk {
    /// Joins `host` (its interface and link-layer address) with the gateway's interface, by these VLANs,
    /// the outer one first.
    pub fn new(
        host: (&Netns, &str, [u8; 6]),
        gateway: (&Netns, &str),
        mtu: u16,
        vlans: &'static [u16],
    ) -> Trunk {
        let mut near = tap(host.0, host.1);
        let far = Arc::new(Mutex::new(tap(gateway.0, gateway.1)));
        // What a tag adds must fit what the gateway's interface takes.
        let within = mtu - 4 * u16::try_from(vlans.len()).expect("two at most");
        host.0.ip(&format!("link set {} address {} mtu {within} up", host.1, mac_text(host.2)));
        gateway.0.ip(&format!("link set {} mtu {mtu} up", gateway.1));

        let tags = tags(vlans);
        let strays = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, counted, ended) = (Arc::clone(&far), Arc::clone(&strays), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut room = vec![0; 4096];
            while !ended.load(Ordering::Relaxed) {
                let mut moved = false;
                if let Ok(Some(length)) = near.receive(&mut room) {
                    moved = true;
                    let (addresses, rest) = room[..length].split_at(ADDRESSES);
                    let frame = [addresses, &tags, rest].concat();
                    // What the other end has no room for is lost, as on a link.
                    ends.lock().expect("nobody panics with it").send(&frame).ok();
                }
                let received = ends.lock().expect("nobody panics with it").receive(&mut room);
                if let Ok(Some(length)) = received {
                    moved = true;
                    let (addresses, rest) = room[..length].split_at(ADDRESSES);
                    match rest.strip_prefix(tags.as_slice()) {
                        Some(rest) => drop(near.send(&[addresses, rest].concat())),
                        None => drop(counted.fetch_add(1, Ordering::Relaxed)),
                    }
                }
                if !moved {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        Trunk { gateway: far, strays, stop, thread: Some(thread) }
    }

    /// Sends the gateway a frame as it is.
    pub fn inject(&self, frame: &[u8]) {
        self.gateway
            .lock()
            .expect("nobody panics with it")
            .send(frame)
            .expect("the gateway's interface is up");
    }

    /// Frames that the gateway sent with other tags than this link's.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }
}

impl Drop for Trunk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has made the test fail already.
            thread.join().ok();
        }
    }
}

/// The tags as they are in a frame: 802.1ad outside of 802.1Q where there are two.
fn tags(vlans: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, vlan) in vlans.iter().enumerate() {
        bytes.extend(if n + 1 < vlans.len() { [0x88, 0xa8] } else { [0x81, 0x00] });
        bytes.extend(vlan.to_be_bytes());
    }
    bytes
}

fn tap(netns: &Netns, name: &str) -> Tap {
    netns.run(|| Tap::open(name)).unwrap_or_else(|error| panic!("in {}: {error}", netns.name()))
}
