//! A tcpdump whose frames are looked at as they come.

use std::io::Read;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::capture::Frame;
use super::netns::Netns;

/// A running tcpdump.
pub struct Tap {
    tcpdump: Child,
    #[allow(dead_code, reason = "what is said in the end is the soak's to hear")]
    said: Option<ChildStderr>,
}

impl Tap {
    /// Has `see` look at the first `most` bytes (0: all) of everything that crosses `interface` in `netns`, in both
    /// directions, from the moment this returns. `filter` is one of tcpdump's, empty for all.
    pub fn start(
        netns: &Netns,
        interface: &str,
        filter: &str,
        most: usize,
        mut see: impl FnMut(Frame) + Send + 'static,
    ) -> Self {
        let most = most.to_string();
        let mut tcpdump = netns
            .command("tcpdump")
            .args(["-n", "-U", "-p", "--immediate-mode", "-B", "16384", "-s", &most])
            .args(["-w", "-", "-i", interface, filter])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump is installed");
        let mut pipe = tcpdump.stdout.take().expect("it was piped");
        let said = tcpdump.stderr.take();
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            // The file header comes when the interface is open.
            let mut header = [0; 24];
            if pipe.read_exact(&mut header).is_err() || ready.send(header).is_err() {
                return;
            }
            while let Some(frame) = next_frame(&mut pipe) {
                see(frame);
            }
        });
        let header =
            is_ready.recv_timeout(Duration::from_secs(5)).expect("tcpdump starts within five seconds");
        assert_eq!(header[..4], 0xa1b2_c3d4_u32.to_le_bytes(), "a pcap file with microseconds");
        Self { tcpdump, said }
    }

    /// Ends it; how many frames the kernel had no room for.
    #[allow(dead_code, reason = "the soak's alone")]
    pub fn end(mut self) -> Option<u64> {
        let pid = i32::try_from(self.tcpdump.id()).expect("a pid fits");
        kill(Pid::from_raw(pid), Signal::SIGTERM).ok()?;
        let mut text = String::new();
        self.said.take()?.read_to_string(&mut text).ok()?;
        self.tcpdump.wait().ok()?;
        let line = text.lines().find(|line| line.ends_with("dropped by kernel"))?;
        line.split(' ').next()?.parse().ok()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill.
        if self.tcpdump.kill().is_ok() {
            let _status = self.tcpdump.wait();
        }
    }
}

fn next_frame(pipe: &mut impl Read) -> Option<Frame> {
    let mut header = [0; 16];
    pipe.read_exact(&mut header).ok()?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let mut bytes = vec![0; usize::try_from(word(8)).ok()?];
    pipe.read_exact(&mut bytes).ok()?;
    Some(Frame { at: Duration::new(u64::from(word(0)), word(4) * 1000), bytes })
}
