"""A daemon of its own for a test module: `flowgated` on three veth ports in this network namespace.

`scripts/test clients` runs these tests in a namespace of their own, so that nothing here is seen elsewhere.
Appliances are TCP listeners on addresses of the namespace: what is tested is the control side, and its
health checks are real; no packet of a client crosses the gateway.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 30
APPLIANCES = ["192.0.2.11", "192.0.2.12", "192.0.2.13"]
CHECK_PORT = 8080

NODE = """
zone = "a"

state_directory = "{folder}/state"

[socket]
path = "{folder}/flowgated.sock"

[workers]
cores = [1]
control_cores = [0, 1]
flows = 4096
idle = "sleep"

[tables]
keep = false

# The test's folders are for nobody else to look into.
[privileges]
user = "root"

[eal]
hugepages = "never"
file_prefix = "{prefix}"

[subnets]
subnet-a = "a"
subnet-b = "b"

[[ports]]
name = "left"
device = "net_af_packet0,iface=left"

[[ports]]
name = "right"
device = "net_af_packet1,iface=right"

[[ports]]
name = "under"
device = "net_af_packet2,iface=under"

[underlay]
port = "under"
address = "192.0.2.1/24"

[[endpoints]]
name = "office"
id = "0xa1"
kind = "wire"
ports = ["left", "right"]
load_balancer = "gw"

[elbv2]
address = "127.0.0.1:6080"
{elbv2}
"""


def run(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


def wait_for(what, condition, patience=PATIENCE):
    """Waits until `condition` gives something, and gives that."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"waited {patience} s for {what}"
        time.sleep(0.02)


class Appliance:
    """Takes TCP connections at an address until it is told to die."""

    def __init__(self, address):
        self.address = address
        self.listener = None
        self.live()

    def live(self):
        self.listener = socket.create_server((self.address, CHECK_PORT))
        self.listener.settimeout(0.1)
        self.server = threading.Thread(target=self._serve, args=(self.listener,), daemon=True)
        self.server.start()

    def die(self):
        """The port is free afterwards: whoever still waits at a socket that is closed keeps it open."""
        self.listener.close()
        self.server.join()

    @staticmethod
    def _serve(listener):
        while True:
            try:
                listener.accept()[0].close()
            except TimeoutError:
                continue
            except OSError:
                return


class Gateway:
    """The daemon, its appliances, and the three ways in."""

    endpoint = "http://127.0.0.1:6080"

    def __init__(self, folder, elbv2=""):
        """`elbv2`: more lines of the configuration's section of that name."""
        self.elbv2 = elbv2
        self.folder = pathlib.Path(folder)
        self.socket = self.folder / "flowgated.sock"
        self.programs = pathlib.Path(os.environ["FLOWGATE_PROGRAMS"])
        self.appliances = []
        self.process = None

    def start(self):
        prefix = f"clients-{os.getpid()}-{self.folder.name}"
        node = NODE.format(folder=self.folder, prefix=prefix, elbv2=self.elbv2)
        (self.folder / "node.toml").write_text(node)
        self.appliances = [Appliance(address) for address in APPLIANCES]
        log = (self.folder / "flowgated.log").open("w")
        command = [self.programs / "flowgated", "--config", self.folder / "node.toml"]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for("flowgated to serve AWS's API", self._serves)

    def _serves(self):
        code = self.process.poll()
        assert code is None, f"flowgated ended with {code}: {self.log()}"
        try:
            socket.create_connection(("127.0.0.1", 6080), 1).close()
            with socket.socket(socket.AF_UNIX) as stream:
                stream.connect(str(self.socket))
            return True
        except OSError:
            return False

    def log(self):
        return (self.folder / "flowgated.log").read_text()[-4000:]

    def stop(self):
        for appliance in self.appliances:
            appliance.die()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)

    # The socket, spoken by hand: one connection a request.
    def rpc(self, method, **params):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE)
            stream.connect(str(self.socket))
            lines = stream.makefile("rw")
            assert json.loads(lines.readline())["method"] == "hello"
            lines.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
            lines.flush()
            answer = json.loads(lines.readline())
        if "error" in answer:
            raise Refused(answer["error"]["data"]["kind"], answer["error"]["message"])
        return answer["result"]

    # The command line, as it ended.
    def outcome(self, *words):
        command = [self.programs / "flowgate", "--socket", self.socket, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 2)

    # The command line: its result as JSON.
    def flowgate(self, *words):
        done = self.outcome("--output", "json", *words)
        if done.returncode != 0:
            raise Refused(done.returncode, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None


class Refused(Exception):
    """A request was refused: its kind (of the command line its exit code) and its sentence."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message
