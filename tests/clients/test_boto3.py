"""The whole life of a gateway by boto3, and that socket and command line see each step at once."""

import datetime

import pytest
from botocore.exceptions import ClientError

from conftest import QUICK
from gateway import APPLIANCES, CHECK_PORT, wait_for

TAGS = [{"Key": "team", "Value": "perimeter"}, {"Key": "cost", "Value": "4711"}]


@pytest.fixture(scope="module")
def made(node, elbv2):
    """A load balancer, a group and a listener."""
    balancer = elbv2.create_load_balancer(
        Name="gw", Type="gateway", SubnetMappings=[{"SubnetId": "subnet-a"}], Tags=TAGS
    )["LoadBalancers"][0]
    elbv2.get_waiter("load_balancer_exists").wait(Names=["gw"], WaiterConfig=QUICK)
    elbv2.get_waiter("load_balancer_available").wait(Names=["gw"], WaiterConfig=QUICK)
    group = elbv2.create_target_group(
        Name="fw",
        Protocol="GENEVE",
        Port=6081,
        VpcId="vpc-0123",
        TargetType="ip",
        HealthCheckProtocol="TCP",
        HealthCheckPort=str(CHECK_PORT),
        HealthCheckIntervalSeconds=5,
        HealthCheckTimeoutSeconds=2,
        HealthyThresholdCount=2,
        UnhealthyThresholdCount=2,
        Tags=TAGS[:1],
    )["TargetGroups"][0]
    # Checks by the second would make the test wait; the client passes keys on that AWS does not have.
    elbv2.modify_target_group_attributes(
        TargetGroupArn=group["TargetGroupArn"],
        Attributes=[
            {"Key": "flowgate.health_check.interval_ms", "Value": "50"},
            {"Key": "flowgate.health_check.timeout_ms", "Value": "50"},
        ],
    )
    listener = elbv2.create_listener(
        LoadBalancerArn=balancer["LoadBalancerArn"],
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group["TargetGroupArn"]}],
        Tags=TAGS,
    )["Listeners"][0]
    return balancer, group, listener


def arns(made):
    balancer, group, listener = made
    return balancer["LoadBalancerArn"], group["TargetGroupArn"], listener["ListenerArn"]


def test_a_load_balancer_is_shown_as_aws_shows_a_gateway(made):
    balancer, _, _ = made  # O-1, O-5
    assert balancer["LoadBalancerArn"].split(":")[5].startswith("loadbalancer/gwy/gw/")
    assert balancer["Type"] == "gateway" and balancer["State"]["Code"] == "active"
    assert balancer["IpAddressType"] == "ipv4"
    zone = balancer["AvailabilityZones"][0]
    assert (zone["ZoneName"], zone["SubnetId"]) == ("a", "subnet-a")
    age = datetime.datetime.now(datetime.timezone.utc) - balancer["CreatedTime"]
    assert datetime.timedelta(seconds=-1) < age < datetime.timedelta(minutes=5)
    assert not {"DNSName", "Scheme", "SecurityGroups"} & balancer.keys()


def test_a_group_is_geneve_and_keeps_what_it_was_given(made, elbv2):
    balancer_arn, group_arn, _ = arns(made)
    group = elbv2.describe_target_groups(TargetGroupArns=[group_arn])["TargetGroups"][0]  # O-2, H-1
    assert (group["Protocol"], group["Port"], group["TargetType"], group["VpcId"]) == ("GENEVE", 6081, "ip", "vpc-0123")
    assert (group["HealthCheckProtocol"], group["HealthCheckPort"]) == ("TCP", str(CHECK_PORT))
    assert (group["HealthyThresholdCount"], group["UnhealthyThresholdCount"]) == (2, 2)
    assert group["LoadBalancerArns"] == [balancer_arn]
    assert "Matcher" not in group and "HealthCheckPath" not in group
    changed = elbv2.modify_target_group(TargetGroupArn=group_arn, HealthyThresholdCount=3)["TargetGroups"][0]
    assert (changed["HealthyThresholdCount"], changed["UnhealthyThresholdCount"]) == (3, 2)
    elbv2.modify_target_group(TargetGroupArn=group_arn, HealthyThresholdCount=2)


