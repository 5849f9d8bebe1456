//! Memory and cores of the host.

use super::super::host::Host;
use super::{Gateway, numbers};
use crate::control::node::Tables;
use crate::io::shelf::{huge_mounts, huge_paths};
use nix::sys::statfs::{FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, statfs};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Switches of the kernel's command line that are gone by. The rest of the line is neither looked at nor recorded.
const SWITCHES: [&str; 14] = [
    "isolcpus",
    "nohz_full",
    "rcu_nocbs",
    "irqaffinity",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "vfio.enable_unsafe_noiommu_mode",
    "intel_pstate",
    "amd_pstate",
    "tsc",
];

/// Hugepages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSize {
    /// Size of a page in KiB.
    pub kib: u64,
    /// Pages reserved.
    pub total: u64,
    /// Of these, how many are free to be taken.
    pub free: u64,
    /// The same by NUMA node: reserved and free.
    pub nodes: BTreeMap<u16, (u64, u64)>,
}

impl PageSize {
    /// `2 MiB`, `1 GiB`.
    pub fn name(&self) -> String {
        if self.kib < 1 << 20 { format!("{} MiB", self.kib >> 10) } else { format!("{} GiB", self.kib >> 20) }
    }
}

/// What a file system has its files in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomKind {
    /// Memory.
    Memory,
    /// Reserved huge pages.
    Pages,
    /// A disk, for all that is known.
    Other,
}

impl RoomKind {
    /// By what the kernel calls it.
    fn of(system: FsType) -> RoomKind {
        match system {
            TMPFS_MAGIC => RoomKind::Memory,
            HUGETLBFS_MAGIC => RoomKind::Pages,
            _ => RoomKind::Other,
        }
    }

    /// As it is recorded.
    fn word(self) -> &'static str {
        match self {
            RoomKind::Memory => "memory",
            RoomKind::Pages => "pages",
            RoomKind::Other => "other",
        }
    }

    fn from_word(word: &str) -> RoomKind {
        let all = [RoomKind::Memory, RoomKind::Pages];
        all.into_iter().find(|kind| kind.word() == word).unwrap_or(RoomKind::Other)
    }
}

/// A file system for flow tables that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRoom {
    /// Where it is mounted.
    pub mount: String,
    /// What is in it.
    pub kind: RoomKind,
    /// Its size in MiB.
    pub size_mb: u64,
    /// What is free of that.
    pub free_mb: u64,
    /// What the tables' files have of it already.
    pub held_mb: u64,
}

/// Memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// Hugepages by size, the smallest first; none: the kernel has no such thing.
    pub pages: Option<Vec<PageSize>>,
    /// MiB of them that the flow tables lie in which a daemon has left for the next one.
    pub kept_mb: u64,
    /// The file system that the kept flow tables' files are in, or are to be in.
    pub table_room: Option<TableRoom>,
    /// What reserves pages at each boot, as it was found.
    pub at_boot: Vec<String>,
    /// The limit on locked memory in bytes, and whose it is: the daemon's where it runs, its unit's where there is one,
    /// else our own. `u64::MAX` for no limit.
    pub lock_limit: Option<(&'static str, u64)>,
}

impl Memory {
    pub(super) fn read(host: &Host, gateway: &Gateway, daemon: Option<u32>) -> Memory {
        let of_process = |process: &str| {
            let text = host
                .reduced(&format!("/proc/{process}/limits"), |text| lines_of(text, &["Max locked memory"]));
            text.and_then(|text| soft_limit(&text))
        };
        let limit = match daemon {
            Some(pid) => of_process(&pid.to_string()).map(|limit| ("the daemon's", limit)),
            None => of_unit(host)
                .map(|limit| ("the unit's", limit))
                .or_else(|| of_process("self").map(|limit| ("this shell's", limit))),
        };
        Memory {
            pages: pages(host),
            kept_mb: kept_mb(host, gateway),
            table_room: table_room(host, gateway),
            at_boot: at_boot(host),
            lock_limit: limit,
        }
    }
}

fn pages(host: &Host) -> Option<Vec<PageSize>> {
    const FOLDER: &str = "/sys/kernel/mm/hugepages";
    let nodes = nodes(host);
    let mut sizes = Vec::new();
    for name in host.names(FOLDER)? {
        let Some(kib) =
            name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB")?.parse().ok())
        else {
            continue;
        };
        let number = |file: &str| host.number::<u64>(&format!("{FOLDER}/{name}/{file}"));
        let (Some(total), Some(free)) = (number("nr_hugepages"), number("free_hugepages")) else { continue };
        // Reserved for somebody who has not touched them yet: the kernel counts them as free.
        let free = free.saturating_sub(number("resv_hugepages").unwrap_or(0));
        let of_node = |node: &u16| {
            let number = |file: &str| {
                host.number::<u64>(&format!("/sys/devices/system/node/node{node}/hugepages/{name}/{file}"))
            };
            Some((*node, (number("nr_hugepages")?, number("free_hugepages")?)))
        };
        sizes.push(PageSize { kib, total, free, nodes: nodes.iter().filter_map(of_node).collect() });
    }
    sizes.sort_by_key(|size| size.kib);
    Some(sizes)
}

