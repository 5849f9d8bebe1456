//! What a node's configuration may say, and how each fault is told.

mod elbv2;
mod routed;

use super::*;
use crate::control::model::State;

const GOOD: &str = r#"
zone = "rack-a"

[workers]
cores = [2, 3]
control_cores = [0]

[[ports]]
name = "left"
device = "net_af_packet0,iface=eth1,framecnt=4096"

[[ports]]
name = "right"
device = "net_af_packet1,iface=eth2"

[[ports]]
name = "targets"
device = "0000:3b:00.0"
mtu = 9000

[underlay]
port = "targets"
address = "192.0.2.1/24"
gateway = "192.0.2.254"

[[neighbours]]
address = "192.0.2.11"
mac = "02:00:00:00:00:11"

[[endpoints]]
name = "edge"
id = "0x00000000000000a1"
attachment_id = 7
kind = "wire"
ports = ["left", "right"]
load_balancer = "gw"
"#;

/// The good configuration with one text in it replaced by another.
fn edited(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "'{from}' must be in the good configuration once");
    GOOD.replacen(from, to, 1)
}

fn refusal(text: &str) -> String {
    NodeConfig::parse(text).expect_err(text).to_string()
}

fn assert_faults(faults: &[(&str, &str, &str)]) {
    for (from, to, expected) in faults {
        assert_eq!(refusal(&edited(from, to)), *expected, "'{from}' replaced by '{to}'");
    }
}

#[test]
fn a_configuration_is_read_as_it_says() {
    let config = NodeConfig::parse(GOOD).expect("good");
    assert_eq!(config.zone.as_ref().map(Zone::as_str), Some("rack-a"));
    assert_eq!(config.workers.cores, [2, 3]);
    assert_eq!(config.workers.control_cores, [0]);
    let devices: Vec<_> = config.ports.iter().map(|port| port.device.clone()).collect();
    assert_eq!(devices[0].name(), "net_af_packet0");
    assert_eq!(devices[0].argument("iface"), Some("eth1"));
    assert_eq!(devices[0].to_string(), "net_af_packet0,iface=eth1,framecnt=4096");
    assert_eq!(devices[2], Device::Pci("0000:3b:00.0".to_owned()));
    assert_eq!(config.ports[2].mtu, 9000);
    assert_eq!(config.neighbours[0].mac, MacAddress([2, 0, 0, 0, 0, 0x11]));
    let endpoint = &config.endpoints[0];
    assert_eq!((endpoint.id, endpoint.attachment_id), (WireId(0xa1), WireId(7)));
    assert_eq!(endpoint.kind, EndpointKind::Wire);
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = NodeConfig::parse(GOOD).expect("good");
    assert_eq!(config.state_directory, Path::new("/var/lib/flowgate"));
    assert_eq!(config.socket.path, Path::new("/run/flowgate/flowgated.sock"));
    assert_eq!(config.socket.group, None);
    assert_eq!(config.eal.hugepages, HugePages::Auto);
    assert_eq!((config.eal.memory_mb, config.eal.file_prefix.as_str()), (None, "flowgate"));
    assert_eq!(config.workers.flow_capacity(), 1_048_576);
    assert_eq!(config.workers.idle_sleep(), None);
    let port = &config.ports[0];
    assert_eq!((port.mtu, port.rx_descriptors, port.tx_descriptors), (1500, 1024, 1024));
    assert!(!config.underlay.as_ref().expect("an underlay").udp_checksum, "W-3");
    assert_eq!((config.log.level, config.log.format), (LogLevel::Info, LogFormat::Auto));
    assert!(config.objects.is_none() && config.hash_seed.is_none());
}

#[test]
fn a_node_without_any_part_of_a_data_path_is_idle_and_one_with_some_of_it_is_refused() {
    for text in ["", "[workers]\nflows = 2048\n", "zone = \"rack-a\"\n[log]\nlevel = \"debug\"\n"] {
        let config = NodeConfig::parse(text).expect("idle");
        assert!(config.is_idle() && config.interfaces().is_empty() && config.own_addresses().is_empty());
    }
    assert!(!NodeConfig::parse(GOOD).expect("good").is_idle());
    let port = "[[ports]]\nname = \"left\"\ndevice = \"net_null0\"\n";
    for (text, expected) in [
        ("[workers]\ncores = [1]\n", "ports: there are 0; there must be 1 to 32"),
        (port, "workers.cores: there are 0 cores; there must be 1 to 128"),
        (
            &format!("[workers]\ncores = [1]\n{port}"),
            "underlay: there is none; a node with ports has a network that its targets are on",
        ),
        (
            "[[neighbours]]\naddress = \"192.0.2.7\"\nmac = \"02:00:00:00:00:07\"\n",
            "neighbours: there are some, and no port that they could be on",
        ),
    ] {
        assert_eq!(NodeConfig::parse(text).expect_err(text).to_string(), expected);
    }
}

