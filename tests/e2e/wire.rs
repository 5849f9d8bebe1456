//! What crosses the gateway arrives as it was sent: bytes both ways, every protocol, both versions
//! of IP, and what is not IP at all.

use std::collections::BTreeSet;
use std::process::Command;

use crate::lab::capture::Capture;
use crate::lab::frames::send_frame;
use crate::lab::gateway::Attributes;
use crate::lab::traffic::{PATIENCE, datagram_must_cross, exchange, noise, ping, udp_pair};
use crate::lab::{CLIENT_MAC, ETH, Family, Lab, PAUSE, SERVER_MAC, Side, TO_GATEWAY, UNDERLAY, wait_for};

#[test]
fn tcp_bytes_cross_intact_both_ways_at_once_in_ipv4_and_ipv6() {
    let lab = Lab::started(2, Attributes::default());
    for family in Family::BOTH {
        let mut connection = lab.connect(family);
        exchange(&mut connection, 4 << 20);
        // F-2: one flow for both directions, begun by the client.
        let ends = BTreeSet::from([connection.address(Side::Client), connection.address(Side::Server)]);
        let flows: Vec<_> = lab
            .flows()
            .into_iter()
            .filter(|flow| ends == BTreeSet::from([flow.initiator, flow.responder]))
            .collect();
        assert_eq!(flows.len(), 1, "{flows:?}");
        assert_eq!(flows[0].initiator, connection.address(Side::Client));
    }
}

// W-6, M-1
#[test]
fn datagrams_cross_intact_in_every_size_up_to_the_mtu() {
    let lab = Lab::started(2, Attributes::default());
    for (family, headers) in [(Family::V4, 28), (Family::V6, 48)] {
        let (client, server) = udp_pair(&lab, family);
        for size in [0, 1, 2, 17, 18, 19, 64, 511, 1472 - 20, 1500 - headers] {
            let datagram = noise(size as u64, size);
            datagram_must_cross(&client, &server, &datagram);
            datagram_must_cross(&server, &client, &datagram);
        }
        let flow = lab
            .flow_between(client.local_addr().expect("bound"), server.local_addr().expect("bound"))
            .expect("a datagram makes a flow");
        assert_eq!(flow.protocol.to_lowercase(), "udp");
    }
}

// F-1, W-6
#[test]
fn pings_are_answered_through_an_appliance_in_ipv4_and_ipv6() {
    let lab = Lab::started(1, Attributes::default());
    let underlay = Capture::start(&lab.underlay, TO_GATEWAY, "udp port 6081");
    for family in Family::BOTH {
        assert_eq!(ping(&lab, family, 5, 1400), 5);
    }
    // Request and answer, each to the appliance and back, for each version.
    wait_for("every ping on the underlay", PATIENCE, || (underlay.frames().len() >= 2 * 5 * 4).then_some(()));
}

#[test]
fn frames_that_are_not_ip_cross_untouched_and_so_do_arp_and_neighbour_discovery() {
    // O-4
    let lab = Lab::started(1, Attributes::default());
    let arrivals = [Capture::start(&lab.server, ETH, ""), Capture::start(&lab.client, ETH, "")];
    let [client, server] = [CLIENT_MAC, SERVER_MAC];
    let ends = [(&lab.client, client, server, &arrivals[0]), (&lab.server, server, client, &arrivals[1])];
    for (from, mine, theirs, arrival) in ends {
        // An experimental ethertype, an 802.3 length with LLC (as spanning tree has), and a tag.
        for kind in
            [&[0x88, 0xb5][..], &[0x00, 0x2e, 0x42, 0x42, 0x03], &[0x81, 0x00, 0x20, 0x2a, 0x88, 0xb5]]
        {
            for destination in [theirs, [0xff; 6], [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]] {
                let mut frame = [&destination[..], &mine, kind].concat();
                frame.extend(noise(u64::from(kind[0]), 60));
                send_frame(from, ETH, &frame);
                arrival.wait_for_frame("the frame that is not IP", PATIENCE, |seen| seen == frame);
            }
        }
    }
    for host in [&lab.client, &lab.server] {
        host.ip("neigh flush all");
    }
    for (family, filter) in [(Family::V4, &[0x08, 0x06][..]), (Family::V6, &[0x86, 0xdd][..])] {
        let before = arrivals[0].frames().len();
        assert_eq!(ping(&lab, family, 1, 56), 1);
        wait_for(&format!("{family:?}: the question for the server's link-layer address"), PATIENCE, || {
            let mut frames = arrivals[0].frames().into_iter().skip(before);
            let question = frames.any(|frame| {
                let icmp6_solicitation = frame.bytes.get(54) == Some(&135);
                frame.bytes[12..14] == *filter && (family == Family::V4 || icmp6_solicitation)
            });
            question.then_some(())
        });
    }
}

