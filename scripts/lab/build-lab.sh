# The demo's laboratory: network namespaces, links, and Flowgate's configuration for them. Sourced
# by scripts/demo, which sets lab (the prefix of every name) and folder. The tests build the same in
# tests/e2e/lab.
# shellcheck shell=bash disable=SC2154

in_lab() { ip netns exec "$lab-$1" "${@:2}"; }

# A veth pair: MACHINE INTERFACE MAC MACHINE INTERFACE MTU. Checksums and segments are made in
# software: af_packet hands packets on as the sender's kernel left them, and a veth's kernel leaves
# both to hardware that is not there.
link() {
    ip link add "$2" netns "$lab-$1" address "$3" mtu "$6" type veth peer name "$5" netns "$lab-$4" mtu "$6"
    for end in "$1 $2" "$4 $5"; do
        read -r machine interface <<<"$end"
        in_lab "$machine" ethtool -K "$interface" tx off rx off tso off gso off gro off >/dev/null
        ip -n "$lab-$machine" link set "$interface" up
    done
}

build_lab() {
    for machine in client server gateway underlay a1 a2; do
        ip netns add "$lab-$machine"
        in_lab "$machine" sysctl -qw net.ipv6.conf.all.disable_ipv6=1
        ip -n "$lab-$machine" link set lo up
    done
    in_lab gateway sysctl -qw net.ipv4.ip_forward=0

    link client eth0 02:00:00:00:01:01 gateway left 1500
    link server eth0 02:00:00:00:02:01 gateway right 1500
    ip -n "$lab-client" addr add 192.0.2.10/24 dev eth0
    ip -n "$lab-server" addr add 192.0.2.20/24 dev eth0

    # 1600: room for the 68 bytes of GENEVE around a packet of 1500.
    ip -n "$lab-underlay" link add bridge type bridge stp_state 0 mcast_snooping 0
    ip -n "$lab-underlay" link set bridge mtu 1600 up
    link gateway under 02:00:00:00:03:01 underlay gateway 1600
    link a1 eth0 02:00:00:00:04:01 underlay a1 1600
    link a2 eth0 02:00:00:00:04:02 underlay a2 1600
    for port in gateway a1 a2; do ip -n "$lab-underlay" link set "$port" master bridge; done
    ip -n "$lab-gateway" addr add 198.51.100.1/24 dev under
    ip -n "$lab-a1" addr add 198.51.100.11/24 dev eth0
    ip -n "$lab-a2" addr add 198.51.100.12/24 dev eth0
}

# Writes node.toml and objects.json; HUGEPAGES is always or never.
write_configuration() {
    # The daemon's, once it has started, which takes its socket away at the end.
    chown nobody: "$folder"
    cat >"$folder/node.toml" <<END
state_directory = "$folder/state"
objects = "$folder/objects.json"

[socket]
path = "$folder/flowgated.sock"

[eal]
hugepages = "$1"
file_prefix = "$lab"

[workers]
cores = [0]
flows = 65536
idle = "sleep"

[tables]
keep = false

[privileges]
user = "nobody"

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
address = "198.51.100.1/24"

[[neighbours]]
address = "198.51.100.11"
mac = "02:00:00:00:04:01"

[[neighbours]]
address = "198.51.100.12"
mac = "02:00:00:00:04:02"

[[endpoints]]
name = "office"
id = "0x1122334455667788"
kind = "wire"
ports = ["left", "right"]
load_balancer = "inspection"
END
    cat >"$folder/objects.json" <<END
{
  "version": 1,
  "load_balancers": [
    { "name": "inspection", "listener": { "target_group": "firewalls" } }
  ],
  "target_groups": [
    {
      "name": "firewalls",
      "health_check": { "protocol": "HTTP", "healthy_threshold": 2, "unhealthy_threshold": 2 },
      "attributes": {
        "flowgate.health_check.interval_ms": 200,
        "flowgate.health_check.timeout_ms": 200
      },
      "targets": [ { "address": "198.51.100.11" }, { "address": "198.51.100.12" } ]
    }
  ]
}
END
}
