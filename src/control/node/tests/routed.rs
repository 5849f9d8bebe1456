//! Routed endpoints, their interfaces and routes, and neighbours (O-4).

use super::super::*;
use super::refusal;
use crate::id::EndpointId;

const GOOD: &str = r#"
[workers]
cores = [2]

[[ports]]
name = "lan"
device = "0000:3b:00.0"

[[ports]]
name = "wan"
device = "net_af_packet0,iface=eth1"

[[ports]]
name = "targets"
device = "0000:5e:00.0"

[underlay]
port = "targets"
address = "192.0.2.1/24"

[[endpoints]]
name = "edge"
id = 1
kind = "routed"
load_balancer = "gw"

[[endpoints.interfaces]]
port = "lan"
vlans = [100]
addresses = ["10.1.0.1/24", "10.1.0.2/24", "2001:db8:1::1/64"]

[[endpoints.interfaces]]
port = "wan"
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]

[[endpoints.routes]]
prefix = "0.0.0.0/0"
via = "198.51.100.254"

[[endpoints.routes]]
prefix = "::/0"
via = "fe80::1"
interface = "wan"

[[endpoints.routes]]
prefix = "10.9.0.0/16"
interface = "lan.100"

[[endpoints]]
name = "guests"
id = 2
kind = "routed"
load_balancer = "gw"

[[endpoints.interfaces]]
port = "lan"
vlans = [100, 7]
addresses = ["10.1.0.1/24"]
host_interface = "guests"

[[neighbours]]
interface = "lan.100"
address = "10.1.0.9"
mac = "02:00:00:00:00:09"
"#;

fn edited(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "'{from}' must be in the good configuration once");
    GOOD.replacen(from, to, 1)
}

fn assert_faults(faults: &[(&str, &str, &str)]) {
    for (from, to, expected) in faults {
        assert_eq!(refusal(&edited(from, to)), *expected, "'{from}' replaced by '{to}'");
    }
}

// O-4
#[test]
fn a_routed_endpoint_is_read_with_its_interfaces_and_routes() {
    let config = NodeConfig::parse(GOOD).expect("good");
    let interfaces = config.interfaces();
    let seen: Vec<_> = interfaces
        .iter()
        .map(|known| {
            let (name, host) = (known.name.as_str(), known.host_interface.as_str());
            (name, known.port, known.vlans.as_slice(), host, known.kept_by_kernel, known.endpoint)
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("targets", 2, &[][..], "fg-targets", false, None),
            ("lan.100", 0, &[100][..], "fg-lan.100", false, Some(EndpointId(0))),
            ("wan", 1, &[][..], "eth1", true, Some(EndpointId(0))),
            ("lan.100.7", 0, &[100, 7][..], "guests", false, Some(EndpointId(1))),
        ]
    );
    let routes = |id| -> Vec<String> {
        let tell = |route: NodeRoute| {
            let via = route.via.map_or_else(|| "on link".to_owned(), |via| via.to_string());
            format!("{} {via} {}", route.prefix, interfaces[route.interface].name)
        };
        config.routes(EndpointId(id)).into_iter().map(tell).collect()
    };
    assert_eq!(
        routes(0),
        [
            "10.1.0.0/24 on link lan.100",
            "2001:db8:1::/64 on link lan.100",
            "198.51.100.0/24 on link wan",
            "2001:db8:2::/64 on link wan",
            "0.0.0.0/0 198.51.100.254 wan",
            "::/0 fe80::1 wan",
            "10.9.0.0/16 on link lan.100",
        ]
    );
    assert_eq!(routes(1), ["10.1.0.0/24 on link lan.100.7"], "two endpoints may have the same addresses");
}

