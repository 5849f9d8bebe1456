//! A daemon in a network namespace of its own, and the generator beside it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub const LOAD: &str = env!("CARGO_BIN_EXE_flowgate-load");

/// What every load here has.
pub const GENTLE: [&str; 8] =
    ["--no-huge", "--sleep", "50", "--targets", "3", "--flows", "400", "--max-loss=0"];

/// How long the daemon may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The daemon, which is built with the rest of the workspace.
fn flowgated() -> PathBuf {
    let path = Path::new(LOAD).with_file_name("flowgated");
    assert!(path.exists(), "{} is not there: `cargo build --bin flowgated` makes it", path.display());
    path
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {}", arguments.join(" "));
}

/// A namespace with a running daemon in it; both go when this is dropped.
pub struct Gateway {
    namespace: String,
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Gateway {
    /// A daemon whose documents are written with these arguments besides, and whose targets are dead after two failed
    /// checks.
    pub fn start(arguments: &[&str]) -> Gateway {
        Gateway::patient(arguments, 2)
    }

    /// The same with so many failed checks.
    pub fn patient(arguments: &[&str], failures: u8) -> Gateway {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("fg-load-{}-{number}", std::process::id());
        ip(&["netns", "add", &namespace]);
        ip(&["-netns", &namespace, "link", "set", "lo", "up"]);
        let folder = tempfile::Builder::new().prefix("flowgate-load-").tempdir().expect("a temporary folder");
        let mut gateway = Gateway { namespace, folder, daemon: None };
        let (status, said) = gateway.load(&[&["--write-config"], arguments].concat());
        assert!(status.success(), "{said}");
        let objects = std::fs::read_to_string(gateway.path("objects.json")).expect("it was written");
        let threshold = |failures: u8| format!("\"unhealthy_threshold\": {failures}");
        assert!(objects.contains(&threshold(2)), "{objects}");
        let objects = objects.replace(&threshold(2), &threshold(failures));
        std::fs::write(gateway.path("objects.json"), objects).expect("the folder is writable");
        gateway.start_daemon();
        gateway
    }

    /// Starts the daemon and waits until it is ready.
    fn start_daemon(&mut self) {
        let log = File::create(self.path("flowgated.log")).expect("the folder is writable");
        let config = self.path("node.toml");
        let daemon = self.within(&flowgated()).arg("--config").arg(config).stderr(log).spawn();
        self.daemon = Some(daemon.expect("flowgated starts"));
        let begun = Instant::now();
        while !self.log().contains("flowgated is ready") {
            assert!(begun.elapsed() < PATIENCE, "flowgated is not ready: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The daemon is killed, and another is started in its place.
    pub fn is_killed_and_started(&mut self) {
        let mut daemon = self.daemon.take().expect("started");
        daemon.kill().expect("it runs");
        daemon.wait().expect("it is ours");
        self.start_daemon();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("flowgated.log")).unwrap_or_default()
    }

    fn within(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// `flowgate-load` with these arguments besides, not started yet.
    pub fn load_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.within(Path::new(LOAD));
        command.arg("--dir").arg(self.folder.path()).args(GENTLE).args(arguments);
        command
    }

    /// Runs `flowgate-load` with these arguments besides; how it ended, and what it said.
    pub fn load(&self, arguments: &[&str]) -> (ExitStatus, String) {
        said_by(self.load_command(arguments))
    }

    /// The daemon's process.
    pub fn id(&self) -> u32 {
        self.daemon.as_ref().expect("started").id()
    }

    /// Whether the daemon runs.
    pub fn runs(&mut self) -> bool {
        self.daemon.as_mut().expect("started").try_wait().expect("it is ours").is_none()
    }

    /// The same, and the summary.
    pub fn summary_of(&self, arguments: &[&str]) -> (ExitStatus, Value) {
        let file = self.path("summary.json");
        let json = ["--json", file.to_str().expect("a plain path")];
        let (status, said) = self.load(&[arguments, &json].concat());
        (status, summary(&file, &said))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("---- flowgated\n{}", self.log());
        }
        if let Some(mut daemon) = self.daemon.take() {
            // `ip netns exec` becomes the program, so this is the daemon itself. One that ended already is told in
            // the log above.
            daemon.kill().ok();
            daemon.wait().ok();
        }
        ip(&["netns", "del", &self.namespace]);
    }
}

pub fn said_by(mut command: Command) -> (ExitStatus, String) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

pub fn summary(file: &Path, said: &str) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("no summary ({error}): {said}"));
    serde_json::from_str(&text).expect("JSON")
}
