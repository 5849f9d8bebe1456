//! What `flowgate explain` and `flowgate audit` say of a real gateway, and whether it is so.

use std::io::Write;

use serde_json::{Value, json};

use crate::lab::gateway::Attributes;
use crate::lab::traffic::{Connection, must_be_reset};
use crate::lab::{Family, Lab, Side};

impl Lab {
    /// What would become of a connection's next packet from a side.
    fn explained(&self, connection: &Connection, from: Side, flags: &str) -> Value {
        let to = if from == Side::Client { Side::Server } else { Side::Client };
        let (from, to) = (connection.address(from), connection.address(to));
        let asked = json!({
            "Source": from.ip(), "SourcePort": from.port(),
            "Destination": to.ip(), "DestinationPort": to.port(), "Flags": flags,
        });
        self.gateway().rpc.must("explain-flow", asked)["Explanations"][0].take()
    }
}

// F-5, F-14
#[test]
fn what_is_said_of_a_connections_next_packet_is_what_then_happens() {
    for family in Family::BOTH {
        let attributes =
            Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };
        let mut lab = Lab::started(2, attributes);
        let mut connection = lab.connect(family);
        connection.must_work();
        connection.settle();
        let flow = lab.flow_of(&connection);
        let dead = lab.appliance_of(&connection);

        let told = lab.explained(&connection, Side::Client, "A");
        assert_eq!((&told["Outcome"], &told["Target"]), (&json!("forwarded"), &json!(flow.target)), "{told}");
        assert_eq!(told["Flow"]["Cookie"], json!(flow.cookie));
        let by_cookie = json!({"Cookie": flow.cookie, "FromResponder": true});
        let by_cookie = &lab.gateway().rpc.must("explain-flow", by_cookie)["Explanations"][0];
        assert_eq!(by_cookie["Packet"]["Source"], json!(connection.address(Side::Server).ip()));
        assert_eq!(by_cookie["Outcome"], "forwarded");
        // Asking keeps no flow alive.
        let idle = told["Flow"]["IdleMs"].as_u64().expect("a number");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let again = lab.explained(&connection, Side::Client, "A")["Flow"]["IdleMs"].as_u64();
        // By the worker's clock of its round. Had the question been a packet, it would be less than before.
        assert!(again.expect("a number") >= idle + 150);

        lab.kill_reflector(dead);
        lab.gateway().events.state_of(lab.appliances[dead].address, "unhealthy");
        let told = lab.explained(&connection, Side::Client, "PA");
        assert_eq!(told["Outcome"], "reset", "{told}");
        assert_eq!(told["Reset"]["Trigger"], "unhealthy");
        assert_eq!(told["Reset"]["To"], json!(connection.address(Side::Client).ip()));
        let steps = told["Steps"].as_array().expect("steps");
        let due = steps.iter().find(|step| step["Rules"].to_string().contains("R-1")).expect("R-1 is named");
        assert!(
            due["Command"].as_str().expect("an attribute decides").contains("send_tcp_reset.on_unhealthy")
        );
        let syn = lab.explained(&connection, Side::Client, "S");
        assert_eq!(
            (&syn["Outcome"], &syn["Target"]),
            (&json!("forwarded"), &syn["Choice"]["Chosen"]),
            "{syn}"
        );
        assert_ne!(syn["Target"], json!(flow.target), "R-6: elsewhere");
        assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0, "asking resets nobody");

        connection.end(Side::Client).write_all(b"into the void").expect("the kernel takes it");
        must_be_reset(connection.end(Side::Client));
        let told = lab.explained(&connection, Side::Client, "A");
        assert_eq!(
            (&told["Outcome"], &told["DropReason"]),
            (&json!("dropped"), &json!("unknown_flow")),
            "{told}"
        );
    }
}

// H-7, R-11
#[test]
fn an_audit_of_a_real_gateway_counts_what_a_death_would_end_and_times_the_answers() {
    let attributes =
        Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };
    let lab = Lab::started(2, attributes);
    let mut connections: Vec<Connection> = (0..4).map(|_| lab.connect(Family::V4)).collect();
    connections.iter_mut().for_each(Connection::must_work);
    let audit = lab.gateway().rpc.must("audit", json!({}));
    let group = &audit["TargetGroups"][0];
    let targets = group["Targets"].as_array().expect("targets");
    let would_end: u64 = targets.iter().map(|target| target["WouldEnd"].as_u64().expect("a number")).sum();
    assert_eq!(would_end, 4, "{audit}");
    for target in targets {
        assert!(target["UsualAnswerMs"].as_f64().expect("it was checked") > 0.0, "{target}");
    }
    let found = |id: &str| audit["Findings"].as_array().expect("findings").iter().any(|one| one["Id"] == id);
    assert!(found("no-min-healthy") && found("no-rate-limit"), "{audit}");
    assert!(!found("left-hanging") && !found("some-unhealthy") && !found("unreachable"), "{audit}");
}
