//! Programs that people use, and wires that do not know of each other: HTTP, bulk transfers, stickiness,
//! zones, and two endpoints with the same addresses.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::gateway::{Attributes, LOAD_BALANCER};
use crate::lab::netns::Netns;
use crate::lab::process::Process;
use crate::lab::traffic::{Connection, PATIENCE, exchange, noise, ping};
use crate::lab::{
    CLIENT_MAC, CLIENT_V4, ETH, Family, LEFT, Lab, RIGHT, SERVER_MAC, SERVER_V4, link, wait_for,
};

/// A program of the server's, once `address` takes connections there.
fn serve(lab: &Lab, name: &str, command: &mut Command, address: SocketAddr) -> Process {
    let mut program = Process::start(name, command, lab.folder.path());
    wait_for(&format!("{name} to listen on {address}"), PATIENCE, || {
        program.must_run();
        lab.server.run(|| TcpStream::connect(address)).ok()
    });
    program
}

// O-1, F-2, W-6
#[test]
fn a_file_comes_whole_over_http_in_ipv4_and_ipv6() {
    let lab = Lab::started(2, Attributes::default());
    let file = noise(7, 8 << 20);
    std::fs::create_dir(lab.path("www")).expect("the folder is writable");
    std::fs::write(lab.path("www/file"), &file).expect("the folder is writable");
    for family in Family::BOTH {
        let address = SocketAddr::new(family.server(), 8080);
        let mut server = lab.server.command("python3");
        server.args(["-m", "http.server", "8080", "--bind", &family.server().to_string(), "--directory"]);
        let _server = serve(&lab, "http", server.arg(lab.path("www")), address);
        let got = lab.path("got");
        let mut curl = lab.client.command("curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "30", "--output"]).arg(&got);
        let said = curl.arg(format!("http://{address}/file")).output().expect("curl is installed");
        assert!(said.status.success(), "curl: {}", String::from_utf8_lossy(&said.stderr));
        assert!(std::fs::read(&got).expect("curl wrote it") == file, "the file arrived changed");
        assert!(lab.flows().iter().any(|flow| flow.responder == address), "{:?}", lab.flows());
    }
}

/// What iperf3 measured from the client to the server, under the words that are given it.
fn iperf3(lab: &Lab, family: Family, words: &str) -> Value {
    let address = SocketAddr::new(family.server(), 5201);
    let bind = format!("--server --forceflush --bind {}", family.server());
    let mut server = lab.server.command("iperf3");
    let _server = serve(lab, "iperf3", server.args(bind.split_whitespace()), address);
    let words = format!("--client {} --time 2 --json {words}", family.server());
    let said =
        lab.client.command("iperf3").args(words.split_whitespace()).output().expect("iperf3 is installed");
    let report: Value = serde_json::from_slice(&said.stdout).expect("iperf3 reports in JSON");
    assert!(said.status.success(), "iperf3 {words}: {}", report["error"]);
    report
}

// W-6, C-1
#[test]
fn bulk_transfers_run_both_ways_and_every_byte_that_iperf3_moved_was_processed() {
    let lab = Lab::started(2, Attributes::default());
    let mut moved = 0;
    for family in Family::BOTH {
        for direction in ["", "--reverse"] {
            let report = iperf3(&lab, family, &format!("--parallel 4 {direction}"));
            let received = report["end"]["sum_received"]["bytes"].as_u64().expect("bytes");
            // Far below what any machine does; a transfer that crawls by its timeouts does less.
            assert!(received > 2 << 20, "{family:?} {direction}: {received} bytes in two seconds");
            moved += received;
        }
    }
    let processed = lab.counters("load-balancer")["Counters"]["ProcessedBytes"].as_u64().expect("a count");
    // Once to the appliance and once back.
    assert!(processed > 2 * moved, "{moved} bytes were moved, {processed} processed");
}

// A-10, F-1
#[test]
fn datagrams_at_a_steady_rate_arrive_in_order_and_nearly_all_of_them() {
    let lab = Lab::started(2, Attributes::default());
    for family in Family::BOTH {
        let report = iperf3(&lab, family, "--udp --bitrate 8M --length 1200");
        let sum = &report["end"]["sum"];
        let (lost, all) = (sum["lost_packets"].as_u64(), sum["packets"].as_u64());
        let (lost, all) = (lost.expect("a count"), all.expect("a count"));
        // 8 Mbit/s for two seconds; a machine that others load as well may lose a moment of it.
        assert!(all > 1000 && lost * 10 < all, "{family:?}: {lost} of {all} datagrams are lost");
    }
}

/// Connections of one client to one server, all from other ports: the appliances that they go through.
fn appliances_of_many(lab: &Lab) -> Vec<usize> {
    let connections: Vec<Connection> = (0..12).map(|_| lab.connect(Family::V4)).collect();
    connections.iter().map(|connection| lab.appliance_of(connection)).collect()
}

// F-3
#[test]
fn with_stickiness_all_connections_of_two_hosts_go_through_one_appliance() {
    let lab = Lab::started(3, Attributes::default());
    let spread = appliances_of_many(&lab);
    // That twelve fair choices of three are all the same happens once in 177,147 runs.
    assert!(spread.iter().any(|appliance| *appliance != spread[0]), "{spread:?}");
    lab.set_group_attribute("stickiness.enabled", "true");
    for kind in ["source_ip_dest_ip_proto", "source_ip_dest_ip"] {
        lab.set_group_attribute("stickiness.type", kind);
        let together = appliances_of_many(&lab);
        assert!(together.iter().all(|appliance| *appliance == together[0]), "{kind}: {together:?}");
    }
    // With the two-tuple another protocol follows, too.
    let tcp = appliances_of_many(&lab)[0];
    assert_eq!(ping(&lab, Family::V4, 1, 56), 1);
    let echo = lab.flows().into_iter().find(|flow| flow.protocol.eq_ignore_ascii_case("icmp"));
    assert_eq!(lab.appliance_at(echo.expect("a ping makes a flow").target), tcp);
}

// A-8, H-6
#[test]
fn a_target_of_another_zone_is_used_only_with_cross_zone_on() {
    let mut lab = Lab::new(2);
    for n in 0..2 {
        lab.start_reflector(n, &[]);
    }
    lab.write_configuration(Attributes::default());
    let zone = "zone = \"rack-a\"\n";
    std::fs::write(lab.path("node.toml"), zone.to_owned() + &lab.node_toml()).expect("writable");
    let mut objects = lab.objects(Attributes::default());
    for (target, zone) in objects["target_groups"][0]["targets"]
        .as_array_mut()
        .expect("a list")
        .iter_mut()
        .zip(["rack-a", "rack-b"])
    {
        target["zone"] = json!(zone);
    }
    std::fs::write(lab.path("objects.json"), objects.to_string()).expect("writable");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    assert_eq!(lab.state_of(1), Some(("unused".into(), Some("Target.NotInUse".into()))));
    assert_eq!(appliances_of_many(&lab), [0; 12]);
    let on = json!([{"Key": "load_balancing.cross_zone.enabled", "Value": "true"}]);
    lab.gateway()
        .rpc
        .must("modify-load-balancer-attributes", json!({"LoadBalancerArn": LOAD_BALANCER, "Attributes": on}));
    lab.wait_for_state(1, "healthy");
    let spread = appliances_of_many(&lab);
    assert!(spread.contains(&0) && spread.contains(&1), "{spread:?}");
}

/// A second pair of hosts with the very addresses of the first, on a wire of their own.
struct Twins {
    client: Netns,
    server: Netns,
}

impl Twins {
    fn new(lab: &Lab) -> Twins {
        let name = |what: &str| format!("{}-{what}", lab.router.name());
        let twins = Twins { client: Netns::create(name("twin-c")), server: Netns::create(name("twin-s")) };
        for (host, port, mac, address) in [
            (&twins.client, "left2", CLIENT_MAC, CLIENT_V4),
            (&twins.server, "right2", SERVER_MAC, SERVER_V4),
        ] {
            link((host, ETH, Some(mac)), (&lab.router, port, None), 1500);
            host.ip(&format!("addr add {address}/24 dev {ETH}"));
        }
        twins
    }

    /// What the node's configuration has for them, made of what it has for the first pair.
    fn toml(lab: &Lab) -> String {
        let first = lab.node_toml();
        let device = |interface: &str, n: u8| {
            let line = first.lines().find(|line| line.contains(&format!("iface={interface},")));
            let line = line.expect("the first wire's device");
            let digit = line.find("net_af_packet").expect("af_packet") + "net_af_packet".len();
            let line = format!("{}{n}{}", &line[..digit], &line[digit + 1..]);
            line.replace(&format!("iface={interface},"), &format!("iface={interface}2,"))
        };
        let (left, right) = (device(LEFT, 3), device(RIGHT, 4));
        format!(
            "[[ports]]\nname = \"left2\"\n{left}\n[[ports]]\nname = \"right2\"\n{right}\n\
             [[endpoints]]\nname = \"branch\"\nid = 2\nkind = \"wire\"\nports = [\"left2\", \"right2\"]\n\
             load_balancer = \"{LOAD_BALANCER}\"\n"
        )
    }
}

// O-4, F-1
#[test]
fn two_endpoints_with_the_same_addresses_never_mix() {
    let mut lab = Lab::new(2);
    let twins = Twins::new(&lab);
    for n in 0..2 {
        lab.start_reflector(n, &[]);
    }
    lab.write_configuration(Attributes::default());
    std::fs::write(lab.path("node.toml"), lab.node_toml() + &Twins::toml(&lab)).expect("writable");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    lab.wait_for_state(1, "healthy");

    let (from, to) = (SocketAddr::from((CLIENT_V4, 5000)), SocketAddr::from((SERVER_V4, 7000)));
    let connect = |client: &Netns, server: &Netns| {
        let listener = server.run(|| TcpListener::bind(to)).expect("the server can listen");
        let stream = lab.connect_in(client, from, to);
        let (accepted, _) = listener.accept().expect("connected");
        Connection::new(stream, accepted, listener)
    };
    let mut one = connect(&lab.client, &lab.server);
    let mut other = connect(&twins.client, &twins.server);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&mut one, 1 << 20));
        scope.spawn(|| exchange(&mut other, 1 << 20));
    });
    let flows: Vec<_> = lab.flows().into_iter().filter(|flow| flow.initiator == from).collect();
    assert_eq!(flows.len(), 2, "{flows:?}");
    assert_ne!(flows[0].cookie, flows[1].cookie, "F-11");
    // The end of one is not the end of the other.
    drop(one);
    std::thread::sleep(Duration::from_millis(100));
    other.must_work();
}
