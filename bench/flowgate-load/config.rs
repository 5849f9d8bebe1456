//! The documents of a daemon that a load fits: its ports are the other ends of ours, its targets the ones that we
//! play.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use flowgate::wire::ethernet::MacAddr;
use serde_json::json;

use super::attack::ATTACKERS_V6;
use super::devices::{Refusal, device};
use super::frames::{CLIENT_MAC, SERVER_MAC};
use super::names::{CLIENTS_V6, SERVERS_V6};
use super::neighbour::mac_text;
use super::options::Options;

/// The port of the health checks. Any is answered.
const HEALTH_PORT: u16 = 80;

/// So many resets may be sent in a second, where the gateway is to be attacked (R-11).
const RESETS_A_SECOND: &str = "1000";

/// Writes `node.toml` and `objects.json` into the folder.
pub fn write(options: &Options, dir: &Path) -> Result<(), Refusal> {
    fs::create_dir_all(dir)?;
    let dir = dir.canonicalize()?;
    fs::write(dir.join("node.toml"), node(options, &dir))?;
    let objects = serde_json::to_string_pretty(&objects(options))?;
    fs::write(dir.join("objects.json"), objects + "\n")?;
    eprintln!("flowgate-load: wrote {} and objects.json beside it", dir.join("node.toml").display());
    Ok(())
}

/// The gateway's address on the targets' network: the first one of it that no target has.
fn underlay(targets: &[Ipv4Addr]) -> Ipv4Addr {
    let network = targets.first().map_or(0, |first| first.to_bits()) & 0xffff_ff00;
    let free = (network + 1..network + 255).map(Ipv4Addr::from_bits).find(|own| !targets.contains(own));
    free.unwrap_or(Ipv4Addr::from_bits(network))
}

fn node(options: &Options, dir: &Path) -> String {
    let targets = &options.targets.0;
    let (core, control) = match options.cores.as_slice() {
        [gateway, rest @ ..] => (*gateway, rest.first().copied().unwrap_or(*gateway)),
        [] => (0, 1),
    };
    let idle = match options.sleep {
        Some(pause) => format!("idle = \"sleep\"\nsleep_us = {}", pause.clamp(1, 1000)),
        None => "idle = \"poll\"".to_owned(),
    };
    let hugepages = if options.no_huge { "never" } else { "auto" };
    // Twice as many, as ended flows stay for ten seconds.
    let flows = (options.flows.saturating_mul(2)).clamp(1024, 1 << 24).next_power_of_two();
    let folder = dir.display();
    let mut toml = format!(
        r#"# A gateway for flowgate-load, written by `flowgate-load --write-config`.
state_directory = "{folder}/state"
objects = "{folder}/objects.json"

[socket]
path = "{folder}/flowgated.sock"

[eal]
hugepages = "{hugepages}"
file_prefix = "flowgate-loaded-{}"

[workers]
cores = [{core}]
control_cores = [{control}]
flows = {flows}
{idle}

[tables]
keep = false

# The folder is whoever's who runs flowgate-load.
[privileges]
user = "root"
"#,
        std::process::id()
    );
    for (number, (name, mtu)) in
        [("clients", 1500), ("servers", 1500), ("targets", 1600)].into_iter().enumerate()
    {
        let device = device(options.devices, true, number, dir);
        toml += &format!("\n[[ports]]\nname = \"{name}\"\ndevice = \"{device}\"\nmtu = {mtu}\n");
    }
    if !options.attack.0.is_empty() {
        toml += &format!(
            "\n[elbv2]\naddress = \"{}\"\n\n[monitor]\naddress = \"{}\"\n",
            options.elbv2, options.monitor
        );
    }
    let address = underlay(targets);
    toml += &format!(
        r#"
[underlay]
port = "targets"
address = "{address}/24"

[[endpoints]]
name = "load"
id = "0xa1"
load_balancer = "load"
{}"#,
        if options.routed {
            routed()
        } else {
            "kind = \"wire\"\nports = [\"clients\", \"servers\"]\n".to_owned()
        }
    );
    for target in targets {
        toml += &format!("\n[[neighbours]]\naddress = \"{target}\"\nmac = \"{}\"\n", mac_text(*target));
    }
    toml
}

/// A router that knows all networks of clients, attackers and servers, each behind one neighbour on that side.
fn routed() -> String {
    let [clients, attackers, servers] = [CLIENTS_V6, ATTACKERS_V6, SERVERS_V6].map(Ipv6Addr::from_bits);
    let sides = [
        (
            "clients",
            CLIENT_MAC,
            ["192.0.2.", "2001:db8:ff::"],
            vec![
                "10.0.0.0/10".to_owned(),
                "100.64.0.0/10".to_owned(),
                format!("{clients}/96"),
                format!("{attackers}/96"),
            ],
        ),
        (
            "servers",
            SERVER_MAC,
            ["203.0.113.", "2001:db8:fe::"],
            vec!["198.18.0.0/20".to_owned(), format!("{servers}/96")],
        ),
    ];
    let mut toml = "kind = \"routed\"\n".to_owned();
    for (port, _, [four, six], _) in &sides {
        toml += &format!(
            "\n[[endpoints.interfaces]]\nport = \"{port}\"\naddresses = [\"{four}1/24\", \"{six}1/64\"]\n"
        );
    }
    for (_, _, [four, six], networks) in &sides {
        for network in networks {
            let router = if network.contains(':') { six } else { four };
            toml += &format!("\n[[endpoints.routes]]\nprefix = \"{network}\"\nvia = \"{router}2\"\n");
        }
    }
    for (port, mac, routers, _) in sides {
        for router in routers {
            toml += &format!(
                "\n[[neighbours]]\ninterface = \"{port}\"\naddress = \"{router}2\"\nmac = \"{}\"\n",
                MacAddr(mac)
            );
        }
    }
    toml
}

fn objects(options: &Options) -> serde_json::Value {
    let targets: Vec<_> = options.targets.0.iter().map(|target| json!({"address": target})).collect();
    json!({
        "version": 1,
        "load_balancers": [{
            "name": "load",
            "ip_address_type": "dualstack",
            "listener": {
                "target_group": "load",
                "attributes": {"flowgate.tcp.unknown_flow": "reset"},
            },
        }],
        "target_groups": [{
            "name": "load",
            "health_check": {
                "protocol": "HTTP",
                "port": HEALTH_PORT,
                "healthy_threshold": 1,
                "unhealthy_threshold": 2,
            },
            "attributes": {
                "flowgate.health_check.interval_ms": "500",
                "flowgate.health_check.timeout_ms": "500",
                "flowgate.reset.both_ends": "true",
                "flowgate.reset.max_per_second": if options.attack.0.is_empty() { "0" } else { RESETS_A_SECOND },
                "send_tcp_reset.on_unhealthy.enabled": "true",
            },
            "targets": targets,
        }],
    })
}
