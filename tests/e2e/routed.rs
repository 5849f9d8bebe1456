//! The gateway as a router (O-4, W-6): clients and servers in networks of their own, neighbours found by the
//! kernel, whether it sees the ports by itself or by taps.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::capture::{Capture, SYN};
use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::netns::Netns;
use crate::lab::routed::Shape;
use crate::lab::traffic::{Connection, PATIENCE, datagram_must_cross, exchange, ping, udp_pair};
use crate::lab::{ETH, Family, Lab, Side, wait_for};

/// Pings an address of the gateway's own from a host.
fn ping_address(host: &Netns, address: IpAddr, more: &[&str]) -> String {
    let mut command = host.command("ping");
    command.args(["-n", "-c", "2", "-i", "0.05", "-W", "2"]).args(more).arg(address.to_string());
    String::from_utf8_lossy(&command.output().expect("ping is installed").stdout).into_owned()
}

/// Serves one web page at the server's, and fetches it with curl from the client's.
fn fetch(lab: &Lab, family: Family) -> String {
    let listener = lab.listen(family);
    let address = listener.local_addr().expect("bound");
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("curl comes");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            request.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nrouted")
            .expect("an answer");
    });
    let url = format!("http://{address}/");
    let output =
        lab.client.command("curl").args(["-sS", "-m", "10", &url]).output().expect("curl is installed");
    serve.join().expect("the server ends in peace");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn endpoint(lab: &Lab, name: &str) -> Value {
    let result = lab.gateway().rpc.must("describe-endpoints", json!({}));
    let endpoints = result["Endpoints"].as_array().expect("a list");
    endpoints.iter().find(|endpoint| endpoint["EndpointName"] == name).expect("it is configured").clone()
}

// O-4, W-6, C-1
#[test]
fn everything_crosses_a_router_whether_the_kernel_shares_its_ports_or_not() {
    for shape in Shape::ROUTED {
        let lab = Lab::started_as(2, shape, Attributes::default());
        for family in Family::BOTH {
            let there = Capture::start(&lab.server, ETH, "tcp");
            let mut connection = lab.connect(family);
            exchange(&mut connection, 2 << 20);
            let port = connection.address(Side::Client).port();
            let first = |tcp: &crate::lab::capture::Tcp| tcp.source.port() == port && tcp.is(SYN);
            let syn = there.wait_for_tcp("the SYN", PATIENCE, first);
            assert_eq!((syn.ttl, syn.checksums_right), (63, true), "W-6: {shape:?} {family:?}");

            let (client, server) = udp_pair(&lab, family);
            datagram_must_cross(&client, &server, &[7; 1300]);
            datagram_must_cross(&server, &client, b"back");
            assert_eq!(ping(&lab, family, 5, 1000), 5, "{shape:?} {family:?}");
            assert_eq!(fetch(&lab, family), "routed", "{shape:?} {family:?}");
        }
        assert_eq!(lab.dropped("neighbour_unknown"), 0, "{shape:?}");
        lab.all_counted_at_rest();
    }
}

// O-4
#[test]
fn the_kernel_answers_for_the_gateways_own_addresses() {
    for shape in Shape::ROUTED {
        let lab = Lab::started_as(1, shape, Attributes::default());
        for family in Family::BOTH {
            for side in Side::BOTH {
                let said = ping_address(lab.host(side), Shape::router(side, family), &[]);
                assert!(said.contains("2 received"), "{shape:?} {side:?}: {said}");
            }
        }
        assert!(lab.flows().iter().all(|flow| flow.protocol != "icmp"), "what is the host's is no flow");
        let office = endpoint(&lab, "office");
        assert_eq!(office["Kind"], "routed");
        let left = &office["Interfaces"][0];
        let name = if shape == Shape::Trunk { "left.100" } else { "left" };
        assert_eq!((&left["InterfaceName"], &left["Mtu"]), (&json!(name), &json!(1500)));
        let host = &left["HostInterface"];
        match shape {
            Shape::Routed => assert_eq!((&host["Name"], &host["Kind"]), (&json!("left"), &json!("shared"))),
            _ => {
                assert_eq!((&host["Name"], &host["Kind"]), (&json!("fg-left.100"), &json!("tap")));
                // ARP, and two pings of each version.
                wait_for("what went to the host and came from it", PATIENCE, || {
                    let host = endpoint(&lab, "office")["Interfaces"][0]["HostInterface"].take();
                    let moved = |key: &str| host[key].as_u64().expect("a number");
                    assert_eq!(moved("Lost"), 0, "{host}");
                    (moved("ToHost") >= 5 && moved("FromHost") >= 5).then_some(())
                });
            }
        }
        assert_eq!(host["Up"], true, "{host}");
        lab.all_counted_at_rest();
    }
}