#[test]
fn flows_are_rounded_up_to_a_power_of_two() {
    for (flows, expected) in [("1024", 1024), ("1025", 2048), ("16777216", 16_777_216)] {
        let text = edited("control_cores = [0]", &format!("flows = {flows}"));
        assert_eq!(NodeConfig::parse(&text).expect("good").workers.flow_capacity(), expected);
    }
}

#[test]
fn a_packet_to_a_target_goes_to_it_on_its_own_network_and_to_the_gateway_beyond() {
    let underlay = NodeConfig::parse(GOOD).expect("good").underlay.expect("an underlay");
    let address = |text: &str| text.parse().expect("an address");
    assert_eq!(underlay.next_hop(address("192.0.2.77")), Some(address("192.0.2.77")));
    assert_eq!(underlay.next_hop(address("192.0.3.77")), Some(address("192.0.2.254")));
    let alone = NodeConfig::parse(&edited("gateway = \"192.0.2.254\"", "")).expect("good").underlay;
    let alone = alone.expect("an underlay");
    assert_eq!(alone.next_hop(address("192.0.3.77")), None);
}

#[test]
fn o4_endpoints_that_cannot_be_are_refused() {
    let second = |ports: &str, rest: &str| {
        format!("\n[[endpoints]]\nkind = \"wire\"\nports = {ports}\nload_balancer = \"gw\"\n{rest}\n")
    };
    let cases = [
        (
            second("[\"left\", \"right\"]", "name = \"two\"\nid = 2"),
            "endpoints[1].ports[0]: 'left' is a port of the endpoint 'edge' already",
        ),
        (
            second("[\"left\", \"right\"]", "name = \"edge\"\nid = 2"),
            "endpoints[1].name: another endpoint is called 'edge' already",
        ),
        (
            second("[\"left\", \"right\"]", "name = \"two\"\nid = 161"),
            "endpoints[1].id: another endpoint has the id 0xa1 already",
        ),
    ];
    for (endpoint, expected) in cases {
        assert_eq!(refusal(&format!("{GOOD}{endpoint}")), expected);
    }
    let ports = "ports = [\"left\", \"right\"]";
    assert_faults(&[
        (ports, "ports = [\"left\"]", "endpoints[0].ports: there are 1; a wire has 2"),
        (
            ports,
            "ports = [\"left\", \"right\", \"targets\"]",
            "endpoints[0].ports: there are 3; a wire has 2",
        ),
        (
            ports,
            "ports = [\"left\", \"left\"]",
            "endpoints[0].ports[1]: 'left' is a port of the endpoint 'edge' already",
        ),
        (
            ports,
            "ports = [\"left\", \"targets\"]",
            "endpoints[0].ports[1]: 'targets' is the underlay's port and cannot be an endpoint's too",
        ),
        (
            ports,
            "ports = [\"left\", \"rihgt\"]",
            "endpoints[0].ports[1]: there is no port 'rihgt'; there are [left, right, targets]",
        ),
        (
            "kind = \"wire\"",
            "kind = \"tap\"",
            "endpoints[0].kind: 'tap' must be one of ['wire', 'routed'] (line 34)",
        ),
        (
            "id = \"0x00000000000000a1\"",
            "id = \"0x10000000000000000\"",
            "endpoints[0].id: '0x10000000000000000' must be '0x' and 1 to 16 hexadecimal digits, or a number (line 32)",
        ),
        (
            "id = \"0x00000000000000a1\"",
            "id = -1",
            "endpoints[0].id: the id -1 must not be negative (line 32)",
        ),
        (
            "attachment_id = 7",
            "attachment_id = true",
            "endpoints[0].attachment_id: invalid type: boolean `true`, expected a 64-bit id: '0x' and \
             hexadecimal digits in a string, or a number (line 33)",
        ),
    ]);
}

