#!/usr/bin/env bash
# Boots the Debian tree in FOLDER: its own systemd as process 1 of namespaces of its own, so that units, their sandboxes,
# watchdogs and restarts are the real ones. To be run in those namespaces (`unshare`), by host.py.
#
#   boot.sh FOLDER
set -euo pipefail
tree=$1

mount --make-rprivate /
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount -t sysfs -o ro sysfs "$tree/sys"
mount -t cgroup2 cgroup2 "$tree/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$tree/run"
mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
# Devices of its own: nothing that is done to them reaches the machine.
mount -t tmpfs -o mode=755 tmpfs "$tree/dev"
for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "net/tun 10 200"; do
    read -r name major minor <<<"$device"
    mkdir -p "$tree/dev/$(dirname "$name")"
    mknod -m 666 "$tree/dev/$name" c "$major" "$minor"
done
mkdir -p "$tree/dev/shm" "$tree/dev/pts" "$tree/dev/hugepages"
mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$tree/dev/pts"
ln -s pts/ptmx "$tree/dev/ptmx"
ln -s /proc/self/fd "$tree/dev/fd"
# The machine's hugepages, if it has any.
mount -t hugetlbfs hugetlbfs "$tree/dev/hugepages"
# Of the kernel's settings only those of this network are its own.
mount --bind "$tree/proc/sys" "$tree/proc/sys"
mount --bind "$tree/proc/sys/net" "$tree/proc/sys/net"
mount -o remount,bind,ro "$tree/proc/sys"
hostname gateway

cd "$tree"
exec chroot "$tree" env -i container=flowgate-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=journal --show-status=no
