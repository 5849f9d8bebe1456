"""A gateway made up: serves the page as it is in the repository, and for its questions whatever a test wants it to
have. For what a real gateway shows seldom: three hundred targets, names with markup in them, a lost connection.
"""

import copy
import http.server
import json
import pathlib
import queue
import re
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).parent
CONTROL = HERE.parent.parent / "src/control/monitor"
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def policy():
    """The policy that the daemon sends, out of its source."""
    text = re.search(r'const POLICY: &str = "(.*?)";', (CONTROL / "page.rs").read_text(), re.S).group(1)
    return re.sub(r"\\\n\s*", "", text)


def moment(ms=None):
    ms = int(time.time() * 1000) if ms is None else int(ms)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000))
    return {"UnixMs": ms, "Rfc3339": f"{text}.{ms % 1000:03}Z"}


NO_RESETS = {"Unhealthy": 0, "Deregistration": 0, "IdleTimeout": 0, "NoFlow": 0, "BothEnds": 0, "Proactive": 0}


def target(address, flows=120, state="healthy", **more):
    return {
        "Address": address, "Zone": "a", "Weight": 1, "State": state, "Since": moment(time.time() * 1000 - 3_600_000),
        "Checks": {"Made": 18000, "Failed": 2, "OutOfTurn": 0, "SuccessesInRow": 90, "FailuresInRow": 0,
                   "Last": {"At": moment(), "LatencyMs": 1.7}},
        "Neighbour": {"NextHop": address, "Mac": "02:00:00:00:04:01", "State": "reachable"},
        "Flows": flows, "WouldDie": flows, "SilentForMs": 0, "pace": flows,
        "Traffic": {"NewFlows": 1000, "MovedFlows": 0, "PacketsToTarget": 10_000, "BytesToTarget": 9_000_000,
                    "PacketsFromTarget": 10_000, "BytesFromTarget": 9_000_000, "ResetFlows": 0, "Resets": dict(NO_RESETS)},
        "ResetFlowsLastMinute": 0,
        **more,
    }


def group(name, balancer, targets, **more):
    return {
        "Name": name, "LoadBalancer": balancer, "HealthCheck": "HTTP 80 /", "HealthCheckIntervalMs": 200,
        "UnhealthyThresholdCount": 2, "DetectionTimeMs": 400, "WorstDetectionTimeMs": 550, "DeregistrationDelayMs": 300_000, "Rebalances": False,
        "ResetsOnUnhealthy": True, "ResetsOnDeregistration": False, "Flows": 0, "Traffic": {}, "Targets": targets, **more,
    }


def endpoint(name, balancer="inspection", flows=0):
    return {"Name": name, "Kind": "wire", "Ports": ["left", "right"], "LoadBalancer": balancer, "Flows": flows}


def worker(number, flows=1000):
    return {
        "Worker": number, "Core": number + 2, "Flows": flows, "Capacity": 65536, "Generation": 7, "HeartbeatAgeMs": 0,
        "Memory": {"Packets": "2 MiB", "FlowTable": "2 MiB"},
        "Load": {"Cycles": 0, "CyclesPerSecond": 2_100_000_000, "BusyCycles": 0, "SleptCycles": 0, "Received": 0,
                 "HandedOut": 0, "HandedIn": 0, "Bursts": [], "LookUps": {"ByHash": 0, "ByCookie": 0, "Stateless": 0},
                 "FlowStates": {"HalfOpen": 0, "Established": flows, "Other": 0, "Closed": 0, "Expired": 0, "Owing": 0}},
    }


def port(name):
    return {"PortName": name, "Device": f"net_af_packet,{name}", "Driver": "net_af_packet", "Mac": "02:00:00:00:00:01",
            "Mtu": 1500, "LinkUp": True, "Queues": 1, "Received": 100_000, "Sent": 100_000, "Missed": 0}


def trouble(kind, what, *objects, severity="critical", since_ms=None, **more):
    """As the daemon judges it; the page judges nothing."""
    return {"Kind": kind, "Severity": severity, "Objects": list(objects), "Since": moment(since_ms), "What": what, "ToDo": f"See to {kind}.", **more}


