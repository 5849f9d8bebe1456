#!/usr/bin/env python3
"""The demo's two acts, in a laboratory that scripts/demo has built and started.

    show.py --lab PREFIX --folder FOLDER --flowgate PROGRAM --reflector COMMAND

Act one: an appliance dies with the reset off (a) and with it on (b). Act two: the same to a client that
sends nothing, whom no reset in answer to its packets can reach (c), when it speaks at last (d), and told
unasked (e). What happens is shown as it happens, with its time, from four sources that know nothing of each other: the client program, its
kernel (ss), the packets at its interface (tcpdump) and the gateway (flowgate subscribe). The table
at the end holds what was measured against what the settings promise. Exits 1 if a promise was not
kept.
"""

import argparse
import datetime
import json
import os
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

SERVER, PORT = "192.0.2.20", 7000
APPLIANCES = ["198.51.100.11", "198.51.100.12"]
BALANCER, GROUP = "inspection", "firewalls"
HANG_FOR = 5.0
# Before a command: ends it with this program, whatever ends this program.
TIED = ["setpriv", "--pdeathsig", "KILL", "--"]

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
PAINT = {"client": "36", "flowgated": "33", "kernel": "35", "demo": "1", "bad": "31;1", "good": "32;1"}


def paint(kind, text):
    return f"\033[{PAINT[kind]}m{text}\033[0m" if COLOUR and kind in PAINT else text


class Failed(Exception):
    """The demo cannot go on; says why."""


class Program:
    """A program whose lines of output come into a queue, each with the name of its source."""

    def __init__(self, source, command, lines):
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._read, args=(source, lines), daemon=True).start()

    def _read(self, source, lines):
        for line in self.process.stdout:
            lines.put((source, line.rstrip("\n")))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Act:
    """One act: its clock, its sources, and what was learned of them."""

    def __init__(self, show, title):
        self.show = show
        self.lines = queue.Queue()
        self.programs = []
        self.port = None  # the client's, of the connection that the act is about
        self.resets = []  # (sent to the client at, its last packet before that)
        self.server_resets = []  # (sent to the server at)
        self.last_sent = 0.0
        self.sent_since = []
        self.passed = []  # facts that nobody has waited for yet
        print()
        print(paint("demo", title))

    def __enter__(self):
        self.start = time.time()
        return self

    def __exit__(self, *_):
        for program in reversed(self.programs):
            program.stop()

    def say(self, at, who, text, kind=None):
        print(f"  {at - self.start:7.3f} s  {paint(who, f'{who:<9}')}  {paint(kind, text)}", flush=True)

    def run(self, source, command):
        program = Program(source, command, self.lines)
        self.programs.append(program)
        return program

    def watch(self):
        """Starts the sources that watch: the gateway's events and the client's packets."""
        self.run("event", [*TIED, self.show.flowgate, "--socket", self.show.socket, "subscribe", "--json"])
        for source, machine in [("packet", "client"), ("packet at the server", "server")]:
            self.run(source, self.show.inside(machine, "tcpdump", "-i", "eth0", "-n", "-l", "-tt", "--immediate-mode",
                                              f"tcp port {PORT}"))
        time.sleep(0.5)

    def until(self, within, wanted):
        """Takes what the sources say until `wanted(source, fact)` is true; its fact, or None. A fact counts
        too that came while another was waited for: the sources are not in step."""
        for place, (source, fact) in enumerate(self.passed):
            if wanted(source, fact):
                del self.passed[place]
                return fact
        end = time.time() + within
        while (left := end - time.time()) > 0:
            try:
                source, line = self.lines.get(timeout=left)
            except queue.Empty:
                return None
            fact = self.take(source, line)
            if fact is not None and wanted(source, fact):
                return fact
            if fact is not None:
                self.passed.append((source, fact))
        return None

    def must(self, within, what, wanted):
        fact = self.until(within, wanted)
        if fact is None:
            raise Failed(f"waited {within:g} s in vain for {what}")
        return fact

    def take(self, source, line):
        if source == "packet":
            return self.take_packet(line)
        if source == "packet at the server":
            return self.take_packet_at_server(line)
        try:
            fact = json.loads(line)
        except ValueError:
            return None
        if source == "event":
            return fact.get("params", fact)
        return fact

    def take_packet(self, line):
        match = re.match(r"(\d+\.\d+) IP (\S+)\.(\d+) > \S+\.(\d+): Flags \[(\S+)\]", line)
        # What is left of an earlier connection is not this act's.
        if match is None or self.port not in (int(match[3]), int(match[4])):
            return None
        at, source, flags = float(match[1]), match[2], match[5]
        if source != SERVER:
            self.last_sent = at
            self.sent_since.append(at)
        elif "R" in flags:
            self.resets.append((at, self.last_sent))
            return {"reset": at, "answers": self.last_sent}
        return None

    def take_packet_at_server(self, line):
        match = re.match(r"(\d+\.\d+) IP (\S+)\.(\d+) > \S+: Flags \[(\S+)\]", line)
        if match is None or self.port != int(match[3]) or match[2] == SERVER or "R" not in match[4]:
            return None
        self.server_resets.append(float(match[1]))
        return {"reset": float(match[1])}

    def connect_through_first(self, silent=False):
        """The client, connected through appliance 1: the hash decides, so it tries until it does."""
        for _ in range(32):
            client = self.run("client", self.show.client(silent))
            fact = self.must(5, "the client to connect", lambda s, f: s == "client" and f["what"] == "first answer")
            port = self.show.client_port()
            if self.show.target_of(port) == APPLIANCES[0]:
                self.port = port
                asks = "asks once, is answered, and listens" if silent else "asks every 20 ms, is answered"
                self.say(fact["at"], "client", f"connected from port {port}, {asks}")
                self.say(time.time(), "flowgated", f"its flow goes through appliance 1 ({APPLIANCES[0]})")
                return client
            client.stop()
            self.programs.remove(client)
            while not self.lines.empty():
                self.lines.get_nowait()
        raise Failed("32 connections, and the hash put none of them on appliance 1")


