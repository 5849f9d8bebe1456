"""The life of the package on one host, in the order of the file: installed, started, configured, reloaded, upgraded under
traffic, killed under traffic, stuck, removed, installed over what was left, purged.
"""

import json
import re
import time

import pytest
from conftest import NEW, OLD, OTHER_VERSION, VERSION
from host import APPLIANCE, GATEWAY, PROGRAMS, Traffic, wait_for

CONNECTIONS = 8

NODE = f"""
objects = "/etc/flowgate/objects.json"

[log]
level = "info"

[workers]
cores = [0]
control_cores = [0, 1]
flows = 16384
idle = "sleep"

[eal]
hugepages = "never"

[[ports]]
name = "left"
device = "net_af_packet0,iface=left,framecnt=4096,blocksz=65536,framesz=2048"

[[ports]]
name = "right"
device = "net_af_packet1,iface=right,framecnt=4096,blocksz=65536,framesz=2048"

[[ports]]
name = "under"
device = "net_af_packet2,iface=under,framecnt=4096,blocksz=65536,framesz=2048"
mtu = 1600

[underlay]
port = "under"
address = "{GATEWAY}/24"

[[endpoints]]
name = "office"
id = "0x1122334455667788"
kind = "wire"
ports = ["left", "right"]
load_balancer = "inspection"
"""

OBJECTS = {
    "version": 1,
    "load_balancers": [{"name": "inspection", "listener": {"target_group": "firewalls"}}],
    "target_groups": [{
        "name": "firewalls",
        "health_check": {"protocol": "HTTP", "healthy_threshold": 2, "unhealthy_threshold": 2},
        "attributes": {"flowgate.health_check.interval_ms": 200, "flowgate.health_check.timeout_ms": 200},
        "targets": [{"address": APPLIANCE}],
    }],
}  # fmt: skip


def install(host, package, *options):
    """Installs a package, as somebody does who is not there to be asked."""
    done = host.run("dpkg", *options, "--install", f"/packages/{package.name}", stdin=-3)
    return done.stdout + done.stderr


def put(host, place, text):
    """Writes a file of the host's."""
    (host.tree.path / place).write_text(text)


def forwards(host):
    """Waits until the service forwards to a healthy target."""
    wait_for("the service", lambda: host.service("ActiveState") == "active")
    wait_for("a healthy target", lambda: host.healthy() == 1)


def test_installed_into_a_clean_tree_it_runs_and_touches_nothing(host, packages):
    links = host.run("cat", "/proc/net/dev").stdout.count("\n")
    said = install(host, packages.old)
    assert "the service runs and touches no port; 'flowgate' says what to do next" in said, said
    assert host.service("ActiveState") == "active"
    assert host.service("UnitFileState") == "enabled"
    assert host.service("StatusText") == "Idle: the configuration has no ports, and nothing is forwarded"
    flowgate = host.run("flowgate").stdout
    assert "What to do next:\n  1. Give /etc/flowgate/node.toml" in flowgate, flowgate
    assert host.run("cat", "/proc/net/dev").stdout.count("\n") == links
    assert host.run("stat", "--format=%U:%G %a", "/etc/flowgate/node.toml").stdout.strip() == "root:flowgate 640"
    assert host.run("getent", "passwd", "flowgate").stdout.strip().endswith(":/nonexistent:/usr/sbin/nologin")
    host.run("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/flowgate.service")


def test_started_twice_the_second_is_told_and_the_first_goes_on(host):
    daemon = host.daemon()
    host.run("systemctl", "start", "flowgate")
    assert host.daemon() == daemon
    by_hand = host.run("flowgated", "--config", "/etc/flowgate/node.toml", "--log-level", "error", check=False)
    assert by_hand.returncode == 1 and len(by_hand.stderr.splitlines()) == 1, by_hand.stderr
    assert "another" in by_hand.stderr, by_hand.stderr
    assert host.daemon() == daemon and host.overview()


def test_the_doctor_looks_at_the_host_and_names_the_packages_own_setup(host):
    said = host.run("flowgate", "doctor", check=False)
    assert said.returncode in (0, 7, 8) and "hugepages" in said.stdout.lower(), said
    setup = host.run("/usr/share/flowgate/scripts/setup", "--help", check=False)
    assert "--hugepages" in setup.stdout + setup.stderr, setup