// O-4, W-2
#[test]
fn an_id_takes_all_of_its_64_bits() {
    let text = edited("0x00000000000000a1", "0xFFFFFFFFFFFFFFFF");
    assert_eq!(NodeConfig::parse(&text).expect("good").endpoints[0].id, WireId(u64::MAX));
    for bad in ["0x", "a1", "0X1", "0x+1"] {
        refusal(&edited("0x00000000000000a1", bad));
    }
}

#[test]
fn an_endpoint_that_leads_to_no_load_balancer_is_refused() {
    let config = NodeConfig::parse(GOOD).expect("good");
    let state = |name: &str| {
        State::from_document(&format!(
            r#"{{ "version": 1, "load_balancers": [
                    {{ "name": "{name}", "listener": {{ "target_group": "fw" }} }} ],
                  "target_groups": [ {{ "name": "fw" }} ] }}"#
        ))
        .expect("valid")
    };
    assert_eq!(config.agrees_with(&state("gw")), Ok(()));
    let error = config.agrees_with(&state("gateway")).expect_err("there is no 'gw'");
    assert_eq!(
        error.to_string(),
        "endpoints[0].load_balancer: there is no load balancer 'gw'; there are [gateway]"
    );
    // A node that is given everything later, by Terraform say, starts with nothing.
    assert_eq!(config.agrees_with(&State::default()), Ok(()));
}

#[test]
fn a_load_balancer_that_was_deleted_since_does_not_keep_the_node_from_starting_a9() {
    let config = NodeConfig::parse(GOOD).expect("good");
    let seed = State::from_document(
        r#"{ "version": 1, "load_balancers": [ { "name": "gw" } ], "target_groups": [] }"#,
    )
    .expect("valid");
    assert_eq!(config.agrees_with(&seed), Ok(()), "one without a listener is there");
    let delete = crate::control::model::Change::DeleteLoadBalancer { load_balancer: "gw".to_owned() };
    let (changed, _) = seed.apply(&delete).expect("not protected");
    assert_eq!(config.agrees_with(&changed), Ok(()));
}

#[test]
fn ports_that_cannot_be_are_refused() {
    let device = "device = \"0000:3b:00.0\"";
    let expects = "must be a PCI address such as 0000:3b:00.0, or a virtual device such as \
                   net_af_packet0,iface=eth1 (line 18)";
    for bad in ["eth1", "", "3b:00.8", "0000:3b:00", "g0:00.0", "net_Tap0", "net_tap0, iface=a"] {
        assert_eq!(
            refusal(&edited(device, &format!("device = \"{bad}\""))),
            format!("ports[2].device: '{bad}' {expects}")
        );
    }
    assert_faults(&[
        ("name = \"right\"", "name = \"left\"", "ports[1].name: another port is called 'left' already"),
        (
            "net_af_packet1,iface=eth2",
            "net_af_packet0,iface=eth2",
            "ports[1].device: another port has the device 'net_af_packet0' already",
        ),
        (
            "net_af_packet1,iface=eth2",
            "net_af_packet1,iface=eth1",
            "ports[1].device: another port is on the interface 'eth1' already",
        ),
        ("mtu = 9000", "mtu = 575", "ports[2].mtu: 575 must be between 576 and 9600"),
        ("mtu = 9000", "rx_descriptors = 32", "ports[2].rx_descriptors: 32 must be between 64 and 32768"),
        (
            "mtu = 9000",
            "tx_descriptors = 65535",
            "ports[2].tx_descriptors: 65535 must be between 64 and 32768",
        ),
        (
            "[underlay]",
            "[[ports]]\nname = \"spare\"\ndevice = \"net_null0\"\n[underlay]",
            "ports[3].name: 'spare' is neither the underlay's port nor an endpoint's",
        ),
    ]);
}

#[test]
fn one_pci_device_written_in_two_ways_is_one_device() {
    let text = edited("net_af_packet1,iface=eth2", "3B:00.0");
    assert_eq!(refusal(&text), "ports[2].device: another port has the device '0000:3b:00.0' already");
}