#[test]
fn an_independent_decoder_reads_on_the_underlay_what_the_rules_say() {
    // W-1, W-2, W-3
    let lab = Lab::started(1, Attributes::default());
    let file = lab.path("underlay.pcap");
    let mut tcpdump = lab.underlay.command("tcpdump");
    tcpdump
        .args(["-n", "-U", "--immediate-mode", "-i", TO_GATEWAY, "-w"])
        .arg(&file)
        .args(["udp", "port", "6081"]);
    let tcpdump = crate::lab::process::Process::start("tcpdump", &mut tcpdump, lab.folder.path());
    wait_for("tcpdump to listen", PATIENCE, || tcpdump.printed().contains("listening on").then_some(()));
    let mut connections: Vec<_> = (0..8).map(|_| lab.connect(Family::V4)).collect();
    for connection in &mut connections {
        connection.must_work();
    }
    let mut v6 = lab.connect(Family::V6);
    v6.must_work();
    // Each word and its acknowledgement: 9 * 14 packets at the least.
    let size = || std::fs::metadata(&file).map_or(0, |file| file.len());
    wait_for("the last packet to be written", PATIENCE, || {
        let before = size();
        std::thread::sleep(PAUSE);
        (before > 9 * 14 * 100 && size() == before).then_some(())
    });
    tcpdump.terminate();

    let fields = [
        "ip.src",
        "ip.dst",
        "ip.flags.df",
        "ip.ttl",
        "ip.hdr_len",
        "udp.srcport",
        "udp.dstport",
        "geneve.version",
        "geneve.proto_type",
        "geneve.vni",
        "geneve.option.class",
        "geneve.option.type",
        "geneve.option.length",
        "tcp.stream",
        "_ws.malformed",
    ];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&file).args(["-T", "fields", "-E", "separator=;"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    let mut ports = BTreeSet::new();
    let mut flows = BTreeSet::new();
    let outer = |value: &str| value.split(',').next().unwrap_or_default().to_owned();
    for line in text.lines() {
        let row: Vec<&str> = line.split(';').collect();
        let from_gateway = outer(row[0]) == UNDERLAY.to_string();
        if from_gateway {
            assert_eq!(
                (outer(row[2]).as_str(), outer(row[3]).as_str(), outer(row[4]).as_str()),
                ("1", "255", "20"),
                "W-1: {line}"
            );
        }
        assert_eq!(outer(row[6]), "6081", "W-1: {line}");
        assert_eq!((row[7], row[9]), ("0", "0x000000"), "W-1: {line}");
        assert!(matches!(row[8], "0x0800" | "0x86dd"), "W-1: {line}");
        assert_eq!(row[10], "0x0108,0x0108,0x0108", "W-2: {line}");
        assert_eq!((row[11], row[14]), ("0x01,0x02,0x03", ""), "W-2: {line}");
        let port: u16 = outer(row[5]).parse().expect("a port");
        assert!(port >= 49152, "W-3: {line}");
        ports.insert(port);
        flows.insert((row[13].to_owned(), port));
    }
    assert!(text.lines().count() >= 9 * 8, "{text}");
    assert_eq!(flows.len(), 9, "W-3: one source port for a flow's life and both directions: {flows:?}");
    assert!(ports.len() > 4, "W-3: nine flows spread over ports: {ports:?}");
}

#[test]
fn at_rest_every_packet_that_came_in_is_counted_exactly_once() {
    // C-1
    let lab = Lab::started(2, Attributes::default());
    for family in Family::BOTH {
        exchange(&mut lab.connect(family), 1 << 20);
        assert_eq!(ping(&lab, family, 3, 56), 3);
    }
    // Packets of no flow, and what is no packet at all.
    send_frame(&lab.client, ETH, &[&SERVER_MAC[..], &CLIENT_MAC, &[0x08, 0x00], &[0x45; 64]].concat());
    send_frame(&lab.server, ETH, &[&CLIENT_MAC[..], &SERVER_MAC, &[0x86, 0xdd], &[0x60; 20]].concat());
    wait_for("the malformed packets to be counted", PATIENCE, || {
        (lab.dropped("ip_malformed") >= 2).then_some(())
    });
    let received = lab.all_counted_at_rest();
    assert!(received > 2000, "{received} packets for several megabytes");
}

#[test]
fn many_flows_are_spread_over_the_appliances() {
    // F-4
    let lab = Lab::started(2, Attributes::default());
    let listener = lab.listen(Family::V4);
    let address = listener.local_addr().expect("bound");
    let clients: Vec<_> = (0..64)
        .map(|_| {
            lab.client.run(|| std::net::TcpStream::connect_timeout(&address, PATIENCE).expect("connects"))
        })
        .collect();
    let mut shares = [0; 2];
    for flow in lab.flows() {
        shares[lab.appliance_at(flow.target)] += 1;
    }
    assert_eq!(shares.iter().sum::<usize>(), clients.len(), "{:?}", lab.flows());
    // A fair coin gives fewer than 12 of 64 once in five million runs.
    assert!(shares.iter().all(|&share| share >= 12), "{shares:?}");
}
