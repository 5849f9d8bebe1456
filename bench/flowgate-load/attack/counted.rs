//! What a gateway has counted, by its control socket.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::devices::Refusal;

/// How long an answer, or the rest of what the gateway has taken in, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How packets end that are no drops, by the gateway's names and by the socket's.
const OUTCOMES: [(&str, &str); 6] = [
    ("forwarded", "ForwardedPackets"),
    ("delivered", "DeliveredPackets"),
    ("answered", "AnsweredPackets"),
    ("crossed", "CrossedPackets"),
    ("host", "HostPackets"),
    ("from_host", "FromHostPackets"),
];

/// Other counters that are shown, by the socket's names.
const OTHERS: [&str; 5] =
    ["EvictedFlowCount", "IcmpErrorsOfFlows", "IcmpErrorsOfNoFlow", "SentFragments", "UnsentResets"];
/// The same of load balancers, added up.
const OF_BALANCERS: [&str; 3] = ["StatelessPackets", "TCP_ELB_Reset_Count", "SuppressedResetCount_rate"];

/// The gateway's control socket.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub socket: PathBuf,
}

/// A reading, or the difference of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub received: u64,
    /// Packets by how they ended: outcomes and reasons of drops.
    pub ends: BTreeMap<String, u64>,
    /// Other counters.
    pub others: BTreeMap<String, u64>,
    /// Entries of the flow tables in use, at the end.
    pub flows: u64,
    /// Busy cycles of the workers.
    pub busy_cycles: u64,
}

impl Counted {
    /// What was counted since `before`.
    pub fn since(mut self, before: &Counted) -> Counted {
        for (now, then) in [(&mut self.ends, &before.ends), (&mut self.others, &before.others)] {
            for (name, count) in now.iter_mut() {
                *count -= then.get(name).copied().unwrap_or(0).min(*count);
            }
        }
        self.received -= before.received;
        self.busy_cycles -= before.busy_cycles;
        self
    }

    pub fn add(&mut self, later: &Counted) {
        for (sum, part) in [(&mut self.ends, &later.ends), (&mut self.others, &later.others)] {
            for (name, count) in part {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
        self.received += later.received;
        self.busy_cycles += later.busy_cycles;
        self.flows = later.flows;
    }

    fn is_whole(&self) -> bool {
        self.received == self.ends.values().sum::<u64>()
    }
}

impl Gateway {
    /// Calls a method on a connection of its own. One that a crowd pushed out is tried again.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, Refusal> {
        let begun = Instant::now();
        loop {
            match self.call_once(method, params) {
                Err(error) if begun.elapsed() > PATIENCE => {
                    return Err(format!("{}: {method}: {error}", self.socket.display()).into());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                Ok(answer) => match answer.get("result") {
                    Some(result) => return Ok(result.clone()),
                    None => return Err(format!("{method}: {answer}").into()),
                },
            }
        }
    }

    fn call_once(&self, method: &str, params: &Value) -> Result<Value, Refusal> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(stream, "{request}")?;
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        // The hello comes first, and has no id.
        while lines.read_line(&mut line)? > 0 {
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == 1 {
                return Ok(answer);
            }
            line.clear();
        }
        Err("it closed the connection".into())
    }

    /// Reads the counters once all that came in has ended under some name (C-1).
    pub fn at_rest(&self) -> Result<Counted, Refusal> {
        let (begun, mut before) = (Instant::now(), Counted::default());
        loop {
            let now = self.read()?;
            if now.is_whole() && now.received == before.received {
                return Ok(now);
            }
            if begun.elapsed() > PATIENCE {
                let ended: u64 = now.ends.values().sum();
                return Err(
                    format!("of {} packets that came in, {ended} have ended (C-1)", now.received).into()
                );
            }
            before = now;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn read(&self) -> Result<Counted, Refusal> {
        let sets = self.call("get-counters", &json!({}))?;
        let sets = sets["Sets"].as_array().ok_or("there are no counters")?;
        let node =
            sets.iter().find(|set| set["Scope"] == "node").ok_or("there are no counters of the node")?;
        let of_node = |name: &str| node["Counters"][name].as_u64().unwrap_or(0);
        let of_balancers = |name: &str| {
            let sets = sets.iter().filter(|set| set["Scope"] == "load-balancer");
            sets.filter_map(|set| set["Counters"][name].as_u64()).sum()
        };
        let mut ends: BTreeMap<String, u64> =
            OUTCOMES.iter().map(|(name, theirs)| ((*name).to_owned(), of_node(theirs))).collect();
        for (reason, count) in node["Drops"].as_object().into_iter().flatten() {
            ends.insert(reason.clone(), count.as_u64().unwrap_or(0));
        }
        let named = |name: &&str, count| ((*name).to_owned(), count);
        let others = OTHERS.iter().map(|name| named(name, of_node(name)));
        let others = others.chain(OF_BALANCERS.iter().map(|name| named(name, of_balancers(name))));
        Ok(Counted {
            received: of_node("ReceivedPackets"),
            ends,
            others: others.collect(),
            flows: of_node("FlowEntries"),
            busy_cycles: of_node("BusyCycles"),
        })
    }
}
