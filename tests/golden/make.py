#!/usr/bin/env python3
"""Makes the captures that tests/pipeline/golden.rs plays: `python3 make.py`, in this folder.

Needs scapy (2.5 or later; `apt-get install python3-scapy`). The captures are kept, so that only who
changes this file needs it. Every byte here is scapy's: its layers, its lengths, its checksums. The
gateway's own code has no part in what is expected of it.

A capture is a conversation with the gateway: a frame that it is given, the frame that it must make of
it, the next that it is given, and so on; golden.rs says by which port each goes in and comes out, and
which are dropped. Two fields are the gateway's own choice, the flow cookie and the outer UDP source
port. They stand here as those of `Flow(n)`, and golden.rs puts the real ones in their place.
"""

from scapy.all import (
    AH, ARP, Dot1AD, Dot1Q, Dot3, ESP, Ether, ICMP, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest,
    ICMPv6ND_NS, ICMPv6PacketTooBig, ICMPv6TimeExceeded, IP, IPOption_Router_Alert, IPv6,
    IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, LLC, PcapWriter, Raw, SCTP,
    SCTPChunkCookieAck, STP, TCP, UDP, fragment, fragment6,
)
from scapy.contrib.geneve import GENEVE, GeneveOptions

# The addresses of tests/pipeline/harness.rs.
CLIENT_MAC, SERVER_MAC = "02:00:00:00:00:c1", "02:00:00:00:00:5e"
GATEWAY_MAC, TARGET_MAC = "02:00:00:00:00:60", "02:00:00:00:01:00"
TUNNEL, TARGET = "10.9.0.1", "10.9.1.1"
CLIENT, SERVER = "192.0.2.10", "198.51.100.20"
CLIENT6, SERVER6 = "2001:db8::10", "2001:db8:1::20"
ENDPOINT_ID = bytes.fromhex("1122334455667788")
ATTACHMENT_ID = bytes.fromhex("0000000000000007")


class Flow:
    """Stands for what the gateway chooses for its nth flow."""

    def __init__(self, n):
        self.cookie = bytes.fromhex("c00c1e%02x" % n)
        self.port = 49152 + n


def link(side, *tags):
    """The link header of a frame of the client's or of the server's."""
    ends = {"client": (CLIENT_MAC, SERVER_MAC), "server": (SERVER_MAC, CLIENT_MAC)}
    src, dst = ends[side]
    header = Ether(src=src, dst=dst)
    for tag in tags:
        header = header / tag
    return header


def v4(side, **fields):
    src, dst = (CLIENT, SERVER) if side == "client" else (SERVER, CLIENT)
    return IP(**{"src": src, "dst": dst, "id": 0x1234, "flags": "DF", "ttl": 64, **fields})


def v6(side, **fields):
    src, dst = (CLIENT6, SERVER6) if side == "client" else (SERVER6, CLIENT6)
    return IPv6(**{"src": src, "dst": dst, "hlim": 64, "fl": 0xABCDE, "tc": 0x20, **fields})


def tcp(side, flags, port=4000, seq=1000, ack=2000, **fields):
    sport, dport = (port, 80) if side == "client" else (80, port)
    return TCP(sport=sport, dport=dport, flags=flags, seq=seq, ack=ack, window=64240, **fields)


def udp(side, port=4000):
    sport, dport = (port, 9999) if side == "client" else (9999, port)
    return UDP(sport=sport, dport=dport)


def options(flow):
    """W-2"""
    return [
        GeneveOptions(classid=0x0108, type=1, data=ENDPOINT_ID),
        GeneveOptions(classid=0x0108, type=2, data=ATTACHMENT_ID),
        GeneveOptions(classid=0x0108, type=3, data=flow.cookie),
    ]


def geneve(flow, inner, **fields):
    proto = 0x86DD if getattr(inner, "version", 4) == 6 else 0x0800
    return GENEVE(**{"version": 0, "proto": proto, "vni": 0, "options": options(flow), **fields}) / inner


def to_target(flow, inner, chksum=0):
    """W-1: what the target must get. `chksum=None` lets scapy compute the outer UDP checksum (W-3)."""
    outer = IP(src=TUNNEL, dst=TARGET, id=0, flags="DF", ttl=255)
    ports = UDP(sport=flow.port, dport=6081, chksum=chksum)
    return Ether(src=GATEWAY_MAC, dst=TARGET_MAC) / outer / ports / geneve(flow, inner)


