//! Ports whose other end is a program that comes and goes, and finds them by a Unix socket.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

use flowgate::control::node::Device;
use flowgate::datapath::counters::WorkerCounters;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::Refusal;
use super::devices::Devices;

/// How long each ring of a peer is kept for a worker that goes no round. DPDK's thread does nothing else meanwhile; a worker
/// that wakes up in the ring after that ends the daemon.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks. A round takes microseconds, and a worker at rest sleeps for less than a millisecond.
const LOOKS_EVERY: Duration = Duration::from_micros(100);

/// Removes the sockets that a daemon before this one has left where its ports are to listen: one that was killed, or whose user
/// had no right to the folder. DPDK's drivers would take each for another program's, and not open the port.
pub fn remove_left_sockets<'a>(devices: impl IntoIterator<Item = &'a Device>) {
    for (path, kind) in devices.into_iter().filter_map(listens_at) {
        if !is_left(path, kind) {
            continue;
        }
        match fs::remove_file(path) {
            Ok(()) => {
                tracing::info!(name: "left_socket_removed", path = %path.display(), "a socket that nobody listens at any more is removed, for a port to listen there");
            }
            Err(error) => {
                tracing::warn!(name: "left_socket_stays", path = %path.display(), %error, "a socket that nobody listens at any more cannot be removed");
            }
        }
    }
}

/// The socket's file, where a device listens for its peer by one.
fn listens_at(device: &Device) -> Option<(&Path, SockType)> {
    let is = |key: &str, value: &str| device.argument(key) == Some(value);
    let (path, kind) = match device.name().trim_end_matches(|c: char| c.is_ascii_digit()) {
        "net_memif" if is("role", "server") && is("socket-abstract", "no") => ("socket", SockType::SeqPacket),
        "net_vhost" if !is("client", "1") => ("iface", SockType::Stream),
        "net_virtio_user" if is("server", "1") => ("path", SockType::Stream),
        _ => return None,
    };
    Some((Path::new(device.argument(path)?), kind))
}

/// Whether it is a socket of this kind at which nobody listens.
fn is_left(path: &Path, kind: SockType) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    let asked = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let caller = socket(AddressFamily::Unix, kind, flags, None)?;
        connect(std::os::fd::AsRawFd::as_raw_fd(&caller), &UnixAddr::new(path)?)
    };
    is_socket && asked() == Err(Errno::ECONNREFUSED)
}

/// As long as this is there, `net_memif` waits for the workers before it takes the rings of a peer that has gone from
/// under them. It goes after them: whoever closes the ports then must find nobody waiting.
pub struct PeersWait {
    workers_ended: Arc<AtomicBool>,
}

impl PeersWait {
    /// For these workers, if there is such a port.
    ///
    /// # Errors
    /// If DPDK's thread cannot be told so.
    pub fn for_workers(devices: &Devices, workers: Vec<Arc<WorkerCounters>>) -> Result<PeersWait, Refusal> {
        let workers_ended = Arc::new(AtomicBool::new(false));
        if let Some(eal) = &devices.eal
            && devices.ports.iter().any(|port| port.driver() == "net_memif")
        {
            let ended = Arc::clone(&workers_ended);
            eal.wait_before_unmapping(move || wait_for_rounds(&workers, PATIENCE, &ended))?;
        }
        Ok(PeersWait { workers_ended })
    }
}

impl Drop for PeersWait {
    fn drop(&mut self) {
        self.workers_ended.store(true, Ordering::SeqCst);
    }
}

