//! Health checks as the daemon makes them: over HTTPS, when it cannot make them, and of an address that is
//! its own.

use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::traffic::{PATIENCE, datagram_must_cross, udp_pair};
use crate::lab::{Family, Lab, UNDERLAY, wait_for};

#[test]
fn an_appliance_is_checked_over_https_once_its_group_says_so() {
    // H-1, H-3, H-5: the other side is OpenSSL's. A handshake takes longer than an answer of the reflector's.
    let patient = [("flowgate.health_check.interval_ms", "300"), ("flowgate.health_check.timeout_ms", "300")];
    let lab = Lab::started(1, Attributes { target_group: &patient, listener: &[] });
    let key = lab.path("key.pem").display().to_string();
    let certificate = lab.path("certificate.pem").display().to_string();
    let appliance = &lab.appliances[0].netns;
    appliance.output(&format!(
        "openssl req -x509 -newkey ed25519 -nodes -subj /CN=appliance -keyout {key} -out {certificate}"
    ));
    let mut serving = appliance.command("openssl");
    serving.args(["s_server", "-accept", "8443", "-www", "-quiet", "-key", &key, "-cert", &certificate]);
    let mut serving =
        serving.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("openssl is installed");
    wait_for("openssl to listen", PATIENCE, || {
        appliance.run(|| TcpStream::connect((lab.appliances[0].address, 8443))).ok()
    });
    let ask = |protocol: &str, port: &str| {
        let params =
            json!({"TargetGroupArn": TARGET_GROUP, "HealthCheckProtocol": protocol, "HealthCheckPort": port});
        lab.gateway().rpc.must("modify-target-group", params);
    };
    ask("HTTPS", "8443");
    // H-9: another question, the same state; some checks later it is still so.
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!(lab.state_of(0), Some(("healthy".to_owned(), None)));
    serving.kill().expect("it runs");
    serving.wait().expect("it was killed");
    lab.wait_for_state(0, "unhealthy");
    // The reflector answers plain HTTP on port 80: not over TLS.
    ask("HTTPS", "80");
    wait_for("the handshake to have failed", PATIENCE, || {
        let result =
            lab.gateway().rpc.must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}));
        let health = &result["TargetHealthDescriptions"][0]["TargetHealth"];
        health["Description"].as_str().filter(|said| said.contains("TLS handshake")).map(|_| ())
    });
    ask("HTTP", "80");
    lab.wait_for_state(0, "healthy");
}

#[test]
fn a_daemon_that_has_no_sockets_left_says_so_and_forwards_as_before() {
    // H-4, H-5
    let lab = Lab::started(1, Attributes::default());
    let (client, server) = udp_pair(&lab, Family::V4);
    datagram_must_cross(&client, &server, b"before");
    lab.gateway().limit_descriptors(Some(3));
    // Nobody can connect to its socket now either; who is subscribed already is told.
    let told = lab.gateway().events.wait_for("unavailable", |event| event["To"] == "unavailable");
    assert_eq!(told["Reason"], "Elb.InternalError");
    let description = told["Description"].as_str().expect("a sentence");
    assert!(description.contains("Too many open files"), "{description}");
    datagram_must_cross(&client, &server, b"as before");
    datagram_must_cross(&server, &client, b"and back");
    lab.gateway().limit_descriptors(None);
    lab.wait_for_state(0, "healthy");
    let unhealthy = lab.gateway().events.all().iter().any(|event| event["To"] == "unhealthy");
    assert!(!unhealthy, "a fault of this node is none of the target's");
}

#[test]
fn the_gateways_own_address_is_no_target() {
    // H-5
    let lab = Lab::started(1, Attributes::default());
    let targets = json!([{"Id": UNDERLAY}]);
    let params = json!({"TargetGroupArn": TARGET_GROUP, "Targets": targets});
    lab.gateway().rpc.must("register-targets", params.clone());
    let result = lab.gateway().rpc.must("describe-target-health", params);
    let health = &result["TargetHealthDescriptions"][0]["TargetHealth"];
    assert_eq!((&health["State"], &health["Reason"]), (&json!("unused"), &json!("Target.IpUnusable")));
    // New flows go elsewhere.
    let (client, server) = udp_pair(&lab, Family::V4);
    datagram_must_cross(&client, &server, b"through the appliance");
}