def from_target(flow, inner, chksum=0, sport=None, outer={}, **fields):
    """W-4: what the target returns."""
    ip = IP(**{"src": TARGET, "dst": TUNNEL, "id": 0, "flags": "DF", "ttl": 255, **outer})
    ports = UDP(sport=flow.port if sport is None else sport, dport=6081, chksum=chksum)
    return Ether(src=TARGET_MAC, dst=GATEWAY_MAC) / ip / ports / geneve(flow, inner, **fields)


def round_trip(flow, link_header, inner, chksum=0):
    """Through the target and on: four frames."""
    return [
        link_header / inner,
        to_target(flow, inner, chksum),
        from_target(flow, inner, chksum),
        link_header / inner,
    ]


captures = {}


def tcp_conversation(ip):
    flow = Flow(1)
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (7, 0)), ("NOP", None), ("WScale", 7)]
    packets = [
        ("client", tcp("client", "S", seq=1000, ack=0, options=options)),
        ("server", tcp("server", "SA", seq=5000, ack=1001, options=options)),
        ("client", tcp("client", "A", seq=1001, ack=5001)),
        ("client", tcp("client", "PA", seq=1001, ack=5001) / Raw(b"GET / HTTP/1.1\r\n\r\n")),
        ("server", tcp("server", "PA", seq=5001, ack=1019) / Raw(bytes(range(256)) * 5)),
        ("client", tcp("client", "FA", seq=1019, ack=6281)),
        ("server", tcp("server", "FA", seq=6281, ack=1020)),
        ("client", tcp("client", "A", seq=1020, ack=6282)),
    ]
    return [frame for side, segment in packets for frame in round_trip(flow, link(side), ip(side) / segment)]


captures["tcp_ipv4"] = tcp_conversation(v4)
captures["tcp_ipv6"] = tcp_conversation(v6)


def udp_both_ways():
    frames = []
    for n, (ip, port) in enumerate([(v4, 4000), (v4, 4001), (v6, 4000)]):
        for side, payload in [("client", b"query"), ("server", b"an answer of odd length"), ("client", b"")]:
            frames += round_trip(Flow(n), link(side), ip(side) / udp(side, port) / Raw(payload))
    return frames


captures["udp"] = udp_both_ways()


def icmp_echo():
    frames = []
    for n, number in enumerate([0x77, 0x78]):
        frames += round_trip(Flow(n), link("client"), v4("client") / ICMP(type=8, id=number, seq=1) / Raw(b"ping"))
        frames += round_trip(Flow(n), link("server"), v4("server") / ICMP(type=0, id=number, seq=1) / Raw(b"ping"))
    for n, number in enumerate([0x77, 0x78], start=2):
        frames += round_trip(Flow(n), link("client"), v6("client") / ICMPv6EchoRequest(id=number, seq=1, data=b"six"))
        frames += round_trip(Flow(n), link("server"), v6("server") / ICMPv6EchoReply(id=number, seq=1, data=b"six"))
    return frames


captures["icmp_echo"] = icmp_echo()


def other_protocols():
    """IPv4 options and differentiated service are kept; GRE and ESP have no ports."""
    alert = v4("client", tos=0xB8, options=[IPOption_Router_Alert()], ttl=3, flags=0)
    frames = round_trip(Flow(0), link("client"), alert / udp("client") / Raw(b"alert"))
    experimental = bytes.fromhex("000088b5") + b"no protocol that anyone knows"
    for n, protocol in enumerate([47, 50, 253], start=1):
        for side in ["client", "server"]:
            frames += round_trip(Flow(n), link(side), v4(side, proto=protocol) / Raw(experimental))
    there = SCTP(sport=4000, dport=80, tag=1) / SCTPChunkCookieAck()
    back = SCTP(sport=80, dport=4000, tag=2) / SCTPChunkCookieAck()
    for n, ip in enumerate([v4, v6], start=4):
        frames += round_trip(Flow(n), link("client"), ip("client") / there)
        frames += round_trip(Flow(n), link("server"), ip("server") / back)
    return frames


captures["other_protocols"] = other_protocols()


