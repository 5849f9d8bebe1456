//! The binary `flowgate` where it judges: `explain` and `audit`.

use crate::command_line::{command, printed, refused, shown};
use crate::fake::Daemon;
use serde_json::Value;
use std::process::Output;

const TUPLE: [&str; 4] = ["explain", "192.0.2.10:40000", "198.51.100.20:443", "--endpoint=lan"];

#[test]
fn a_packet_is_explained_step_by_step() {
    let daemon = Daemon::start();
    let told = shown(&daemon, &[&TUPLE[..], &["--syn"]].concat());
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "tcp 192.0.2.10:40000 → 198.51.100.20:443 [S]");
    assert_eq!(lines[1], "It goes to 10.0.0.1 (healthy), as the first packet of a new flow.");
    assert!(told.contains(" 2. It is a SYN, which begins a flow. (F-8)\n"), "{told}");
    assert!(told.contains("    to change it: flowgate set fw stickiness.enabled=true\n"), "{told}");
    assert!(told.contains("row 51966: 10.0.0.2, then 10.0.0.1"), "{told}");
    let target = [&TUPLE[..], &["--output=text", "--query=Explanations[0].Target"]].concat();
    assert_eq!(printed(&daemon, &target), "10.0.0.1\n");
}

#[test]
fn flags_cookies_and_addresses_are_given_in_words() {
    let daemon = Daemon::start();
    let flags = |more: &[&str]| {
        let picked = ["--output=text", "--query=Explanations[0].Packet.[Flags,Source,SourcePort]"];
        printed(&daemon, &[more, &picked].concat())
    };
    assert_eq!(flags(&TUPLE), "A\t192.0.2.10\t40000\n");
    assert_eq!(flags(&[&TUPLE[..], &["--flags=r"]].concat()), "R\t192.0.2.10\t40000\n");
    assert_eq!(flags(&["explain", "--cookie=00000007", "--flags=SA"]), "SA\t192.0.2.1\t40007\n");
    let six = ["explain", "[2001:db8::1]:5", "2001:db8::2", "--endpoint=lan", "--protocol=udp"];
    assert!(shown(&daemon, &six).starts_with("udp [2001:db8::1]:5 → [2001:db8::2]:0"));
}

#[test]
fn what_cannot_be_explained_is_told_in_a_sentence() {
    let daemon = Daemon::start();
    let said = |arguments: &[&str]| refused(&daemon.path(), arguments);
    for (arguments, code, expected) in [
        (&["explain", "192.0.2.10:1", "198.51.100.20:2"][..], 1, "there are lan, offices"),
        (&["explain", "192.0.2.10:1", "198.51.100.20:2", "--endpoint=lam"], 1, "Endpoint 'lam' not found"),
        (&["explain", "192.0.2.10:1", "[::1]:2", "--endpoint=lan"], 1, "two versions of IP"),
        (&["explain", "--cookie=00000008"], 1, "no flow of this node has the cookie '00000008'"),
        (&["explain", "--cookie=80000008"], 1, "sent without state"),
        (&["explain", "--cookie=spam"], 1, "must be eight hexadecimal digits"),
        (&["explain"], 2, ""),
        (&["explain", "192.0.2.10:1"], 2, ""),
        (&["explain", "here", "there"], 2, "expected ADDRESS:PORT"),
        (&["explain", "192.0.2.10:1", "198.51.100.20:2", "--flags=X"], 2, "must be one of [F, S, R"),
        (&["explain", "--pcap=/no/such/file"], 1, "/no/such/file: No such file"),
        (&["explain", "--pcap=/dev/null"], 1, "/dev/null: this is no pcap or pcapng file"),
    ] {
        let (seen, text) = said(arguments);
        assert!(seen == code && text.contains(expected), "{arguments:?}: {seen}: {text}");
    }
}

#[test]
fn each_packet_of_a_capture_is_explained_in_requests_that_fit_a_line() {
    let daemon = Daemon::start();
    let file = daemon.folder().join("trace.pcap");
    // Larger than a line of the socket takes, and more than one request has.
    let (long, short) = (vec![0xab; 60_000], vec![0xcd; 60]);
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for frame in std::iter::repeat_n(&long, 20).chain(std::iter::repeat_n(&short, 300)) {
        let len = u32::try_from(frame.len()).unwrap().to_le_bytes();
        bytes.extend([0; 8]);
        bytes.extend(len);
        bytes.extend(len);
        bytes.extend(frame);
    }
    std::fs::write(&file, bytes).unwrap();
    let pcap = format!("--pcap={}", file.display());
    let lengths = printed(&daemon, &["explain", &pcap, "--query=Explanations[].Packet.Length", "--json"]);
    let lengths: Vec<usize> = serde_json::from_str(&lengths).unwrap();
    assert_eq!(lengths, [vec![60_000; 20], vec![60; 300]].concat());
    let table = shown(&daemon, &["explain", &pcap, "--limit=21"]);
    assert!(table.contains("a frame of 60 bytes") && table.contains("dropped"), "{table}");
    assert!(table.ends_with("The file has more packets than the 21 shown: see --limit.\n"), "{table}");
}

#[test]
fn an_audit_says_what_is_wrong_and_its_exit_code_how_bad_it_is() {
    let daemon = Daemon::start();
    let audit = |more: &[&str]| {
        let Output { status, stdout, stderr } =
            command(&daemon.path(), &[&["audit"], more].concat()).output().unwrap();
        assert_eq!(String::from_utf8(stderr).unwrap(), "");
        (status.code().unwrap(), String::from_utf8(stdout).unwrap())
    };
    let (code, text) = audit(&[]);
    // 10.0.0.2 is unhealthy and nothing is done for its flows.
    assert_eq!(code, 8, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for expected in
        ["[left-hanging]", "[some-unhealthy]", "[target-side-mtu]", "[group-unused]", "flowgate set fw"]
    {
        assert!(text.contains(expected), "no {expected}: {text}");
    }
    let (code, json) = audit(&["--json", "--target-group=spare"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["Worst"].as_str()), (0, Some("notice")), "{json}");
    assert_eq!(json["TargetGroups"].as_array().unwrap().len(), 1);
    let (code, said) = refused(&daemon.path(), &["audit", "--target-group=fv"]);
    assert!(code == 1 && said.contains("the target groups are fw, spare"), "{said}");
}