// W-6
#[test]
fn a_packet_whose_time_is_over_is_answered_by_the_router() {
    for shape in Shape::ROUTED {
        let lab = Lab::started_as(1, shape, Attributes::default());
        for family in Family::BOTH {
            let router = Shape::router(Side::Client, family);
            let said = ping_address(&lab.client, family.server(), &["-t", "1"]);
            let from = format!("From {router}");
            assert!(said.contains(&from) && said.contains("0 received"), "{shape:?} {family:?}: {said}");
            assert!(
                said.contains("Time to live exceeded") || said.contains("Hop limit"),
                "{shape:?} {family:?}: {said}"
            );
            let said = ping_address(&lab.client, family.server(), &["-t", "2"]);
            assert!(said.contains("2 received"), "the server is two hops away: {said}");
        }
    }
}

// O-4
#[test]
fn a_server_behind_another_router_is_reached_by_the_endpoints_route() {
    let mut lab = Lab::shaped(1, Shape::Routed);
    // The server is the router, and the far end is an address of its own behind it.
    lab.server.ip("addr add 198.18.0.9/32 dev lo");
    // On the interface itself: a kernel without link-local addresses asks for neighbours from no other.
    lab.server.ip(&format!("addr add 2001:db8:f::9/128 dev {ETH} nodad"));
    for n in 0..lab.appliances.len() {
        lab.start_reflector(n, &[]);
    }
    lab.write_configuration(Attributes::default());
    let mut toml = lab.node_toml();
    for (prefix, via) in [("198.18.0.0/24", Family::V4.server()), ("2001:db8:f::/48", Family::V6.server())] {
        toml += &format!("\n[[endpoints.routes]]\nprefix = \"{prefix}\"\nvia = \"{via}\"\n");
    }
    std::fs::write(lab.path("node.toml"), toml).expect("the folder is writable");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    for far in ["198.18.0.9", "2001:db8:f::9"] {
        let far: IpAddr = far.parse().expect("an address");
        let listener = lab.server.run(|| TcpListener::bind((far, 0))).expect("it has this address");
        lab.connect_to(listener).must_work();
    }
    let routes = endpoint(&lab, "office")["Routes"].clone();
    let to_far = json!({"Prefix": "198.18.0.0/24", "Via": "192.0.2.20", "InterfaceName": "right"});
    assert!(routes.as_array().expect("a list").contains(&to_far), "{routes}");
    // What no route leads to is said to be unreachable.
    let said = ping_address(&lab.client, "203.0.113.9".parse().expect("an address"), &[]);
    assert!(said.contains("From 192.0.2.1") && said.contains("Unreachable"), "{said}");
}

// O-4
#[test]
fn a_neighbour_with_another_link_layer_address_is_followed_at_once() {
    for shape in Shape::ROUTED {
        let lab = Lab::started_as(1, shape, Attributes::default());
        let mut connection = lab.connect(Family::V4);
        connection.must_work();
        lab.server.sysctl(&format!("net/ipv4/conf/{ETH}/arp_notify"), "1");
        lab.server.ip(&format!("link set {ETH} address 02:00:00:00:02:99"));
        // The route goes with the old address in some kernels; the connection does not.
        let began = Instant::now();
        connection.must_work();
        assert!(began.elapsed() < Duration::from_secs(2), "{shape:?}: after {:?}", began.elapsed());
        let office = endpoint(&lab, "office");
        let neighbours = office["Interfaces"][1]["Neighbours"].as_array().expect("a list").clone();
        let server = neighbours.iter().find(|known| known["Address"] == "192.0.2.20").expect("it is in use");
        assert_eq!(server["Mac"], "02:00:00:00:02:99", "{server}");
    }
}