def vlan():
    tagged = [
        [Dot1Q(vlan=42)],
        [Dot1Q(vlan=42, prio=5)],
        [Dot1AD(vlan=100, prio=3), Dot1Q(vlan=42)],
    ]
    frames = []
    for n, tags in enumerate(tagged):
        for ip in [v4, v6]:
            flow, port = Flow(2 * n + (ip is v6)), 4000 + n
            frames += round_trip(flow, link("client", *tags), ip("client") / tcp("client", "S", port, ack=0))
            # The answer comes with a tag of its own, as through another router.
            frames += round_trip(flow, link("server", Dot1Q(vlan=99)), ip("server") / tcp("server", "SA", port))
            frames += round_trip(flow, link("client", *tags), ip("client") / tcp("client", "A", port))
    return frames


captures["vlan"] = vlan()


def padding():
    """To 60 bytes on the client's link, and by an appliance whose link pads too."""
    frames = []
    for n, (header, ip) in enumerate([(link("client"), v4), (link("client", Dot1Q(vlan=7)), v4)]):
        flow = Flow(n)
        inner = ip("client") / udp("client", 4000 + n) / Raw(b"short"[: 5 - n])
        bare = bytes(header / inner)
        answer = bytes(from_target(flow, inner))
        frames += [
            bare + b"\xee" * (60 + n - len(bare)),
            to_target(flow, inner),
            answer + b"\xdd" * 11,
            bare,
        ]
    return frames


captures["padding"] = padding()


def udp_checksum():
    frames = []
    for n, payload in enumerate([b"", b"o", b"ev", bytes(range(256)) * 5]):
        for ip in [v4, v6]:
            flow = Flow(2 * n + (ip is v6))
            inner = ip("client") / udp("client", 4000 + n) / Raw(payload)
            frames += round_trip(flow, link("client"), inner, chksum=None)
    return frames


captures["udp_checksum"] = udp_checksum()


def accepted_answers(six=False):
    ip = v6 if six else v4
    lower = {"hlim": 63} if six else {"ttl": 63}
    flow = Flow(1)
    inner = ip("client") / tcp("client", "S", ack=0)
    lowered = ip("client", **lower) / tcp("client", "S", ack=0)
    turned = tcp("server", "RA", seq=0, ack=1001)
    if six:
        error = v6("server", src="2001:db8:ff::1") / ICMPv6TimeExceeded() / bytes(inner)
    else:
        error = v4("server", src="203.0.113.1", flags=0) / ICMP(type=11, code=0) / bytes(inner)[:28]
    unknown = GeneveOptions(classid=0x1234, type=5, data=b"\x09" * 8)
    ours = options(flow)
    answers = [
        (from_target(flow, inner), inner),
        (from_target(flow, inner, chksum=None), inner),
        (from_target(flow, inner, outer={"ttl": 1}), inner),
        (from_target(flow, inner, outer={"flags": 0, "id": 77}), inner),
        (from_target(flow, inner, outer={"tos": 0xB8}), inner),
        (from_target(flow, inner, sport=1234), inner),
        (from_target(flow, inner, options=[unknown] + ours), inner),
        (from_target(flow, inner, options=ours[:1] + [unknown] + ours[1:]), inner),
        (from_target(flow, inner, options=ours + [unknown]), inner),
        (from_target(flow, inner, options=ours[::-1]), inner),
        (from_target(flow, lowered), lowered),
    ]
    frames = [link("client") / inner, to_target(flow, inner)]
    for answer, delivered in answers:
        frames += [answer, link("client") / delivered]
    # To the client, in the server's stead: an ICMP error about its SYN, then a reset of the appliance's own.
    for back in [error, ip("server") / turned]:
        frames += [from_target(flow, back), link("server") / back]
    return frames


captures["accepted_answers"] = accepted_answers()
captures["accepted_answers_ipv6"] = accepted_answers(six=True)


def spoiled(frame, at, value):
    frame = bytearray(bytes(frame))
    frame[at : at + len(value)] = value
    return bytes(frame)


