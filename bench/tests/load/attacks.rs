//! Every attack of `flowgate-load --attack`, in short, beside established flows, at a rate that the machine bears: no packet
//! of these is lost, each packet of an attack is counted under a name that it may have, and nothing is answered more often
//! or at greater length than it may be. The figures of `docs/security.md` are made by the same rounds, longer.

use serde_json::Value;

use super::gateway::Gateway;

/// Room for the flow table that `GENTLE` has: 1,024 flows, of which 400 are established.
const CAPACITY: u64 = 1024;
const ESTABLISHED: u64 = 400;

/// What every attack here is made with: twice as many packets as the flows have, and in that time more than the table has
/// room for.
const LOAD: [&str; 8] = ["--rate", "2000", "--attack-rate", "5000", "--duration", "0.7", "--rounds", "1"];

/// Resets a second that the daemon's documents allow, and ICMP errors a second and at once that any worker may send.
const RESETS_A_SECOND: f64 = 1000.0;
const ERRORS_A_SECOND: f64 = 1000.0;
const ERRORS_AT_ONCE: f64 = 100.0;

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("a number: {of}"))
}

/// How long the gateway may have been answering: the round, and what it took to notice its end.
fn seconds(of: &Value) -> f64 {
    of["with"]["seconds"].as_f64().expect("a number") + 0.2
}

// C-1, F-12, R-11, M-2, M-4, W-5, F-11
#[test]
fn no_attack_that_the_machine_bears_costs_an_established_flow_a_packet_and_each_is_counted_for_what_it_is() {
    // Clients who keep the control core of a debug build busy on a machine with other things to do make checks late; that
    // is known, and not asked here.
    let gateway = Gateway::patient(&["--attack", "all"], 10);
    let (status, seen) = gateway.summary_of(&[&LOAD[..], &["--attack", "all"]].concat());
    // Loss, resets, violations, names that an attack may not have, packets under no name or under two, answers that are more
    // or larger than what they answer.
    assert_eq!(seen["complaints"], serde_json::json!([]), "{seen:#}");
    assert!(status.success(), "{status}");
    let attacks = seen["attacks"].as_array().expect("a list");
    let names: Vec<_> = attacks.iter().filter_map(|row| row["attack"].as_str()).collect();
    assert_eq!(names.len(), 16, "{names:?}");
    for row in attacks {
        for rounds in ["without", "with"] {
            assert!(number(&row[rounds]["arrived"]) > 500, "the load went on: {row:#}");
        }
    }
    let row = |name: &str| {
        attacks.iter().find(|row| row["attack"] == name).unwrap_or_else(|| panic!("{name} was played"))
    };
    let sent = |name: &str| number(&row(name)["with"]["attack"]["sent"]);
    let counted = |name: &str, end: &str| row(name)["with"]["counted"][end].as_u64().unwrap_or(0);
    let counter = |name: &str, counter: &str| number(&row(name)["with"]["counters"][counter]);
    for name in names.iter().filter(|name| !name.starts_with("slow-")) {
        assert!(sent(name) > 1500, "{name}: {}", sent(name));
    }

    // Answers made up: each way to do so under its own name, and nothing delivered. W-5, F-11
    let ways = sent("forged-answers") / 10;
    for (end, share) in [
        ("inner_mismatch", 2),
        ("not_from_target", 2),
        ("cookie_missing", 1),
        ("geneve_version", 1),
        ("geneve_critical", 1),
        ("geneve_options", 1),
        ("inner_malformed", 1),
        ("outer_malformed", 1),
    ] {
        let seen = counted("forged-answers", end);
        assert!(seen.abs_diff(share * ways) <= share, "{end}: {seen} of {}", sent("forged-answers"));
    }
    assert!(counted("cookies", "cookie_stale") + 5 > sent("cookies"), "{:#}", row("cookies"));

    // Answers are held to their rates. R-11, M-2
    let resets = counted("no-flow", "answered") as f64;
    assert!(
        resets > 100.0 && resets <= RESETS_A_SECOND * seconds(row("no-flow")) + 2.0,
        "{:#}",
        row("no-flow")
    );
    assert!(counted("no-flow", "reset_suppressed") > 500, "{:#}", row("no-flow"));
    let errors = counted("oversized", "answered") as f64;
    let most = ERRORS_A_SECOND * seconds(row("oversized")) + ERRORS_AT_ONCE;
    assert!(errors > 100.0 && errors <= most, "{:#}", row("oversized"));
    assert!(counted("oversized", "too_big_for_target") > 500, "{:#}", row("oversized"));
    let bytes = number(&row("oversized")["with"]["attack"]["answer_bytes"]);
    assert!(bytes <= 576 * counted("oversized", "answered"), "{:#}", row("oversized"));

    // What cannot be told whose it is waits within bounds, and goes. M-4
    assert!(counted("later-fragments", "fragment_full") > 500, "{:#}", row("later-fragments"));
    for end in ["fragment_tiny", "fragment_in_header", "ip_malformed"] {
        assert!(counted("broken-fragments", end).abs_diff(sent("broken-fragments") / 3) <= 1, "{end}");
    }

    // Flows that would crowd one place under another seed do not under the gateway's: all have an entry. F-12
    assert_eq!(counter("hash-flood", "StatelessPackets"), 0, "{:#}", row("hash-flood"));
    assert_eq!(number(&row("hash-flood")["with"]["flows"]), ESTABLISHED + 512);
    // The table was full: half-open flows made room for each other, and where there was none packets went without state.
    for name in ["syn-flood", "udp-flood", "half-handshakes"] {
        assert_eq!(number(&row(name)["with"]["flows"]), CAPACITY, "{name}: {:#}", row(name));
    }
    assert!(counter("syn-flood", "EvictedFlowCount") > 500, "{:#}", row("syn-flood"));
    for name in ["udp-flood", "half-handshakes"] {
        assert!(counter(name, "StatelessPackets") > 100, "{name}: {:#}", row(name));
    }

    // More clients than there are places, and whoever asks has an answer.
    for name in ["slow-socket", "slow-elbv2", "slow-monitor"] {
        assert!(number(&row(name)["clients"]["connections"]) > 64, "{:#}", row(name));
        assert!(number(&row(name)["clients"]["honest"]) > 0, "{:#}", row(name));
    }
}

