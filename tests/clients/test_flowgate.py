"""The whole life of a gateway by `flowgate` and by the socket, on a real daemon."""

import json

import pytest

from gateway import APPLIANCES, CHECK_PORT, Refused, wait_for

QUICK = ["flowgate.health_check.interval_ms=50", "flowgate.health_check.timeout_ms=50",
         "deregistration_delay.timeout_seconds=1"]


def states(node):
    shown = node.flowgate("describe-target-health", "--target-group", "fw")["TargetHealthDescriptions"]
    return {each["Target"]["Id"]: each["TargetHealth"]["State"] for each in shown}


def all_are_healthy(node, *addresses):
    """Waits for it: once they are, a check of 50 ms that this machine had no time for may still fail."""
    wait_for("all to be healthy", lambda: states(node) == dict.fromkeys(addresses, "healthy"))


def test_the_whole_life_of_a_gateway_by_the_command_line(node, tmp_path):
    def do(*words, code=0):
        done = node.outcome(*words)
        assert done.returncode == code, (words, done)
        return done.stdout if code == 0 else done.stderr

    do("create-load-balancer", "--name", "gw", "--type", "gateway", "--subnets", "subnet-a")
    do("create-target-group", "--name", "fw", "--protocol", "GENEVE", "--port", "6081",
       "--health-check-port", str(CHECK_PORT))
    do("create-listener", "--load-balancer", "gw", "--default-actions", "Type=forward,TargetGroupArn=fw")
    assert "did you mean flowgate.health_check.interval_ms?" in do("set", "fw", "flowgate.health_check.intervall_ms=50", code=1)
    assert "within 100 ms" in do("set", "fw", *QUICK)  # H-7
    do("register-targets", "--target-group", "fw", "--targets", f"Id={APPLIANCES[0]}", f"Id={APPLIANCES[1]}", "--wait")
    all_are_healthy(node, APPLIANCES[0], APPLIANCES[1])

    # The whole as a document: what is exported changes nothing; what is changed in it is told, then done.
    document = tmp_path / "objects.json"
    document.write_text(do("export"))
    assert do("apply", "--file", str(document)).startswith("Nothing changed")
    objects = json.loads(document.read_text())
    objects["target_groups"][0]["targets"][1]["address"] = APPLIANCES[2]
    document.write_text(json.dumps(objects))
    told = node.outcome("diff", "--file", str(document))
    assert told.returncode == 6 and f"{APPLIANCES[1]} is deregistered and drains" in told.stdout
    assert f"{APPLIANCES[2]} is registered" in do("apply", "--file", str(document), "--dry-run")
    assert APPLIANCES[2] not in states(node)
    do("apply", "--file", str(document), "--wait")
    all_are_healthy(node, APPLIANCES[0], APPLIANCES[2])

    # Back to the state before; the history says what was and who did it.
    history = node.flowgate("history")
    assert all(entry["By"] in ("root", "the seed", None) for entry in history["History"])
    do("rollback", "--wait")
    all_are_healthy(node, APPLIANCES[0], APPLIANCES[1])
    assert "GenerationConflict" in do("delete-load-balancer", "--load-balancer", "gw", "--if-generation", "1", code=1)
    assert "is drained" in do("drain", APPLIANCES[0], "--wait")
    do("deregister-targets", "--target-group", "fw", "--targets", f"Id={APPLIANCES[1]}", "--wait")
    do("wait", "target-deregistered", "--target-group", "fw")
    do("delete-target-group", "--target-group", "fw", code=1)
    do("delete-listener", "--listener", "gw")
    do("delete-load-balancer", "--load-balancer", "gw")
    do("wait", "load-balancers-deleted", "--names", "gw")
    do("delete-target-group", "--target-group", "fw")


def test_the_whole_life_of_a_gateway_by_the_socket(node):
    generation = node.rpc("create-load-balancer", Name="gw")["Generation"]
    node.rpc("create-target-group", Name="fw", HealthCheckPort=str(CHECK_PORT), IfGeneration=generation)
    with pytest.raises(Refused) as refusal:
        node.rpc("delete-target-group", TargetGroupArn="fw", IfGeneration=generation)
    assert refusal.value.kind == "GenerationConflict"
    node.rpc("create-listener", LoadBalancerArn="gw", DefaultActions=[{"Type": "forward", "TargetGroupArn": "fw"}])
    node.rpc("modify-target-group-attributes", TargetGroupArn="fw", Attributes=[
        {"Key": key, "Value": value} for key, value in (pair.split("=") for pair in QUICK)])
    targets = [{"Id": address} for address in APPLIANCES]
    plan = node.rpc("register-targets", TargetGroupArn="fw", Targets=targets, DryRun=True)
    assert len(plan["Differences"]) == 3 and states(node) == {}
    node.rpc("register-targets", TargetGroupArn="fw", Targets=targets)
    assert node.outcome("wait", "target-in-service", "--target-group", "fw").returncode == 0
    node.rpc("add-tags", ResourceArns=["fw"], Tags=[{"Key": "team", "Value": "core"}])
    node.rpc("deregister-targets", TargetGroupArn="fw", Targets=targets)
    assert node.outcome("wait", "target-deregistered", "--target-group", "fw").returncode == 0
    for method, params in (
        ("delete-listener", {"ListenerArn": "gw"}),
        ("delete-load-balancer", {"LoadBalancerArn": "gw"}),
        ("delete-target-group", {"TargetGroupArn": "fw"}),
    ):
        node.rpc(method, **params)
    assert node.rpc("export")["Document"]["target_groups"] == []