/// MiB of kept flow tables in reserved pages.
fn kept_mb(host: &Host, gateway: &Gateway) -> u64 {
    let answer = host.answer("kept-tables-mib", || {
        let folder = Tables::name(&gateway.node()?.state_directory);
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let files = huge_paths(&mounts).filter_map(|path| fs::read_dir(path.join(&folder)).ok()).flatten();
        let bytes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
        Some(bytes.sum::<u64>() >> 20).filter(|mib| *mib > 0).map(|mib| mib.to_string())
    });
    answer.and_then(|mib| mib.trim().parse().ok()).unwrap_or(0)
}

/// Where the tables' files are to be: `/dev/shm memory 12026 11900 0`.
fn table_room(host: &Host, gateway: &Gateway) -> Option<TableRoom> {
    let node = gateway.node().filter(|node| node.tables.keep)?;
    let text = host.answer("tables-room", || {
        let folder = node.tables.folder(&node.state_directory);
        // It is made at the first start.
        let there = folder.ancestors().find(|path| path.exists())?;
        let system = statfs(there).ok()?;
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mount_of(&mounts, &fs::canonicalize(there).ok()?)?;
        let kind = RoomKind::of(system.filesystem_type());
        let block = u64::try_from(system.block_size()).ok()?;
        let mib = |blocks: u64| blocks.saturating_mul(block) >> 20;
        let (size, free) = if kind == RoomKind::Pages {
            // Most tell no sizes: they may have all pages that are reserved.
            let pages = huge_mounts().into_iter().find(|huge| huge.path == Path::new(&mount))?;
            (pages.free >> 20, pages.free >> 20)
        } else {
            (mib(system.blocks()), mib(system.blocks_available()))
        };
        let files = fs::read_dir(&folder).into_iter().flatten();
        let held: u64 = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum();
        Some(format!("{mount} {} {size} {free} {}", kind.word(), held >> 20))
    })?;
    let mut words = text.split_whitespace();
    let (mount, kind) = (words.next()?.to_owned(), RoomKind::from_word(words.next()?));
    let mut number = || words.next()?.parse().ok();
    let (size_mb, free_mb, held_mb) = (number()?, number()?, number()?);
    Some(TableRoom { mount, kind, size_mb, free_mb, held_mb })
}

/// The mount that a path lies below.
fn mount_of(mounts: &str, path: &Path) -> Option<String> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let above = points.filter(|point| !point.contains('\\') && path.starts_with(point));
    above.max_by_key(|point| point.len()).map(str::to_owned)
}

fn nodes(host: &Host) -> Vec<u16> {
    host.line("/sys/devices/system/node/online").map(|list| numbers(&list)).unwrap_or_default()
}

/// The kernel's command line, a file of sysctl's, or a unit that reserves hugepages.
fn at_boot(host: &Host) -> Vec<String> {
    let mut found = Vec::new();
    if switches(host).iter().any(|switch| switch.starts_with("hugepages=")) {
        found.push("the kernel's command line".to_owned());
    }
    let mut files = vec!["/etc/sysctl.conf".to_owned()];
    let dropped = host.names("/etc/sysctl.d").unwrap_or_default();
    files.extend(
        dropped.iter().filter(|name| name.ends_with(".conf")).map(|name| format!("/etc/sysctl.d/{name}")),
    );
    for file in files {
        let own = host.reduced(&file, |text| lines_of(text, &["vm.nr_hugepages", "vm/nr_hugepages"]));
        let sets = |line: &str| {
            line.split_once('=').is_some_and(|(_, value)| value.trim().parse().is_ok_and(|n: u64| n > 0))
        };
        if own.is_some_and(|text| text.lines().any(sets)) {
            found.push(file);
        }
    }
    const UNITS: &str = "/etc/systemd/system/multi-user.target.wants";
    let units = host.answer("units", || {
        let units = Host::live().names(UNITS)?;
        Some(units.into_iter().filter(|name| name.contains("hugepages")).collect::<Vec<_>>().join("\n"))
    });
    found.extend(units.iter().flat_map(|units| units.lines()).map(|unit| format!("{UNITS}/{unit}")));
    found
}

/// The lines that begin with any of these words.
pub(super) fn lines_of(text: &str, words: &[&str]) -> String {
    let wanted = |line: &&str| words.iter().any(|word| line.trim_start().starts_with(word));
    text.lines().filter(wanted).map(|line| format!("{line}\n")).collect()
}

/// The limit that the daemon's unit gives it; none: there is no unit, or it says nothing that can be read.
fn of_unit(host: &Host) -> Option<u64> {
    let units = ["/etc/systemd/system/flowgate.service", "/lib/systemd/system/flowgate.service"];
    let text = units.iter().find_map(|unit| host.reduced(unit, |text| lines_of(text, &["LimitMEMLOCK="])))?;
    let value = text.lines().last()?.split_once('=')?.1.trim();
    if value == "infinity" { Some(u64::MAX) } else { value.parse().ok() }
}

