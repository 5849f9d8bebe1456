//! What the running daemon may still do: by what the kernel says of each of its threads, and by a forbidden call
//! that each of them is made to make.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::json;

use crate::lab::gateway::{Attributes, USER, daemons_user};
use crate::lab::process::Process;
use crate::lab::routed::Shape;
use crate::lab::traffic::exchange;
use crate::lab::{Family, Lab, wait_for};

/// What a daemon with taps, a flow log and somebody who reads its metrics has threads for, by their names.
const KINDS: [&str; 7] =
    ["flowgated", "worker-0", "host", "log", "flow-log", "tokio-rt-worker", "eal-intr-thread"];

/// `CAP_NET_ADMIN`.
const NET_ADMIN: &str = "0000000000001000";
const NOTHING: &str = "0000000000000000";

/// A daemon that has every kind of thread, and a connection through it.
fn busy() -> Lab {
    let lab = Lab::started_as(1, Shape::Trunk, Attributes::default());
    lab.gateway().rpc.must("start-flow-log", json!({"File": "flows.jsonl"}));
    wait_for("the flow log", Duration::from_secs(10), || {
        (lab.gateway().rpc.must("describe-flow-log", json!({}))["State"] == "on").then_some(())
    });
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 10_000);
    have_something_stored(&lab);
    lab
}

/// A change is stored by a thread that ends when it has had nothing to do for ten seconds.
fn have_something_stored(lab: &Lab) {
    static SECONDS: AtomicU32 = AtomicU32::new(1);
    // What is so already is not stored.
    let seconds = SECONDS.fetch_add(1, Ordering::Relaxed).to_string();
    lab.set_group_attribute("deregistration_delay.timeout_seconds", &seconds);
}

/// The daemon's threads, by name.
fn threads(lab: &Lab) -> BTreeMap<String, Vec<i32>> {
    let mut threads: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{}/task", lab.gateway().id())).expect("it runs") {
        let entry = entry.expect("readable");
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).expect("a number");
        // One that ends meanwhile is none.
        if let Ok(name) = fs::read_to_string(entry.path().join("comm")) {
            threads.entry(name.trim_end().to_owned()).or_default().push(number);
        }
    }
    threads
}

/// What the kernel says of a thread.
fn status(thread: i32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).expect("the thread is there");
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

#[test]
fn each_thread_is_left_what_its_kind_needs_and_files_are_the_users() {
    let lab = busy();
    let user = daemons_user();
    let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
    let threads = threads(&lab);
    for kind in KINDS {
        assert!(threads.contains_key(kind), "no thread '{kind}' among {threads:?}");
    }
    for (name, number) in threads.iter().flat_map(|(name, all)| all.iter().map(move |number| (name, *number)))
    {
        let status = status(number);
        let is_main = name == "flowgated";
        let expected = [
            ("Uid", format!("{uid} {uid} {uid} {uid}")),
            ("Gid", format!("{gid} {gid} {gid} {gid}")),
            ("Groups", gid.to_string()),
            ("CapInh", NOTHING.to_owned()),
            ("CapPrm", if is_main { NET_ADMIN } else { NOTHING }.to_owned()),
            ("CapEff", if is_main { NET_ADMIN } else { NOTHING }.to_owned()),
            ("CapBnd", NOTHING.to_owned()),
            ("CapAmb", NOTHING.to_owned()),
            ("NoNewPrivs", "1".to_owned()),
            ("Seccomp", "2".to_owned()),
            // The two that all are under, and one of the kind's own.
            ("Seccomp_filters", if is_main { "2" } else { "3" }.to_owned()),
        ];
        for (key, value) in expected {
            assert_eq!(status.get(key), Some(&value), "{key} of {name}");
        }
        let terminated = 1 << (libc::SIGTERM - 1);
        let blocked = u64::from_str_radix(&status["SigBlk"], 16).expect("a mask") & terminated != 0;
        assert_eq!(blocked, !is_main, "SIGTERM of {name}");
    }
    // What it keeps is its own, and others do not look into it.
    for (path, mode) in [
        ("state", 0o750),
        ("state/objects.json", 0o640),
        ("state/history", 0o750),
        ("state/hash-seed", 0o600),
        ("state/flow-logs", 0o750),
        ("state/flow-logs/flows.jsonl", 0o640),
        ("flowgated.sock", 0o660),
    ] {
        let about = fs::metadata(lab.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let found = (about.uid(), about.gid(), about.mode() & 0o777);
        assert_eq!(found, (uid, gid, mode), "{path}: {:o}", about.mode());
    }
}

/// Has a thread that sleeps in the kernel make another call instead when it goes on: its registers are set to before the
/// instruction by which it came there. False if it was not in the kernel.
fn make_call(thread: i32, call: i64, arguments: [u64; 3]) -> bool {
    const SYSCALL: i64 = 0x050f;
    let thread = Pid::from_raw(thread);
    ptrace::seize(thread, ptrace::Options::empty()).expect("as root");
    ptrace::interrupt(thread).expect("it is ours");
    waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it stops");
    let mut registers = ptrace::getregs(thread).expect("it has stopped");
    let before = registers.rip - 2;
    let is_call =
        ptrace::read(thread, before as ptrace::AddressType).is_ok_and(|word| word & 0xffff == SYSCALL);
    if is_call {
        registers.rip = before;
        registers.rax = call.cast_unsigned();
        // Else the kernel would have it begin its old call again.
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx] = arguments;
        ptrace::setregs(thread, registers).expect("it has stopped");
    }
    ptrace::detach(thread, None).expect("it has stopped");
    is_call
}

