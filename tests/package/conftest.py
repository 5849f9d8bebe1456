"""The packages, of two builds, and a host to put them on; made once for all tests."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
import tomllib

import pytest
from host import PROGRAMS, REPOSITORY, Host, Tree, run

with open(REPOSITORY / "Cargo.toml", "rb") as file:
    VERSION = tomllib.load(file)["workspace"]["package"]["version"]
# As long: it takes the other's place.
OTHER_VERSION = VERSION[:-1] + ("8" if VERSION[-1] == "9" else "9")
OLD, NEW = f"{VERSION}~test1-1", f"{OTHER_VERSION}~test1-1"


@dataclasses.dataclass
class Packages:
    """The same package of two builds."""

    old: pathlib.Path
    new: pathlib.Path
    # Lintian at the old one: it takes its time, beside everything else.
    lintian: subprocess.Popen


@pytest.fixture(scope="session")
def folder():
    # In memory: ten thousand small files, for a minute.
    memory = pathlib.Path("/dev/shm")
    room = memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30
    with tempfile.TemporaryDirectory(prefix="flowgate-package-", dir=memory if room else None) as name:
        yield pathlib.Path(name)


@pytest.fixture(scope="session")
def making(folder):
    """A clean Debian, made while the package is built."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        yield beside.submit(Tree, folder)


def of_another_version(program, other):
    """The program as a build of another version would be, without the minutes that a compiler takes: all that differs is
    in its constants."""
    constants = other.with_suffix(".constants")
    run("objcopy", f"--dump-section=.rodata={constants}", program, other)
    bytes_ = constants.read_bytes()
    assert VERSION.encode() in bytes_, f"{program} does not know its version"
    constants.write_bytes(bytes_.replace(VERSION.encode(), OTHER_VERSION.encode()))
    run("objcopy", f"--update-section=.rodata={constants}", other)
    constants.unlink()


@pytest.fixture(scope="session")
def packages(folder, making):
    def build(version, programs):
        script = REPOSITORY / "scripts/package/build"
        said = run(script, "--fast", "--version", version, "--programs", programs, "--out", folder, cwd=REPOSITORY)
        return pathlib.Path(said.stdout.splitlines()[-1])

    old = build(OLD, PROGRAMS)
    # Another build: other programs, which know another version of themselves.
    other = folder / "other"
    other.mkdir()
    for name in ("flowgated", "flowgate", "flowgate-reflector"):
        of_another_version(PROGRAMS / name, other / name)
    new = build(NEW, other)
    shutil.rmtree(other)
    judge = subprocess.Popen(["lintian", "--no-cfg", "--fail-on=error,warning", old], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)  # fmt: skip
    yield Packages(old, new, judge)
    judge.kill()
    judge.wait()


@pytest.fixture(scope="session")
def host(making, packages):
    tree = making.result()
    (tree.path / "packages").mkdir()
    for package in (packages.old, packages.new):
        shutil.copy(package, tree.path / "packages")
    host = Host(tree, f"fgp{os.getpid()}")
    # After the boot, which leaves some things of its own.
    tree.clean = tree.snapshot()
    reflector = host.start("appliance", PROGRAMS / "flowgate-reflector")
    try:
        yield host
    finally:
        reflector.terminate()
        reflector.communicate()
        host.end()


def pytest_runtest_makereport(item, call):
    """What the service has said, if a test on the host fails."""
    host = item.funcargs.get("host") if hasattr(item, "funcargs") else None
    if host and call.when == "call" and call.excinfo:
        try:
            item.add_report_section("call", "journal", host.run("journalctl", "--no-pager", "-n", "60", check=False, timeout=20).stdout)
        except (OSError, subprocess.SubprocessError) as error:
            item.add_report_section("call", "journal", str(error))
