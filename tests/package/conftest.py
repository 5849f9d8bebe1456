"""The packages, of two builds, and a host to put them on; made once for all tests."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from host import PROGRAMS, REPOSITORY, Host, Tree, run

OLD, NEW = "0.1.0~test1-1", "0.1.0~test2-1"


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


@pytest.fixture(scope="session")
def packages(folder, making):
    def build(version, programs):
        script = REPOSITORY / "scripts/package/build"
        said = run(script, "--fast", "--version", version, "--programs", programs, "--out", folder, cwd=REPOSITORY)
        return pathlib.Path(said.stdout.splitlines()[-1])

    old = build(OLD, PROGRAMS)
    # Another build: no byte of what it does is other, and the programs are other files, which is what an upgrade is about.
    other = folder / "other"
    other.mkdir()
    mark = folder / "mark"
    mark.write_text(NEW)
    for name in ("flowgated", "flowgate", "flowgate-reflector"):
        run("objcopy", f"--add-section=.flowgate.build={mark}", PROGRAMS / name, other / name)
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