#[test]
fn an_underlay_and_neighbours_that_cannot_be_are_refused() {
    let address = "address = \"192.0.2.1/24\"";
    let form = "must be an IPv4 address with its prefix, such as 192.0.2.1/24 (line 23)";
    for bad in ["192.0.2.1", "192.0.2.1/0", "192.0.2.1/33", "192.0.2.1/+4", "2001:db8::1/64"] {
        assert_eq!(
            refusal(&edited(address, &format!("address = \"{bad}\""))),
            format!("underlay.address: '{bad}' {form}")
        );
    }
    let mac = "mac = \"02:00:00:00:00:11\"";
    assert_faults(&[
        (
            address,
            "address = \"192.0.2.0/24\"",
            "underlay.address: '192.0.2.0/24' is a network's own or its broadcast address, and must be a host's (line 23)",
        ),
        (
            address,
            "address = \"192.0.2.255/24\"",
            "underlay.address: '192.0.2.255/24' is a network's own or its broadcast address, and must be a host's (line 23)",
        ),
        (
            address,
            "address = \"224.0.0.1/24\"",
            "underlay.address: '224.0.0.1/24' must be the address of an interface on a network (line 23)",
        ),
        (
            "port = \"targets\"",
            "port = \"target\"",
            "underlay.port: there is no port 'target'; there are [left, right, targets]",
        ),
        (
            "gateway = \"192.0.2.254\"",
            "gateway = \"192.0.3.254\"",
            "underlay.gateway: '192.0.3.254' is not on that network; it must be another station on the network of 192.0.2.1/24",
        ),
        (
            "gateway = \"192.0.2.254\"",
            "gateway = \"192.0.2.1\"",
            "underlay.gateway: '192.0.2.1' is our own address; it must be another station on the network of 192.0.2.1/24",
        ),
        (
            "address = \"192.0.2.11\"",
            "address = \"192.0.2.1\"",
            "neighbours[0].address: '192.0.2.1' is our own address; it must be another station on the underlay's network, 192.0.2.1/24",
        ),
        (
            "address = \"192.0.2.11\"",
            "address = \"192.0.9.11\"",
            "neighbours[0].address: '192.0.9.11' is not on that network; it must be another station on the underlay's network, 192.0.2.1/24",
        ),
        (
            "[[neighbours]]",
            "[[neighbours]]\naddress = \"192.0.2.11\"\nmac = \"02:00:00:00:00:12\"\n[[neighbours]]",
            "neighbours[1].address: another neighbour has the address '192.0.2.11' already",
        ),
        (
            mac,
            "mac = \"01:00:5e:00:00:01\"",
            "neighbours[0].mac: '01:00:5e:00:00:01' is a multicast address; it must be that of one station (line 28)",
        ),
        (
            mac,
            "mac = \"00:00:00:00:00:00\"",
            "neighbours[0].mac: '00:00:00:00:00:00' is no station's address (line 28)",
        ),
        (
            mac,
            "mac = \"02:00:00:00:00\"",
            "neighbours[0].mac: '02:00:00:00:00' must be a link-layer address such as 02:00:00:00:00:01 (line 28)",
        ),
        (
            mac,
            "mac = \"02:00:00:00:00:11:22\"",
            "neighbours[0].mac: '02:00:00:00:00:11:22' must be a link-layer address such as 02:00:00:00:00:01 (line 28)",
        ),
    ]);
    NodeConfig::parse(
        &edited(address, "address = \"192.0.2.0/31\"")
            .replace("254", "1")
            .replace("[[neighbours]]\naddress = \"192.0.2.11\"\nmac = \"02:00:00:00:00:11\"", ""),
    )
    .expect("both addresses of a /31 are hosts");
}

#[test]
fn the_daemons_user_is_one_that_there_can_be() {
    let privileges = NodeConfig::parse(GOOD).expect("valid").privileges;
    assert_eq!((privileges.user, privileges.seccomp), (None, Seccomp::Enforce));
    assert_faults(&[
        (
            "[workers]",
            "[privileges]\nuser = \"a:b\"\n[workers]",
            "privileges.user: 'a:b' must be the name of a user, of 1 to 32 bytes without ':' and '/'",
        ),
        (
            "[workers]",
            "[privileges]\nuser = \"\"\n[workers]",
            "privileges.user: '' must be the name of a user, of 1 to 32 bytes without ':' and '/'",
        ),
    ]);
}

