//! Faults inside the daemon, put there on purpose: what goes on, what is told, and what is lost.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::traffic::{Connection, PATIENCE, datagram_must_cross, udp_pair};
use crate::lab::{Family, Lab, PAUSE, wait_for};

/// Puts a fault into the daemon; the connection may well break over it.
pub fn put(lab: &Lab, fault: &Value) {
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "debug-put-fault", "params": fault}).to_string();
    let mut stream = UnixStream::connect(lab.path("flowgated.sock")).expect("the daemon listens");
    stream.write_all((line + "\n").as_bytes()).expect("the daemon reads requests");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    // An answer, or the end of the connection.
    let _length = stream.read(&mut [0; 4096]).expect("one of the two");
}

/// A series of the daemon's own metrics; 0 if there is none.
fn metric(lab: &Lab, series: &str) -> f64 {
    let mut stream =
        lab.router.run(|| TcpStream::connect("127.0.0.1:6082")).expect("the daemon serves metrics");
    let request = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:6082\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("the daemon reads requests");
    let mut text = String::new();
    // A control core that is started anew ends it in the midst.
    let _broken = stream.read_to_string(&mut text);
    let line = text.lines().find(|line| line.starts_with(series)).unwrap_or_default();
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Packets of all workers that a port had no room for.
fn transmit_full(lab: &Lab) -> f64 {
    let workers =
        lab.gateway().rpc.must("describe-workers", json!({}))["Workers"].as_array().map_or(0, Vec::len);
    let of = |worker| {
        metric(
            lab,
            &format!("flowgate_worker_dropped_packets_total{{worker=\"{worker}\",reason=\"transmit_full\"}}"),
        )
    };
    (0..workers).map(of).sum()
}

fn generation(lab: &Lab) -> u64 {
    lab.gateway().rpc.must("get-overview", json!({}))["Node"]["Generation"].as_u64().expect("a number")
}

/// Waits until so many control cores had to be started anew, and says how long it took.
pub fn wait_for_restarts(lab: &Lab, restarts: f64, since: Instant) -> Duration {
    wait_for("the control core to start anew", PATIENCE, || {
        (lab.gateway().rpc.answers() && metric(lab, "flowgate_control_core_restarts_total") >= restarts)
            .then_some(())
    });
    since.elapsed()
}

/// Sends numbered datagrams every two milliseconds until it is told to stop; how many were sent, and how many came.
fn datagrams(pair: &(UdpSocket, UdpSocket), stop: &AtomicBool) -> (u64, u64) {
    let (client, server) = pair;
    server.set_read_timeout(Some(2 * PAUSE)).expect("not zero");
    std::thread::scope(|scope| {
        let hear = scope.spawn(|| {
            let mut came = 0;
            // Until nothing has come for a while after the last was sent.
            loop {
                let over = stop.load(Ordering::Relaxed);
                match server.recv(&mut [0; 64]) {
                    Ok(_) => came += 1,
                    Err(_) if over => return came,
                    Err(_) => {}
                }
            }
        });
        let mut sent = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            client.send(&sent.to_be_bytes()).expect("the kernel takes it");
            sent += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
        (sent, hear.join().expect("it ends"))
    })
}

/// Has a stream of datagrams end, also when the test fails in its midst.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_control_core_that_panics_is_followed_by_another_and_no_packet_is_lost() {
    let lab = Lab::started(2, Attributes::default());
    let mut connections: Vec<Connection> = (0..4).map(|_| lab.connect(Family::V4)).collect();
    let before: Vec<_> = connections.iter().map(|one| lab.flow_of(one)).collect();
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "3");
    let pair = udp_pair(&lab, Family::V4);
    let stop = AtomicBool::new(false);
    let (first, second) = (generation(&lab), 1 - lab.appliance_at(before[0].target));
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| datagrams(&pair, &stop));
        let ends = Ends(&stop);
        lab.deregister(second);
        let drains_from = Instant::now();
        for (restarts, fault) in [(1.0, "control-panic"), (2.0, "task-panic")] {
            let since = Instant::now();
            put(&lab, &json!({"Fault": fault}));
            let took = wait_for_restarts(&lab, restarts, since);
            // A tenth of a second on a quiet machine; others may build on this one.
            assert!(took < Duration::from_secs(3), "{fault}: it took {took:?}");
        }
        assert_eq!(generation(&lab), first + 1, "the state that was stored last");
        assert_eq!(lab.state_of(second).expect("it drains").0, "draining");
        let events = lab.gateway().rpc.subscribe();
        events.wait_for("the drain ends", |event| event["Event"] == "DrainEnded");
        let drained = drains_from.elapsed();
        assert!(
            (Duration::from_millis(2900)..Duration::from_millis(4500)).contains(&drained),
            "the drain's clock went on: {drained:?}"
        );
        lab.register(second);
        lab.wait_for_state(second, "healthy");
        assert!(generation(&lab) > first + 1, "generations go on");
        let told = events.all();
        let other = json!(lab.appliances[1 - second].address);
        let changed = |event: &&Value| event["Event"] == "TargetHealthChanged" && event["Target"] == other;
        assert_eq!(told.iter().find(changed), None, "what was known of the others' health goes on");
        drop(ends);
        let (sent, came) = stream.join().expect("no panic");
        assert!(sent > 500, "{sent}");
        assert_eq!(sent, came, "datagrams lost");
    });
    for (connection, before) in connections.iter_mut().zip(&before) {
        connection.must_work();
        assert_eq!(lab.flow_of(connection).cookie, before.cookie);
        assert_eq!(lab.flow_of(connection).target, before.target);
    }
    lab.connect(Family::V4).must_work();
    let log = lab.gateway().process.printed();
    for line in ["a fault that was put in: the control core", "\"control_core_anew\"", "\"panic\""] {
        assert!(log.contains(line), "{line} is not told:\n{log}");
    }
    // The one came by a request, the other by a task of the control core's own.
    for thread in ["conversation", "control"] {
        assert_eq!(metric(&lab, &format!("flowgate_panics_total{{thread=\"{thread}\"}}")), 1.0, "{thread}");
    }
    lab.all_counted_at_rest();
}

