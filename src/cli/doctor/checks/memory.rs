//! Hugepages, and the limit on locked memory.

use super::super::facts::{Facts, PageSize, RoomKind, WorkerFacts};
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::{IDLE, listed};
use crate::control::node::{HugePages, NodeConfig};
use crate::control::sizing;
use crate::control::tables::NODE_FILE_BYTES;
use std::collections::BTreeMap;

const MIB_PER_GIB: u64 = 1024;

/// The file that says what kept tables are, in MiB.
const NODE_FILE_MB: u64 = NODE_FILE_BYTES.div_ceil(1 << 20);

/// What the daemon needs: its packets' memory and its tables', in MiB.
fn needed_mb(config: &NodeConfig) -> u64 {
    let tables = sizing::table_memory_mb(config) * config.workers.cores.len() as u64;
    u64::from(sizing::packet_memory_mb(config)) + tables
}

/// What it needs of pages that are free: tables that the last daemon has left have theirs.
fn needed_of_free_mb(config: &NodeConfig, kept_mb: u64) -> u64 {
    needed_mb(config).saturating_sub(kept_mb).max(u64::from(sizing::packet_memory_mb(config)))
}

fn free_mb(sizes: &[PageSize]) -> u64 {
    sizes.iter().map(|size| size.kib * size.free / 1024).sum()
}

/// The command that reserves so much more memory, in pages of 2 MiB.
fn reserve(sizes: &[PageSize], more_mb: u64) -> String {
    let has = sizes.iter().find(|size| size.kib == 2048).map_or(0, |size| size.total);
    format!("scripts/setup --hugepages {} --yes", has + more_mb.div_ceil(2))
}

/// The command that has what is reserved now be so at each boot.
fn again(sizes: &[PageSize]) -> String {
    let words = sizes.iter().filter(|size| size.total > 0).map(|size| match size.kib {
        2048 => format!("--hugepages {} ", size.total),
        _ => format!("--hugepages-1g {} ", size.total),
    });
    format!("scripts/setup {}--yes", words.collect::<String>())
}

/// `512 of 2 MiB (200 free)`.
fn in_words(sizes: &[PageSize]) -> String {
    let reserved: Vec<_> = sizes.iter().filter(|size| size.total > 0).collect();
    match reserved.is_empty() {
        true => "no hugepages are reserved".to_owned(),
        false => listed(
            reserved.iter().map(|size| format!("{} of {} ({} free)", size.total, size.name(), size.free)),
        ),
    }
}

/// What the memory of these workers lies in, those together that have the same.
fn by_memory<'a>(workers: impl Iterator<Item = &'a WorkerFacts>) -> String {
    let mut kinds: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for worker in workers {
        let kind = format!("packets in {}, flow table in {}", worker.packets, worker.flow_table);
        kinds.entry(kind).or_default().push(worker.worker);
    }
    let words = kinds.into_iter().map(|(kind, workers)| format!("worker {}: {kind}", listed(workers)));
    words.collect::<Vec<_>>().join("; ")
}

pub(in super::super) fn free(facts: &Facts, items: &mut Items) {
    let Some(sizes) = &facts.memory.pages else {
        return items.not_well(Kind::HugepagesFree, None, Verdict::Warning, "this kernel has no hugepages");
    };
    if let Some(answers) = facts.daemon.answering() {
        let small: Vec<_> = answers.workers.iter().filter(|worker| worker.packets == "4 KiB").collect();
        if answers.workers.is_empty() {
            return items.ok(Kind::HugepagesFree, None, format!("no worker needs any; {}", in_words(sizes)));
        }
        if small.is_empty() {
            return items.ok(Kind::HugepagesFree, None, by_memory(answers.workers.iter()));
        }
        let words = by_memory(small.into_iter());
        if facts.gateway.node().is_some_and(|config| config.eal.hugepages == HugePages::Never) {
            let found = format!("{words}: eal.hugepages is \"never\", which is for tests");
            return items.not_well(Kind::HugepagesFree, None, Verdict::Advice, found);
        }
        let more = facts.gateway.node().map_or(MIB_PER_GIB, needed_mb).saturating_sub(free_mb(sizes));
        let found = format!("{words}; {} now", in_words(sizes));
        return items.mend(
            Kind::HugepagesFree,
            None,
            Verdict::Warning,
            found,
            format!("{}; systemctl restart flowgate", reserve(sizes, more)),
        );
    }
    let Some(config) = facts.gateway.node() else {
        let (found, free) = (in_words(sizes), free_mb(sizes));
        return match free {
            0 => items.mend(Kind::HugepagesFree, None, Verdict::Warning, found, reserve(sizes, MIB_PER_GIB)),
            _ => items.ok(Kind::HugepagesFree, None, found),
        };
    };
    let kept = facts.memory.kept_mb;
    let (needed, free) = (needed_of_free_mb(config, kept), free_mb(sizes));
    let packets = u64::from(sizing::packet_memory_mb(config));
    let mut found =
        format!("{}; the daemon needs {needed} MiB, {packets} of them for packets", in_words(sizes));
    if kept > 0 {
        found.push_str(&format!(", besides {kept} MiB of flow tables that are kept for it"));
    }
    match config.eal.hugepages {
        HugePages::Never => items.not_well(
            Kind::HugepagesFree,
            None,
            Verdict::Advice,
            "eal.hugepages is \"never\", which is for tests: none are used",
        ),
        _ if free >= needed => items.ok(Kind::HugepagesFree, None, found),
        HugePages::Always if free < packets => {
            let found = format!("{found}, and eal.hugepages is \"always\": it does not start");
            items.mend(Kind::HugepagesFree, None, Verdict::Problem, found, reserve(sizes, needed - free));
        }
        HugePages::Auto | HugePages::Always => {
            items.mend(Kind::HugepagesFree, None, Verdict::Warning, found, reserve(sizes, needed - free));
        }
    }
}