#[test]
fn subnets_stand_for_zones() {
    let table = "[subnets]\nsubnet-0a = \"rack-a\"\n\"subnet:0b\" = \"rack-b\"\n\n[workers]";
    let config = NodeConfig::parse(&edited("[workers]", table)).expect("valid");
    let told = config.subnets.iter().map(|(id, zone)| (id.as_str(), zone.as_str()));
    assert_eq!(told.collect::<Vec<_>>(), [("subnet-0a", "rack-a"), ("subnet:0b", "rack-b")]);
    assert_eq!(NodeConfig::parse(GOOD).expect("valid").subnets.len(), 0);
    assert_faults(&[
        (
            "[workers]",
            "[subnets]\n\"subnet 0a\" = \"rack-a\"\n[workers]",
            "subnets.\"subnet 0a\": the id 'subnet 0a' must be 1 to 128 letters, digits and '._:/-' (line 5)",
        ),
        (
            "[workers]",
            "[subnets]\nsubnet-0a = \"all\"\n[workers]",
            "subnets.subnet-0a: 'all' means every zone and cannot be the name of one (line 5)",
        ),
    ]);
}

#[test]
fn cores_that_cannot_be_are_refused() {
    let control = "control_cores = [0]";
    let flows = "workers.flows: 1023 must be between 1024 and 16777216";
    assert_faults(&[
        ("cores = [2, 3]", "cores = []", "workers.cores: there are 0 cores; there must be 1 to 128"),
        ("cores = [2, 3]", "cores = [2, 2]", "workers.cores[1]: core 2 is listed twice"),
        (control, "control_cores = [0, 1, 0]", "workers.control_cores[2]: core 0 is listed twice"),
        (
            control,
            "control_cores = [0, 3]",
            "workers.control_cores[1]: core 3 is a worker's, which polls and leaves no time for anything else; \
             give another core or set idle = \"sleep\"",
        ),
        (control, "flows = 1023", flows),
        (control, "flows = 16777217", "workers.flows: 16777217 must be between 1024 and 16777216"),
        (control, "sleep_us = 0", "workers.sleep_us: 0 must be between 1 and 1000"),
        (
            control,
            "idle = \"doze\"",
            "workers.idle: unknown variant `doze`, expected `poll` or `sleep` (line 6)",
        ),
    ]);
    let shared = edited(control, "control_cores = [3]\nidle = \"sleep\"\nsleep_us = 20");
    let config = NodeConfig::parse(&shared).expect("a worker that sleeps shares its core");
    assert_eq!(config.workers.idle_sleep(), Some(std::time::Duration::from_micros(20)));
}

#[test]
fn a_socket_whose_path_no_kernel_takes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |length: usize| {
        let start = format!("{}/", folder.path().display());
        format!("{start}{}", "s".repeat(length - start.len()))
    };
    let with = |path: &str| format!("{GOOD}\n[socket]\npath = \"{path}\"\n");
    for (length, fits) in [(107, true), (108, false)] {
        let path = path(length);
        // The kernel is asked too, so that the number is its and not ours.
        assert_eq!(std::os::unix::net::UnixListener::bind(&path).is_ok(), fits);
        assert_eq!(NodeConfig::parse(&with(&path)).is_ok(), fits);
    }
    assert_eq!(
        refusal(&with(&path(108))),
        "socket.path: it has 108 bytes; a Unix socket's path has 1 to 107"
    );
}

#[test]
fn the_sockets_mode_is_one_of_three_and_never_lets_others_in_unasked() {
    let mode =
        |text: &str| NodeConfig::parse(&format!("{GOOD}\n[socket]\n{text}\n")).map(|c| c.socket.mode.bits());
    for (text, bits) in
        [("", 0o660), ("mode = \"0600\"", 0o600), ("mode = \"0660\"", 0o660), ("mode = \"0666\"", 0o666)]
    {
        assert_eq!(mode(text), Ok(bits), "{text}");
    }
    for bad in ["mode = \"0777\"", "mode = \"660\"", "mode = 660", "mode = 0o660"] {
        assert!(mode(bad).unwrap_err().to_string().starts_with("socket.mode: "), "{bad}");
    }
}