#[test]
fn a_conversation_that_panics_ends_alone_and_threads_that_do_harm_nobody_else() {
    let lab = Lab::started(1, Attributes::default());
    let events = lab.gateway().rpc.subscribe();
    put(&lab, &json!({"Fault": "conversation-panic"}));
    put(&lab, &json!({"Fault": "file-thread-panic"}));
    lab.gateway().rpc.must("start-flow-log", json!({"File": "flows.jsonl"}));
    let state = || lab.gateway().rpc.must("describe-flow-log", json!({}));
    wait_for("the flow log to be on", PATIENCE, || (state()["State"] == "on").then_some(()));
    put(&lab, &json!({"Fault": "flow-log-panic"}));
    let off =
        wait_for("the flow log to be off", PATIENCE, || Some(state()).filter(|log| log["State"] == "off"));
    assert_eq!(off["Error"], "the thread that writes it panicked");
    lab.gateway().rpc.must("start-flow-log", json!({"File": "flows.jsonl"}));
    wait_for("another flow log to be on", PATIENCE, || (state()["State"] == "on").then_some(()));
    for (thread, count) in [("conversation", 1.0), ("other", 2.0)] {
        let series = format!("flowgate_panics_total{{thread=\"{thread}\"}}");
        wait_for(&format!("{series} to be counted"), PATIENCE, || {
            (metric(&lab, &series) == count).then_some(())
        });
    }
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "3");
    events.wait_for("the same control core tells of it", |event| event["Event"] == "ConfigChanged");
    assert_eq!(metric(&lab, "flowgate_control_core_restarts_total"), 0.0);
}

#[test]
fn a_control_core_that_panics_again_and_again_ends_the_process_with_a_sentence() {
    let mut lab = Lab::started(1, Attributes::default());
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "7");
    let stored = lab.path("state").join("objects.json");
    let sound = std::fs::read(&stored).expect("it was stored");
    for restarts in 1..=5_u8 {
        // A state that cannot be read, one that is gone, and one that is sound.
        match restarts {
            2 => std::fs::write(&stored, "half a sta").expect("it is ours"),
            3 => std::fs::remove_file(&stored).expect("it is ours"),
            _ => std::fs::write(&stored, &sound).expect("it is ours"),
        }
        put(&lab, &json!({"Fault": "control-panic"}));
        wait_for_restarts(&lab, restarts.into(), Instant::now());
        assert_eq!(generation(&lab), 1, "{restarts}");
        assert_eq!(lab.state_of(0).expect("it is registered").0, "healthy");
    }
    assert!(lab.gateway().process.printed().contains("\"state_unread\""));
    put(&lab, &json!({"Fault": "control-panic"}));
    let gateway = lab.gateway.as_mut().expect("it runs");
    let status = wait_for("the process to end", PATIENCE, || gateway.process.ended());
    assert_eq!(status.code(), Some(1));
    let printed = gateway.process.printed();
    let last = printed.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("flowgated: the control core has panicked 6 times within 60 s, last: a fault"),
        "{last}"
    );
    lab.gateway.take();
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
}

