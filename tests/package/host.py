"""A Debian of its own, booted: systemd as process 1 in namespaces, and around it a client, a server and an appliance.

    client eth0 -- left [the Debian: gateway] right -- eth0 server
                          under -- eth0 appliance (flowgate-reflector)
"""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import stat
import subprocess
import time
import tomllib

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parent.parent
PATIENCE = 60
PROGRAMS = pathlib.Path(os.environ.get("FLOWGATE_PROGRAMS", REPOSITORY / "target/debug"))

CLIENT, SERVER, GATEWAY, APPLIANCE = "192.0.2.10", "192.0.2.20", "198.51.100.1", "198.51.100.11"

# What systemd need not do in a tree that is not a machine.
MASKED = [
    "getty@.service",
    "console-getty.service",
    "systemd-sysctl.service",
    "systemd-modules-load.service",
    "systemd-remount-fs.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-logind.service",
    "kmod-static-nodes.service",
    "e2scrub_reap.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
]


def run(*words, check=True, **more):
    """Runs a command and returns what it was and said."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_for(what, is_so, patience=PATIENCE):
    """Waits until something is so, and returns it."""
    until = time.monotonic() + patience
    while not (found := is_so()):
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.05)
    return found


def packages_needed():
    """What our package depends on by our word; what it depends on by the linker's these depend on."""
    with open(REPOSITORY / "Cargo.toml", "rb") as file:
        depends = tomllib.load(file)["package"]["metadata"]["deb"]["depends"]
    return [name for name in map(str.strip, depends.split(",")) if name != "$auto"]