// The filters are tried one by one elsewhere (tests/privileges); this shows that the daemon's threads are under them.
#[test]
fn a_forbidden_call_in_any_thread_of_the_daemon_ends_it_by_sigsys() {
    let opens: (i64, [u64; 3]) = (libc::SYS_openat, [u64::MAX, 0, 0]);
    let connects: (i64, [u64; 3]) = (libc::SYS_socket, [2, 1, 0]);
    let (executes, listens_to_all): ((i64, [u64; 3]), (i64, [u64; 3])) =
        ((libc::SYS_execve, [0, 0, 0]), (libc::SYS_socket, [17, 3, 0]));
    let trials = [
        ("flowgated", listens_to_all),
        ("flowgated", executes),
        ("worker-0", opens),
        ("host", opens),
        ("log", connects),
        ("flow-log", connects),
        ("tokio-rt-worker", connects),
        ("eal-intr-thread", opens),
    ];
    let mut lab = busy();
    for (number, (name, (call, arguments))) in trials.into_iter().enumerate() {
        if number > 0 {
            lab.start_gateway();
            lab.wait_for_state(0, "healthy");
            if name == "flow-log" {
                lab.gateway().rpc.must("start-flow-log", json!({"File": "flows.jsonl"}));
            }
        }
        wait_for(&format!("a thread '{name}' that makes a call"), Duration::from_secs(10), || {
            if name == "tokio-rt-worker" {
                have_something_stored(&lab);
            }
            let thread = threads(&lab).get(name).and_then(|all| all.first().copied())?;
            make_call(thread, call, arguments).then_some(())
        });
        let mut gateway = lab.gateway.take().expect("it was started");
        let ended = wait_for(&format!("the end of the daemon by '{name}'"), Duration::from_secs(10), || {
            gateway.process.ended()
        });
        assert_eq!(ended.signal(), Some(libc::SIGSYS), "{name}: {ended}");
    }
}

/// The capabilities that the packaged unit leaves the daemon, as `setpriv` wants them.
fn set_of_the_unit() -> String {
    let unit = include_str!("../../scripts/package/flowgate.service");
    let names = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = names.flat_map(str::split_whitespace).filter_map(|name| name.strip_prefix("CAP_"));
    names.fold("-all".to_owned(), |set, name| format!("{set},+{}", name.to_lowercase()))
}