// O-4
#[test]
fn interfaces_that_cannot_be_are_refused() {
    let vlan_7 = "vlans = [100, 7]";
    let guests = "addresses = [\"10.1.0.1/24\"]";
    assert_faults(&[
        (
            "name = \"edge\"",
            "name = \"edge\"\nports = [\"lan\", \"wan\"]",
            "endpoints[0].ports: a routed endpoint has interfaces in the place of ports",
        ),
        (
            "[[endpoints.interfaces]]\nport = \"lan\"\nvlans = [100, 7]\naddresses = [\"10.1.0.1/24\"]\n\
             host_interface = \"guests\"\n",
            "",
            "endpoints[1].interfaces: there are none; a routed endpoint has one or more",
        ),
        (
            "port = \"wan\"",
            "port = \"van\"",
            "endpoints[0].interfaces[1].port: there is no port 'van'; there are [lan, wan, targets]",
        ),
        (
            "port = \"wan\"",
            "port = \"targets\"",
            "endpoints[0].interfaces[1].port: 'targets' is the underlay's port and cannot be an endpoint's too",
        ),
        (
            vlan_7,
            "vlans = [1, 2, 3]",
            "endpoints[1].interfaces[0].vlans: there are 3; a frame has at most 2 tags",
        ),
        (vlan_7, "vlans = [0]", "endpoints[1].interfaces[0].vlans: 0 must be between 1 and 4094"),
        (vlan_7, "vlans = [4095]", "endpoints[1].interfaces[0].vlans: 4095 must be between 1 and 4094"),
        (
            vlan_7,
            "vlans = [100]",
            "endpoints[1].interfaces[0]: 'lan.100' is an interface of the endpoint 'edge' already",
        ),
        (
            guests,
            "addresses = []",
            "endpoints[1].interfaces[0].addresses: there are none; without an address of its own an interface can ask \
             for no neighbour",
        ),
        (
            guests,
            "addresses = [\"10.1.0.1/24\", \"10.1.0.1/25\"]",
            "endpoints[1].interfaces[0].addresses[1]: '10.1.0.1' is an address of 'lan.100.7' already",
        ),
        (
            guests,
            "addresses = [\"10.1.0.1\"]",
            "endpoints[1].interfaces[0].addresses[0]: '10.1.0.1' must be an address with its prefix, such as \
             10.1.0.1/24 or 2001:db8:1::1/64 (line 58)",
        ),
        (
            "\"198.51.100.1/24\", ",
            "\"10.1.0.3/24\", ",
            "endpoints[0].interfaces[1].addresses[0]: the network 10.1.0.0/24 is on 'lan.100' already",
        ),
        (
            "addresses = [\"198.51.100.1/24\"",
            "colour = 1\naddresses = [\"198.51.100.1/24\"",
            "endpoints[0].interfaces[1].colour: unknown field `colour`, expected one of `port`, `vlans`, `addresses`, \
             `host_interface` (line 34)",
        ),
    ]);
}

#[test]
fn host_interfaces_that_cannot_be_are_refused() {
    let given = "host_interface = \"guests\"";
    assert_faults(&[
        (
            given,
            "host_interface = \"fg-lan.100\"",
            "endpoints[1].interfaces[0].host_interface: 'fg-lan.100' is the host interface of 'lan.100' already",
        ),
        (
            given,
            "host_interface = \"guests/1\"",
            "endpoints[1].interfaces[0].host_interface: 'guests/1' must be a name that the kernel takes for an \
             interface: 1 to 15 printable characters without '/', ':', '%' and blanks (line 59)",
        ),
        (
            "vlans = [100, 7]\naddresses = [\"10.1.0.1/24\"]\nhost_interface = \"guests\"",
            "vlans = [1000, 1007]\naddresses = [\"10.1.0.1/24\"]",
            "endpoints[1].interfaces[0].host_interface: it must be given: 'fg-lan.1000.1007' has 16 characters, and \
             the kernel takes 15",
        ),
        (
            "port = \"wan\"",
            "port = \"wan\"\nhost_interface = \"wan0\"",
            "endpoints[0].interfaces[1].host_interface: 'wan0' must be 'eth1', which the kernel keeps below the port \
             of 'wan'",
        ),
        (
            "address = \"192.0.2.1/24\"",
            "address = \"192.0.2.1/24\"\nhost_interface = \"guests\"",
            "endpoints[1].interfaces[0].host_interface: 'guests' is the host interface of 'targets' already",
        ),
    ]);
    let text = edited("address = \"192.0.2.1/24\"", "address = \"192.0.2.1/24\"\nhost_interface = \"tap0\"");
    assert_eq!(NodeConfig::parse(&text).expect("good").interfaces()[0].host_interface, "tap0");
}

// O-4
#[test]
fn a_wire_takes_its_ports_whole_and_has_no_routes() {
    let wire = "\n[[endpoints]]\nname = \"wire\"\nid = 3\nkind = \"wire\"\nload_balancer = \"gw\"\n";
    let more_ports = "[[ports]]\nname = \"extra\"\ndevice = \"net_null0\"\n[underlay]";
    let base = edited("[underlay]", more_ports);
    assert_eq!(
        refusal(&format!("{base}{wire}ports = [\"extra\", \"wan\"]\n")),
        "endpoints[0].interfaces[1].port: 'wan' is a port of the wire 'wire', which takes it whole"
    );
    assert_eq!(
        refusal(&format!("{base}{wire}ports = [\"extra\"]\n")),
        "endpoints[2].ports: there are 1; a wire has 2"
    );
    let two = base.replace("[underlay]", "[[ports]]\nname = \"other\"\ndevice = \"net_null1\"\n[underlay]");
    let with = |rest: &str| refusal(&format!("{two}{wire}ports = [\"extra\", \"other\"]\n{rest}"));
    assert_eq!(
        with("[[endpoints.routes]]\nprefix = \"::/0\"\nvia = \"2001:db8::1\"\n"),
        "endpoints[2].routes: a wire has no routes: what comes in on one port leaves by the other"
    );
    assert_eq!(
        with("[[endpoints.interfaces]]\nport = \"extra\"\naddresses = [\"10.0.0.1/8\"]\n"),
        "endpoints[2].interfaces: a wire has no interfaces: what comes in on one port leaves by the other"
    );
}