class Node:
    """The state of the made-up gateway; `overview()` lets it run on."""

    def __init__(self, targets=None, groups=None, endpoints=None):
        targets = targets if targets is not None else [target(f"198.51.100.{n}", 80 + 20 * n) for n in (11, 12)]
        self.groups = groups or [group("firewalls", "inspection", targets)]
        self.endpoints = endpoints or [endpoint("office"), endpoint("branch")]
        self.workers = [worker(0), worker(1)]
        self.ports = [port("left"), port("right"), port("under")]
        self.started = self.last = time.time()
        self.drops = {}
        self.troubles = []
        self.missing = []
        self.uptime = 7_384_000
        # By how much the gateway's clock was set.
        self.clock_ms = 0

    @property
    def targets(self):
        return [each for one in self.groups for each in one["Targets"]]

    def overview(self):
        now = time.time()
        passed, self.last = now - self.last, now
        flows = 0
        resets = dict(NO_RESETS)
        for one in self.groups:
            one["Flows"] = sum(each["Flows"] for each in one["Targets"])
            flows += one["Flows"]
            for each in one["Targets"]:
                pace = each["pace"] if each["State"] == "healthy" else 0
                grown = int(pace * passed * 10)
                traffic = each["Traffic"]
                for name, by in [("NewFlows", grown // 50), ("PacketsToTarget", grown), ("PacketsFromTarget", grown),
                                 ("BytesToTarget", grown * 800), ("BytesFromTarget", grown * 800)]:
                    traffic[name] += by
                for name in resets:
                    resets[name] += traffic["Resets"][name]
        for one in self.workers:
            load = one["Load"]
            cycles = int(passed * load["CyclesPerSecond"])
            load["Cycles"] += cycles
            load["BusyCycles"] += cycles // 5
            load["Received"] += int(passed * 40_000)
        for n, one in enumerate(self.endpoints):
            one["Flows"] = flows * (3 if n == 0 else 1) // (2 + len(self.endpoints)) if len(self.endpoints) > 1 else flows
        groups = copy.deepcopy(self.groups)
        for one in groups:
            for each in one["Targets"]:
                del each["pace"]
        names = sorted({one["LoadBalancer"] for one in groups if one["LoadBalancer"]})
        return {
            "At": moment(now * 1000 + self.clock_ms), "Node": {"Product": "flowgate", "Version": "0.1.0", "Generation": 7,
                                     "UptimeMs": self.uptime + int((now - self.started) * 1000)},
            "Readiness": {"Ready": not self.missing, "Missing": self.missing}, "Troubles": self.troubles,
            "LoadBalancers": [{"Name": name, "TargetGroup": next(g["Name"] for g in groups if g["LoadBalancer"] == name),
                               "Flows": flows, "RejectedFlows": 0, "FailOpenFlows": 0, "StatelessPackets": 0,
                               "Resets": resets, "HeldResets": {"Hold": 0, "MinHealthy": 0, "Rate": 0, "NoFlowRate": 0}} for name in names],
            "TargetGroups": groups, "Endpoints": self.endpoints, "Ports": self.ports, "Workers": self.workers,
            "Totals": {"Flows": flows, "Received": 0, "Forwarded": 0, "Delivered": 0, "Answered": 0, "Dropped": 0,
                       "Drops": self.drops, "Resets": resets, "LostEvents": 0},
        }

    def history(self, span, name):
        """A wave, and a dip in it."""
        step, length = (1000, 300) if span == "fine" else (10_000, 360)
        now = int(time.time())
        wave = [1 + 0.25 * ((now + n) % 60) / 60 for n in range(length)]
        size = sum(each["Flows"] for each in self.targets) if not name else 100
        hit = length * 3 // 4
        return {
            "At": moment(), "TargetsLeftOut": 0, "StepMs": step, "EndedMsAgo": 0,
            "Flows": [int(size * w) for w in wave], "NewFlows": [round(size * w / 40, 1) for w in wave],
            "PacketsToTarget": [round(size * w * 10) for w in wave],
            "PacketsFromTarget": [round(size * w * (2 if hit < n < hit + 12 else 10)) for n, w in enumerate(wave)],
            "Bytes": [round(size * w * 8000) for w in wave],
            "Resets": [140 - 9 * (n - hit) if hit <= n < hit + 15 else 0 for n in range(length)],
            "State": ["unhealthy" if hit <= n < hit + 15 else "healthy" for n in range(length)],
        }


class Fixture:
    """Serves a `Node` at `url`. What a test may change: `node`, `entries`, `streams_refused`, `deaf`."""

    def __init__(self, node=None, port=0):
        self.node = node or Node()
        self.entries = []
        self.told = []
        self.failovers = []
        self.not_recorded = 0
        self.forgotten = 0
        self.events = 0
        self.boot = 1
        self.streams_refused = False
        self.deaf = False
        self.streams = []
        self.asked = []
        fixture = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                try:
                    fixture.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.deaf = True
        for stream in list(self.streams):
            stream.put(None)
        self.server.shutdown()
        self.server.server_close()

    def tell(self, what, ago_ms=0, **more):
        """Something happens: it is in the timeline and goes to the streams."""
        self.events += 1
        at = moment(time.time() * 1000 - ago_ms)
        event = {"At": at, "Event": what, **more}
        self.entries.append({"Number": self.events, **event, "Until": at})
        self.told.append((self.events, event))
        for stream in list(self.streams):
            stream.put((self.events, event))

    def answer(self, request):
        path, _, query = request.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        self.asked.append(request.path)
        if self.deaf:
            request.close_connection = True
            return
        if path == "/events":
            after = request.headers.get("last-event-id") or query["after"]
            self.stream(request, *map(int, after.split("-")))
        elif path == "/api/overview":
            self.json(request, self.node.overview())
        elif path == "/api/history":
            self.json(request, self.node.history(query.get("span"), query.get("target")))
        elif path == "/api/timeline":
            self.json(request, {"LastEventId": f"{self.boot}-{self.events}", "Entries": self.entries, "Forgotten": self.forgotten})
        elif path == "/api/failovers":
            self.json(request, {"Failovers": self.failovers, "NotRecorded": self.not_recorded})
        else:
            name = "index.html" if path == "/" else path.removeprefix("/page/")
            file = CONTROL / "page" / name
            if "/" in name or not file.is_file():
                self.send(request, 404, "text/plain", b"nothing here")
            else:
                self.send(request, 200, KINDS[file.suffix], file.read_bytes(), {"content-security-policy": policy()})

    def json(self, request, value):
        self.send(request, 200, "application/json", json.dumps(value).encode())

    @staticmethod
    def send(request, status, kind, body, headers=None):
        request.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), "cache-control": "no-store", **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def stream(self, request, boot, after):
        if self.streams_refused:
            self.send(request, 503, "text/plain", b"too many", {"retry-after": "10"})
            return
        request.send_response(200)
        request.send_header("content-type", "text/event-stream")
        request.send_header("connection", "close")
        request.end_headers()
        request.close_connection = True
        mine = queue.Queue()
        for news in [each for each in self.told if boot == self.boot and each[0] > after]:
            mine.put(news)
        self.streams.append(mine)
        try:
            request.wfile.write(b"retry: 1000\n\n")
            if boot != self.boot:
                request.wfile.write(b'event: gap\ndata: {"Restarted":true}\n\n')
            while not self.deaf:
                try:
                    news = mine.get(timeout=1)
                except queue.Empty:
                    request.wfile.write(b"event: beat\ndata: {}\n\n")
                    continue
                if news is None:
                    return
                number, event = news
                request.wfile.write(f"id: {self.boot}-{number}\nevent: happened\ndata: {json.dumps(event)}\n\n".encode())
        finally:
            self.streams.remove(mine)