def test_the_examples_are_sound(host):
    for node in ("/usr/share/doc/flowgate/examples/node.toml",):
        assert "is sound" in host.run("flowgated", "--config", node, "--check").stdout


def test_configured_and_restarted_it_passes_traffic(host):
    put(host, "etc/flowgate/node.toml", NODE)
    put(host, "etc/flowgate/objects.json", json.dumps(OBJECTS))
    host.run("flowgated", "--config", "/etc/flowgate/node.toml", "--check")
    # Returns when the service says that it is ready: when it forwards.
    host.run("systemctl", "restart", "flowgate")
    assert host.service("ActiveState") == "active"
    assert host.overview()["Workers"][0]["Generation"] == host.overview()["Node"]["Generation"]
    forwards(host)
    traffic = Traffic(host, CONNECTIONS)
    wait_for("flows", lambda: host.overview()["Totals"]["Flows"] >= CONNECTIONS)
    wait_for("the status to tell them", lambda: re.match(r"Forwards: 1 of 1 target healthy; 1 worker, 3 ports, \d", host.service("StatusText")))
    came = traffic.end()
    assert len(came) == CONNECTIONS and all(one["asked"] and not one["error"] for one in came), came


def test_once_started_it_is_its_own_user_with_one_capability_and_what_it_keeps_is_that_users(host):
    user, group = (host.run("id", flag, "flowgate").stdout.strip() for flag in ("--user", "--group"))
    threads = host.run("sh", "-c", f"cat /proc/{host.daemon()}/task/*/status").stdout.split("Name:")[1:]
    assert {"worker-0", "eal-intr-thread", "log"} <= {thread.split()[0] for thread in threads}, threads
    for thread in threads:
        said = dict(line.split(":\t", 1) for line in thread.splitlines()[1:])
        kept = "0000000000001000" if thread.split()[0] == "flowgated" else "0000000000000000"
        assert said["Uid"].split() == [user] * 4 and said["Gid"].split() == [group] * 4, thread
        assert (said["CapPrm"], said["CapEff"], said["NoNewPrivs"], said["Seccomp"]) == (kept, kept, "1", "2"), thread
        assert int(said["CapBnd"], 16) == 0, thread
    for place, mode in (
        ("/var/lib/flowgate", "750"), ("/var/lib/flowgate/objects.json", "640"), ("/var/lib/flowgate/hash-seed", "600"),
        ("/run/flowgate/flowgated.sock", "660"), ("/dev/shm/flowgate.var-lib-flowgate", "700"), ("/dev/shm/flowgate.var-lib-flowgate/worker-0", "600"),
    ):  # fmt: skip
        assert host.run("stat", "--format=%U:%G %a", place).stdout.strip() == f"flowgate:flowgate {mode}", place


def test_reloaded_it_takes_the_log_level_and_names_what_waits(host):
    daemon = host.daemon()
    put(host, "etc/flowgate/node.toml", NODE.replace('level = "info"', 'level = "debug"').replace("flows = 16384", "flows = 32768"))
    host.run("systemctl", "reload", "flowgate")
    wait_for("the outcome", lambda: host.service("StatusText").endswith("; workers.flows wait for a restart"))
    put(host, "etc/flowgate/node.toml", "workers = 7\n" + NODE)
    host.run("systemctl", "reload", "flowgate")
    wait_for("the refusal", lambda: "; the configuration is not taken: " in host.service("StatusText"))
    put(host, "etc/flowgate/node.toml", NODE)
    host.run("systemctl", "reload", "flowgate")
    wait_for("the outcome", lambda: host.service("StatusText").endswith("; the configuration was read anew"))
    assert host.daemon() == daemon and host.service("ActiveState") == "active"


