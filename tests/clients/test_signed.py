"""Signatures and TLS, as AWS's own client makes and demands them."""

import datetime
import subprocess
from unittest import mock

import boto3
import botocore.auth
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError

import gateway as lab

KEYS = """
[terraform]
aws_access_key_id = AKIAFLOWGATE
aws_secret_access_key = a-secret-of-the-tests-1

[monitoring]
aws_access_key_id = AKIAMONITOR
aws_secret_access_key = a-secret-of-the-tests-2
flowgate_role = read-only
"""

ENDPOINT = "https://127.0.0.1:6080"


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    keys = folder / "keys"
    keys.write_text(KEYS)
    keys.chmod(0o600)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=gateway",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True)
    section = f"""credentials = "{keys}"
[elbv2.tls]
certificate = "{folder}/cert.pem"
key = "{folder}/key.pem"
"""
    node = lab.Gateway(folder, section)
    node.start()
    yield node
    node.stop()


def client(node, key="AKIAFLOWGATE", secret="a-secret-of-the-tests-1", verify=True, **more):
    return boto3.client(
        "elbv2", endpoint_url=ENDPOINT, aws_access_key_id=key, aws_secret_access_key=secret,
        verify=str(node.folder / "cert.pem") if verify else None,
        config=Config(retries={"total_max_attempts": 1}), **more)


def code(refusal):
    return refusal.value.response["Error"]["Code"]


def test_who_has_the_secret_is_served_and_nobody_else(signed):
    assert client(signed).describe_load_balancers()["LoadBalancers"] == []
    with pytest.raises(ClientError) as refusal:
        client(signed, secret="another-secret").describe_load_balancers()
    assert code(refusal) == "SignatureDoesNotMatch"
    with pytest.raises(ClientError) as refusal:
        client(signed, key="AKIANOBODY").describe_load_balancers()
    assert code(refusal) == "InvalidClientTokenId"
    with pytest.raises(ClientError) as refusal:
        client(signed, aws_session_token="of-sts").describe_load_balancers()
    assert code(refusal) == "InvalidClientTokenId"


def test_who_only_looks_cannot_change(signed):
    monitor = client(signed, "AKIAMONITOR", "a-secret-of-the-tests-2")
    assert monitor.describe_target_groups()["TargetGroups"] == []
    with pytest.raises(ClientError, match="monitoring") as refusal:
        monitor.create_target_group(Name="fw", Protocol="GENEVE", Port=6081)
    assert code(refusal) == "AccessDenied"
    group = client(signed).create_target_group(Name="fw", Protocol="GENEVE", Port=6081)["TargetGroups"][0]
    assert monitor.describe_target_groups()["TargetGroups"][0]["TargetGroupArn"] == group["TargetGroupArn"]


@pytest.mark.parametrize("minutes, served", [(0, True), (14, True), (-14, True), (16, False), (-16, False)])
def test_a_clock_may_be_off_by_a_quarter_of_an_hour(signed, minutes, served):
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
    with mock.patch.object(botocore.auth, "get_current_datetime", lambda *_, **__: now.replace(tzinfo=None)):
        call = client(signed).describe_load_balancers
        if served:
            call()
            return
        with pytest.raises(ClientError) as refusal:
            call()
    assert code(refusal) == "SignatureDoesNotMatch"


def test_a_body_under_the_signature_of_another_is_refused(signed):
    elbv2 = client(signed)

    def change_body(request, **_):
        request.body = request.body.replace("2015-12-01", "2015-12-02")

    elbv2.meta.events.register("before-send.elastic-load-balancing-v2.*", change_body)
    with pytest.raises(ClientError) as refusal:
        elbv2.describe_load_balancers()
    assert code(refusal) == "SignatureDoesNotMatch"


def test_a_certificate_that_nobody_vouches_for_is_not_taken(signed):
    with pytest.raises(SSLError):
        client(signed, verify=False).describe_load_balancers()