#[test]
fn a_worker_that_is_stuck_is_seen_within_a_second_and_one_that_panics_ends_the_process() {
    let mut lab = Lab::started(1, Attributes::default());
    let mut connection = lab.connect(Family::V4);
    let began = Instant::now();
    put(&lab, &json!({"Fault": "worker-stall", "Worker": 0, "Milliseconds": 2500}));
    let event = lab.gateway().events.wait_for("the worker is stuck", |event| event["Event"] == "WorkerStuck");
    assert!(began.elapsed() < Duration::from_secs(1) + PAUSE, "{:?}", began.elapsed());
    assert_eq!(event["Worker"], 0);
    assert_eq!(metric(&lab, "flowgate_ready"), 0.0);
    assert_eq!(metric(&lab, "flowgate_worker_stalls_total"), 1.0);
    lab.gateway().events.wait_for("it goes on", |event| event["Event"] == "WorkerWentOn");
    connection.must_work();
    assert_eq!(metric(&lab, "flowgate_ready"), 1.0);
    assert!(lab.gateway().process.printed().contains("\"worker_stuck\""));

    put(&lab, &json!({"Fault": "worker-panic", "Worker": 0}));
    lab.gateway().events.wait_for("the worker panicked", |event| event["Event"] == "WorkerPanicked");
    let gateway = lab.gateway.as_mut().expect("it runs");
    let status = wait_for("the process to end", PATIENCE, || gateway.process.ended());
    assert_eq!(status.code(), Some(1));
    let printed = gateway.process.printed();
    let last = printed.lines().last().unwrap_or_default();
    assert!(last.starts_with("flowgated: worker 0 ended by a panic"), "{last}");
    assert!(printed.contains("a fault that was put in: a worker"), "{printed}");
}

#[test]
fn hours_by_which_the_time_of_day_jumps_end_no_drain_and_fail_no_target() {
    // T-3, H-4
    let lab = Lab::started(2, Attributes::default());
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "4");
    for hours in [5_i64, -5] {
        let began = Instant::now();
        lab.deregister(0);
        let events = lab.gateway().rpc.subscribe();
        put(&lab, &json!({"Fault": "wall-clock", "Milliseconds": hours * 3_600_000}));
        // Any change has all drains looked at anew.
        lab.set_group_attribute("flowgate.inband.silence_ms", if hours > 0 { "60000" } else { "50000" });
        assert_eq!(lab.state_of(0).expect("it drains").0, "draining");
        let health =
            lab.gateway().rpc.must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}));
        let left = health["TargetHealthDescriptions"][0]["DrainEndsInMs"].as_u64().expect("it drains");
        assert!((1..=4000).contains(&left), "{left} ms are left");
        events.wait_for("the drain ends", |event| event["Event"] == "DrainEnded");
        let took = began.elapsed();
        assert!((Duration::from_millis(3900)..Duration::from_millis(6000)).contains(&took), "{took:?}");
        let records = lab.gateway().rpc.must("describe-failovers", json!({}));
        let duration = records["Failovers"][0]["Durations"].clone();
        put(&lab, &json!({"Fault": "wall-clock", "Milliseconds": 0}));
        let unhealthy = |event: &Value| event["To"] == "unhealthy" || event["To"] == "unavailable";
        assert!(!events.all().iter().any(unhealthy), "{:?} {duration}", events.all());
        lab.register(0);
        lab.wait_for_state(0, "healthy");
    }
}

/// Stops the daemon for so long, as a debugger or a hypervisor does.
fn stop_for(lab: &Lab, long: Duration) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(lab.gateway().id()).expect("small"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it is ours");
    std::thread::sleep(long);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it is ours");
}

