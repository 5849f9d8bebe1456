"""What can be judged without installing anything: the unit, the container recipe, the Kubernetes example."""

import pathlib
import re
import subprocess
import sys

import pytest
from host import REPOSITORY, run

BIN = pathlib.Path(sys.executable).parent
UNIT = REPOSITORY / "scripts/package/flowgate.service"
DEPLOY = REPOSITORY / "docs/deploy"


def test_the_metadata_is_that_of_a_good_package(packages):
    fields = run("dpkg-deb", "--field", packages.old).stdout
    # By the linker's word and by ours: DPDK loads its drivers by itself.
    for needed in ("librte-eal", "librte-meta-net", "libc6", "adduser"):
        assert re.search(rf"^Depends: .*{needed}", fields, re.MULTILINE), needed
    files = run("dpkg-deb", "--contents", packages.old).stdout
    for file in (
        "./usr/sbin/flowgated", "./usr/bin/flowgate", "./usr/bin/flowgate-reflector", "./lib/systemd/system/flowgate.service",
        "./etc/flowgate/node.toml", "./usr/share/man/man8/flowgated.8.gz", "./usr/share/man/man1/flowgate.1.gz",
        "./usr/share/man/man1/flowgate-drain.1.gz", "./usr/share/man/man1/flowgate-reflector.1.gz",
        "./usr/share/bash-completion/completions/flowgate", "./usr/share/zsh/vendor-completions/_flowgated",
        "./usr/share/fish/vendor_completions.d/flowgate.fish", "./usr/share/doc/flowgate/copyright",
        "./usr/share/doc/flowgate/changelog.Debian.gz", "./usr/share/doc/flowgate/examples/node.toml",
        "./usr/share/doc/flowgate/docs/install.md", "./usr/share/flowgate/scripts/setup", "./usr/share/flowgate/scripts/common.sh",
    ):  # fmt: skip
        assert f" {file}\n" in files, file


def test_the_units_exposure_is_the_one_that_the_document_tells():
    said = run("systemd-analyze", "security", "--offline=true", UNIT).stdout
    exposure = re.search(r"Overall exposure level for flowgate.service: ([0-9.]+)", said).group(1)
    document = (REPOSITORY / "docs/install.md").read_text()
    assert f"`systemd-analyze security`: {exposure} " in document, exposure


def hadolint(recipe):
    return subprocess.run([BIN / "hadolint", "-"], input=recipe, text=True, capture_output=True)


def test_the_container_recipe_is_well_formed():
    recipe = (DEPLOY / "Containerfile").read_text()
    done = hadolint(recipe)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("change", [
    ("RUN apt-get update", "RUM apt-get update"),
    ("COPY flowgate_*.deb /tmp/", "COPY flowgate_*.deb"),
    ("debian:12-slim", "debian:latest"),
    (" -y --no-install-recommends", ""),
])  # fmt: skip
def test_a_broken_container_recipe_is_found(change):
    recipe = (DEPLOY / "Containerfile").read_text()
    assert change[0] in recipe
    assert hadolint(recipe.replace(*change)).returncode != 0


def kubernetes(text, folder):
    """Whether the checker finds each object sound, and what it says. One whose kind it does not know it lets pass."""
    file = folder / "objects.yaml"
    file.write_text(text)
    done = subprocess.run([BIN / "kubernetes-validate", "--strict", "-k", "1.30", file], capture_output=True, text=True)
    said = done.stdout + done.stderr
    return done.returncode == 0 and said.count(" passed ") == text.count("\napiVersion: "), said


def test_the_kubernetes_objects_are_well_formed(tmp_path):
    is_sound, said = kubernetes((DEPLOY / "daemonset.yaml").read_text(), tmp_path)
    assert is_sound, said


@pytest.mark.parametrize("change", [
    ("updateStrategy:", "updateStratgy:"),
    ("kind: DaemonSet", "kind: DemonSet"),
    ("port: 6082", "port: [6082]"),
    ("privileged: true", "privileged: often"),
    ("      containers:", "      container:"),
])  # fmt: skip
def test_broken_kubernetes_objects_are_found(change, tmp_path):
    text = (DEPLOY / "daemonset.yaml").read_text()
    assert change[0] in text
    is_sound, said = kubernetes(text.replace(*change), tmp_path)
    assert not is_sound, said


def test_the_documents_in_the_kubernetes_example_are_sound(tmp_path):
    import json

    import yaml
    from host import PROGRAMS

    (data,) = [one["data"] for one in yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text()) if one["kind"] == "ConfigMap"]
    objects = tmp_path / "objects.json"
    objects.write_text(data["objects.json"])
    assert json.loads(data["objects.json"])["version"] == 1
    node = tmp_path / "node.toml"
    node.write_text(data["node.toml"].replace("/etc/flowgate/objects.json", str(objects)) + "\n[monitor]\nenabled = false\n")
    state = f'state_directory = "{tmp_path}/state"\n'
    node.write_text(state + node.read_text())
    assert "is sound: 3 ports, 1 endpoints, 1 workers, 1 load balancers" in run(PROGRAMS / "flowgated", "--config", node, "--check").stdout