def test_upgraded_under_traffic_no_connection_notices(host, packages):
    daemon = host.daemon()
    traffic = Traffic(host, CONNECTIONS)
    said = install(host, packages.new, "--force-confdef")
    assert "the daemon that runs goes on with the build of before" in said, said
    assert host.run("dpkg-query", "--show", "--showformat=${Version}", "flowgate").stdout == NEW != OLD
    assert host.daemon() == daemon, "an upgrade never restarts the data path by itself"
    assert host.run("flowgated", "--version").stdout == f"flowgated {OTHER_VERSION}\n"
    flowgate = host.run("flowgate").stdout
    assert flowgate.startswith(f"flowgated {VERSION}, up ") and "Another build is installed. This one goes on until `systemctl restart flowgate`." in flowgate
    assert (host.tree.path / "etc/flowgate/node.toml").read_text() == NODE, "an operator's configuration stays"
    traffic.goes_on()
    came = traffic.end()
    assert len(came) == CONNECTIONS and not any(one["error"] for one in came), came
    print("the longest that an answer took:", max(one["longest_ms"] for one in came), "ms")


def test_an_upgrade_whose_build_refuses_the_configuration_says_so_and_the_daemon_goes_on(host, packages):
    daemon = host.daemon()
    put(host, "etc/flowgate/node.toml", NODE + "\n[of_another_time]\n")
    said = install(host, packages.new, "--force-confdef")
    assert "this build does not take the configuration, mend it before the service is restarted: " in said, said
    assert "of_another_time" in said, said
    put(host, "etc/flowgate/node.toml", NODE)
    assert host.daemon() == daemon and host.overview()


def has_lost_nothing(host, traffic):
    """That every connection goes on after another daemon has taken the flow tables over, and by that alone."""
    tables = host.flow_tables()
    assert tables["Outcome"] == "taken_over" and tables["Flows"] >= CONNECTIONS, tables
    assert tables["AdoptSeconds"] == 0, "nobody is let in unseen"
    traffic.goes_on()
    came = traffic.end()
    assert len(came) == CONNECTIONS and not any(one["error"] for one in came), (came, tables)
    gap, longest = tables["GapMilliseconds"], max(one["longest_ms"] for one in came)
    print(f"nothing was forwarded for {gap} ms; the longest that an answer took: {longest} ms")


def test_restarted_the_new_build_takes_over_with_every_connection(host):
    daemon = host.daemon()
    traffic = Traffic(host, CONNECTIONS)
    host.run("systemctl", "restart", "flowgate")
    forwards(host)
    assert host.daemon() != daemon
    has_lost_nothing(host, traffic)
    flowgate = host.run("flowgate").stdout
    assert flowgate.startswith(f"flowgated {OTHER_VERSION}, up ") and "Another build" not in flowgate, flowgate
    came = Traffic(host, CONNECTIONS).end()
    assert not any(one["error"] for one in came), came


def test_killed_under_traffic_it_is_back_at_once_with_every_connection(host):
    daemon, restarts = host.daemon(), int(host.service("NRestarts"))
    traffic = Traffic(host, CONNECTIONS)
    host.run("systemctl", "kill", "--signal=KILL", "flowgate")
    wait_for("the next daemon", lambda: host.daemon() not in (0, daemon))
    forwards(host)
    assert int(host.service("NRestarts")) == restarts + 1
    has_lost_nothing(host, traffic)
    came = Traffic(host, CONNECTIONS).end()
    assert not any(one["error"] for one in came), came


def test_upgraded_to_a_build_whose_flow_tables_are_others_it_adopts_every_connection(host):
    # F-8. As such a build would find the tables of the one before.
    drop_in = host.tree.path / "etc/systemd/system/flowgate.service.d"
    drop_in.mkdir()
    (drop_in / "layout.conf").write_text("[Service]\nEnvironment=FLOWGATE_DEBUG_LAYOUT=99\n")
    host.run("systemctl", "daemon-reload")
    daemon = host.daemon()
    traffic = Traffic(host, CONNECTIONS)
    host.run("systemctl", "restart", "flowgate")
    forwards(host)
    assert host.daemon() != daemon
    tables = host.flow_tables()
    assert tables["Outcome"] == "lost" and "and this version's is 99" in tables["Message"], tables
    assert tables["AdoptSeconds"] > 0, tables
    assert tables["Message"] in host.run("journalctl", "--no-pager", "--unit=flowgate").stdout
    wait_for("the connections to be flows again", lambda: host.overview()["Totals"]["Flows"] >= CONNECTIONS)
    traffic.goes_on()
    came = traffic.end()
    assert len(came) == CONNECTIONS and not any(one["error"] for one in came), (came, tables)
    (drop_in / "layout.conf").unlink()
    drop_in.rmdir()
    host.run("systemctl", "daemon-reload")