// O-4
#[test]
fn two_endpoints_with_the_same_addresses_never_mix() {
    for shape in Shape::ROUTED {
        let mut lab = Lab::shaped(1, shape);
        lab.add_twins();
        lab.start_all(Attributes::default());
        for family in Family::BOTH {
            let (client2, server2) = lab.twins.as_ref().expect("they were added");
            let address = SocketAddr::new(family.server(), 7777);
            let bind = || TcpListener::bind(address).expect("the port is free");
            let (first, second) = (lab.server.run(bind), server2.run(bind));
            let mut office = lab.connect_to(first);
            let client =
                client2.run(|| TcpStream::connect_timeout(&address, PATIENCE)).expect("the twin connects");
            let (server, _) = second.accept().expect("the twin has connected");
            let mut branch = Connection::new(client, server, second);
            exchange(&mut office, 100_000);
            exchange(&mut branch, 100_000);
            for endpoint in ["office", "branch"] {
                let flows = lab
                    .gateway()
                    .rpc
                    .must("describe-flows", json!({"Endpoint": endpoint, "Protocol": "tcp"}));
                let count = flows["Flows"].as_array().expect("a list").len();
                assert_eq!(count, if family == Family::V4 { 1 } else { 2 }, "{shape:?} {endpoint}: {flows}");
            }
        }
        lab.all_counted_at_rest();
    }
}

// O-4
#[test]
fn frames_of_a_trunk_have_their_interfaces_tags_and_what_has_others_is_nobodys() {
    use crate::lab::frames::TcpFrame;
    use crate::lab::{CLIENT_MAC, routed::VLANS};
    let lab = Lab::started_as(1, Shape::Trunk, Attributes::default());
    lab.connect(Family::V4).must_work();
    let office = endpoint(&lab, "office");
    for (interface, vlans) in office["Interfaces"].as_array().expect("a list").iter().zip(VLANS) {
        assert_eq!(interface["Vlans"], json!(vlans));
    }
    let mac = office["Interfaces"][0]["Mac"].as_str().expect("an address").to_owned();
    let mac: Vec<u8> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect();
    let before = lab.dropped("vlan_unknown");
    for vlans in [&[101][..], &[], &[100, 7], &[200]] {
        let stray = TcpFrame {
            source_mac: CLIENT_MAC,
            destination_mac: mac.clone().try_into().expect("six bytes"),
            vlans: vlans.to_vec(),
            source: SocketAddr::new(Family::V4.client(), 4242),
            destination: SocketAddr::new(Family::V4.server(), 80),
            seq: 1000,
            ack: 0,
            flags: SYN,
            payload: vec![],
        };
        lab.trunks[0].inject(&stray.build());
    }
    wait_for("the strays to be counted", PATIENCE, || {
        (lab.dropped("vlan_unknown") == before + 4).then_some(())
    });
    assert!(lab.flows().iter().all(|flow| flow.initiator.port() != 4242), "{:?}", lab.flows());
    assert_eq!(lab.trunks.iter().map(crate::lab::trunk::Trunk::strays).sum::<u64>(), 0);
}

/// A target's neighbour, as `describe-target-health` tells it.
fn neighbour_of(lab: &Lab, target: &str) -> Value {
    let result = lab.gateway().rpc.must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}));
    let described = result["TargetHealthDescriptions"].as_array().expect("a list").clone();
    let found = described.into_iter().find(|described| described["Target"]["Id"] == target);
    found.expect("it is registered")["Neighbour"].clone()
}

#[test]
fn targets_of_a_wire_are_found_by_arp_and_one_that_is_not_is_shown_so() {
    let mut lab = Lab::new(2);
    lab.set_link(1, "down");
    lab.start_reflector(0, &[]);
    lab.write_configuration(Attributes::default());
    let toml = lab.node_toml();
    let without = toml.split("\n[[neighbours]]").next().expect("a first part");
    assert_ne!(without, toml, "the wire's laboratory gives its neighbours otherwise");
    std::fs::write(lab.path("node.toml"), without).expect("the folder is writable");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    let found = json!({"NextHop": "198.51.100.11", "Mac": "02:00:00:00:04:01", "State": "reachable"});
    wait_for("the first to be found", PATIENCE, || {
        (neighbour_of(&lab, "198.51.100.11") == found).then_some(())
    });
    lab.connect(Family::V4).must_work();
    wait_for("the second to be given up", PATIENCE, || {
        let neighbour = neighbour_of(&lab, "198.51.100.12");
        (neighbour == json!({"NextHop": "198.51.100.12", "State": "failed"})).then_some(())
    });
    // It comes after all.
    lab.set_link(1, "up");
    lab.start_reflector(1, &[]);
    lab.wait_for_state(1, "healthy");
    wait_for("the second to be found", PATIENCE, || {
        (neighbour_of(&lab, "198.51.100.12")["Mac"] == "02:00:00:00:04:02").then_some(())
    });
    lab.connect(Family::V6).must_work();
    assert_eq!(lab.dropped("neighbour_unknown"), 0);
}