pub(in super::super) fn size(facts: &Facts, items: &mut Items) {
    let (Some(config), Some(sizes)) = (facts.gateway.node(), &facts.memory.pages) else {
        return items.cannot_tell(Kind::HugepagesSize, None, super::NO_CONFIGURATION);
    };
    let table = sizing::table_memory_mb(config);
    let large = sizes.iter().find(|size| size.kib == 1 << 20);
    if table < MIB_PER_GIB / 2 {
        return items.ok(
            Kind::HugepagesSize,
            None,
            format!("a flow table has {table} MiB: pages of 2 MiB serve it"),
        );
    }
    match large {
        None => items.ok(
            Kind::HugepagesSize,
            None,
            format!("a flow table has {table} MiB; this CPU has no pages of 1 GiB"),
        ),
        Some(size) if size.total > 0 => {
            items.ok(
                Kind::HugepagesSize,
                None,
                format!("a flow table has {table} MiB; {} pages of 1 GiB are reserved", size.total),
            );
        }
        Some(_) => {
            let pages = table.div_ceil(MIB_PER_GIB) * config.workers.cores.len() as u64;
            items.mend(
                Kind::HugepagesSize,
                None,
                Verdict::Advice,
                format!("a flow table has {table} MiB, and no pages of 1 GiB are reserved"),
                format!("scripts/setup --hugepages-1g {pages} --yes"),
            );
        }
    }
}

pub(in super::super) fn node(facts: &Facts, items: &mut Items) {
    if facts.gateway.node().is_some_and(|config| config.ports.is_empty()) {
        return items.cannot_tell(Kind::HugepagesNode, None, IDLE);
    }
    let (Some(config), Some(sizes)) = (facts.gateway.node(), &facts.memory.pages) else {
        return items.cannot_tell(Kind::HugepagesNode, None, super::NO_CONFIGURATION);
    };
    if facts.cores.nodes.len() < 2 {
        return items.ok(Kind::HugepagesNode, None, "there is one NUMA node");
    }
    let all = config.workers.cores.len() as u64;
    for (node, workers) in facts.worker_nodes() {
        let object = format!("NUMA node {node}");
        let of_node = |free: bool| -> u64 {
            let pages = |size: &PageSize| {
                size.nodes.get(&node).map_or(0, |pages| if free { pages.1 } else { pages.0 })
            };
            sizes.iter().map(|size| size.kib * pages(size) / 1024).sum()
        };
        // What a daemon that runs has taken is reserved and no longer free.
        let runs = facts.daemon.answering().is_some();
        let kept = if runs { 0 } else { facts.memory.kept_mb };
        let needed = needed_of_free_mb(config, kept) * workers as u64 / all;
        let (has, word) = if runs { (of_node(false), "reserved") } else { (of_node(true), "free") };
        let found = format!("{has} MiB are {word} there, and its {workers} workers need {needed}");
        if has >= needed || config.eal.hugepages == HugePages::Never {
            items.ok(Kind::HugepagesNode, Some(&object), found);
        } else {
            let pages = (of_node(false) + needed - has).div_ceil(2);
            let command = format!("scripts/setup --hugepages {pages} --node {node} --yes");
            items.mend(Kind::HugepagesNode, Some(&object), Verdict::Warning, found, command);
        }
    }
}

