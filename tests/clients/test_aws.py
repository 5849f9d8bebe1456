"""The whole life of a gateway by the `aws` command line, waiters included."""

import pytest

from gateway import APPLIANCES, CHECK_PORT, Refused, wait_for


def refused(aws, code, *words):
    """That `words` are refused with AWS's `code`, by the exit code that `aws` has for it; what it said."""
    done = aws.outcome(*words)
    assert done.returncode in (254, 255), done
    assert f"({code})" in done.stderr, done.stderr
    return done.stderr


def test_the_whole_life_of_a_gateway(aws, node):
    balancer = aws("create-load-balancer", "--name", "gw", "--type", "gateway", "--subnets", "subnet-a",
                   "--tags", "Key=team,Value=perimeter")["LoadBalancers"][0]["LoadBalancerArn"]
    aws("wait", "load-balancer-exists", "--names", "gw")
    aws("wait", "load-balancer-available", "--load-balancer-arns", balancer)
    group = aws("create-target-group", "--name", "fw", "--protocol", "GENEVE", "--port", "6081",
                "--vpc-id", "vpc-0123", "--target-type", "ip", "--health-check-protocol", "TCP",
                "--health-check-port", str(CHECK_PORT))["TargetGroups"][0]["TargetGroupArn"]
    quick = ["Key=flowgate.health_check.interval_ms,Value=50", "Key=flowgate.health_check.timeout_ms,Value=50",
             "Key=deregistration_delay.timeout_seconds,Value=0"]
    aws("modify-target-group-attributes", "--target-group-arn", group, "--attributes", *quick)
    aws("modify-target-group", "--target-group-arn", group, "--healthy-threshold-count", "2")
    listener = aws("create-listener", "--load-balancer-arn", balancer, "--default-actions",
                   f"Type=forward,TargetGroupArn={group}")["Listeners"][0]["ListenerArn"]
    targets = [f"Id={address}" for address in APPLIANCES]
    aws("register-targets", "--target-group-arn", group, "--targets", *targets)
    aws("wait", "target-in-service", "--target-group-arn", group)
    # Once they are, a check that this machine had no time for may still fail.
    wait_for("all to be healthy", lambda: aws(
        "describe-target-health", "--target-group-arn", group, "--query",
        "TargetHealthDescriptions[].[Target.Id, TargetHealth.State]") == [[address, "healthy"] for address in APPLIANCES])

    # What one face did, the others see.
    seen = node.flowgate("describe-target-health", "--target-group", "fw")["TargetHealthDescriptions"]
    assert [each["Target"]["Id"] for each in seen] == APPLIANCES
    assert node.rpc("describe-tags", ResourceArns=[balancer])["TagDescriptions"][0]["Tags"] == [
        {"Key": "team", "Value": "perimeter"}]

    # what contradicts is refused in AWS's words.
    aws("modify-target-group-attributes", "--target-group-arn", group,
        "--attributes", "Key=send_tcp_reset.on_unhealthy.enabled,Value=true")
    words = refused(aws, "ValidationError", "modify-target-group-attributes", "--target-group-arn", group,
                    "--attributes", "Key=stickiness.enabled,Value=true")
    assert "send_tcp_reset.on_unhealthy.enabled" in words
    words = refused(aws, "ValidationError", "modify-target-group-attributes", "--target-group-arn", group,
                    "--attributes", "Key=target_failover.on_unhealthy,Value=rebalance")
    assert "must both be set to the same value" in words
    aws("modify-listener-attributes", "--listener-arn", listener,
        "--attributes", "Key=tcp.idle_timeout.seconds,Value=6000")
    words = refused(aws, "ValidationError", "modify-listener-attributes", "--listener-arn", listener,
                    "--attributes", "Key=tcp.idle_timeout.seconds,Value=6001")
    assert "must be between '60-6000' inclusive" in words

    # A page at a time: by the API's own marker, and by what the client makes of it.
    for n in range(3):
        aws("create-target-group", "--name", f"spare-{n}", "--protocol", "GENEVE", "--port", "6081")
    names, marker = [], []
    while True:
        page = aws("describe-target-groups", "--page-size", "2", *marker)
        names += [each["TargetGroupName"] for each in page["TargetGroups"]]
        if "NextMarker" not in page:
            break
        marker = ["--marker", page["NextMarker"]]
    assert names == ["fw", "spare-0", "spare-1", "spare-2"]
    first = aws("describe-target-groups", "--max-items", "3")
    rest = aws("describe-target-groups", "--starting-token", first["NextToken"])
    assert [len(page["TargetGroups"]) for page in (first, rest)] == [3, 1]

    refused(aws, "ResourceInUse", "delete-target-group", "--target-group-arn", group)
    aws("deregister-targets", "--target-group-arn", group, "--targets", *targets)
    aws("wait", "target-deregistered", "--target-group-arn", group, "--targets", *targets)
    aws("delete-listener", "--listener-arn", listener)
    aws("delete-load-balancer", "--load-balancer-arn", balancer)
    aws("wait", "load-balancers-deleted", "--load-balancer-arns", balancer)
    aws("delete-target-group", "--target-group-arn", group)
    refused(aws, "TargetGroupNotFound", "describe-target-groups", "--names", "fw")


def test_the_same_verbs_and_flags_serve_on_both_command_lines(aws, node):
    """What `aws elbv2` prints, `flowgate` prints for the same words."""
    same = [
        ("create-load-balancer", "--name", "both", "--type", "gateway"),
        ("describe-load-balancers", "--names", "both"),
        ("create-target-group", "--name", "both", "--protocol", "GENEVE", "--port", "6081"),
        ("describe-target-groups", "--names", "both"),
        ("create-target-group", "--name", "other", "--protocol", "GENEVE", "--port", "6081"),
        ("describe-target-groups", "--page-size", "1", "--no-paginate"),
        ("describe-target-groups", "--page-size", "1", "--marker", "both"),
        ("describe-account-limits",),
    ]
    for words in same:
        theirs, ours = aws(*words), node.flowgate(*words)
        ours.pop("Generation", None)
        for key, value in theirs.items():
            assert projected(ours[key], value) == value, words
    balancer = aws("describe-load-balancers", "--names", "both")["LoadBalancers"][0]["LoadBalancerArn"]
    group = aws("describe-target-groups", "--names", "both")["TargetGroups"][0]["TargetGroupArn"]
    listener = ("create-listener", "--load-balancer-arn", balancer, "--protocol", "GENEVE", "--port", "6081",
                "--default-actions", f"Type=forward,TargetGroupArn={group}")
    words = refused(aws, "InvalidConfigurationRequest", *listener)
    told = node.outcome(*listener)
    assert told.returncode == 1 and "InvalidConfigurationRequest" in told.stderr, told
    assert told.stderr.split("(")[0].removeprefix("flowgate: ").strip() in words
    with pytest.raises(Refused, match="both"):
        node.flowgate("create-load-balancer", "--name", "both", "--type", "gateway", "--ip-address-type", "dualstack")


def projected(ours, theirs):
    """What `ours` says of what `theirs` speaks of: ours may say more. A time has its own form in each."""
    if isinstance(theirs, dict):
        return {key: value if key == "CreatedTime" else projected(ours[key], value) for key, value in theirs.items()}
    if isinstance(theirs, list):
        return [projected(mine, yours) for mine, yours in zip(ours, theirs, strict=True)]
    return ours
