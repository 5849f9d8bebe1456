//! `flowgate doctor` beside a gateway that lives: it finds what was broken, and the commands that it names mend it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::lab::gateway::Attributes;
use crate::lab::traffic::PATIENCE;
use crate::lab::{Lab, wait_for};

/// Verdicts and commands by item and object.
type Items = BTreeMap<(String, String), (String, String)>;

/// What the doctor says, by item and object: the verdict and the command; and its exit code.
fn doctor(lab: &Lab) -> (Items, i32) {
    let mut command = lab.router.command(env!("CARGO_BIN_EXE_flowgate"));
    let output =
        command.args(["doctor", "--json", "--probe", "--config"]).arg(lab.path("node.toml")).output();
    let output = output.expect("the command runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["DaemonAnswers"], true, "{report:#}");
    let word = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let items = report["Items"].as_array().expect("a list").iter().map(|item| {
        ((word(item, "Id"), word(item, "Object")), (word(item, "Verdict"), word(item, "Command")))
    });
    (items.collect(), output.status.code().expect("an exit code"))
}

/// The verdict on an item of which there is one of this object.
fn verdict(lab: &Lab, id: &str, object: &str) -> String {
    let (items, _) = doctor(lab);
    let said = items.get(&(id.to_owned(), object.to_owned()));
    said.unwrap_or_else(|| panic!("no {id} of '{object}' in {items:#?}")).0.clone()
}

#[test]
fn beside_a_living_gateway_it_finds_what_was_broken_and_what_mends_it() {
    let mut lab = Lab::new(2);
    lab.router.sysctl("net/ipv4/conf/all/rp_filter", "0");
    lab.router.sysctl("net/ipv4/conf/under/rp_filter", "0");
    lab.write_configuration(Attributes::default());
    // The kernel is to find the neighbours.
    let toml = lab.node_toml();
    let (own, _) = toml.split_once("\n[[neighbours]]").expect("the laboratory gives neighbours");
    std::fs::write(lab.path("node.toml"), own).expect("writable");
    for n in 0..2 {
        lab.start_reflector(n, &[]);
    }
    lab.start_gateway();
    for n in 0..2 {
        lab.wait_for_state(n, "healthy");
    }
    // What the machine itself is like is not asked about here.
    for (id, object) in [
        ("daemon", lab.path("flowgated.sock").display().to_string()),
        ("workers", String::new()),
        ("device", "under".to_owned()),
        ("link", "left".to_owned()),
        ("queues", "right".to_owned()),
        ("host-interface", "under".to_owned()),
        ("reverse-path", "under".to_owned()),
        ("tunnel-port", String::new()),
        ("mtu-device", "under".to_owned()),
        ("mtu-target-side", "under".to_owned()),
        ("target-path", String::new()),
        ("check-route", String::new()),
        ("neighbours", String::new()),
    ] {
        assert_eq!(verdict(&lab, id, &object), "ok", "{id} {object}");
    }

    lab.router.sysctl("net/ipv4/conf/under/rp_filter", "1");
    lab.router.ip("link set under mtu 1500");
    lab.set_link(1, "down");
    let dead = lab.appliances[1].address.to_string();
    // What it knew of it would hold for half a minute.
    lab.router.ip(&format!("neighbour del {dead} dev under"));
    let found =
        wait_for("the doctor to find the dead neighbour", PATIENCE.max(Duration::from_secs(20)), || {
            let (items, code) = doctor(&lab);
            let is_dead =
                items.get(&("neighbours".to_owned(), dead.clone())).is_some_and(|said| said.0 == "problem");
            is_dead.then_some((items, code))
        });
    let said = |id: &str, object: &str| found.0[&(id.to_owned(), object.to_owned())].clone();
    assert_eq!(found.1, 8, "a problem");
    let (how, filter) = said("reverse-path", "under");
    assert_eq!((how.as_str(), filter.as_str()), ("warning", "sysctl -w net.ipv4.conf.under.rp_filter=2"));
    let (how, mtu) = said("mtu-target-side", "under");
    assert_eq!((how.as_str(), mtu.as_str()), ("warning", "ip link set under mtu 1568"));
    assert_eq!(said("mtu-device", "under").1, "ip link set under mtu 1600");

    // What is named mends it.
    for command in [filter, mtu, said("mtu-device", "under").1] {
        lab.router.output(&command);
    }
    lab.set_link(1, "up");
    // A switch on the way to the other that carries less.
    lab.underlay.ip("link set a1 mtu 1500");
    let narrow = lab.appliances[0].address.to_string();
    assert_eq!(verdict(&lab, "target-path", &narrow), "warning");
    lab.underlay.ip("link set a1 mtu 1600");
    assert_eq!(verdict(&lab, "reverse-path", "under"), "ok");
    assert_eq!(verdict(&lab, "mtu-target-side", "under"), "ok");
    wait_for("the neighbour to be known again", Duration::from_secs(30), || {
        let (items, _) = doctor(&lab);
        items.get(&("neighbours".to_owned(), String::new())).filter(|said| said.0 == "ok").cloned()
    });
}