#[test]
fn the_packaged_units_capabilities_are_enough_for_a_start_on_what_is_the_users_too() {
    let mut lab = Lab::new(1);
    lab.keep_tables(1);
    lab.write_configuration(Attributes::default());
    // A folder that the daemon makes.
    let socket = lab.path("run/flowgated.sock");
    let path = lab.path("flowgated.sock").display().to_string();
    let toml = lab.node_toml().replace(&path, &socket.display().to_string());
    fs::write(lab.path("node.toml"), toml).expect("the folder is writable");
    for start in 1..=2 {
        if start == 2 {
            // Which the unit leaves root no right to change where it is another's.
            fs::set_permissions(lab.path("state"), fs::Permissions::from_mode(0o755)).expect("it is there");
        }
        let mut command = lab.router.command("setpriv");
        command.args(["--bounding-set", &set_of_the_unit(), env!("CARGO_BIN_EXE_flowgated"), "--config"]);
        let mut daemon = Process::start("of-the-unit", command.arg(lab.path("node.toml")), &lab.path(""));
        wait_for("the daemon", Duration::from_secs(20), || {
            daemon.must_run();
            (daemon.printed().matches("flowgated is ready").count() == start).then_some(())
        });
        let about = fs::metadata(&socket).expect("it is there");
        assert_eq!((about.uid(), about.mode() & 0o777), (daemons_user().uid.as_raw(), 0o660));
        assert!(daemon.terminate().success(), "start {start}");
    }
}

