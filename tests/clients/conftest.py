"""What every test of AWS's clients starts from: a fresh daemon a module, and the clients aimed at it."""

import json
import os
import socket
import subprocess
import sys

import boto3
import pytest

import gateway as lab

os.environ.update(
    AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2=lab.Gateway.endpoint,
    AWS_ACCESS_KEY_ID="AKIATEST",
    AWS_SECRET_ACCESS_KEY="a-secret-of-the-tests",
    AWS_DEFAULT_REGION="xx-local-1",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
    AWS_PAGER="",
)


@pytest.fixture(scope="session", autouse=True)
def network():
    """Ports and appliances' addresses, in the namespace that the tests run in."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    assert not others, f"not in a namespace of their own, but beside {others}: run scripts/test clients"
    lab.run("ip", "link", "set", "lo", "up")
    for port in ("left", "right", "under"):
        lab.run("ip", "link", "add", port, "type", "veth", "peer", "name", f"{port}-far")
        for end in (port, f"{port}-far"):
            lab.run("ip", "link", "set", end, "up")
    lab.run("ip", "address", "add", "192.0.2.1/24", "dev", "under")
    for address in lab.APPLIANCES:
        lab.run("ip", "address", "add", f"{address}/32", "dev", "lo")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    gateway = lab.Gateway(tmp_path_factory.mktemp("node"))
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def elbv2(node):
    return boto3.client("elbv2")


class Aws:
    """The `aws` command line."""

    def __call__(self, *words):
        done = self.outcome(*words)
        if done.returncode != 0:
            raise lab.Refused(done.returncode, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    @staticmethod
    def outcome(*words):
        program = os.path.join(os.path.dirname(sys.executable), "aws")
        command = [program, "elbv2", *words, "--output", "json"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def aws(node):
    return Aws()


QUICK = {"Delay": 1, "MaxAttempts": 60}