def wrong_answers():
    flow, old = Flow(1), Flow(2)
    inner = v4("client") / tcp("client", "S", ack=0)
    former = v4("client") / tcp("client", "S", port=4002, ack=0)
    closing = v4("client") / tcp("client", "R", port=4002, ack=0)
    other = v4("client") / tcp("client", "S", port=4001, ack=0)
    about_other = v4("server") / ICMP(type=11, code=0) / bytes(other)[:28]
    ours = options(flow)
    critical = GeneveOptions(classid=0x0108, type=0x85, data=b"\x00" * 4)
    good = from_target(flow, inner)
    # A flow that ends, and a new one on its tuple: Flow(2) is the old one, Flow(3) the new one.
    frames = [link("client") / inner, to_target(flow, inner)]
    frames += [link("client") / former, to_target(old, former)]
    frames += [link("client") / closing, to_target(old, closing)]
    frames += [link("client") / former, to_target(Flow(3), former)]
    frames += [
        from_target(flow, inner, outer={"src": "10.9.1.77"}),  # not from the flow's target
        from_target(old, former),  # a cookie that was
        from_target(flow, inner, options=ours[:2] + [GeneveOptions(classid=0x0108, type=3, data=b"\x11" * 4)]),
        from_target(flow, inner, options=ours[:2]),  # no cookie
        from_target(flow, inner, version=1),
        from_target(flow, inner, oam=1),  # a control message
        from_target(flow, inner, critical=1, options=ours + [critical]),
        from_target(flow, inner, optionlen=63),  # options beyond the end of the packet
        spoiled(good, 53, b"\x1f"),  # the first option is longer than all options together
        from_target(flow, other),  # of another flow
        from_target(flow, about_other),  # an error about another flow
        from_target(flow, v4("client", len=9000) / tcp("client", "S", ack=0)),  # inner packet cut
        spoiled(good, 40, b"\x12\x34"),  # a wrong UDP checksum
        spoiled(good, 24, b"\x12\x34"),  # a wrong outer header checksum
    ]
    # And after all that the right answers still go through.
    return frames + [good, link("client") / inner, from_target(Flow(3), former), link("client") / former]


captures["wrong_answers"] = wrong_answers()


def wrong_options():
    """The flow's cookie is right, and something else of the outer headers is not."""
    flow = Flow(1)
    inner = v4("client") / tcp("client", "S", ack=0)
    six = v6("client") / tcp("client", "S", ack=0)
    ours = options(flow)
    other_endpoint = GeneveOptions(classid=0x0108, type=1, data=b"\x99" * 8)
    long_cookie = GeneveOptions(classid=0x0108, type=3, data=flow.cookie + b"\x00" * 4)
    good = from_target(flow, inner)
    frames = [link("client") / inner, to_target(flow, inner)]
    frames += [
        from_target(flow, inner, options=[other_endpoint] + ours[1:]),  # of an endpoint that is not the flow's
        from_target(flow, inner, options=ours[1:]),  # of no endpoint
        from_target(flow, inner, options=ours[:1] + ours[2:]),  # of no attachment
        from_target(flow, inner, options=ours + ours[2:]),  # two cookies, though the same
        from_target(flow, inner, options=ours[:2] + [long_cookie]),
        from_target(flow, inner, proto=0x6558),  # Ethernet inside
        from_target(flow, six),  # the same ports over IPv6
        from_target(flow, Raw(bytes(six)[:39]), proto=0x86DD),  # an IPv6 header that is cut
        from_target(flow, Raw(b""), proto=0x0800),  # nothing inside
        spoiled(good, 38, b"\x00\x07"),  # a UDP datagram shorter than its header
        spoiled(good, 38, b"\x40\x00"),  # and one longer than its packet
    ]
    return frames + [good, link("client") / inner]


captures["wrong_options"] = wrong_options()


def crossing():
    everyone = "ff:ff:ff:ff:ff:ff"
    asks = ARP(op=1, hwsrc=CLIENT_MAC, psrc=CLIENT, pdst=SERVER)
    routers = IP(src=CLIENT, dst="224.0.0.5", proto=253, ttl=1, id=1) / Raw(bytes(24))
    solicits = IPv6(src=CLIENT6, dst="ff02::1:ff00:20", hlim=255) / ICMPv6ND_NS(tgt=SERVER6)
    local = IPv6(src="fe80::1", dst="fe80::2") / udp("client") / Raw(b"link")
    frames = [
        Ether(src=CLIENT_MAC, dst=everyone) / asks,
        Ether(src=CLIENT_MAC, dst=everyone) / Dot1Q(vlan=5) / asks,
        Ether(src=CLIENT_MAC, dst=everyone) / asks / Raw(b"\x55" * 18),
        Dot3(src=CLIENT_MAC, dst="01:80:c2:00:00:00") / LLC(dsap=0x42, ssap=0x42, ctrl=3) / STP(),
        Ether(src=CLIENT_MAC, dst="01:80:c2:00:00:0e", type=0x88B5) / Raw(b"of no known protocol"),
        Ether(src=CLIENT_MAC, dst="01:00:5e:00:00:05") / routers,
        Ether(src=CLIENT_MAC, dst="33:33:ff:00:00:20") / solicits,
        link("client") / local,
        link("client", Dot1AD(vlan=1), Dot1Q(vlan=2), Dot1Q(vlan=3)) / v4("client") / udp("client"),
    ]
    return [same for frame in frames for same in (frame, frame)]