/// Waits until each worker has ended the round that it is in, or all have ended, or one has gone none for so long.
fn wait_for_rounds(workers: &[Arc<WorkerCounters>], patience: Duration, ended: &AtomicBool) {
    // The rounds that begin from now on see what was written before, by whoever waits; and those that began sooner have, after
    // a moment, left the buffer of what their CPU has still to write.
    fence(Ordering::SeqCst);
    let begun = Instant::now();
    std::thread::sleep(LOOKS_EVERY);
    let waits = || begun.elapsed() < patience && !ended.load(Ordering::SeqCst);
    for worker in workers {
        let before = worker.rounds.get();
        while worker.rounds.get() == before && waits() {
            std::thread::sleep(LOOKS_EVERY);
        }
    }
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{Backlog, bind, listen};

    use super::*;

    #[test]
    fn a_socket_that_nobody_listens_at_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["left", "listening", "file", "link", "stream"].map(|name| folder.path().join(name));
        let [left, listening, file, link, stream] = &paths;
        let listens = |path: &Path, kind: SockType| {
            let listener = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
            bind(std::os::fd::AsRawFd::as_raw_fd(&listener), &UnixAddr::new(path).unwrap()).unwrap();
            listen(&listener, Backlog::new(4).unwrap()).unwrap();
            listener
        };
        drop(listens(left, SockType::SeqPacket));
        let _other = listens(listening, SockType::SeqPacket);
        fs::write(file, "").unwrap();
        std::os::unix::fs::symlink(left, link).unwrap();
        drop(listens(stream, SockType::Stream));
        let none = folder.path().join("none");
        let memifs = paths[..4]
            .iter()
            .chain([&none])
            .map(|path| format!("net_memif0,role=server,socket-abstract=no,socket={}", path.display()));
        let vhost = format!("net_vhost0,iface={}", stream.display());
        let devices: Vec<Device> = memifs.chain([vhost]).map(|device| device.parse().unwrap()).collect();
        remove_left_sockets(&devices);
        let stays: Vec<bool> = paths.iter().map(|path| fs::symlink_metadata(path).is_ok()).collect();
        assert_eq!(stays, [false, true, true, true, false], "{paths:?}");
    }

    #[test]
    fn who_listens_and_at_what_follows_from_the_arguments() {
        let at = |device: &str| {
            let device: Device = device.parse().unwrap();
            listens_at(&device).map(|(path, _)| path.to_owned())
        };
        let here = Some("/run/x.sock".into());
        assert_eq!(at("net_memif0,role=server,socket-abstract=no,socket=/run/x.sock"), here);
        assert_eq!(at("net_memif0,role=client,socket-abstract=no,socket=/run/x.sock"), None);
        assert_eq!(at("net_memif0,role=server,socket=/run/x.sock"), None, "an abstract one has no file");
        assert_eq!(at("net_vhost12,iface=/run/x.sock,queues=2"), here);
        assert_eq!(at("net_vhost0,iface=/run/x.sock,client=1"), None);
        assert_eq!(at("net_virtio_user0,path=/run/x.sock,server=1"), here);
        assert_eq!(at("net_virtio_user0,path=/run/x.sock"), None);
        assert_eq!(at("net_af_packet0,iface=eth0"), None);
    }

    #[test]
    fn each_worker_is_waited_for_until_it_has_ended_its_round_and_no_longer_than_that() {
        for moving in [0, 1] {
            let workers: Vec<Arc<WorkerCounters>> = (0..2).map(|_| Arc::default()).collect();
            let (told, waited) = std::sync::mpsc::channel();
            let waits = std::thread::scope(|scope| {
                scope.spawn(|| {
                    wait_for_rounds(&workers, Duration::from_secs(600), &AtomicBool::new(false));
                    told.send(()).unwrap();
                });
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(50) && waited.try_recv().is_err() {
                    workers[moving].rounds.add(1);
                    std::thread::yield_now();
                }
                let waits = begun.elapsed() >= Duration::from_millis(50);
                // It may have begun to look only now: rounds go on.
                while waits && waited.try_recv().is_err() {
                    workers.iter().for_each(|worker| worker.rounds.add(1));
                    std::thread::yield_now();
                }
                waits
            });
            assert!(waits, "the other one than {moving} is in its round");
        }
    }

    #[test]
    fn a_worker_that_goes_no_round_is_given_up_and_one_that_has_ended_not_waited_for() {
        let began = Instant::now();
        wait_for_rounds(&[Arc::default()], Duration::from_millis(20), &AtomicBool::new(false));
        assert!(began.elapsed() >= Duration::from_millis(20));
        // For ever otherwise.
        wait_for_rounds(&[Arc::default()], Duration::MAX, &AtomicBool::new(true));
    }
}