def test_a_listener_has_no_port_and_one_default_rule(made, elbv2):
    balancer_arn, group_arn, listener_arn = arns(made)
    listener = elbv2.describe_listeners(LoadBalancerArn=balancer_arn)["Listeners"][0]  # O-1
    assert listener["ListenerArn"] == listener_arn and "Port" not in listener and "Protocol" not in listener
    assert listener["DefaultActions"][0]["TargetGroupArn"] == group_arn
    rules = elbv2.describe_rules(ListenerArn=listener_arn)["Rules"]
    assert [(rule["Priority"], rule["IsDefault"]) for rule in rules] == [("default", True)]
    elbv2.modify_listener(
        ListenerArn=listener_arn, DefaultActions=[{"Type": "forward", "TargetGroupArn": group_arn}]
    )


def test_what_is_there_already_is_given_back_and_what_differs_is_refused(made, elbv2):
    balancer_arn, group_arn, _ = arns(made)
    again = elbv2.create_load_balancer(
        Name="gw", Type="gateway", SubnetMappings=[{"SubnetId": "subnet-a"}], Tags=TAGS
    )
    assert again["LoadBalancers"][0]["LoadBalancerArn"] == balancer_arn
    with pytest.raises(elbv2.exceptions.DuplicateLoadBalancerNameException):
        elbv2.create_load_balancer(Name="gw", Type="gateway", IpAddressType="dualstack")
    with pytest.raises(elbv2.exceptions.DuplicateTargetGroupNameException):
        elbv2.create_target_group(Name="fw", Protocol="GENEVE", Port=6081, HealthCheckPort="81")
    other = elbv2.create_load_balancer(Name="other", Type="gateway")["LoadBalancers"][0]["LoadBalancerArn"]
    with pytest.raises(elbv2.exceptions.TargetGroupAssociationLimitException):  # O-2
        elbv2.create_listener(
            LoadBalancerArn=other, DefaultActions=[{"Type": "forward", "TargetGroupArn": group_arn}]
        )
    elbv2.delete_load_balancer(LoadBalancerArn=other)
    elbv2.get_waiter("load_balancers_deleted").wait(LoadBalancerArns=[other], WaiterConfig=QUICK)
    with pytest.raises(elbv2.exceptions.LoadBalancerNotFoundException):
        elbv2.describe_load_balancers(LoadBalancerArns=[other])
    elbv2.delete_load_balancer(LoadBalancerArn=other)


def test_targets_come_into_service_and_leave_it_again(made, elbv2, node):
    _, group_arn, _ = arns(made)
    targets = [{"Id": address} for address in APPLIANCES]
    elbv2.modify_target_group_attributes(
        TargetGroupArn=group_arn, Attributes=[{"Key": "deregistration_delay.timeout_seconds", "Value": "1"}]
    )
    elbv2.register_targets(TargetGroupArn=group_arn, Targets=targets)
    elbv2.get_waiter("target_in_service").wait(TargetGroupArn=group_arn, Targets=targets, WaiterConfig=QUICK)

    def health():
        shown = elbv2.describe_target_health(TargetGroupArn=group_arn)["TargetHealthDescriptions"]
        return {each["Target"]["Id"]: each["TargetHealth"] for each in shown}

    def states():
        return {address: each["State"] for address, each in health().items()}

    wait_for("all to be healthy", lambda: states() == dict.fromkeys(APPLIANCES, "healthy"))
    node.appliances[0].die()  # H-4, H-5
    wait_for("the dead appliance, and it alone, to be unhealthy",
             lambda: states() == {**dict.fromkeys(APPLIANCES, "healthy"), APPLIANCES[0]: "unhealthy"})
    # A check of 50 ms that this machine had no time for has failed otherwise; the next one is refused.
    wait_for("a check to be refused", lambda: "refused" in health()[APPLIANCES[0]]["Description"].lower())
    assert health()[APPLIANCES[0]]["Reason"] == "Target.FailedHealthChecks"
    seen = {each["Target"]["Id"]: each["TargetHealth"]["State"]
            for each in node.rpc("describe-target-health", TargetGroupArn="fw")["TargetHealthDescriptions"]}
    assert seen[APPLIANCES[0]] == "unhealthy"
    node.appliances[0].live()
    elbv2.get_waiter("target_in_service").wait(TargetGroupArn=group_arn, WaiterConfig=QUICK)
    elbv2.deregister_targets(TargetGroupArn=group_arn, Targets=targets[2:])
    state = elbv2.describe_target_health(TargetGroupArn=group_arn, Targets=targets[2:])
    assert state["TargetHealthDescriptions"][0]["TargetHealth"]["Reason"] == "Target.DeregistrationInProgress"
    elbv2.get_waiter("target_deregistered").wait(TargetGroupArn=group_arn, Targets=targets[2:], WaiterConfig=QUICK)
    elbv2.deregister_targets(TargetGroupArn=group_arn, Targets=targets[2:])  # O-3
    with pytest.raises(ClientError) as refusal:
        elbv2.register_targets(TargetGroupArn=group_arn, Targets=[{"Id": "not-an-address"}])
    assert refusal.value.response["Error"]["Code"] == "ValidationError"