/// Runs the daemon until it has given up its rights, or to its end, and returns what it said.
fn says(lab: &Lab, section: &str, more: &[&str]) -> String {
    let config = lab.path("changed.toml");
    let given = format!("[privileges]\nuser = \"{USER}\"\n");
    let toml = lab.node_toml();
    assert!(toml.contains(&given), "{toml}");
    fs::write(&config, toml.replace(&given, section)).expect("the folder is writable");
    let mut command = lab.router.command(env!("CARGO_BIN_EXE_flowgated"));
    let output = command.arg("--config").arg(&config).args(more).output().expect("the daemon can be run");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_check_says_who_the_daemon_will_be_and_a_user_that_is_not_there_is_refused() {
    let lab = Lab::new(1);
    lab.write_configuration(Attributes::default());
    let check = |section: &str| says(&lab, section, &["--check"]);
    let nobody = check("[privileges]\nuser = \"nobody\"\n");
    assert!(nobody.contains("note: once started, the daemon becomes the user nobody"), "{nobody}");
    let root = check("[privileges]\nuser = \"root\"\nseccomp = \"log\"\n");
    assert!(root.contains("note: the daemon stays the user root"), "{root}");
    assert!(
        root.contains("warning: privileges.seccomp is \"log\": no call of the kernel is forbidden"),
        "{root}"
    );
    for more in [&["--check"][..], &[]] {
        let refused = says(&lab, "[privileges]\nuser = \"no-such-user\"\n", more);
        assert!(
            refused.contains(
                "privileges.user: there is no user \"no-such-user\" on this system: make it (useradd"
            ),
            "{refused}"
        );
    }
    // Another name of root's; the file is this one's in a namespace of its own.
    let users = fs::read_to_string("/etc/passwd").expect("users") + "toor:x:0:0::/root:/bin/sh\n";
    fs::write(lab.path("passwd"), users).expect("the folder is writable");
    says(&lab, "[privileges]\nuser = \"toor\"\n", &["--check"]);
    let mut command = lab.router.command("unshare");
    let script = "mount --bind \"$1\" /etc/passwd && exec \"$2\" --config \"$3\" --check";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(lab.path("passwd"));
    command.arg(env!("CARGO_BIN_EXE_flowgated")).arg(lab.path("changed.toml"));
    let toor = command.output().expect("unshare is installed");
    let toor = String::from_utf8_lossy(&toor.stdout).into_owned() + &String::from_utf8_lossy(&toor.stderr);
    assert!(toor.contains("note: the daemon stays the user root"), "{toor}");
    assert!(!lab.path("flowgated.sock").exists());
    // Somebody else's folder is not given away.
    fs::create_dir_all(lab.path("state/of-another")).expect("the folder is writable");
    let shared = check("[privileges]\nuser = \"nobody\"\n");
    assert!(shared.contains("there is the folder 'of-another' in it, so it is not given"), "{shared}");
}

#[test]
fn as_root_and_without_filters_the_daemon_still_has_one_capability_alone() {
    let mut lab = Lab::new(1);
    lab.write_configuration(Attributes::default());
    let given = format!("user = \"{USER}\"\n");
    let toml = lab.node_toml().replace(&given, "user = \"root\"\nseccomp = \"off\"\n");
    fs::write(lab.path("node.toml"), toml).expect("the folder is writable");
    lab.start_gateway();
    for (name, all) in threads(&lab) {
        for thread in all {
            let status = status(thread);
            let expected = if name == "flowgated" { NET_ADMIN } else { NOTHING };
            assert_eq!(status["CapPrm"], expected, "{name}");
            assert_eq!(status["CapEff"], expected, "{name}");
            assert_eq!((&*status["CapBnd"], &*status["NoNewPrivs"]), (NOTHING, "1"), "{name}");
            assert_eq!((&*status["Seccomp"], &*status["Uid"]), ("0", "0 0 0 0"), "{name}");
        }
    }
    let said = lab.gateway().process.printed();
    assert!(!said.contains("threads_keep_rights"), "{said}");
    lab.stop_gateway();
}

// H-5: nothing is lost by an update from a daemon that was root all the time, no flow either.
#[test]
fn what_a_daemon_that_stayed_root_has_left_is_taken_over_by_the_user() {
    let mut lab = Lab::new(1);
    lab.keep_tables(1);
    lab.write_configuration(Attributes::default());
    lab.start_reflector(0, &[]);
    let as_user = lab.node_toml();
    let given = format!("user = \"{USER}\"\n");
    fs::write(lab.path("node.toml"), as_user.replace(&given, "user = \"root\"\n")).expect("writable");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "17");
    lab.stop_gateway();
    assert_eq!(fs::metadata(lab.path("state/objects.json")).expect("stored").uid(), 0);
    fs::write(lab.path("node.toml"), as_user).expect("writable");
    for start in ["first", "second"] {
        lab.start_gateway();
        let tables = lab.gateway().rpc.must("describe-workers", json!({}))["FlowTables"].clone();
        assert_eq!(tables["Outcome"], "taken_over", "{start}: {tables}");
        connection.must_work();
        let said = lab.gateway().process.printed();
        for line in ["state_given", "flow_tables_given"] {
            // The log goes on over the starts.
            assert_eq!(said.matches(line).count(), 1, "{start} start, {line}: {said}");
        }
        if start == "first" {
            lab.kill_gateway();
        }
    }
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "18");
    let versions = lab.gateway().rpc.must("history", json!({}));
    assert!(versions.to_string().matches("Generation").count() >= 2, "{versions}");
    lab.stop_gateway();
    assert!(!lab.path("flowgated.sock").exists(), "the user takes its socket away");
}

// A root without rights to others' files is no better off than the user was, unless they are its own.
#[test]
fn what_a_daemon_of_the_users_has_left_is_given_back_to_one_that_stays_root() {
    let mut lab = Lab::new(1);
    lab.write_configuration(Attributes::default());
    lab.start_gateway();
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "17");
    lab.stop_gateway();
    assert_eq!(fs::metadata(lab.path("state")).expect("made").uid(), daemons_user().uid.as_raw());
    let toml = lab.node_toml().replace(&format!("user = \"{USER}\"\n"), "user = \"root\"\n");
    fs::write(lab.path("node.toml"), toml).expect("writable");
    lab.start_gateway();
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "18");
    for path in ["state", "state/objects.json", "state/history", "state/hash-seed"] {
        assert_eq!(fs::metadata(lab.path(path)).expect("stored").uid(), 0, "{path}");
    }
    let said = lab.gateway().process.printed();
    assert!(said.contains("state_given") && !said.contains("path_closed"), "{said}");
    lab.stop_gateway();
}