captures["crossing"] = crossing()

# R-4, RFC 9293 3.10.7.1. Flags, sequence number, what follows the header, and the numbers and flags of
# the reset. SEG.ACK is 2000 throughout.
SEGMENTS = [
    ("A", 1000, b"", (2000, 0, "R")),
    ("PA", 1000, b"data", (2000, 0, "R")),
    ("FA", 1000, b"", (2000, 0, "R")),
    ("FPUA", 1000, b"urgent", (2000, 0, "R")),
    ("SA", 1000, b"", (2000, 0, "R")),
    ("", 1000, b"hello", (0, 1005, "RA")),
    ("P", 1000, b"", (0, 1000, "RA")),
    ("F", 1000, b"", (0, 1001, "RA")),
    ("F", 1000, b"bye", (0, 1004, "RA")),
    ("F", 0xFFFFFFFE, b"wrap", (0, 3, "RA")),
]


def reset_for(side, tags, six, port, numbers):
    other = "server" if side == "client" else "client"
    seq, ack, flags = numbers
    ip = v6(other, fl=0, tc=0) if six else v4(other, id=0)
    segment = tcp(other, flags, port, seq=seq, ack=ack)
    segment.window = 0
    return link(other, *tags) / ip / segment


def resets(tags=(), six=False):
    ip = v6 if six else v4
    opening, answered = [], []
    flows = [(side, segment) for side in ["client", "server"] for segment in SEGMENTS]
    for n, (side, (flags, seq, payload, numbers)) in enumerate(flows):
        port = 4000 + n
        for first in ["S", "A"]:
            inner = ip("client") / tcp("client", first, port)
            opening += [link("client", *tags) / inner, to_target(Flow(n), inner)]
        # Options of IPv4 and TCP are no part of SEG.LEN.
        stamps = [("NOP", None), ("NOP", None), ("Timestamp", (9, 8))]
        of_ip = {} if six or n % 2 else {"options": [IPOption_Router_Alert()], "tos": 0x10, "ttl": 9}
        segment = tcp(side, flags, port, seq=seq, options=stamps) / Raw(payload)
        answered += [link(side, *tags) / ip(side, **of_ip) / segment, reset_for(side, tags, six, port, numbers)]
    return opening + answered


captures["resets_ipv4"] = resets()
captures["resets_ipv6"] = resets(six=True)
captures["resets_vlan"] = resets(tags=[Dot1AD(vlan=100), Dot1Q(vlan=42, prio=5)])


def resets_of_no_flow():
    frames = []
    for side in ["client", "server"]:
        for six in [False, True]:
            ip = v6 if six else v4
            frames += [link(side) / ip(side) / tcp(side, "PA") / Raw(b"late"), reset_for(side, [], six, 4000, (2000, 0, "R"))]
    # A short frame that its link padded to 60 bytes: the padding is no part of SEG.LEN.
    short = bytes(link("client") / v4("client") / tcp("client", "F"))
    return frames + [short + b"\xee" * (60 - len(short)), reset_for("client", [], False, 4000, (0, 1001, "RA"))]


captures["resets_of_no_flow"] = resets_of_no_flow()

# The target side's MTU in golden.rs is 1,600: 1,532 bytes fit.
ROOM = 1532


def too_big():
    """M-2: told with as much quoted as RFC 1812 4.3.2.3 and RFC 4443 2.4 c allow, RFC 1812 4.3.2.5's precedence."""
    frames = []
    for side, other in [("client", "server"), ("server", "client")]:
        for n, tags in enumerate([[], [Dot1AD(vlan=100), Dot1Q(vlan=42, prio=5)]]):
            inner = v4(side) / udp(side, 4000 + n) / Raw(b"m" * (ROOM - 27))
            needed = IP(src=inner.dst, dst=inner.src, tos=0xC0, id=0, flags="DF", ttl=64)
            needed = needed / ICMP(type=3, code=4, nexthopmtu=ROOM) / Raw(bytes(inner)[: 576 - 28])
            frames += [link(side, *tags) / inner, link(other, *tags) / needed]
            inner = v6(side) / udp(side, 4000 + n) / Raw(b"m" * (ROOM - 47))
            told = IPv6(src=inner.dst, dst=inner.src, hlim=64, fl=0, tc=0)
            told = told / ICMPv6PacketTooBig(mtu=ROOM) / Raw(bytes(inner)[: 1280 - 48])
            frames += [link(side, *tags) / inner, link(other, *tags) / told]
    return frames