def test_attributes_contradict_each_other_in_aws_words(made, elbv2):
    balancer_arn, group_arn, listener_arn = arns(made)

    def change(*pairs):
        attributes = [{"Key": key, "Value": value} for key, value in pairs]
        return elbv2.modify_target_group_attributes(TargetGroupArn=group_arn, Attributes=attributes)

    def values():
        shown = elbv2.describe_target_group_attributes(TargetGroupArn=group_arn)["Attributes"]
        return {each["Key"]: each["Value"] for each in shown}

    before = values()
    assert before["send_tcp_reset.on_unhealthy.enabled"] == "false" and before["stickiness.enabled"] == "false"
    for pairs, words in [
        ([("target_failover.on_unhealthy", "rebalance")], "must both be set to the same value"),
        ([("deregistration_delay.timeout_seconds", "3601")],
         "'deregistration_delay.timeout_seconds' value '3601' must be between '0-3600' inclusive"),
        ([("no.such.key", "1")], "Target group attribute key 'no.such.key' is not recognized"),
        ([("stickiness.type", "source_ip")], "must be one of ["),
        ([("send_tcp_reset.on_unhealthy.enabled", "true"), ("stickiness.enabled", "true")], "stickiness"),
    ]:
        with pytest.raises(ClientError, match="ValidationError") as refusal:
            change(*pairs)
        assert words in refusal.value.response["Error"]["Message"]
        assert values() == before, "all or nothing"
    answer = change(("send_tcp_reset.on_unhealthy.enabled", "true"))["Attributes"]
    assert {"Key": "send_tcp_reset.on_unhealthy.enabled", "Value": "true"} in answer
    with pytest.raises(ClientError, match="ValidationError"):
        change(("target_failover.on_unhealthy", "rebalance"), ("target_failover.on_deregistration", "rebalance"))
    elbv2.modify_listener_attributes(
        ListenerArn=listener_arn,
        Attributes=[
            {"Key": "tcp.idle_timeout.seconds", "Value": "60"},
            {"Key": "send_tcp_reset.on_idle_timeout.enabled", "Value": "true"},
        ],
    )
    listener = {each["Key"]: each["Value"]
                for each in elbv2.describe_listener_attributes(ListenerArn=listener_arn)["Attributes"]}
    assert (listener["tcp.idle_timeout.seconds"], listener["send_tcp_reset.on_idle_timeout.enabled"]) == ("60", "true")
    elbv2.modify_load_balancer_attributes(
        LoadBalancerArn=balancer_arn, Attributes=[{"Key": "deletion_protection.enabled", "Value": "true"}]
    )
    with pytest.raises(elbv2.exceptions.OperationNotPermittedException):
        elbv2.delete_load_balancer(LoadBalancerArn=balancer_arn)
    elbv2.modify_load_balancer_attributes(
        LoadBalancerArn=balancer_arn, Attributes=[{"Key": "deletion_protection.enabled", "Value": "false"}]
    )


def test_tags_are_kept_replaced_and_taken_away(made, elbv2):
    balancer_arn, group_arn, listener_arn = arns(made)

    def tags(arn):
        shown = elbv2.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]
        return {each["Key"]: each["Value"] for each in shown["Tags"]}

    assert tags(balancer_arn) == {"team": "perimeter", "cost": "4711"} and tags(group_arn) == {"team": "perimeter"}
    elbv2.add_tags(ResourceArns=[group_arn, listener_arn], Tags=[{"Key": "team", "Value": "core"}])
    assert tags(group_arn) == {"team": "core"} and tags(listener_arn)["team"] == "core"
    elbv2.remove_tags(ResourceArns=[group_arn], TagKeys=["team", "none-such"])
    assert tags(group_arn) == {}
    with pytest.raises(elbv2.exceptions.DuplicateTagKeysException):
        elbv2.add_tags(ResourceArns=[group_arn], Tags=[{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}])
    many = [{"Key": f"key-{n}", "Value": ""} for n in range(51)]
    with pytest.raises(elbv2.exceptions.TooManyTagsException):
        elbv2.add_tags(ResourceArns=[group_arn], Tags=many)