pub(in super::super) fn boot(facts: &Facts, items: &mut Items) {
    let Some(sizes) = &facts.memory.pages else {
        return items.cannot_tell(Kind::HugepagesBoot, None, "this kernel has no hugepages");
    };
    let reserved: u64 = sizes.iter().map(|size| size.total).sum();
    match (&facts.memory.at_boot[..], reserved) {
        ([], 0) => items.cannot_tell(Kind::HugepagesBoot, None, "none are reserved now either"),
        ([], _) => items.mend(
            Kind::HugepagesBoot,
            None,
            Verdict::Advice,
            "nothing was found that reserves them again at the next boot",
            again(sizes),
        ),
        (found, _) => items.ok(Kind::HugepagesBoot, None, format!("reserved at boot by {}", listed(found))),
    }
}

pub(in super::super) fn kept_tables(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::KeptTables, None, super::NO_CONFIGURATION);
    };
    if config.ports.is_empty() {
        return items.cannot_tell(Kind::KeptTables, None, IDLE);
    }
    if !config.tables.keep {
        let found = "tables.keep is false: every flow ends with the daemon";
        return items.not_well(Kind::KeptTables, None, Verdict::Advice, found);
    }
    let Some(room) = &facts.memory.table_room else {
        return items.cannot_tell(
            Kind::KeptTables,
            None,
            "how much memory their files may have could not be read",
        );
    };
    let mount = &room.mount;
    if room.kind == RoomKind::Other {
        let found = format!(
            "they are to lie below {mount}, which is no memory file system: they are not kept; name a folder of one in \
             tables.directory"
        );
        return items.not_well(Kind::KeptTables, None, Verdict::Warning, found);
    }
    // Tables in reserved pages have only the file here that says so. A daemon that begins anew takes what is free of these.
    let free = facts.memory.pages.as_deref().map_or(0, free_mb);
    let may = config.eal.hugepages != HugePages::Never && config.tables.directory.is_none();
    let begins = room.held_mb == 0 && facts.daemon.answering().is_none();
    let are_huge = facts.memory.kept_mb > 0 || (begins && may && free >= needed_mb(config));
    let workers = if are_huge { 0 } else { config.workers.cores.len() as u64 };
    let needed = workers * sizing::table_memory_mb(config) + NODE_FILE_MB;
    let has = room.free_mb + room.held_mb;
    let found = format!("their files need {needed} MiB of {mount}, which has {has} for them");
    if has >= needed {
        return items.ok(Kind::KeptTables, None, found);
    }
    if room.kind == RoomKind::Pages {
        let found = format!("{found}: they are not kept; reserve more pages");
        return items.not_well(Kind::KeptTables, None, Verdict::Warning, found);
    }
    let command = format!("mount -o remount,size={}M {mount}", room.size_mb + needed - has);
    items.mend(Kind::KeptTables, None, Verdict::Warning, format!("{found}: they are not kept"), command);
}

pub(in super::super) fn lock(facts: &Facts, items: &mut Items) {
    let needed = facts.gateway.node().map_or(64, |config| u64::from(sizing::packet_memory_mb(config))) << 20;
    let needs_it = facts.gateway.pci_ports().next().is_some();
    let Some((whose, limit)) = facts.memory.lock_limit else {
        return items.cannot_tell(Kind::MemoryLock, None, "the limit could not be read");
    };
    match limit {
        u64::MAX => items.ok(Kind::MemoryLock, None, format!("{whose} limit is none")),
        limit if limit >= needed => {
            items.ok(
                Kind::MemoryLock,
                None,
                format!("{whose} limit is {} MiB, of {} needed", limit >> 20, needed >> 20),
            );
        }
        limit if facts.gateway.node().is_some() && !needs_it => {
            let found = format!(
                "{whose} limit is {} KiB; no port is a card, and nothing has to be pinned",
                limit >> 10
            );
            items.ok(Kind::MemoryLock, None, found);
        }
        limit => {
            let found =
                format!("{whose} limit is {} KiB, and packets need {} MiB", limit >> 10, needed >> 20);
            // Root is not held to it.
            let verdict = if needs_it { Verdict::Warning } else { Verdict::Advice };
            items.mend(Kind::MemoryLock, None, verdict, found, "scripts/setup --memory-lock --yes");
        }
    }
}
