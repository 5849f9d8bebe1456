//! The cores of workers.

use super::super::facts::{Facts, list};
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::{IDLE, NO_CONFIGURATION, listed};
use crate::control::node::WorkerIdle;

/// The workers' cores; says that there are none where there is no configuration.
fn cores<'a>(facts: &'a Facts, kind: Kind, items: &mut Items) -> Option<&'a [u16]> {
    if facts.gateway.node().is_none() {
        items.cannot_tell(kind, None, NO_CONFIGURATION);
        return None;
    }
    if facts.gateway.worker_cores().is_empty() {
        items.cannot_tell(kind, None, IDLE);
        return None;
    }
    Some(facts.gateway.worker_cores())
}

/// Those of `cores` that are not among `others`.
fn without(cores: &[u16], others: &[u16]) -> Vec<u16> {
    let mut rest: Vec<u16> = cores.iter().copied().filter(|core| !others.contains(core)).collect();
    rest.sort_unstable();
    rest
}

/// Whether workers sleep, so that their cores are shared on purpose.
fn sleeps(facts: &Facts) -> bool {
    facts.gateway.node().is_some_and(|config| config.workers.idle == WorkerIdle::Sleep)
}

pub(in super::super) fn online(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::CoresOnline, None, NO_CONFIGURATION);
    };
    if config.workers.cores.is_empty() {
        return items.cannot_tell(Kind::CoresOnline, None, IDLE);
    }
    if facts.cores.online.is_empty() {
        return items.cannot_tell(Kind::CoresOnline, None, "which cores there are could not be read");
    }
    let mut all = config.workers.cores.clone();
    all.extend(&config.workers.control_cores);
    all.sort_unstable();
    all.dedup();
    let absent = without(&all, &facts.cores.online);
    let there = list(&facts.cores.online);
    if absent.is_empty() {
        items.ok(Kind::CoresOnline, None, format!("cores {} are there, of {there}", list(&all)));
    } else {
        let found = format!(
            "there is no core {}: there are {there}; change workers.cores and workers.control_cores",
            listed(absent)
        );
        items.not_well(Kind::CoresOnline, None, Verdict::Problem, found);
    }
}

pub(in super::super) fn isolated(facts: &Facts, items: &mut Items) {
    let Some(cores) = cores(facts, Kind::CoresIsolated, items) else { return };
    let shared = without(cores, &facts.cores.isolated);
    if shared.is_empty() {
        items.ok(Kind::CoresIsolated, None, format!("the workers' cores {} are isolated", list(cores)));
    } else if sleeps(facts) {
        items.ok(
            Kind::CoresIsolated,
            None,
            "workers sleep (idle = \"sleep\"): their cores are shared on purpose",
        );
    } else {
        let found = format!("the scheduler puts other work on the workers' cores {}", list(&shared));
        items.mend(Kind::CoresIsolated, None, Verdict::Warning, found, isolate(cores));
    }
}

/// The command that isolates cores.
fn isolate(cores: &[u16]) -> String {
    format!("scripts/setup --isolate {} --yes", list(&without(cores, &[])))
}

pub(in super::super) fn tickless(facts: &Facts, items: &mut Items) {
    let Some(cores) = cores(facts, Kind::CoresTickless, items) else { return };
    let ticking = without(cores, &facts.cores.tickless);
    let called = without(cores, &facts.cores.without_callbacks);
    if sleeps(facts) {
        items.ok(Kind::CoresTickless, None, "workers sleep (idle = \"sleep\"): it makes no difference");
    } else if ticking.is_empty() && called.is_empty() {
        items.ok(
            Kind::CoresTickless,
            None,
            format!("cores {} are without the kernel's clock and callbacks", list(cores)),
        );
    } else {
        let mut missing = ticking;
        missing.extend(called);
        missing.sort_unstable();
        missing.dedup();
        let found = format!(
            "the kernel's clock or callbacks interrupt cores {} (nohz_full=, rcu_nocbs=)",
            list(&missing)
        );
        items.mend(Kind::CoresTickless, None, Verdict::Advice, found, isolate(cores));
    }
}

pub(in super::super) fn siblings(facts: &Facts, items: &mut Items) {
    let Some(cores) = cores(facts, Kind::CoreSiblings, items) else { return };
    if facts.cores.siblings.is_empty() {
        return items.cannot_tell(Kind::CoreSiblings, None, "which threads share a core could not be read");
    }
    let mut pairs: Vec<String> = Vec::new();
    for (core, threads) in &facts.cores.siblings {
        let others = threads.iter().filter(|other| *other > core && cores.contains(other));
        pairs.extend(others.map(|other| format!("{core} and {other}")));
    }
    if pairs.is_empty() {
        items.ok(Kind::CoreSiblings, None, "no two workers are on threads of one core");
    } else {
        let found = format!(
            "workers are on threads of one core: {}; take one thread of each for workers.cores",
            listed(pairs)
        );
        items.not_well(Kind::CoreSiblings, None, Verdict::Warning, found);
    }
}

pub(in super::super) fn governor(facts: &Facts, items: &mut Items) {
    let Some(cores) = cores(facts, Kind::Governor, items) else { return };
    if facts.cores.governors.is_empty() {
        let found = if facts.cores.is_virtual {
            "the virtual machine's host sets the frequency"
        } else {
            "the kernel does not set the frequency"
        };
        return items.cannot_tell(Kind::Governor, None, found);
    }
    let slow: Vec<_> =
        facts.cores.governors.iter().filter(|(_, governor)| *governor != "performance").collect();
    if slow.is_empty() {
        items.ok(Kind::Governor, None, format!("performance on cores {}", list(cores)));
    } else {
        let found = listed(slow.iter().map(|(core, governor)| format!("{governor} on core {core}")));
        items.mend(Kind::Governor, None, Verdict::Warning, found, "scripts/setup --governor --yes");
    }
}

pub(in super::super) fn clock(facts: &Facts, items: &mut Items) {
    let unsteady = facts.cores.steady_counter == Some(false);
    match facts.cores.clock_source.as_deref() {
        None => items.cannot_tell(Kind::ClockSource, None, "the clock source could not be read"),
        // A hypervisor's own source is made of the counter, and corrected.
        Some(source @ ("tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page"))
            if !unsteady || facts.cores.is_virtual =>
        {
            items.ok(Kind::ClockSource, None, format!("{source}: the kernel trusts the CPU's counter"));
        }
        Some(source) if unsteady => {
            let found = format!(
                "{source}, and this CPU's counter changes its speed or stops (no constant_tsc, nonstop_tsc)"
            );
            items.not_well(Kind::ClockSource, None, Verdict::Warning, found);
        }
        Some(source) => {
            let found = format!(
                "{source}: the kernel does not trust the CPU's counter; `dmesg | grep -i tsc` says why"
            );
            items.mend(
                Kind::ClockSource,
                None,
                Verdict::Warning,
                found,
                "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            );
        }
    }
}