#[test]
fn targets_behind_a_router_are_handed_to_it() {
    let mut lab = Lab::shaped(1, Shape::Routed);
    // The appliance is the router, and the target is an address of its own behind it.
    lab.appliances[0].netns.ip("addr add 203.0.113.5/32 dev lo");
    lab.router.ip("route add 203.0.113.0/24 via 198.51.100.11");
    lab.start_reflector(0, &[]);
    lab.write_configuration(Attributes::default());
    let toml = lab.node_toml().replace(
        "address = \"198.51.100.1/24\"",
        "address = \"198.51.100.1/24\"\ngateway = \"198.51.100.11\"",
    );
    std::fs::write(lab.path("node.toml"), toml).expect("the folder is writable");
    let objects = lab.objects(Attributes::default()).to_string().replace("198.51.100.11", "203.0.113.5");
    std::fs::write(lab.path("objects.json"), objects).expect("the folder is writable");
    lab.start_gateway();
    let router = json!({"NextHop": "198.51.100.11", "Mac": "02:00:00:00:04:01", "State": "reachable"});
    wait_for("the router to be found", PATIENCE, || {
        (neighbour_of(&lab, "203.0.113.5") == router).then_some(())
    });
    for family in Family::BOTH {
        lab.connect(family).must_work();
    }
}

#[test]
fn the_kernel_is_kept_from_forwarding_while_the_daemon_runs_and_a_check_says_what_it_finds() {
    let mut lab = Lab::shaped(1, Shape::Routed);
    lab.write_configuration(Attributes::default());
    let forwarding = |lab: &Lab| {
        let read = || std::fs::read_to_string("/proc/sys/net/ipv4/conf/left/forwarding").expect("readable");
        lab.router.run(read).trim().to_owned()
    };
    let check = |lab: &Lab| {
        let mut command = lab.router.command(env!("CARGO_BIN_EXE_flowgated"));
        let output =
            command.arg("--config").arg(lab.path("node.toml")).arg("--check").output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    lab.router.ip("addr del 192.0.2.17/28 dev right");
    let said = check(&lab);
    for line in [
        "note: under: the kernel keeps under and answers for the addresses on it",
        "note: left: the kernel forwards IPv4 from left; while the daemon runs it does not",
        "warning: right: right lacks 192.0.2.17/28, so that nobody answers for it; `ip address add 192.0.2.17/28 dev right`",
        "note: the kernel has 198.51.100.1 too; UDP 6081 there is held, so that it does not answer for us",
    ] {
        assert!(said.lines().any(|said| said == line), "'{line}' is missing from:\n{said}");
    }
    assert_eq!(forwarding(&lab), "1", "a check changes nothing");
    lab.start_gateway();
    assert_eq!(forwarding(&lab), "0");
    lab.stop_gateway();
    assert_eq!(forwarding(&lab), "1", "as it was");
}

#[test]
fn a_host_interface_that_another_program_has_is_refused_by_its_name() {
    let lab = Lab::shaped(1, Shape::Trunk);
    lab.write_configuration(Attributes::default());
    let _theirs = lab.router.run(|| flowgate::io::tap::Tap::open("fg-left.100")).expect("made");
    let mut command = lab.router.command("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_flowgated"), "--config"]).arg(lab.path("node.toml"));
    let output = command.env("FLOWGATE_LOG", "error").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said,
        "flowgated: the tap fg-left.100 cannot be made: Device or resource busy (os error 16); another program has it\n"
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(!lab.path("flowgated.sock").exists());
}