/// The soft limit of a line of `/proc/PID/limits`.
fn soft_limit(text: &str) -> Option<u64> {
    let word = text.trim_start().strip_prefix("Max locked memory")?.split_whitespace().next()?;
    if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() }
}

/// The switches of the kernel's command line that matter here.
pub(super) fn switches(host: &Host) -> Vec<String> {
    let line = host.reduced("/proc/cmdline", |text| {
        let known = |word: &&str| SWITCHES.contains(&word.split('=').next().unwrap_or_default());
        text.split_whitespace().filter(known).collect::<Vec<_>>().join(" ")
    });
    line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Cores.
#[derive(Debug, Default)]
pub struct Cores {
    /// Those that run; empty where it is not known.
    pub online: Vec<u16>,
    /// NUMA nodes with their cores.
    pub nodes: BTreeMap<u16, Vec<u16>>,
    /// Kept free of other work.
    pub isolated: Vec<u16>,
    /// Without the kernel's own clock.
    pub tickless: Vec<u16>,
    /// Whose callbacks of the kernel's (RCU) run elsewhere.
    pub without_callbacks: Vec<u16>,
    /// Of each worker's core, the hyper-threads of the same physical one, itself among them.
    pub siblings: BTreeMap<u16, Vec<u16>>,
    /// Of each worker's core, its frequency governor.
    pub governors: BTreeMap<u16, String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Whether the CPU says that its counter runs at one speed, always; none: not known.
    pub steady_counter: Option<bool>,
    /// It is a virtual machine.
    pub is_virtual: bool,
    /// The kernel's command line, as far as it matters.
    pub switches: Vec<String>,
}

impl Cores {
    pub(super) fn read(host: &Host, gateway: &Gateway) -> Cores {
        let cpu = "/sys/devices/system/cpu";
        let list = |path: &str| host.line(path).map(|list| numbers(&list)).unwrap_or_default();
        let switches = switches(host);
        let of_switch = |name: &str| {
            let value = switches.iter().rev().find_map(|switch| switch.strip_prefix(name)?.strip_prefix('='));
            value.map(|value| numbers(value.rsplit(':').next().unwrap_or(value))).unwrap_or_default()
        };
        let mut isolated = list(&format!("{cpu}/isolated"));
        isolated.extend(list("/sys/fs/cgroup/cpuset.cpus.isolated"));
        let mut tickless = list(&format!("{cpu}/nohz_full"));
        tickless.extend(of_switch("nohz_full"));
        let flags = host.reduced("/proc/cpuinfo", |text| {
            let flags = lines_of(text, &["flags"]);
            let first = flags.lines().next().unwrap_or_default();
            let known = ["constant_tsc", "nonstop_tsc", "hypervisor"];
            first.split_whitespace().filter(|flag| known.contains(flag)).collect::<Vec<_>>().join(" ")
        });
        let has =
            |flag: &str| flags.as_ref().map(|flags| flags.split_whitespace().any(|known| known == flag));
        let mut cores = Cores {
            online: list(&format!("{cpu}/online")),
            nodes: nodes(host)
                .into_iter()
                .map(|node| (node, list(&format!("/sys/devices/system/node/node{node}/cpulist"))))
                .collect(),
            isolated,
            // With nohz_full the kernel takes callbacks away as well.
            without_callbacks: of_switch("rcu_nocbs").into_iter().chain(tickless.iter().copied()).collect(),
            tickless,
            siblings: BTreeMap::new(),
            governors: BTreeMap::new(),
            clock_source: host.line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            steady_counter: has("constant_tsc").zip(has("nonstop_tsc")).map(|(one, other)| one && other),
            is_virtual: has("hypervisor") == Some(true),
            switches: Vec::new(),
        };
        cores.switches = switches;
        for core in gateway.worker_cores() {
            if let Some(list) = host.line(&format!("{cpu}/cpu{core}/topology/thread_siblings_list")) {
                cores.siblings.insert(*core, numbers(&list));
            }
            if let Some(governor) = host.line(&format!("{cpu}/cpu{core}/cpufreq/scaling_governor")) {
                cores.governors.insert(*core, governor);
            }
        }
        cores
    }

    /// The NUMA node of a core; none where it is not known.
    pub fn node_of(&self, core: u16) -> Option<u16> {
        self.nodes.iter().find(|(_, cores)| cores.contains(&core)).map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // As the daemon has it (`io::shelf`).
    #[test]
    fn memory_and_reserved_pages_can_hold_tables_and_a_disk_cannot() {
        let kinds = [TMPFS_MAGIC, HUGETLBFS_MAGIC, nix::sys::statfs::EXT4_SUPER_MAGIC].map(RoomKind::of);
        assert_eq!(kinds, [RoomKind::Memory, RoomKind::Pages, RoomKind::Other]);
        assert_eq!(kinds.map(|kind| RoomKind::from_word(kind.word())), kinds);
    }
}
