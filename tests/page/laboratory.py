"""A gateway under load: the demo's laboratory (`scripts/lab`), with clients that talk all the time. The calling thread
moves into the gateway's network namespace, so that its browser finds the page on loopback.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from browser import until

REPOSITORY = pathlib.Path(__file__).parent.parent.parent
SCRIPTS = REPOSITORY / "scripts/lab"
PROGRAMS = pathlib.Path(os.environ.get("FLOWGATE_PROGRAMS", REPOSITORY / "target/debug"))
MACHINES = ("client", "server", "gateway", "underlay", "a1", "a2")
APPLIANCES = ("198.51.100.11", "198.51.100.12")
URL = "http://127.0.0.1:6082/"
CLONE_NEWNET = 0x4000_0000


def enter(namespace):
    """Moves this thread, and what it starts from now on, into a network namespace."""
    with open(namespace) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


class Laboratory:
    def __init__(self, clients=12):
        self.name = f"fgp-{os.getpid()}"
        self.folder = tempfile.mkdtemp(prefix="flowgate-page-lab-")
        self.socket = f"{self.folder}/flowgated.sock"
        self.clients = clients
        self.running = []
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        script = f"set -eu; lab={self.name}; folder={self.folder}; source {SCRIPTS}/build-lab.sh; build_lab; write_configuration never"
        subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
        self.reflectors = [self.start(f"a{n + 1}", PROGRAMS / "flowgate-reflector") for n in range(2)]
        self.start("server", sys.executable, "-u", SCRIPTS / "server.py", "192.0.2.20", "7000")
        self.start("gateway", PROGRAMS / "flowgated", "--config", f"{self.folder}/node.toml")
        until("the daemon", lambda: os.path.exists(self.socket), 30)
        self.flowgate("set", "firewalls", "send_tcp_reset.on_unhealthy.enabled=true", "flowgate.reset.both_ends=true", "--yes")
        until("healthy appliances", lambda: self.states() == ["healthy", "healthy"], 20)
        for _ in range(self.clients):
            self.start("client", sys.executable, "-u", SCRIPTS / "client.py", "192.0.2.20", "7000")
        until("flows through both", lambda: all(one["Flows"] >= 2 for one in self.targets()), 20)
        enter(f"/run/netns/{self.name}-gateway")

    def start(self, machine, *command):
        log = open(f"{self.folder}/{machine}-{len(self.running)}.log", "w")
        command = ["ip", "netns", "exec", f"{self.name}-{machine}", *map(str, command)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self.running.append(process)
        return process

    def kill_appliance(self, number):
        """As a crash would. Gives the time."""
        self.reflectors[number].send_signal(signal.SIGKILL)
        return time.time()

    def revive_appliance(self, number):
        self.reflectors[number].wait(5)
        self.reflectors[number] = self.start(f"a{number + 1}", PROGRAMS / "flowgate-reflector")

    def flowgate(self, *words):
        command = [PROGRAMS / "flowgate", "--socket", self.socket, "--output", "json", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def overview(self):
        return self.flowgate("rpc", "get-overview")

    def targets(self):
        return self.overview()["TargetGroups"][0]["Targets"]

    def states(self):
        return [target["State"] for target in self.targets()]

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
        for process in reversed(self.running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        ctypes.CDLL(None).setns(self.home, CLONE_NEWNET)
        os.close(self.home)
        for machine in MACHINES:
            subprocess.run(["ip", "netns", "del", f"{self.name}-{machine}"], capture_output=True)
        subprocess.run(["rm", "-rf", self.folder], check=False)