class Show:
    def __init__(self, arguments):
        self.lab = arguments.lab
        self.folder = arguments.folder
        self.flowgate = arguments.flowgate
        self.reflector = arguments.reflector
        self.socket = os.path.join(arguments.folder, "flowgated.sock")
        self.rows = []

    def inside(self, machine, *command):
        return [*TIED, "ip", "netns", "exec", f"{self.lab}-{machine}", *command]

    def client(self, silent=False):
        here = os.path.dirname(os.path.abspath(__file__))
        how = ["--silent"] if silent else []
        return self.inside("client", sys.executable, "-u", os.path.join(here, "client.py"), SERVER, str(PORT), *how)

    def let_server_speak(self):
        """Has the server say something on its connections. Returns the time."""
        with open(os.path.join(self.folder, "server.pid")) as pid:
            os.kill(int(pid.read()), signal.SIGUSR1)
        return time.time()

    def ask(self, *words):
        """The result of a verb of the command line."""
        command = [self.flowgate, "--socket", self.socket, *words, "--json"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command)} had no answer within 10 s") from None
        if answer.returncode != 0:
            raise Failed(f"{' '.join(command)} said: {answer.stderr.strip()}")
        return json.loads(answer.stdout)

    def sockets(self):
        """ss's words on the client's connection."""
        command = self.inside("client", "ss", "-Htin", "state", "established", f"dport = :{PORT}")
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout

    def client_port(self):
        match = re.search(r"192\.0\.2\.10:(\d+)", self.sockets())
        if match is None:
            raise Failed("the client's kernel shows no connection")
        return int(match[1])

    def target_of(self, port):
        flows = self.ask("describe-flows", "--port", str(port))["Flows"]
        return flows[0]["Target"] if flows else None

    def state_of(self, address):
        described = self.ask("describe-target-health", "--target-group", GROUP)["TargetHealthDescriptions"]
        return next((d["TargetHealth"]["State"] for d in described if d["Target"]["Id"] == address), None)

    def wait_healthy(self):
        end = time.time() + 10
        while any(self.state_of(address) != "healthy" for address in APPLIANCES):
            if time.time() > end:
                raise Failed("the appliances did not become healthy within 10 s")
            time.sleep(0.05)

    def kill_first_appliance(self):
        """SIGKILL, as a crash or the OOM killer would. Returns the time."""
        file = os.path.join(self.folder, "reflector-1.pid")
        with open(file) as pid:
            os.kill(int(pid.read()), signal.SIGKILL)
        os.remove(file)
        return time.time()

    def revive_first_appliance(self):
        with open(os.path.join(self.folder, "reflector-1.log"), "a") as log:
            # Not tied to this program: with --keep it stays.
            command = ["ip", "netns", "exec", f"{self.lab}-a1", *self.reflector.split()]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=log, start_new_session=True)
        with open(os.path.join(self.folder, "reflector-1.pid"), "w") as pid:
            pid.write(str(child.pid))

    def set_group(self, key, value):
        self.ask("modify-target-group-attributes", "--target-group", GROUP, "--attributes", f"Key={key},Value={value}")

    def set_unknown_flow(self, value):
        self.ask("modify-listener-attributes", "--listener", BALANCER, "--attributes",
                 f"Key=flowgate.tcp.unknown_flow,Value={value}")

    def settings(self):
        groups = self.ask("describe-target-groups")["TargetGroups"]
        group = next(g for g in groups if g["TargetGroupName"] == GROUP)
        return group["HealthCheckIntervalMs"] / 1000, group["UnhealthyThresholdCount"], group["DetectionTimeMs"] / 1000

    def row(self, what, promised, measured, kept):
        self.rows.append((what, promised, measured, kept))

    # The acts

    def detection(self, act, killed):
        """Shows when the gateway found the appliance dead; the time."""
        event = act.must(10, "the gateway to find appliance 1 unhealthy", lambda s, f: (
            s == "event" and f.get("Event") == "TargetHealthChanged"
            and f.get("Target") == APPLIANCES[0] and f.get("To") == "unhealthy"))
        at = event["At"]["UnixMs"] / 1000
        why = event.get("Description") or event.get("Reason", "")
        act.say(at, "flowgated", f"appliance 1 is unhealthy, {at - killed:.3f} s after its death")
        if why:
            for line in textwrap.wrap(f"({why})", 74):
                print(f"{'':24}{line}")
        return at

    def reset_off(self):
        with Act(self, "(a) send_tcp_reset.on_unhealthy.enabled = false, the default") as act:
            act.connect_through_first()
            act.watch()
            killed = self.kill_first_appliance()
            act.say(killed, "demo", "appliance 1 is killed (SIGKILL)", "bad")
            self.detection(act, killed)
            shown = 0
            broken = None
            retransmissions = 0
            while time.time() < killed + HANG_FOR and broken is None:
                broken = act.until(0.25, lambda s, f: s == "client" and f["what"] == "broken")
                match = re.search(r"retrans:\d+/(\d+)", self.sockets())
                retransmissions = int(match[1]) if match else retransmissions
                if retransmissions > shown:
                    shown = retransmissions
                    act.say(time.time(), "kernel", f"ss -ti: ESTAB, retrans {retransmissions}; the client hears nothing")
            if broken is None:
                act.say(time.time(), "demo", f"cut. For {HANG_FOR:.0f} s nobody has told the client anything; its kernel would")
                print(f"{'':24}go on for a quarter of an hour (net.ipv4.tcp_retries2)")
            hung = f"not in {HANG_FOR:.0f} s, {retransmissions} retransmissions" if broken is None else "told"
            self.row("(a) client told of the death", "never", hung, broken is None and retransmissions >= 3 and not act.resets)

    def reset_on(self):
        interval, threshold, promised = self.settings()
        with Act(self, "(b) send_tcp_reset.on_unhealthy.enabled = true, flowgate.tcp.unknown_flow = reset") as act:
            act.connect_through_first()
            act.watch()
            killed = self.kill_first_appliance()
            act.say(killed, "demo", "appliance 1 is killed (SIGKILL)", "bad")
            detected = self.detection(act, killed)
            broken = act.must(10, "the client to be told", lambda s, f: s == "client" and f["what"] == "broken")
            again = act.must(10, "the client's next connection", lambda s, f: s == "client" and f["what"] == "first answer")
            # What tcpdump saw may be behind what the client says.
            act.until(0.3, lambda s, f: False)
            if not act.resets:
                raise Failed("the client's connection broke, but tcpdump saw no reset")
            reset, packet = act.resets[0]
            between = [at for at in act.sent_since if detected + 0.005 < at < packet]
            act.say(packet, "kernel", "sends its next packet, a retransmission")
            act.say(reset, "flowgated", f"answers it with a reset, {(reset - packet) * 1000:.2f} ms later", "good")
            act.say(broken["at"], "client", f"{broken['error']}: {broken['text']}", "good")
            port = self.client_port()
            target = self.target_of(port)
            number = APPLIANCES.index(target) + 1 if target in APPLIANCES else "?"
            act.say(again["at"], "client", f"connected anew from port {port}, is answered", "good")
            act.say(time.time(), "flowgated", f"the new flow goes through appliance {number} ({target})")
            before = self.bytes_of(port)
            time.sleep(1)
            moved = self.bytes_of(port) - before
            act.say(time.time(), "client", f"{moved} bytes there and back again in the last second", "good")

            # A kill comes somewhere between two checks: the one after it is the first to fail.
            worst = promised + interval
            self.row("(b) death to detection", f"{promised:.1f} s, at most {worst:.1f} s",
                     f"{detected - killed:.3f} s", detected - killed <= worst)
            self.row("    detection to ECONNRESET", "at the client's next packet",
                     f"{broken['at'] - detected:.3f} s",
                     broken["error"] == "ECONNRESET" and not between)
            self.row("    that packet to its reset", "at once", f"{(reset - packet) * 1000:.2f} ms", reset - packet < 0.05)
            self.row("    reset to answers by appliance 2", "one connection set-up",
                     f"{(again['at'] - reset) * 1000:.1f} ms", target == APPLIANCES[1] and moved > 0)
            self.row("    death to answers, in all", "", f"{again['at'] - killed:.3f} s", True)
            # Whichever end spoke first was told first, and the flow was gone.
            self.report(min([reset, *act.server_resets]))

    def report(self, reset):
        """What the gateway itself has to tell of the failover, against the first reset of this connection that tcpdump
        saw. Connections of before may have been on the appliance too."""
        record = self.ask("report", "--last")["Failovers"][0]
        command = [self.flowgate, "--socket", self.socket, "report", "--last"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
        print()
        print(f"  {paint('demo', 'flowgate report --last')}")
        print()
        print(textwrap.indent(answer.stdout, "    "), end="")
        first, last = (record["Resets"][which]["At"]["UnixMs"] / 1000 for which in ["First", "Last"])
        self.row("    the report's resets", "when tcpdump saw one",
                 f"{(reset - first) * 1000:.1f} ms after the first, {(last - reset) * 1000:.1f} ms before the last",
                 record["Target"] == APPLIANCES[0] and first - 0.02 < reset < last + 0.02)

    def silent_client(self, act):
        """A client that listens, its appliance killed and found dead. The client's program and both times."""
        client = act.connect_through_first(silent=True)
        # Its kernel's last acknowledgement may be 40 ms behind.
        time.sleep(0.3)
        act.watch()
        killed = self.kill_first_appliance()
        act.say(killed, "demo", "appliance 1 is killed (SIGKILL); neither end has anything to say", "bad")
        return client, killed, self.detection(act, killed)

    def server_takes_the_reset(self, act):
        """The server speaks, and has the reset that its flow had to give."""
        spoke = self.let_server_speak()
        act.say(spoke, "demo", "the server says something")
        act.until(2, lambda s, f: s == "packet at the server" and "reset" in f)
        if not act.server_resets:
            raise Failed("the server spoke, and tcpdump saw no reset to it")
        act.say(act.server_resets[0], "flowgated", "answers it with a reset: the server is told")

    def client_speaks(self, act, client):
        client.process.send_signal(signal.SIGUSR1)
        return act.must(2, "the client to ask again", lambda s, f: s == "client" and f["what"] == "asks again")["at"]

    def silent_without(self):
        with Act(self, "(c) a client that only listens; send_tcp_reset.on_unhealthy.enabled = true and no more") as act:
            client, _, _ = self.silent_client(act)
            self.server_takes_the_reset(act)
            broken = act.until(2, lambda s, f: s == "client" and f["what"] == "broken")
            act.say(time.time(), "client", "has heard nothing, and has sent nothing that could be answered", "bad")
            spoke = self.client_speaks(act, client)
            act.say(spoke, "client", "asks at last")
            broken = broken or act.until(3, lambda s, f: s == "client" and f["what"] == "broken")
            told = broken is not None or act.resets
            if not told:
                act.say(time.time(), "demo", "cut. The one reset was the server's; the client's packets are of no flow: dropped")
            waited = time.time() - spoke
            self.row("(c) silent client told", "never", "told" if told else f"not in {waited + 2:.0f} s", not told)

    def silent_both_ends(self):
        with Act(self, "(d) the same with flowgate.reset.both_ends = true") as act:
            client, _, _ = self.silent_client(act)
            self.server_takes_the_reset(act)
            act.until(1, lambda s, f: False)
            early = len(act.resets)
            spoke = self.client_speaks(act, client)
            act.say(spoke, "client", "asks at last")
            broken = act.must(5, "the client to be told", lambda s, f: s == "client" and f["what"] == "broken")
            act.until(0.3, lambda s, f: False)
            if len(act.resets) != early + 1:
                raise Failed(f"the client's connection broke, but tcpdump saw {len(act.resets)} resets")
            reset, packet = act.resets[0]
            act.say(reset, "flowgated", f"answers it with a reset too, {(reset - packet) * 1000:.2f} ms later", "good")
            act.say(broken["at"], "client", f"{broken['error']}: {broken['text']}", "good")
            self.row("(d) its next packet to ECONNRESET", "at once", f"{(broken['at'] - packet) * 1000:.2f} ms",
                     early == 0 and broken["error"] == "ECONNRESET" and broken["at"] - packet < 0.05)

    def silent_proactive(self):
        with Act(self, "(e) the same with flowgate.reset.proactive = true, and nobody says anything") as act:
            _, killed, detected = self.silent_client(act)
            broken = act.must(5, "the client to be told", lambda s, f: s == "client" and f["what"] == "broken")
            again = act.must(10, "the client's next connection", lambda s, f: s == "client" and f["what"] == "first answer")
            act.until(0.3, lambda s, f: False)
            if not act.resets or not act.server_resets:
                raise Failed("the client's connection broke, but tcpdump did not see a reset at each end")
            (reset, _), at_server = act.resets[0], act.server_resets[0]
            sent = [at for at in act.sent_since if killed < at < reset]
            act.say(reset, "flowgated", "tells the client, unasked: a reset at its last acknowledgement", "good")
            act.say(at_server, "flowgated", "tells the server, unasked", "good")
            act.say(broken["at"], "client", f"{broken['error']}: {broken['text']}", "good")
            act.say(again["at"], "client", "connected anew, is answered", "good")
            self.row("(e) detection to ECONNRESET", "at once", f"{(broken['at'] - detected) * 1000:.1f} ms",
                     broken["error"] == "ECONNRESET" and broken["at"] - detected < 0.1)
            self.row("    detection to the server's reset", "at once", f"{(at_server - detected) * 1000:.1f} ms",
                     at_server - detected < 0.1)
            self.row("    sent by the client in between", "nothing", f"{len(sent)} packets", not sent)
            self.row("    death to answers, in all", "", f"{again['at'] - killed:.3f} s", True)

    def bytes_of(self, port):
        """Bytes that the client's kernel has received on this connection."""
        found = re.search(rf":{port}\s.*?bytes_received:(\d+)", self.sockets(), re.S)
        return int(found[1]) if found else 0

    def table(self):
        rows = [("", "promised", "measured", True), *self.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        print()
        for number, (what, promised, measured, kept) in enumerate(rows):
            verdict = "" if number == 0 else paint("good", "ok") if kept else paint("bad", "BROKEN")
            print(f"  {what:<{widths[0]}}  {promised:<{widths[1]}}  {measured:<{widths[2]}}  {verdict}".rstrip())
            if number == 0:
                print("  " + "-" * (sum(widths) + 7))
        print()
        return all(kept for *_, kept in self.rows)

    def run(self):
        interval, threshold, _ = self.settings()
        print(f"  health checks every {interval * 1000:.0f} ms, {threshold} failures in a row make a target unhealthy")
        self.wait_healthy()
        self.reset_off()
        self.revive_first_appliance()
        self.set_group("send_tcp_reset.on_unhealthy.enabled", "true")
        # One end is told, and the flow is gone: this tells the other end too when it speaks, whichever
        # of the two that is.
        self.set_unknown_flow("reset")
        self.wait_healthy()
        self.reset_on()
        self.revive_first_appliance()
        self.set_unknown_flow("drop")
        for key, act in [(None, self.silent_without), ("flowgate.reset.both_ends", self.silent_both_ends),
                         ("flowgate.reset.proactive", self.silent_proactive)]:
            if key:
                self.set_group(key, "true")
            self.wait_healthy()
            act()
            self.revive_first_appliance()
        return self.table()


def main():
    parser = argparse.ArgumentParser()
    for name in ["lab", "folder", "flowgate", "reflector"]:
        parser.add_argument(f"--{name}", required=True)
    # The script above asks to stop by SIGTERM; its programs are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(0 if Show(parser.parse_args()).run() else 1)
    except Failed as why:
        print(f"\n  the demo cannot go on: {why}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


main()