// O-4
#[test]
fn routes_that_lead_nowhere_are_refused() {
    let (default, v6) = ("via = \"198.51.100.254\"", "via = \"fe80::1\"\ninterface = \"wan\"");
    assert_faults(&[
        (default, "", "endpoints[0].routes[0]: it leads nowhere; give it via or interface"),
        (
            default,
            "via = \"2001:db8:2::9\"",
            "endpoints[0].routes[0].via: '2001:db8:2::9' is of another family than 0.0.0.0/0",
        ),
        (
            default,
            "via = \"203.0.113.1\"",
            "endpoints[0].routes[0].via: '203.0.113.1' is on no network of the endpoint; there are [10.1.0.1/24, \
             10.1.0.2/24, 2001:db8:1::1/64, 198.51.100.1/24, 2001:db8:2::1/64]",
        ),
        (
            default,
            "via = \"10.1.0.2\"",
            "endpoints[0].routes[0].via: '10.1.0.2' is our own address; it must be another station on a network of \
             the endpoint",
        ),
        (
            default,
            "via = \"10.1.0.254\"\ninterface = \"wan\"",
            "endpoints[0].routes[0].via: '10.1.0.254' is not on that network; it must be another station on a network \
             of 'wan', 198.51.100.1/24, 2001:db8:2::1/64",
        ),
        (
            default,
            "interface = \"lan\"",
            "endpoints[0].routes[0].interface: there is no interface 'lan'; there are [lan.100, wan]",
        ),
        (
            default,
            "interface = \"lan.100.7\"",
            "endpoints[0].routes[0].interface: there is no interface 'lan.100.7'; there are [lan.100, wan]",
        ),
        (
            v6,
            "via = \"fe80::1\"",
            "endpoints[0].routes[1].interface: it must be given, as every interface may have a neighbour 'fe80::1'",
        ),
        (
            "prefix = \"10.9.0.0/16\"",
            "prefix = \"10.9.0.1/16\"",
            "endpoints[0].routes[2].prefix: '10.9.0.1/16' has bits beyond its prefix; the network is 10.9.0.0/16 (line 46)",
        ),
        (
            "prefix = \"10.9.0.0/16\"",
            "prefix = \"0.0.0.0/0\"",
            "endpoints[0].routes[2].prefix: 0.0.0.0/0 is another route's prefix already",
        ),
        (
            "prefix = \"10.9.0.0/16\"",
            "prefix = \"10.1.0.0/24\"",
            "endpoints[0].routes[2].prefix: 10.1.0.0/24 is the network of 'lan.100' already",
        ),
    ]);
}

#[test]
fn a_static_neighbour_is_on_its_interface() {
    assert_faults(&[
        (
            "interface = \"lan.100\"\naddress = \"10.1.0.9\"",
            "interface = \"lan\"\naddress = \"10.1.0.9\"",
            "neighbours[0].interface: there is no interface 'lan'; there are [targets, lan.100, wan, lan.100.7]",
        ),
        (
            "address = \"10.1.0.9\"",
            "address = \"10.2.0.9\"",
            "neighbours[0].address: '10.2.0.9' is not on that network; it must be another station on a network of \
             'lan.100', 10.1.0.1/24, 10.1.0.2/24, 2001:db8:1::1/64",
        ),
        (
            "address = \"10.1.0.9\"",
            "address = \"10.1.0.2\"",
            "neighbours[0].address: '10.1.0.2' is our own address; it must be another station on a network of \
             'lan.100', 10.1.0.1/24, 10.1.0.2/24, 2001:db8:1::1/64",
        ),
    ]);
    let twice = |interface: &str| {
        format!(
            "{GOOD}[[neighbours]]\ninterface = \"{interface}\"\naddress = \"10.1.0.9\"\nmac = \"02:00:00:00:00:0a\"\n"
        )
    };
    assert_eq!(
        refusal(&twice("lan.100")),
        "neighbours[1].address: another neighbour has the address '10.1.0.9' already"
    );
    NodeConfig::parse(&twice("lan.100.7")).expect("the same address on another interface is another station");
}

#[test]
fn the_nodes_own_addresses_are_those_of_the_underlay_and_of_every_interface_h5() {
    let own = NodeConfig::parse(GOOD).expect("good").own_addresses();
    for address in ["192.0.2.1", "10.1.0.1", "10.1.0.2", "198.51.100.1"] {
        assert!(own.contains(&address.parse().expect("an address")), "{address} of {own:?}");
    }
    assert!(!own.contains(&"198.51.100.254".parse().expect("an address")), "that is the router's");
}