class Tree:
    """A clean Debian 12 with what the package depends on, as the machine's own sources have it."""

    def __init__(self, folder):
        self.path = folder / "tree"
        packages = ["systemd-sysv", *packages_needed()]
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}",
            "--dpkgopt=force-unsafe-io", "bookworm", self.path, *self.sources())  # fmt: skip
        units = self.path / "etc/systemd/system"
        for unit in MASKED:
            with contextlib.suppress(FileExistsError):
                (units / unit).symlink_to("/dev/null")

    @staticmethod
    def sources():
        """The machine's own sources of Debian, as they are configured here."""
        form = "$(CREATED_BY) $(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)"

        def known():
            lines = run("apt-get", "indextargets", "--format", form).stdout.splitlines()
            return sorted({line.split(" ", 2)[2] for line in lines if line.startswith("Packages Debian ")})

        if not known():
            # Whose a source is, is known by its lists.
            run("apt-get", "update")
        return known()

    def snapshot(self):
        """Every file that a package could leave something in: its kind, mode, owner and content."""
        # What other programs keep for themselves: dpkg's and apt's own books (looked at elsewhere), copies that the tools
        # for users make of the files that they change, logs, and what a boot leaves.
        besides = ("dev", "proc", "sys", "run", "tmp", "packages", "var/log", "var/cache", "var/lib/apt", "var/lib/dpkg",
                   "var/lib/systemd/random-seed", "var/lib/systemd/catalog", "var/lib/systemd/timers", "var/tmp",
                   "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/.pwd.lock", "root", "etc/resolv.conf")  # fmt: skip
        found = {}
        for folder, folders, files in os.walk(self.path):
            for name in [*folders, *files]:
                path = pathlib.Path(folder, name)
                place = str(path.relative_to(self.path))
                if place in besides:
                    if name in folders:
                        folders.remove(name)
                    continue
                seen = path.lstat()
                content = None
                if stat.S_ISLNK(seen.st_mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(seen.st_mode):
                    content = hashlib.sha256(path.read_bytes()).hexdigest()
                found[place] = (stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid, content)
        return found

    def dpkg_knows(self):
        """Whether dpkg's books have anything of Flowgate."""
        status = (self.path / "var/lib/dpkg/status").read_text()
        info = [path.name for path in (self.path / "var/lib/dpkg/info").iterdir() if path.name.startswith("flowgate")]
        return "Package: flowgate\n" in status or info


class Host:
    """The tree, booted."""

    def __init__(self, tree, name):
        self.tree, self.name, self.others = tree, name, []
        log = open(tree.path.parent / "boot.log", "wb")
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net", "--cgroup",
             HERE / "boot.sh", tree.path], stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        try:
            self.pid = wait_for("the child of unshare", self.child)
            wait_for("systemd", lambda: self.state() in ("running", "degraded"))
            self.links()
        except BaseException:
            self.end()
            raise

    def child(self):
        """The process 1, as this machine numbers it."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert self.process.poll() is None, (self.tree.path.parent / "boot.log").read_text()
        return int(children[0]) if children else None

    def state(self):
        """How systemd stands."""
        return self.run("systemctl", "is-system-running", check=False).stdout.strip()

    def enter(self, *words):
        """The command line that runs a command on the host."""
        environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"]
        return ["nsenter", "-t", self.pid, "-m", "-p", "-n", "-i", "-u", "-C", "-r", "-w", *environment, *words]

    def run(self, *words, **more):
        """Runs a command on the host."""
        return run(*self.enter(*words), **more)

    def links(self):
        """The namespaces around, and the links to them."""
        end = {"client": "left", "server": "right", "appliance": "under"}
        macs = {"client": "02:00:00:00:01:01", "server": "02:00:00:00:02:01", "appliance": "02:00:00:00:04:01"}
        addresses = {"client": CLIENT, "server": SERVER, "appliance": APPLIANCE}
        for who, port in end.items():
            space = f"{self.name}-{who}"
            run("ip", "netns", "add", space)
            self.others.append(space)
            run("ip", "link", "add", "eth0", "netns", space, "address", macs[who], "mtu", 1600, "type", "veth",
                "peer", "name", port, "netns", self.pid, "mtu", 1600)  # fmt: skip
            # af_packet hands packets on as the sender's kernel left them: nothing may be left to hardware.
            run("ip", "netns", "exec", space, "ethtool", "-K", "eth0", "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
            run("nsenter", "-t", self.pid, "-n", "ethtool", "-K", port, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
            run("ip", "-n", space, "address", "add", f"{addresses[who]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", space, "link", "set", device, "up")
            run("nsenter", "-t", self.pid, "-n", "ip", "link", "set", port, "up")
        run("nsenter", "-t", self.pid, "-n", "ip", "address", "add", f"{GATEWAY}/24", "dev", "under")

    def start(self, who, *words):
        """Starts a program in the namespace of one of those around."""
        return subprocess.Popen(["ip", "netns", "exec", f"{self.name}-{who}", *map(str, words)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip

    def service(self, key):
        """A property of the unit."""
        return self.run("systemctl", "show", "flowgate", f"--property={key}", "--value").stdout.strip()

    def daemon(self):
        """The daemon's process, as the host numbers it; 0: none."""
        return int(self.service("MainPID"))

    def journal(self):
        """What the unit has logged."""
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit=flowgate", check=False).stdout

    def overview(self):
        """What the daemon says of the node; none if it does not answer."""
        said = self.run("flowgate", "rpc", "get-overview", "--json", check=False)
        return json.loads(said.stdout) if said.returncode == 0 else None

    def healthy(self):
        """How many targets are healthy."""
        groups = (self.overview() or {}).get("TargetGroups", [])
        return sum(target["State"] == "healthy" for group in groups for target in group["Targets"])

    def flow_tables(self):
        """What became of the flow tables of the daemon before."""
        said = self.run("flowgate", "rpc", "describe-workers", "--json", check=False)
        return json.loads(said.stdout).get("FlowTables") if said.returncode == 0 else None

    def end(self):
        """Takes everything away."""
        # With it goes its child, process 1 of the namespaces, and with that everything in them.
        self.process.kill()
        self.process.wait()
        for space in self.others:
            run("ip", "netns", "del", space, check=False)


class Traffic:
    """Connections from the client to the server."""

    def __init__(self, host, connections):
        self.server = host.start("server", "python3", HERE / "traffic.py", "serve", SERVER, 7)
        assert self.server.stdout.readline().strip() == "serves"
        self.client = host.start("client", "python3", HERE / "traffic.py", "ask", SERVER, 7, connections)
        connected = self.client.stdout.readline().strip()
        assert connected == "connected", connected + self.client.stdout.read()

    def answered(self):
        """How often each connection was answered so far."""
        self.client.send_signal(signal.SIGUSR1)
        return json.loads(self.client.stdout.readline())

    def goes_on(self):
        """Waits until each connection was answered ten times more. Those that were kept waiting try again ever more seldom."""
        before = self.answered()
        wait_for("every connection to go on", lambda: all(now >= was + 10 for now, was in zip(self.answered(), before, strict=True)))

    def end(self):
        """What came of each connection."""
        self.client.send_signal(signal.SIGTERM)
        said, _ = self.client.communicate(timeout=PATIENCE)
        self.server.kill()
        self.server.wait()
        return json.loads(said.splitlines()[-1])