def test_subnets_and_address_type_are_set(made, elbv2):
    balancer_arn, _, _ = arns(made)
    zones = elbv2.set_subnets(LoadBalancerArn=balancer_arn, Subnets=["subnet-a", "subnet-b"])["AvailabilityZones"]
    assert {(each["ZoneName"], each["SubnetId"]) for each in zones} == {("a", "subnet-a"), ("b", "subnet-b")}
    with pytest.raises(elbv2.exceptions.SubnetNotFoundException):
        elbv2.set_subnets(LoadBalancerArn=balancer_arn, Subnets=["subnet-z"])
    answer = elbv2.set_ip_address_type(LoadBalancerArn=balancer_arn, IpAddressType="dualstack")
    assert answer["IpAddressType"] == "dualstack"
    assert elbv2.describe_load_balancers(Names=["gw"])["LoadBalancers"][0]["IpAddressType"] == "dualstack"


def test_pages_and_limits(made, elbv2):
    names = [f"page-{n}" for n in range(7)]
    made_arns = [
        elbv2.create_target_group(Name=name, Protocol="GENEVE", Port=6081)["TargetGroups"][0]["TargetGroupArn"]
        for name in names
    ]
    pages = list(elbv2.get_paginator("describe_target_groups").paginate(PaginationConfig={"PageSize": 3}))
    assert len(pages) == 3 and all(len(page["TargetGroups"]) <= 3 for page in pages)
    assert {group["TargetGroupName"] for page in pages for group in page["TargetGroups"]} == {"fw", *names}
    for arn in made_arns:
        elbv2.delete_target_group(TargetGroupArn=arn)
    with pytest.raises(elbv2.exceptions.TargetGroupNotFoundException):
        elbv2.describe_target_groups(Names=["page-0"])
    limits = {each["Name"] for each in elbv2.describe_account_limits()["Limits"]}
    assert {"gateway-load-balancers", "geneve-target-groups", "listeners-per-gateway-load-balancer"} <= limits


def test_each_way_in_sees_at_once_what_the_others_changed(made, elbv2, node):
    _, group_arn, _ = arns(made)
    key = "deregistration_delay.timeout_seconds"

    def by_boto3():
        shown = elbv2.describe_target_group_attributes(TargetGroupArn=group_arn)["Attributes"]
        return {each["Key"]: each["Value"] for each in shown}[key]

    def by_socket():
        shown = node.rpc("describe-target-group-attributes", TargetGroupArn="fw")["Attributes"]
        return {each["Key"]: each["Value"] for each in shown}[key]

    def by_command_line():
        shown = node.flowgate("describe-target-group-attributes", "--target-group", "fw")["Attributes"]
        return {each["Key"]: each["Value"] for each in shown}[key]

    def change_by_boto3(value):
        elbv2.modify_target_group_attributes(TargetGroupArn=group_arn, Attributes=[{"Key": key, "Value": value}])

    def change_by_socket(value):
        node.rpc("modify-target-group-attributes", TargetGroupArn="fw", Attributes=[{"Key": key, "Value": value}])

    def change_by_command_line(value):
        node.flowgate(
            "modify-target-group-attributes", "--target-group-arn", group_arn, "--attributes", f"Key={key},Value={value}"
        )

    for value, change in (("7", change_by_boto3), ("8", change_by_socket), ("9", change_by_command_line)):
        change(value)
        assert (by_boto3(), by_socket(), by_command_line()) == (value, value, value)


def test_it_is_taken_apart_in_the_order_that_aws_demands(made, elbv2, node):
    balancer_arn, group_arn, listener_arn = arns(made)
    with pytest.raises(elbv2.exceptions.ResourceInUseException):
        elbv2.delete_target_group(TargetGroupArn=group_arn)
    elbv2.delete_listener(ListenerArn=listener_arn)
    with pytest.raises(elbv2.exceptions.ListenerNotFoundException):
        elbv2.describe_listeners(ListenerArns=[listener_arn])
    elbv2.delete_load_balancer(LoadBalancerArn=balancer_arn)
    elbv2.get_waiter("load_balancers_deleted").wait(LoadBalancerArns=[balancer_arn], WaiterConfig=QUICK)
    elbv2.delete_target_group(TargetGroupArn=group_arn)
    assert node.rpc("describe-load-balancers")["LoadBalancers"] == []
    assert node.rpc("describe-target-groups")["TargetGroups"] == []