#[test]
fn a_daemon_that_was_stopped_lets_no_flow_idle_out_fails_no_target_and_counts_what_the_rings_lost() {
    // F-8, H-4
    const STOPPED: Duration = Duration::from_secs(5);
    let reset = [("send_tcp_reset.on_idle_timeout.enabled", "true"), ("tcp.idle_timeout.seconds", "60")];
    let lab = Lab::started(2, Attributes { target_group: &[], listener: &reset });
    let mut connection = lab.connect(Family::V4);
    connection.settle();
    let before = lab.flow_of(&connection);
    // Two seconds before the end of its idle timeout, were it not for the five that are to come.
    lab.advance_clock(Duration::from_secs(58));
    let pair = udp_pair(&lab, Family::V4);
    let events = lab.gateway().rpc.subscribe();
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            // More than the 4,096 frames that the port's ring has room for.
            (0..10_000_u32).filter(|number| pair.0.send(&number.to_be_bytes()).is_ok()).count()
        });
        stop_for(&lab, STOPPED);
        flood.join().expect("it ends")
    });
    assert_eq!(sent, 10_000);
    connection.must_work();
    assert_eq!(lab.flow_of(&connection).cookie, before.cookie, "it is the same flow");
    // Whatever the pause should lead to, it would do soon after.
    std::thread::sleep(PAUSE);
    let told = events.all();
    assert!(!told.iter().any(|event| event["Event"] == "TargetHealthChanged"), "{told:?}");
    assert!(!told.iter().any(|event| event["Event"] == "WorkerStuck"), "{told:?}");
    let paused = metric(&lab, "flowgate_worker_paused_seconds_total");
    assert!((4.5..6.5).contains(&paused), "{paused} s");
    let lost = metric(&lab, "flowgate_port_missed_packets_total{port=\"left\"}");
    // A flow whose ring is nearly full goes on to another worker's.
    let workers =
        lab.gateway().rpc.must("describe-workers", json!({}))["Workers"].as_array().map_or(0, Vec::len);
    let rings = 4096.0 * f64::from(u32::try_from(workers).expect("few"));
    let least = 10_000.0 - rings - 100.0;
    assert!((least..6_500.0).contains(&lost), "{lost} of 10,000 found no room among {rings} frames");
}

#[test]
fn a_link_that_flaps_and_a_port_that_disappears_are_told_and_leave_everything_else_as_it_is() {
    let lab = Lab::started(1, Attributes::default());
    let mut connection = lab.connect(Family::V4);
    let pair = udp_pair(&lab, Family::V4);
    datagram_must_cross(&pair.0, &pair.1, b"a flow");
    let events = lab.gateway().rpc.subscribe();
    let told = |what: &str| events.all().iter().filter(|event| event["Event"] == what).count();
    // By the port, for want of room at it, and before a worker had it.
    let lost = |lab: &Lab| -> f64 {
        let errors = metric(lab, "flowgate_port_send_errors_total{port=\"left\"}");
        let missed = metric(lab, "flowgate_port_missed_packets_total{port=\"right\"}");
        errors + missed + transmit_full(lab)
    };
    for flaps in 1..=2 {
        let before = lost(&lab);
        lab.router.ip("link set left down");
        wait_for("the port to be down", PATIENCE, || (told("PortDown") == flaps).then_some(()));
        assert_eq!(metric(&lab, "flowgate_port_up{port=\"left\"}"), 0.0);
        // From the server to the client, out of the port that is down: more than its ring has room for. The worker must not
        // wait for it.
        for number in 0..6_000_u32 {
            pair.1.send(&number.to_be_bytes()).expect("the kernel takes it");
            if number % 200 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        lab.router.ip("link set left up");
        wait_for("the port to be up", PATIENCE, || (told("PortUp") == flaps).then_some(()));
        connection.must_work();
        assert!(lost(&lab) - before > 1_000.0, "{} of 6,000 were lost", lost(&lab) - before);
    }
    assert_eq!(told("WorkerStuck"), 0, "{:?}", events.all());
    assert_eq!(metric(&lab, "flowgate_port_link_changes_total"), 4.0);
    lab.router.ip("link del left");
    wait_for("the port to be gone", PATIENCE, || (told("PortDown") == 3).then_some(()));
    // What is sent to it is counted, one by one.
    let gone = lost(&lab);
    for number in 0..1_000_u32 {
        pair.1.send(&number.to_be_bytes()).expect("the kernel takes it");
        if number % 200 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    wait_for("what was sent to it to be counted", PATIENCE, || (lost(&lab) - gone >= 1_000.0).then_some(()));
    assert!(lost(&lab) - gone < 1_100.0, "{} of 1,000", lost(&lab) - gone);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(told("WorkerStuck"), 0, "{:?}", events.all());
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "7");
    assert_eq!(lab.state_of(0).expect("it is registered").0, "healthy");
    assert_eq!(told("TargetHealthChanged"), 0);
}