def test_a_daemon_that_is_stuck_is_ended_by_the_watchdog_and_started_anew(host):
    # As an operator changes a unit; and shorter, as a test has less time.
    drop_in = host.tree.path / "etc/systemd/system/flowgate.service.d"
    drop_in.mkdir()
    (drop_in / "watchdog.conf").write_text("[Service]\nWatchdogSec=3\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "flowgate")
    forwards(host)
    daemon = host.daemon()
    time.sleep(4)
    assert host.daemon() == daemon, "it is fed"
    host.run("systemctl", "kill", "--signal=STOP", "flowgate")
    wait_for("the watchdog", lambda: host.daemon() not in (0, daemon))
    forwards(host)
    assert host.flow_tables()["Outcome"] == "taken_over", host.flow_tables()
    assert "Watchdog timeout" in host.run("journalctl", "--no-pager", "--unit=flowgate").stdout
    (drop_in / "watchdog.conf").unlink()
    drop_in.rmdir()


def test_removed_it_is_gone_and_what_an_operator_made_stays(host):
    notes = host.tree.path / "var/lib/flowgate-setup"
    notes.mkdir()
    (notes / "journal").write_text("value /proc/sys/vm/nr_hugepages 0 512\n")
    said = host.run("dpkg", "--remove", "flowgate", stdin=-3)
    assert "what setup changed on this host stays" in said.stderr, said
    (notes / "journal").unlink()
    notes.rmdir()
    assert not host.daemon(), "the daemon has ended"
    assert not (host.tree.path / "usr/sbin/flowgated").exists()
    assert (host.tree.path / "etc/flowgate/node.toml").read_text() == NODE
    assert list((host.tree.path / "var/lib/flowgate").iterdir())
    host.run("systemctl", "reset-failed")


def test_installed_over_an_old_configuration_it_keeps_it_and_waits(host, packages):
    said = install(host, packages.new, "--force-confdef")
    assert "the service does not run; 'systemctl start flowgate' starts it" in said, said
    assert (host.tree.path / "etc/flowgate/node.toml").read_text() == NODE
    assert host.service("ActiveState") == "inactive", "what has ports is started by whoever put it there"
    host.run("systemctl", "start", "flowgate")
    forwards(host)
    host.run("dpkg", "--purge", "flowgate", stdin=-3)


def test_installed_over_a_configuration_made_by_hand_it_keeps_it_and_waits(host, packages):
    folder = host.tree.path / "etc/flowgate"
    folder.mkdir(exist_ok=True)
    put(host, "etc/flowgate/node.toml", NODE)
    said = install(host, packages.new, "--force-confdef")
    assert "/etc/flowgate/node.toml was there before this package: the service is not started" in said, said
    assert (folder / "node.toml").read_text() == NODE
    assert host.service("ActiveState") == "inactive"


def test_purged_it_leaves_no_trace(host):
    host.run("dpkg", "--purge", "flowgate", stdin=-3)
    # The operator's own file in its folder is the operator's.
    (host.tree.path / "etc/flowgate/objects.json").unlink()
    (host.tree.path / "etc/flowgate").rmdir()
    before, after = host.tree.clean, host.tree.snapshot()
    changed = {place: (before.get(place), after.get(place)) for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
    assert not changed, changed
    assert not host.tree.dpkg_knows()
    for left in ("run/flowgate", "dev/shm"):
        found = host.run("sh", "-c", f"ls -A /{left} 2>/dev/null | grep -i flowgate", check=False)
        assert not found.stdout, f"/{left}: {found.stdout}"
    assert host.run("getent", "passwd", "flowgate", check=False).returncode == 2
    assert host.run("getent", "group", "flowgate", check=False).returncode == 2
