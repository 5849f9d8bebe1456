//! Sizes, fragments and ICMP errors between real kernels (M-1 to M-5): what the client's kernel learns of the
//! path, what it sends in pieces, and a path that is narrower behind the gateway.

use std::net::{IpAddr, SocketAddr};

use crate::lab::capture::{Capture, SYN, ones_sum};
use crate::lab::frames::{fix_ipv4_checksum, send_frame};
use crate::lab::gateway::Attributes;
use crate::lab::netns::Netns;
use crate::lab::process::Process;
use crate::lab::traffic::{Connection, PATIENCE, datagram_must_cross, exchange, noise, ping, udp_pair};
use crate::lab::{CLIENT_MAC, ETH, Family, LEFT, Lab, RIGHT, SERVER_MAC, link, wait_for};

/// What fits the target side of [`narrow`].
const ROOM: u16 = 1500 - 68;

/// A laboratory whose target side has the client's own MTU, so that full packets do not fit.
fn narrow(appliances: u8, attributes: Attributes<'_>) -> Lab {
    changed(appliances, attributes, &[("mtu = 1600", "mtu = 1500")])
}

/// A laboratory whose gateway takes datagrams that its devices put together: DPDK has `net_af_packet` ask the
/// kernel for that, so that IPv4's fragments come as one packet (IPv6's come as they are).
fn for_large_datagrams(appliances: u8, underlay: &str) -> Lab {
    let large = ("framecnt=4096,blocksz=65536,framesz=2048", "framecnt=1024,blocksz=65536,framesz=8192");
    let changes = [("mtu = 1500", "mtu = 9000"), ("mtu = 1600", underlay), large];
    changed(appliances, Attributes::default(), &changes)
}

/// A laboratory whose node configuration is not as usual.
fn changed(appliances: u8, attributes: Attributes<'_>, changes: &[(&str, &str)]) -> Lab {
    let mut lab = Lab::new(appliances);
    for n in 0..lab.appliances.len() {
        lab.start_reflector(n, &[]);
    }
    lab.write_configuration(attributes);
    let mut node = lab.node_toml();
    for (usual, here) in changes {
        assert!(node.contains(usual), "{usual}");
        node = node.replace(usual, here);
    }
    if node.contains("mtu = 9000") {
        for port in [LEFT, RIGHT] {
            lab.router.ip(&format!("link set {port} mtu 9000"));
        }
    }
    std::fs::write(lab.path("node.toml"), node).expect("the folder is writable");
    lab.start_gateway();
    for n in 0..lab.appliances.len() {
        lab.wait_for_state(n, "healthy");
    }
    lab
}

const CLAMPED: Attributes<'_> =
    Attributes { target_group: &[], listener: &[("flowgate.tcp.mss_clamp", "true")] };

/// The path MTU to `to` that the kernel of `host` has learned, if it is another than its link's.
fn learned_mtu(host: &Netns, to: IpAddr) -> Option<u16> {
    let said = host.output(&format!("ip route get {to}"));
    let mtu = said.split_whitespace().skip_while(|word| *word != "mtu").nth(1)?;
    Some(mtu.parse().expect("a number"))
}

