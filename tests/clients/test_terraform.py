"""The life of a gateway by Terraform, from its creation to its end: what it made is what it wanted, and stays so.

It needs Terraform and its provider, and waits two minutes by itself; so it is run by hand, on a machine that has both: FLOWGATE_TERRAFORM names the folder of providers (a file system mirror, as `terraform providers mirror` makes one). What was sent
then is kept in tests/elbv2/terraform.rs, which is run always.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import gateway as lab

MIRROR = os.environ.get("FLOWGATE_TERRAFORM")
pytestmark = pytest.mark.skipif(not MIRROR, reason="FLOWGATE_TERRAFORM does not name a folder of providers")

KEYS = "[terraform]\naws_access_key_id = AKIATEST\naws_secret_access_key = a-secret-of-the-tests\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A gateway that knows who signs: so Terraform's signatures are verified, too."""
    folder = tmp_path_factory.mktemp("terraform")
    (folder / "keys").write_text(KEYS)
    (folder / "keys").chmod(0o600)
    gateway = lab.Gateway(folder, f'credentials = "{folder}/keys"')
    gateway.start()
    yield gateway
    gateway.stop()


class Terraform:
    """Terraform in a folder of its own, with its provider from the mirror."""

    def __init__(self, folder, endpoint):
        self.folder = folder
        shutil.copy(pathlib.Path(__file__).parent / "terraform/main.tf", folder)
        mirror = f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n'
        (folder / "cli.tfrc").write_text("disable_checkpoint = true\n" + mirror)
        self.environment = {
            **os.environ, "TF_CLI_CONFIG_FILE": str(folder / "cli.tfrc"), "TF_IN_AUTOMATION": "1",
            "TF_VAR_endpoint": endpoint, "CHECKPOINT_DISABLE": "1"}

    def __call__(self, *words, code=0):
        done = subprocess.run(["terraform", *words], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=400)
        assert done.returncode == code, (words, done.stdout[-4000:], done.stderr)
        return done.stdout


def test_the_whole_life_of_a_gateway_by_terraform(node, tmp_path):
    # What is sent can be looked at by a proxy in between.
    terraform = Terraform(tmp_path, os.environ.get("FLOWGATE_TERRAFORM_ENDPOINT", node.endpoint))
    terraform("init", "-input=false", "-no-color")

    def settles(form):
        """It is made, and then there is nothing left to change: all that was asked for is answered so."""
        words = ["-input=false", "-no-color", f"-var=form={form}"]
        terraform("apply", "-auto-approve", *words)
        terraform("plan", "-detailed-exitcode", *words)
        said = json.loads(terraform("output", "-json"))
        return {name: value["value"] for name, value in said.items()}

    said = settles(1)
    (balancer,) = node.rpc("describe-load-balancers")["LoadBalancers"]
    groups = node.rpc("describe-target-groups")["TargetGroups"]
    (group,) = [each for each in groups if each["TargetGroupName"] != "spare"]
    assert said == {"balancer": "gw", "group": "/healthz", "listener": group["TargetGroupArn"]}
    assert [each["SubnetId"] for each in balancer["AvailabilityZones"]] == ["subnet-a"]

    said = settles(2)
    assert said["group"] == "/ready"
    (balancer,) = node.rpc("describe-load-balancers")["LoadBalancers"]
    assert (balancer["IpAddressType"], len(balancer["AvailabilityZones"])) == ("dualstack", 2)
    (listener,) = node.rpc("describe-listeners")["Listeners"]
    attributes = node.rpc("describe-listener-attributes", ListenerArn=listener["ListenerArn"])["Attributes"]
    assert {"Key": "tcp.idle_timeout.seconds", "Value": 400} in attributes or \
        {"Key": "tcp.idle_timeout.seconds", "Value": "400"} in attributes, attributes
    targets = node.rpc("describe-target-health", TargetGroupArn=group["TargetGroupArn"])["TargetHealthDescriptions"]
    stay = [each["Target"]["Id"] for each in targets if each["TargetHealth"]["State"] not in ("draining", "unused")]
    assert stay == ["192.0.2.12", "192.0.2.13"]

    # What was made is taken in as if it had always been Terraform's.
    terraform("state", "rm", "aws_lb.gw")
    terraform("import", "-input=false", "-no-color", "-var=form=2", "aws_lb.gw", balancer["LoadBalancerArn"])
    terraform("plan", "-detailed-exitcode", "-input=false", "-no-color", "-var=form=2")

    terraform("destroy", "-auto-approve", "-input=false", "-no-color", "-var=form=2")
    assert node.rpc("export")["Document"]["load_balancers"] == []
    assert node.rpc("export")["Document"]["target_groups"] == []