// F-9, F-12
#[test]
fn flows_that_a_forger_has_closed_and_that_go_on_are_not_pushed_out_by_the_flood_of_syns_that_follows() {
    // A router's, and over both versions of IP: what else is played here is on a wire, over IPv4.
    let gateway = Gateway::patient(&["--attack", "all", "--routed"], 10);
    // Each client sends several times in a round, so that those whose end was forged have shown it before the flood.
    let load = ["--rate", "4000", "--attack-rate", "5000", "--duration", "1.5", "--rounds", "1"];
    let attacks = ["--attack", "forged-ends,syn-flood", "--ipv6", "0.5"];
    let (status, seen) = gateway.summary_of(&[&load[..], &attacks].concat());
    assert_eq!(seen["complaints"], serde_json::json!([]), "{seen:#}");
    assert!(status.success(), "{status}");
    let [ends, flood] = [0, 1].map(|at| &seen["attacks"][at]);
    assert_eq!([ends, flood].map(|row| &row["attack"]), ["forged-ends", "syn-flood"]);
    assert!(number(&ends["with"]["attack"]["sent"]) > 5 * ESTABLISHED, "each flow had some: {ends:#}");
    let with = &flood["with"];
    assert_eq!(number(&with["flows"]), CAPACITY, "{flood:#}");
    assert!(number(&with["counters"]["EvictedFlowCount"]) > 500, "{flood:#}");
    assert!(number(&with["arrived"]) > 1000, "the load went on: {flood:#}");
}
