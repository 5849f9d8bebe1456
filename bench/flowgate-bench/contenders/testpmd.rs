//! The yardstick: Debian's `dpdk-testpmd` in its own process, swapping five-tuples over one `net_ring`
//! whose packets come round for ever. Told what to do by its prompt; between measurements it is stopped
//! and its core idle.
//!
//! A measurement is the CPU time of its forwarding thread, read while that thread waits before `start` and
//! after `stop`, over the packets that `stop` says it has received.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::Failure;

/// A whole start, measurement and stop takes far less than so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// It forwards for so long at least: starting and stopping takes its thread some 0.4 ms.
const LEAST: Duration = Duration::from_millis(200);

/// Bursts of 32 that go round; as many packets as fit twice into the ring's 512.
const BURSTS: u32 = 8;

/// A running testpmd.
pub struct Testpmd {
    child: Child,
    prompt: ChildStdin,
    said: Receiver<String>,
    /// The forwarding thread's accounts.
    schedstat: String,
}

impl Testpmd {
    /// Starts it, its forwarding thread on `cpu` and the other on `main_cpu`.
    pub fn start(main_cpu: u16, cpu: u16, hugepages: bool) -> Result<Testpmd, Failure> {
        let memory: &[&str] =
            if hugepages { &["--in-memory", "-m", "64"] } else { &["--no-huge", "--no-shconf", "-m", "96"] };
        // Its standard output is line by line only at a terminal.
        let mut child = Command::new("stdbuf")
            .args(["-oL", "dpdk-testpmd", "--no-pci", "--no-telemetry"])
            .arg(format!("--lcores=0@{main_cpu},1@{cpu}"))
            .arg(format!("--file-prefix=flowgate-bench-testpmd-{}", std::process::id()))
            .args(memory)
            .args(["--vdev=net_ring0", "--", "--forward-mode=5tswap", "-i"])
            .args(["--total-num-mbufs=16384", "--nb-cores=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("dpdk-testpmd could not be run: {error}; it is in Debian's dpdk-dev"))?;
        let (Some(prompt), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child without pipes".into());
        };
        let mut testpmd = Testpmd { child, prompt, said: lines_of(output), schedstat: String::new() };
        // The echo of a command that does nothing says that it is ready for more.
        testpmd.tell("show config fwd")?;
        testpmd.wait_for("packet forwarding")?;
        testpmd.schedstat = forwarding_thread(testpmd.child.id())?;
        Ok(testpmd)
    }

    /// Lets it forward for so long, or [`LEAST`]; returns nanoseconds of CPU time a packet.
    pub fn measure(&mut self, time: Duration) -> Result<f64, Failure> {
        let before = self.cpu_time()?;
        self.tell(&format!("start tx_first {BURSTS}"))?;
        std::thread::sleep(time.max(LEAST));
        self.tell("stop")?;
        let packets = self.wait_for("RX-packets:")?;
        self.wait_for("Done.")?;
        let spent = self.cpu_time()?.saturating_sub(before);
        let packets: u64 = packets
            .split_once("RX-packets:")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
            .ok_or_else(|| format!("testpmd's count of packets is not understood: {packets:?}"))?;
        if packets == 0 {
            return Err("testpmd forwarded nothing".into());
        }
        Ok(spent.as_secs_f64() * 1e9 / packets as f64)
    }

    fn tell(&mut self, command: &str) -> Result<(), Failure> {
        writeln!(self.prompt, "{command}")
            .and_then(|()| self.prompt.flush())
            .map_err(|error| format!("dpdk-testpmd does not listen any more: {error}").into())
    }

    /// The next line that has `words` in it.
    fn wait_for(&mut self, words: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = String::new();
        loop {
            match self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return Ok(line),
                Ok(line) => last = line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("dpdk-testpmd did not say {words:?}; its last line: {last:?}").into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("dpdk-testpmd ended; its last line: {last:?}").into());
                }
            }
        }
    }

    fn cpu_time(&self) -> Result<Duration, Failure> {
        let text = fs::read_to_string(&self.schedstat)?;
        let spent = text.split_whitespace().next().and_then(|spent| spent.parse().ok());
        Ok(Duration::from_nanos(spent.ok_or("the kernel keeps no schedstat")?))
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        if self.tell("quit").is_err() {
            // It is gone, or deaf.
            self.child.kill().ok();
        }
        let deadline = Instant::now() + PATIENCE;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > deadline {
                self.child.kill().ok();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What it says, line by line, read by a thread so that one can wait for a line only so long.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (tell, said) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    said
}

/// Where the kernel accounts for the one thread that forwards. Its name is `rte-worker-1` or, in later
/// DPDK, `dpdk-worker1`.
fn forwarding_thread(process: u32) -> Result<String, Failure> {
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?.path();
        let name = fs::read_to_string(task.join("comm"))?;
        if name.contains("-worker") {
            return Ok(task.join("schedstat").display().to_string());
        }
    }
    Err("dpdk-testpmd has no forwarding thread".into())
}