fn counter(lab: &Lab, name: &str) -> u64 {
    lab.counters("node")["Counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

// M-2
#[test]
fn a_ping_that_does_not_fit_and_must_not_be_fragmented_teaches_the_kernel_the_mtu() {
    let lab = narrow(1, Attributes::default());
    for (family, headers) in [(Family::V4, 28), (Family::V6, 48)] {
        let ping = |payload: u16| {
            let words = format!("-n -c 1 -W 2 -M do -s {payload} {}", family.server());
            let output = lab.client.command("ping").args(words.split_whitespace()).output().expect("ping");
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (answered, said) = ping(ROOM - headers);
        assert!(answered, "what fits crosses: {said}");
        assert_eq!(learned_mtu(&lab.client, family.server()), None);
        let (answered, said) = ping(ROOM - headers + 1);
        assert!(
            !answered && said.contains(&format!("mtu = {ROOM}")) || said.contains(&format!("mtu={ROOM}")),
            "{said}"
        );
        assert_eq!(learned_mtu(&lab.client, family.server()), Some(ROOM), "{family:?}");
    }
    for name in ["AnsweredPackets_fragmentation_needed", "AnsweredPackets_packet_too_big"] {
        wait_for(&format!("{name} to be 1"), PATIENCE, || (counter(&lab, name) == 1).then_some(()));
    }
}

// M-2, M-4
#[test]
fn pings_and_datagrams_of_several_thousand_bytes_cross_in_pieces_both_ways() {
    // Of 1,568 the pieces are of 1,500 bytes, as on the wire's own links.
    for underlay in ["mtu = 1500", "mtu = 1568"] {
        let lab = for_large_datagrams(2, underlay);
        for family in Family::BOTH {
            if family == Family::V6 {
                // Its sender fragments, and must first learn to what size, in both directions.
                ping(&lab, family, 5, 3000);
            }
            assert_eq!(ping(&lab, family, 5, 3000), 5, "{family:?}");
            let (client, server) = udp_pair(&lab, family);
            for size in [4000, 1473, 8000] {
                let datagram = noise(size, usize::try_from(size).expect("small"));
                datagram_must_cross_in_the_end(&client, &server, &datagram);
                datagram_must_cross_in_the_end(&server, &client, &datagram);
            }
        }
    }
}

/// Like [`datagram_must_cross`], for datagrams whose sender may first have to learn the path's MTU: what it
/// sends before that is lost.
fn datagram_must_cross_in_the_end(from: &std::net::UdpSocket, to: &std::net::UdpSocket, datagram: &[u8]) {
    to.set_read_timeout(Some(std::time::Duration::from_millis(200))).expect("not zero");
    let mut room = vec![0; 65536];
    wait_for("the datagram to cross", PATIENCE, || {
        // An error that the last one met is told by the next call.
        from.send(datagram).ok()?;
        loop {
            let length = to.recv(&mut room).ok()?;
            // One of another length came so late that it was sent again.
            if length == datagram.len() {
                assert!(room[..length] == *datagram, "{length} bytes arrived changed");
                return Some(());
            }
        }
    });
    to.set_read_timeout(Some(PATIENCE)).expect("not zero");
}

/// The frames of a UDP datagram from `client` to `server` in pieces of 1,448 bytes, which divide in eight.
fn in_pieces((client, server): (SocketAddr, SocketAddr), id: u8, payload: &[u8]) -> Vec<Vec<u8>> {
    let mut udp = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    udp.extend(u16::try_from(8 + payload.len()).expect("short").to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let length = u16::try_from(udp.len()).expect("short").to_be_bytes();
    let pseudo = match (client.ip(), server.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => [&a.octets()[..], &b.octets(), &[0, 17], &length].concat(),
        (IpAddr::V6(a), IpAddr::V6(b)) => [&a.octets()[..], &b.octets(), &[0, 17], &length].concat(),
        mixed => panic!("one packet has one family, not {mixed:?}"),
    };
    let sum = !ones_sum([pseudo.as_slice(), udp.as_slice()]);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    let last = udp.len().div_ceil(1448) - 1;
    udp.chunks(1448)
        .enumerate()
        .map(|(n, piece)| {
            let offset = u16::try_from(n * 1448).expect("short");
            let mut frame = [SERVER_MAC, CLIENT_MAC].concat();
            match (client.ip(), server.ip()) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    let more = if n < last { 0x2000 } else { 0 };
                    frame.extend([0x08, 0x00, 0x45, 0]);
                    frame.extend(u16::try_from(20 + piece.len()).expect("short").to_be_bytes());
                    frame.extend([0xbe, id]);
                    frame.extend(((offset / 8) | more).to_be_bytes());
                    frame.extend([64, 17, 0, 0]);
                    frame.extend(a.octets());
                    frame.extend(b.octets());
                    fix_ipv4_checksum(&mut frame, 14);
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                    frame.extend(u16::try_from(8 + piece.len()).expect("short").to_be_bytes());
                    frame.extend([44, 64]);
                    frame.extend(a.octets());
                    frame.extend(b.octets());
                    frame.extend([17, 0]);
                    frame.extend((offset | u16::from(n < last)).to_be_bytes());
                    frame.extend([0xde, 0xad, 0xbe, id]);
                }
                mixed => panic!("one packet has one family, not {mixed:?}"),
            }
            frame.extend(piece);
            frame
        })
        .collect()
}

// M-4
#[test]
fn a_datagram_arrives_whole_whichever_of_its_fragments_is_sent_first() {
    let lab = for_large_datagrams(2, "mtu = 1568");
    for family in Family::BOTH {
        let (client, server) = udp_pair(&lab, family);
        // Both ends know each other's link-layer address.
        datagram_must_cross(&client, &server, b"hello");
        datagram_must_cross(&server, &client, b"hello");
        let payload = noise(3, 4000);
        let ends = (client.local_addr().expect("bound"), server.local_addr().expect("bound"));
        for (id, order) in (1u8..).zip([[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]]) {
            let frames = in_pieces(ends, id, &payload);
            assert_eq!(frames.len(), 3);
            for n in order {
                send_frame(&lab.client, ETH, &frames[n]);
            }
            let mut room = vec![0; 65536];
            let length = server.recv(&mut room).unwrap_or_else(|e| panic!("{family:?} {order:?}: {e}"));
            assert!(room[..length] == payload, "{family:?} {order:?}: {length} bytes");
        }
    }
    assert_eq!(lab.dropped("fragment_timeout") + lab.dropped("fragment_full"), 0);
    // Of IPv6: those of IPv4 waited in the kernel.
    assert_eq!(counter(&lab, "HeldFragments"), 5);
}

// M-4
#[test]
fn fragments_whose_first_never_comes_are_dropped_after_a_second() {
    let lab = Lab::started(1, Attributes::default());
    let (client, server) = udp_pair(&lab, Family::V6);
    let ends = (client.local_addr().expect("bound"), server.local_addr().expect("bound"));
    for frame in &in_pieces(ends, 9, &noise(4, 4000))[1..] {
        send_frame(&lab.client, ETH, frame);
    }
    wait_for("both to be dropped", PATIENCE, || (lab.dropped("fragment_timeout") == 2).then_some(()));
    assert_eq!(counter(&lab, "WaitingFragments"), 0);
}

/// The MSS that a SYN offers, from its options; the frame has no VLAN tag.
fn mss_of(frame: &[u8], family: Family) -> u16 {
    let tcp = 14 + if family == Family::V4 { 20 } else { 40 };
    let mut at = tcp + 20;
    loop {
        match frame[at] {
            1 => at += 1,
            2 => return u16::from_be_bytes([frame[at + 2], frame[at + 3]]),
            _ => at += usize::from(frame[at + 1]),
        }
    }
}

// M-3
#[test]
fn the_other_end_sees_a_lower_mss_with_the_clamp_on_and_the_senders_own_with_it_off() {
    for (attributes, lowered) in [(Attributes::default(), 0), (CLAMPED, 68)] {
        let lab = narrow(1, attributes);
        for (family, own) in [(Family::V4, 1460), (Family::V6, 1440)] {
            let filter = "ip or ip6";
            let (at_server, at_client) =
                (Capture::start(&lab.server, ETH, filter), Capture::start(&lab.client, ETH, filter));
            let mut connection = lab.connect(family);
            connection.must_work();
            for (capture, to) in [
                (&at_server, connection.server.local_addr().expect("bound")),
                (&at_client, connection.client.local_addr().expect("bound")),
            ] {
                let syn =
                    capture.wait_for_tcp("the SYN", PATIENCE, |tcp| tcp.is(SYN) && tcp.destination == to);
                assert!(syn.checksums_right);
                let frame =
                    capture.frames().into_iter().find(|frame| frame.at == syn.at).expect("it was seen");
                assert_eq!(mss_of(&frame.bytes, family), own - lowered, "{family:?}");
            }
        }
    }
}

// M-1, M-2
#[test]
fn full_packets_of_tcp_find_their_size_by_what_the_gateway_tells() {
    let lab = narrow(2, Attributes::default());
    for family in Family::BOTH {
        exchange(&mut lab.connect(family), 2 << 20);
        assert_eq!(learned_mtu(&lab.client, family.server()), Some(ROOM));
        assert_eq!(learned_mtu(&lab.server, family.client()), Some(ROOM));
    }
}

// M-1, M-3
#[test]
fn with_the_clamp_on_large_transfers_need_not_be_told_anything() {
    let lab = narrow(2, CLAMPED);
    for family in Family::BOTH {
        exchange(&mut lab.connect(family), 2 << 20);
        assert_eq!(learned_mtu(&lab.client, family.server()), None);
    }
    // And so with a program of somebody else's.
    let mut serving = lab.server.command("iperf3");
    serving.args(["-s", "-1", "--forceflush"]);
    let server = Process::start("iperf3", &mut serving, lab.folder.path());
    wait_for("iperf3 to listen", PATIENCE, || server.printed().contains("listening").then_some(()));
    let words = format!("-c {} -n 20M --connect-timeout 3000", Family::V4.server());
    let output = lab.client.command("iperf3").args(words.split_whitespace()).output().expect("iperf3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(lab.counters("node")["Counters"]["AnsweredPackets"], 0, "nobody was told anything");
}

/// A machine behind the server, which routes to it over a link of this MTU.
fn behind_the_server(lab: &Lab, mtu: u16) -> Netns {
    let far = Netns::create(format!("{}-far", lab.server.name()));
    link((&lab.server, "far", None), (&far, ETH, None), mtu);
    for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
        lab.server.sysctl(key, "1");
    }
    for (network, gateway, router, host, options) in [
        ("203.0.113.0/24", "192.0.2.20", "203.0.113.1/24", "203.0.113.9/24", ""),
        ("2001:db8:5::/64", "2001:db8::20", "2001:db8:5::1/64", "2001:db8:5::9/64", "nodad"),
    ] {
        lab.server.ip(&format!("addr add {router} dev far {options}"));
        far.ip(&format!("addr add {host} dev {ETH} {options}"));
        let router = router.split('/').next().expect("an address");
        // It offers more than its own link takes, as a host whose link is wide and whose router's is not.
        far.ip(&format!("route add default via {router} advmss 1440"));
        lab.client.ip(&format!("route add {network} via {gateway}"));
    }
    for (host, address) in [(&lab.server, "203.0.113.9"), (&lab.server, "2001:db8:5::9")] {
        wait_for("the machine behind the server", PATIENCE, || {
            let words = format!("-c 1 -W 1 {address}");
            let pinged = host.command("ping").args(words.split_whitespace()).output().expect("ping");
            pinged.status.success().then_some(())
        });
    }
    far
}

// M-5, M-2: path MTU discovery of a real TCP transfer over a link that only a router behind the gateway knows.
#[test]
fn a_narrower_path_behind_the_gateway_is_discovered_through_it() {
    let lab = Lab::started(2, Attributes::default());
    let far = behind_the_server(&lab, 1300);
    for address in ["203.0.113.9", "2001:db8:5::9"] {
        let to: IpAddr = address.parse().expect("an address");
        let before = counter(&lab, "IcmpErrorsOfFlows");
        let listener = far.run(|| std::net::TcpListener::bind((to, 0))).expect("its own address");
        let port = listener.local_addr().expect("bound");
        let client = lab
            .client
            .run(|| std::net::TcpStream::connect_timeout(&port, PATIENCE))
            .expect("the client reaches it");
        let (server, _) = listener.accept().expect("it has connected");
        exchange(&mut Connection::new(client, server, listener), 1 << 20);
        assert_eq!(learned_mtu(&lab.client, to), Some(1300), "{address}");
        assert!(counter(&lab, "IcmpErrorsOfFlows") > before, "{}", lab.counters("node"));
    }
    assert_eq!(counter(&lab, "IcmpErrorsOfNoFlow"), 0);
}

// M-5: a service that does not run is refused at once, by an ICMP error about UDP.
#[test]
fn a_refused_datagram_is_refused_through_the_gateway() {
    let lab = Lab::started(2, Attributes::default());
    for family in Family::BOTH {
        let (client, server) = udp_pair(&lab, family);
        drop(server);
        client.send(b"anybody?").expect("the kernel takes it");
        let refused = client.recv(&mut [0; 16]).expect_err("nobody answers");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{family:?}");
    }
    wait_for("both to be counted", PATIENCE, || (counter(&lab, "IcmpErrorsOfFlows") == 2).then_some(()));
}