captures["too_big"] = too_big()


def split():
    """M-2: each piece of what may be split, there and back: a datagram, and a fragment of a larger one."""
    frames = []
    for n, fields in enumerate([{}, {"id": 77, "tos": 0xB8, "ttl": 3}]):
        flow = Flow(n)
        whole = v4("client", flags=0, **fields) / udp("client", 4000 + n) / Raw(bytes(range(250)) * 16)
        pieces = fragment(whole, (ROOM - 20) // 8 * 8)
        frames += [link("client") / whole] + [to_target(flow, piece) for piece in pieces]
        for piece in pieces:
            frames += [from_target(flow, piece), link("client") / piece]
    halves = fragment(v4("client", flags=0, id=78) / udp("client", 4002) / Raw(bytes(range(250)) * 16), 2000)
    for half in halves:
        frames += [link("client") / half]
        frames += [to_target(Flow(2), piece) for piece in fragment_again(half, (ROOM - 20) // 8 * 8)]
    return frames


def fragment_again(half, size):
    """RFC 791 3.2: offsets go on from the fragment's own, and only its own last piece may be the last."""
    pieces = fragment(IP(bytes(half)), size)
    for n, piece in enumerate(pieces):
        piece.frag = half.frag + n * size // 8
        piece.flags = "MF" if n + 1 < len(pieces) else half.flags
        del piece.chksum
    return pieces


captures["split"] = split()


def mss_clamp():
    frames = []
    for n, (ip, most) in enumerate([(v4, ROOM - 40), (v6, ROOM - 60)]):
        for side, flags in [("client", "S"), ("server", "SA")]:
            for before in [[], [("NOP", None)], [("SAckOK", b""), ("Timestamp", (7, 0)), ("NOP", None)]]:
                syn = lambda mss: ip(side) / tcp(side, flags, options=before + [("MSS", mss), ("WScale", 7)])
                for offered in [8960, most + 1, most, 536]:
                    sent_on = syn(min(offered, most))
                    frames += [link(side) / syn(offered), to_target(Flow(n), sent_on)]
                    frames += [from_target(Flow(n), sent_on), link(side) / sent_on]
            bare = ip(side) / tcp(side, flags)
            frames += round_trip(Flow(n), link(side), bare)
        # Not a SYN: nobody's business.
        frames += round_trip(Flow(n), link("client"), ip("client") / tcp("client", "A", options=[("MSS", 8960)]))
    return frames


captures["mss_clamp"] = mss_clamp()


def in_pieces(n):
    """M-4: the datagrams of `fragments`: their pieces in the order in which they are sent."""
    payload = Raw(bytes(range(250)) * 12)
    if n % 2 == 0:
        pieces = fragment(v4("client", flags=0, id=0x100 + n) / udp("client", 4000 + n) / payload, 1200)
    else:
        six = v6("client") / IPv6ExtHdrFragment(id=0xFEED0000 + n) / udp("client", 4000 + n) / payload
        pieces = fragment6(six, 1280)
    return pieces


def fragments():
    frames = []
    for n in range(2):
        for piece in in_pieces(n):
            frames += round_trip(Flow(n), link("client"), piece)
    for n in range(2, 4):
        first, *rest = in_pieces(n)
        frames += [link("client") / piece for piece in reversed(rest)] + [link("client") / first]
        frames += [to_target(Flow(n), piece) for piece in [first] + rest[::-1]]
        for piece in [first] + rest[::-1]:
            frames += [from_target(Flow(n), piece), link("client") / piece]
    return frames


captures["fragments"] = fragments()


def hiding_fragments():
    """RFC 1858: a first fragment without all of its TCP header, and one that would replace its flags."""
    tiny = v4("client", flags="MF", id=9, proto=6) / Raw(bytes(tcp("client", "S"))[:16])
    inside = v4("client", flags=0, id=9, proto=6, frag=1) / Raw(bytes(tcp("client", "A"))[8:])
    tiny6 = v6("client") / IPv6ExtHdrFragment(id=9, m=1, nh=6) / Raw(bytes(tcp("client", "S"))[:16])
    inside6 = v6("client") / IPv6ExtHdrFragment(id=9, offset=1, nh=6) / Raw(bytes(tcp("client", "A"))[8:])
    return [link("client") / packet for packet in [tiny, inside, tiny6, inside6]]


captures["hiding_fragments"] = hiding_fragments()


def icmp_errors():
    """M-5: with the flow that they quote, from a router and from the other end, also with only 8 bytes of TCP."""
    frames = []
    opening = v4("client") / tcp("client", "S", ack=0)
    reply = v4("server") / tcp("server", "SA")
    opening6 = v6("client") / tcp("client", "S", ack=0)
    frames += round_trip(Flow(1), link("client"), opening) + round_trip(Flow(1), link("server"), reply)
    frames += round_trip(Flow(2), link("client"), opening6)
    for src in [SERVER, "203.0.113.1"]:
        for kind in [ICMP(type=3, code=4, nexthopmtu=1400), ICMP(type=3, code=1), ICMP(type=11, code=0)]:
            for quoted in [28, 40]:
                error = IP(src=src, dst=CLIENT, id=5, ttl=63) / kind / Raw(bytes(opening)[:quoted])
                frames += round_trip(Flow(1), link("server"), error)
    needed = IP(src="203.0.113.1", dst=SERVER, id=5, ttl=63) / ICMP(type=3, code=4, nexthopmtu=1400)
    frames += round_trip(Flow(1), link("client"), needed / Raw(bytes(reply)[:28]))
    for src in [SERVER6, "2001:db8:ffff::1"]:
        for kind in [ICMPv6PacketTooBig(mtu=1400), ICMPv6DestUnreach(code=4), ICMPv6TimeExceeded(code=0)]:
            for quoted in [48, 60]:
                error = IPv6(src=src, dst=CLIENT6, hlim=63) / kind / Raw(bytes(opening6)[:quoted])
                # The server's side has sent nothing yet: the client's header turned round.
                frames += round_trip(Flow(2), link("server"), error)
    # About no known flow: one of its own.
    unknown = v4("client") / tcp("client", "S", 4999)
    error = IP(src="203.0.113.1", dst=CLIENT, id=5, ttl=63) / ICMP(type=3, code=1) / Raw(bytes(unknown)[:28])
    return frames + round_trip(Flow(3), link("server"), error)


captures["icmp_errors"] = icmp_errors()


def extension_headers():
    """M-6"""
    chains = [
        [IPv6ExtHdrHopByHop()],
        [IPv6ExtHdrDestOpt()],
        [IPv6ExtHdrRouting(addresses=["2001:db8::77"], segleft=0)],
        [AH(payloadlen=4, spi=0x100, seq=2, icv=bytes(12))],
        [IPv6ExtHdrFragment(id=7)],
        [IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrRouting(segleft=0), IPv6ExtHdrDestOpt()],
    ]
    frames = []
    for side in ["client", "server"]:
        plain = v6(side) / udp(side) / Raw(b"behind")
        frames += round_trip(Flow(1), link(side), plain)
        for chain in chains:
            packet = v6(side)
            for header in chain:
                packet = packet / header
            # The pseudo header is the same behind every chain, but scapy computes no checksum behind AH.
            packet.lastlayer().nh = 17
            frames += round_trip(Flow(1), link(side), packet / Raw(bytes(plain)[40:]))
    for n, (number, last) in enumerate([(50, bytes(ESP(spi=1, seq=1))), (59, b""), (135, bytes([59, 0, 0, 0] + [0] * 4))]):
        frames += round_trip(Flow(2 + n), link("client"), v6("client", nh=number) / Raw(last))
    return frames


captures["extension_headers"] = extension_headers()

# The routed network of tests/pipeline/network.rs: the client in VLAN 100 on the left, the router before
# the server on the right without a tag, and endpoint 1's router there in VLAN 300 inside VLAN 7.
LEFT_MAC, RIGHT_MAC = "02:00:00:00:00:61", "02:00:00:00:00:62"
NEAR_ROUTER, OTHER_ROUTER = "02:00:00:00:00:53", "02:00:00:00:01:53"
LEFT, LEFT6, RIGHT = "192.0.2.1", "2001:db8::1", "203.0.113.1"


def arrives(side):
    """The link header of a packet that comes in at a routed endpoint."""
    if side == "client":
        return Ether(src=CLIENT_MAC, dst=LEFT_MAC) / Dot1Q(vlan=100, prio=5)
    return Ether(src=NEAR_ROUTER, dst=RIGHT_MAC)


def leaves(side):
    """The link header of a packet of that side's as it leaves on the other."""
    if side == "client":
        return Ether(src=RIGHT_MAC, dst=NEAR_ROUTER)
    return Ether(src=LEFT_MAC, dst=CLIENT_MAC) / Dot1Q(vlan=100)


def routed():
    """W-6: the target gets the packet with a TTL one less, and what it returns leaves by route."""
    frames = []
    for n, ip in enumerate([v4, v6]):
        for side, flags, payload in [
            ("client", "S", b""), ("server", "SA", b""), ("client", "A", b""),
            ("client", "PA", b"GET / HTTP/1.1\r\n\r\n"), ("server", "PA", bytes(range(256)) * 5),
        ]:
            segment = tcp(side, flags) / Raw(payload)
            hops = {"hlim": 63} if ip is v6 else {"ttl": 63}
            inner = ip(side, **hops) / segment
            frames += [
                arrives(side) / ip(side) / segment,
                to_target(Flow(n), inner),
                from_target(Flow(n), inner),
                leaves(side) / inner,
            ]
    return frames


captures["routed"] = routed()


def routed_errors():
    """RFC 792, RFC 1812 4.3.2, RFC 4443: the end of the time to live, and no route to where it goes. An error is as long as
    what it is about, within the RFCs' bounds, and has at least the IP header and eight bytes."""
    back = Ether(src=LEFT_MAC, dst=CLIENT_MAC) / Dot1Q(vlan=100, prio=5)
    ours = {"id": 0, "flags": "DF", "tos": 0xC0, "ttl": 64}
    exceeded = IP(src=LEFT, dst=CLIENT, **ours) / ICMP(type=11, code=0)
    exceeded6 = IPv6(src=LEFT6, dst=CLIENT6, hlim=64) / ICMPv6TimeExceeded(code=0)
    frames = []
    for payload, quoted, quoted6 in [(bytes(range(256)) * 5, 548, 1232), (bytes(range(100)), 100, 100)]:
        last = v4("client", ttl=1) / udp("client") / Raw(payload)
        last6 = v6("client", hlim=1) / udp("client") / Raw(payload)
        frames += [
            arrives("client") / last, back / exceeded / Raw(bytes(last)[:quoted]),
            arrives("client") / last6, back / exceeded6 / Raw(bytes(last6)[:quoted6]),
        ]
    # Too short for that: the second is told.
    reply = v4("server", ttl=1) / tcp("server", "SA")
    tags = Dot1AD(vlan=7) / Dot1Q(vlan=300)
    frames += [Ether(src=OTHER_ROUTER, dst=RIGHT_MAC) / tags / reply] * 2
    frames += [
        Ether(src=RIGHT_MAC, dst=OTHER_ROUTER) / tags / IP(src=RIGHT, dst=SERVER, **ours)
        / ICMP(type=11, code=0) / Raw(bytes(reply)[:28]),
    ]
    # Endpoint 0 has no IPv6 route to there; seen when the target has returned it.
    nowhere = v6("client", dst="2001:db9::9", hlim=63) / tcp("client", "S", ack=0)
    frames += [
        arrives("client") / v6("client", dst="2001:db9::9") / tcp("client", "S", ack=0),
        to_target(Flow(0), nowhere),
        from_target(Flow(0), nowhere),
    ] * 2
    frames += [
        Ether(src=LEFT_MAC, dst=CLIENT_MAC) / Dot1Q(vlan=100)
        / IPv6(src=LEFT6, dst=CLIENT6, hlim=64) / ICMPv6DestUnreach(code=0) / Raw(bytes(nowhere)[:48]),
    ]
    return frames


captures["routed_errors"] = routed_errors()

for name, frames in captures.items():
    with PcapWriter(f"{name}.pcap", linktype=1) as capture:
        capture.write_header(None)
        for n, frame in enumerate(frames):
            # The number of the frame for a time, so that the same frames make the same file.
            capture.write_packet(bytes(frame), sec=n, usec=0)
