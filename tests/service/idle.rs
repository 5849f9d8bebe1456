//! A daemon whose configuration has no ports: up, asked, changed, and nothing touched.

use nix::sys::signal::Signal;

use crate::daemon::Place;

#[test]
fn a_daemon_without_ports_answers_keeps_objects_and_touches_nothing() {
    let place = Place::new("");
    let mut daemon = place.start(&mut place.command());
    place.wait_for_socket();
    let overview = place.flowgate(&["rpc", "get-overview", "--query", "length(Workers || `[]`)"]);
    assert!(overview.status.success(), "{}", String::from_utf8_lossy(&overview.stderr));
    // Objects can be made before there are ports, and all verbs that only look have an answer.
    let made = place.flowgate(&[
        "create-target-group",
        "--name",
        "firewalls",
        "--protocol",
        "GENEVE",
        "--port",
        "6081",
    ]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let register = ["register-targets", "--target-group-arn", "firewalls", "--targets", "Id=192.0.2.9"];
    assert!(place.flowgate(&register).status.success());
    for verb in [
        "targets",
        "describe-workers",
        "describe-ports",
        "describe-endpoints",
        "get-counters",
        "audit",
        "report",
        "status",
        "top --once",
    ] {
        let output = place.flowgate(&verb.split(' ').collect::<Vec<_>>());
        // An audit that finds something says so by its exit code.
        assert!(output.status.code().is_some_and(|code| code == 0 || verb == "audit"), "{verb}: {output:?}");
    }
    assert!(daemon.runs(), "{}", place.log());
    assert!(!place.log().contains("dpdk_start"), "{}", place.log());
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success(), "{}", place.log());
    assert!(!place.path("socket").exists(), "the socket is left");

    // What was made before is there when there are ports.
    let mut again = place.start(&mut place.command());
    place.wait_for_socket();
    let groups = place.flowgate(&[
        "describe-target-groups",
        "--query",
        "TargetGroups[].TargetGroupName",
        "--output",
        "text",
    ]);
    assert_eq!(String::from_utf8_lossy(&groups.stdout).trim(), "firewalls");
    again.signal(Signal::SIGTERM);
    assert!(again.ended().success(), "{}", place.log());
}

#[test]
fn a_document_that_is_given_after_an_idle_start_still_seeds_the_state() {
    let place = Place::new("");
    let mut idle = place.start(&mut place.command());
    place.wait_for_socket();
    idle.signal(Signal::SIGTERM);
    assert!(idle.ended().success(), "{}", place.log());
    let document = place.path("objects.json");
    std::fs::write(&document, r#"{"version": 1, "target_groups": [{"name": "seeded", "targets": []}]}"#)
        .expect("writable");
    // Before the first table of the file.
    place.write(&format!("objects = {document:?}\n"));
    let _seeded = place.start(&mut place.command());
    place.wait_for_socket();
    let groups = place.flowgate(&[
        "describe-target-groups",
        "--query",
        "TargetGroups[].TargetGroupName",
        "--output",
        "text",
    ]);
    assert_eq!(String::from_utf8_lossy(&groups.stdout).trim(), "seeded");
}

#[test]
fn a_second_daemon_on_the_same_state_is_refused_in_one_sentence_and_the_first_goes_on() {
    let place = Place::new("");
    let mut daemon = place.start(&mut place.command());
    place.wait_for_socket();
    let second = place.command().env("FLOWGATE_LOG", "error").output().expect("it can be run");
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("another"), "{said}");
    assert!(daemon.runs() && place.flowgate(&["targets"]).status.success());
}