def failover(fixture, ago_ms=90_000, dead=None):
    """Tells what a failover tells: a target fails and its flows are reset."""
    dead = dead or fixture.node.targets[-1]
    name = next(one["Name"] for one in fixture.node.groups if dead in one["Targets"])
    dead.update(State="unhealthy", Reason="Target.Timeout", Description="Request timed out", Flows=17, SilentForMs=ago_ms,
                Since=moment(time.time() * 1000 - ago_ms))
    dead["Checks"].update(Failed=452, FailuresInRow=450, SuccessesInRow=0,
                          Last={"At": moment(), "LatencyMs": 200.4, "Failure": "Request timed out"})
    dead["Traffic"]["Resets"]["Unhealthy"] = 404
    dead["Traffic"]["ResetFlows"] = dead["ResetFlowsLastMinute"] = 303
    dead["OpenFailover"] = 3
    key = f"{name}/{dead['Address']}"
    fixture.node.troubles.append(trouble(
        "target-unhealthy", f"{key} is unhealthy (Request timed out): its flows are reset", key, since_ms=time.time() * 1000 - ago_ms,
        Figures="17 flows left, 303 flows reset in the last minute", Command="flowgate report 3"))
    of = {"TargetGroup": name, "Target": dead["Address"]}
    fixture.tell("TargetHealthChanged", ago_ms, **of, From="healthy", To="unhealthy", Reason="Target.Timeout",
                 Description="Request timed out")
    fixture.tell("FlowsReset", ago_ms - 300, **of, LoadBalancer="inspection", Trigger="unhealthy", Count=404)
    decided = time.time() * 1000 - ago_ms
    mark = lambda us: {"At": moment(decided + us / 1000), "AfterDecisionMicroseconds": us}
    fixture.failovers.insert(0, {
        "Id": 3, "Cause": "unhealthy", "LoadBalancer": "inspection", **of, "Decided": moment(decided), "Reason": "Target.Timeout",
        "Policy": {"Failover": "no_rebalance", "Reset": True, "DetectionTimeMs": 400},
        "Group": {"Registered": len(fixture.node.targets), "Healthy": len(fixture.node.targets) - 1},
        "Flows": {"AtDecision": 320, "TcpAtDecision": 320, "Begun": 1, "Moved": 0, "Reset": 303, "Ended": 1, "Left": 17},
        "Resets": {"Total": 404, "ByTrigger": {"unhealthy": 303, "both-ends": 101}, "First": mark(1234), "Last": mark(1_201_234)},
        "Clients": {"Watched": 303, "CameBack": 301, "ByTarget": {"198.51.100.11": 301}, "FastestMicroseconds": 1811, "SlowestMicroseconds": 90_000},
        "DurationsMicroseconds": {"FirstFailureToDecision": 401_250, "DecisionToApplied": 18, "DecisionToFirstReset": 1234,
                      "FirstFailureToFirstReset": 402_484, "LastReturnedToFirstReset": 611_200, "FirstToLastReset": 1_200_000},
        "AsOf": mark(2_000_000)})
    fixture.tell("FailoverStarted", ago_ms, **of, Id=3, Cause="unhealthy", Flows=320)
    for n in range(4):
        fixture.tell("TcpReset", ago_ms - 250, **of, Endpoint="office", Trigger="unhealthy", SentTo="192.0.2.10",
                     SentToPort=40000 + n, Peer="192.0.2.20", PeerPort=443)