#[test]
fn eal_arguments_that_the_file_has_keys_for_are_refused() {
    let with = |argument: &str| format!("{GOOD}\n[eal]\nargs = [\"--log-level=7\", \"{argument}\"]\n");
    let cases = [
        ("-l", "-l", "workers.cores"),
        ("-l0-3", "-l", "workers.cores"),
        ("--lcores=0@(0-1)", "--lcores", "workers.cores"),
        ("--vdev=net_null0", "--vdev", "ports"),
        ("-a", "-a", "ports"),
        ("--no-huge", "--no-huge", "eal.hugepages"),
        ("-m512", "-m", "eal.memory_mb"),
        ("--file-prefix", "--file-prefix", "eal.file_prefix"),
    ];
    for (argument, own, key) in cases {
        assert_eq!(
            refusal(&with(argument)),
            format!("eal.args[1]: '{own}' is set by {key} and cannot be given here")
        );
    }
    for allowed in ["--no-telemetry", "--match-allocations", "--legacy-mem", "-d/usr/lib/pmd.so"] {
        NodeConfig::parse(&with(allowed)).expect(allowed);
    }
}

#[test]
fn a_secret_is_never_repeated() {
    let digits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let with = |line: &str| edited("zone = \"rack-a\"", line);
    let config = NodeConfig::parse(&with(&format!("hash_seed = \"{digits}\""))).expect("good");
    let seed = config.hash_seed.as_ref().expect("given");
    assert_eq!(seed.0[..4], [0x00, 0x11, 0x22, 0x33]);
    assert!(!format!("{config:?}").contains("0011"), "Debug shows the seed");
    assert_eq!(
        refusal(&with("hash_seed = \"c0ffee\"")),
        "hash_seed: it has 6 characters and must be 64 hexadecimal digits (line 2)"
    );
    let odd = refusal(&with(&format!("hash_seed = \"{}\"", digits.replace("dd", "xy"))));
    assert_eq!(odd, "hash_seed: it has characters other than the 64 hexadecimal digits expected (line 2)");
    let both = with(&format!("hash_seed = \"{digits}\"\nhash_seed_file = \"/etc/seed\""));
    assert_eq!(
        refusal(&both),
        "hash_seed_file: hash_seed is given too, and only one of them can hold the seed"
    );
}

#[test]
fn what_is_no_node_configuration_is_refused_in_one_line_that_says_where() {
    assert_faults(&[
        (
            "zone = \"rack-a\"",
            "zone = \"rack a\"",
            "zone: the zone 'rack a' must be 1 to 64 letters, digits, dots, hyphens and underscores (line 2)",
        ),
        (
            "zone = \"rack-a\"",
            "zoen = \"rack-a\"",
            "zoen: unknown field `zoen`, expected one of `zone`, `subnets`, `state_directory`, `objects`, `hash_seed`, `hash_seed_file`, `socket`, `elbv2`, `monitor`, `privileges`, `eal`, `workers`, `tables`, `ports`, `underlay`, `neighbours`, `endpoints`, `log`, `flow_log` (line 2)",
        ),
        (
            "mtu = 9000",
            "mtu = \"9000\"",
            "ports[2].mtu: invalid type: string \"9000\", expected u16 (line 19)",
        ),
        ("mtu = 9000", "mtu = 90000", "ports[2].mtu: invalid value: integer `90000`, expected u16 (line 19)"),
        (
            "[underlay]",
            "[overlay]",
            "overlay: unknown field `overlay`, expected one of `zone`, `subnets`, `state_directory`, `objects`, `hash_seed`, `hash_seed_file`, `socket`, `elbv2`, `monitor`, `privileges`, `eal`, `workers`, `tables`, `ports`, `underlay`, `neighbours`, `endpoints`, `log`, `flow_log` (line 21)",
        ),
        ("port = \"targets\"", "", "underlay: missing field `port` (line 21)"),
    ]);
    assert_eq!(refusal("workers = 3"), "workers: invalid type: integer `3`, expected a table (line 1)");
    for text in ["zone = ", "[workers", "zone = \"a\"\nzone = \"b\""] {
        let told = refusal(text);
        assert!(told.contains("(line ") && !told.contains('\n'), "{told}");
    }
}

#[test]
fn a_refusal_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node.toml");
    let told = |path: &Path| NodeConfig::load(path).expect_err("refused").to_string();
    let name = path.display();
    assert_eq!(told(&path), format!("{name}: cannot be read: No such file or directory (os error 2)"));
    std::fs::write(&path, edited("cores = [2, 3]", "cores = [2, 2]")).expect("written");
    assert_eq!(told(&path), format!("{name}: workers.cores[1]: core 2 is listed twice"));
    std::fs::write(&path, GOOD).expect("written");
    NodeConfig::load(&path).expect("good");
}
