//! How fast the control socket is on a real daemon, its disk and its workers included. A build for release is held to
//! what `docs/control-socket.md` promises, one for debugging to a tenth of it; both print what they saw.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::traffic::PATIENCE;

/// Without optimisation everything here takes about so many times as long; and other tests' programs may have the
/// machine's cores too.
const SLACK: u32 = if cfg!(debug_assertions) { 10 } else { 1 };

/// One connection that stays.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        let mut client = Client(BufReader::new(stream));
        assert_eq!(client.read()["method"], "hello");
        client
    }

    fn send(&mut self, lines: &str) {
        self.0.get_mut().write_all(lines.as_bytes()).expect("the daemon reads");
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the daemon answers");
        line
    }

    fn read(&mut self) -> Value {
        serde_json::from_str(&self.read_line()).expect("the daemon sends JSON")
    }

    fn must(&mut self, method: &str, params: &Value) -> Value {
        self.send(&request(method, params));
        let mut answer = self.read();
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    }
}

fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string() + "\n"
}

#[test]
fn one_connection_reads_ten_thousand_times_a_second() {
    let lab = Lab::started(1, Attributes::default());
    let mut client = Client::connect(&lab.path("flowgated.sock"));
    let asked = request("describe-target-health", &json!({"TargetGroupArn": TARGET_GROUP}));
    let total = 10_000_u32;
    // One after the other, each answer awaited.
    let begin = Instant::now();
    for _ in 0..total {
        client.send(&asked);
        client.read_line();
    }
    let one_by_one = begin.elapsed();
    // A hundred under way at a time.
    let hundred = asked.repeat(100);
    let begin = Instant::now();
    for _ in 0..total / 100 {
        client.send(&hundred);
        for _ in 0..100 {
            client.read_line();
        }
    }
    let together = begin.elapsed();
    let rate = |took: Duration| f64::from(total) / took.as_secs_f64();
    println!("{:.0} requests/s one by one, {:.0} a hundred at a time", rate(one_by_one), rate(together));
    assert!(together < Duration::from_secs(1) * SLACK, "{total} requests took {together:?}");
    let state = client.must("describe-target-health", &json!({"TargetGroupArn": TARGET_GROUP}));
    assert_eq!(state["TargetHealthDescriptions"][0]["TargetHealth"]["State"], "healthy");
}

// O-3
#[test]
fn a_thousand_targets_come_and_go_at_once_and_are_on_disk_when_it_is_answered() {
    let mut lab = Lab::started(1, Attributes::default());
    let mut client = Client::connect(&lab.path("flowgated.sock"));
    let targets = |seconds: u8| -> Vec<Value> {
        // The group has one already.
        (0..999).map(|n| json!({"Id": format!("10.{seconds}.{}.{}", n / 250, n % 250 + 1)})).collect()
    };
    let params = json!({"TargetGroupArn": TARGET_GROUP, "Targets": targets(99)});
    let begin = Instant::now();
    let answer = client.must("register-targets", &params);
    let took = begin.elapsed();
    println!("999 targets registered in {took:?}");
    assert_eq!(answer["Changed"].as_array().map(Vec::len), Some(999));
    assert!(took < Duration::from_millis(100) * SLACK, "{took:?}");
    // As it was answered, so it is after a crash in that moment.
    drop(client);
    lab.kill_gateway();
    lab.start_gateway();
    let group = json!({"TargetGroupArn": TARGET_GROUP});
    let health = lab.gateway().rpc.must("describe-target-health", group);
    assert_eq!(health["TargetHealthDescriptions"].as_array().map(Vec::len), Some(1000));
    // They leave as fast as they came.
    let mut client = Client::connect(&lab.path("flowgated.sock"));
    let begin = Instant::now();
    let answer = client.must("deregister-targets", &params);
    let took = begin.elapsed();
    println!("999 targets deregistered in {took:?}");
    assert_eq!(answer["Changed"].as_array().map(Vec::len), Some(999));
    assert!(took < Duration::from_millis(100) * SLACK, "{took:?}");
}

// H-7 for what an operator changes
#[test]
fn a_change_is_at_every_worker_within_a_millisecond_of_its_answer() {
    let lab = Lab::started(1, Attributes::default());
    let mut client = Client::connect(&lab.path("flowgated.sock"));
    // The longest so far from when a forwarding state was made to when the last worker went by it, as the daemon itself saw it.
    let slowest = |client: &mut Client| {
        let counters = client.must("get-counters", &json!({"Scope": "node"}));
        let micros = counters["Sets"][0]["Counters"]["SlowestForwardingMicroseconds"].as_u64();
        Duration::from_micros(micros.expect("a counter"))
    };
    let (mut all, mut disturbed) = (Vec::new(), Vec::new());
    let mut longest = slowest(&mut client);
    for seconds in 1..=100 {
        let attributes =
            json!([{"Key": "deregistration_delay.timeout_seconds", "Value": seconds.to_string()}]);
        let params = json!({"TargetGroupArn": TARGET_GROUP, "Attributes": attributes});
        let waited = lab.gateway().waited_for_a_cpu();
        let generation = client.must("modify-target-group-attributes", &params)["Generation"].clone();
        let answered = Instant::now();
        loop {
            let workers = client.must("describe-workers", &json!({}));
            let workers = workers["Workers"].as_array().expect("a list");
            if workers.iter().all(|worker| worker["Generation"] == generation) {
                break;
            }
            assert!(answered.elapsed() < Duration::from_secs(5), "the workers go by an older configuration");
        }
        all.push(answered.elapsed());
        // What workers give back is looked at every 2 ms.
        std::thread::sleep(Duration::from_millis(5));
        let (before, waited) = (longest, lab.gateway().waited_for_a_cpu().saturating_sub(waited));
        longest = slowest(&mut client);
        if longest > before && longest > Duration::from_millis(1) {
            // What is ours of it is the rest.
            let ours = longest.saturating_sub(waited);
            assert!(
                ours < Duration::from_millis(1) * SLACK,
                "{longest:?}, of which a CPU was waited for {waited:?}"
            );
            disturbed.push((longest, waited));
        }
    }
    all.sort_unstable();
    println!(
        "at every worker after {:?} (median), {:?} (slowest of {}), the question in it; the daemon saw {longest:?} at most; slower for \
         want of a CPU (how long, of which it waited): {disturbed:?}",
        all[all.len() / 2],
        all[all.len() - 1],
        all.len()
    );
    // The time of the question that finds it out is in it. One in ten may meet another program on its core.
    assert!(all[all.len() * 9 / 10] < Duration::from_millis(1) * SLACK, "{all:?}");
}
