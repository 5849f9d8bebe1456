# Sourced by the scripts beside it: a gateway over virtual devices on one machine, in a network namespace of its own,
# with flowgate-load as its appliances. The devices at its other ends are whoever's the script runs.
# shellcheck shell=bash

# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../common.sh"
# common.sh is written for the folder above.
repository=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)

# Where the programs are; the release build's folder unless the environment says otherwise.
programs=${FLOWGATE_PROGRAMS:-$(target_folder)/release}

# What joins the gateway to the others: memif, or vhost (which needs hugepages).
devices=memif

# More for the appliances, such as --die 2@10.
read -ra appliance_options <<<"${APPLIANCE_OPTIONS-}"

# What the lab is made of; the name is this run's alone.
lab=fg-pktgen-$$
folder=
started=()

# Ends what was started, last first, and takes the namespace and the folder away.
clean() {
    set +e
    trap '' INT TERM HUP
    local at pid
    for ((at = ${#started[@]} - 1; at >= 0; at--)); do
        pid=${started[at]}
        kill "$pid" 2>/dev/null
        for _ in {1..40}; do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.05
        done
        kill -KILL "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    [[ -e /run/netns/$lab ]] && ip netns del "$lab"
    [[ -n $folder ]] && rm -rf "$folder"
}

# Runs a program in the lab's namespace, in the background, its output into a file.
#   start LOG PROGRAM ARGUMENTS...
start() {
    local log=$1
    shift
    ip netns exec "$lab" "$@" >"$log" 2>&1 </dev/null &
    started+=($!)
}

# Waits until a line of a file has these words.
wait_for_words() {
    local words=$1 log=$2
    for _ in {1..400}; do
        grep -q -- "$words" "$log" 2>/dev/null && return 0
        sleep 0.05
    done
    cat "$log" >&2
    fail "'$words' was not said within 20 s"
}

# The other end of one of the gateway's ports, as DPDK's --vdev wants it.
#   device NUMBER NAME
device() {
    if [[ $devices == vhost ]]; then
        echo "net_virtio_user$1,path=$folder/$2.sock,queues=1,queue_size=1024"
    else
        echo "net_memif$1,role=client,id=0,socket-abstract=no,socket=$folder/$2.sock,rsize=12"
    fi
}

# A gateway with `targets` targets, all of them healthy, in a fresh lab. A worker that sleeps when it is idle leaves a
# small machine its cores.
#   start_gateway SECONDS_THAT_THE_APPLIANCES_LIVE [OPTIONS FOR flowgate-load...]
start_gateway() {
    local lives=$1 name
    shift
    for name in flowgated flowgate flowgate-load; do
        [[ -x $programs/$name ]] || fail "$programs/$name is not there: cargo build --release --workspace"
    done
    trap clean EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    folder=$(mktemp -d -t flowgate-pktgen-XXXXXX)
    ip netns add "$lab"
    ip -n "$lab" link set lo up
    "$programs/flowgate-load" --write-config --dir "$folder" --devices "$devices" "$@" 2>/dev/null
    start "$folder/flowgated.log" "$programs/flowgated" --config "$folder/node.toml"
    wait_for_words "flowgated is ready" "$folder/flowgated.log"
    start "$folder/appliances.log" "$programs/flowgate-load" --appliances "$(device 2 targets)" \
        --duration "$lives" "$@" "${appliance_options[@]}"
    local target
    for target in $(sed -n 's/^ *"address": "\(.*\)"$/\1/p' "$folder/objects.json"); do
        wait_for_words "target=$target .*to=\"healthy\"" "$folder/flowgated.log"
    done
    echo "the gateway runs, its targets are healthy"
}

# What the gateway counted: its drops, and its ports.
show_gateway() {
    local flowgate=("$programs/flowgate" --socket "$folder/flowgated.sock")
    "${flowgate[@]}" describe-ports
    "${flowgate[@]}" targets
}
