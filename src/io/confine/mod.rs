//! What a thread may still ask of the kernel: a seccomp filter for each kind of thread, and no capabilities.
//!
//! The daemon compiles the [`Filters`] once its ports are open, and puts them in force with [`Filters::enforce`]: from then on
//! every thread of the process, DPDK's too, is under the control core's. Each thread that is started
//! after that says what it is with [`enter`], and is left what its kind needs (`calls`). Nothing can be
//! had back: filters only add up, and `no_new_privs` is set.
//!
//! A call that is not allowed ends the process by SIGSYS (`SECCOMP_RET_KILL_PROCESS`), and the kernel's audit
//! says which it was; `docs/privileges.md` tells how to read that. Where nothing was put in force, as in tests and
//! in other programs, [`enter`] does nothing.

#![forbid(unsafe_code)]

mod calls;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use caps::CapSet;
pub use caps::Capability;
use nix::sys::signal::{SigSet, Signal};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use calls::{Allowed, Calls, Condition, calls_of};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadKind {
    /// The control core, and what every other thread may call at most.
    Control,
    /// Forwards packets.
    Worker,
    /// Moves frames between workers and the host's taps.
    Host,
    /// Writes the state, answers that take long, looks for files: the control core's helpers.
    Files,
    /// Writes records of flows.
    FlowLog,
    /// Writes the log.
    Log,
    /// DPDK's own: interrupts, alarms, the other ends of memory interfaces.
    Dpdk,
}

impl ThreadKind {
    /// All of them.
    pub const ALL: [ThreadKind; 7] = [
        ThreadKind::Control,
        ThreadKind::Worker,
        ThreadKind::Host,
        ThreadKind::Files,
        ThreadKind::FlowLog,
        ThreadKind::Log,
        ThreadKind::Dpdk,
    ];
}

/// What becomes of a call that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// It ends the process.
    Kills,
    /// It is done, and the kernel's audit says so.
    IsLogged,
}

/// Why a thread could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// This processor's calls are not known.
    #[error("there are no filters for this architecture ({0}); set privileges.seccomp to \"off\"")]
    Architecture(&'static str),
    /// The kernel has no filters, or not the one that is asked for.
    #[error(
        "the kernel does not take a seccomp filter: {0}; set privileges.seccomp to \"off\" where there are none"
    )]
    Filter(#[from] seccompiler::Error),
    /// A filter could not be compiled.
    #[error("a seccomp filter cannot be made: {0}")]
    Compile(#[from] seccompiler::BackendError),
    /// Capabilities could not be given up.
    #[error("capabilities cannot be given up: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    /// Signals could not be left to the main thread, or programs be kept from having rights.
    #[error("signals cannot be left to the main thread, or rights not be given up: {0}")]
    System(#[from] nix::Error),
}

/// What every thread of this process is held to, once it has given up its rights.
static IN_FORCE: OnceLock<InForce> = OnceLock::new();

thread_local! {
    static MAY_OPEN_FILES: Cell<bool> = const { Cell::new(true) };
}

#[derive(Debug)]
struct InForce {
    /// `None` where an operator wants none.
    filters: Option<Filters>,
}

/// A filter for each kind of thread.
#[derive(Debug)]
pub struct Filters {
    programs: BTreeMap<ThreadKind, BpfProgram>,
    /// Answers `clone3` as a kernel would that does not have it: what it starts is told by memory, which a filter
    /// does not see. The C library then uses `clone`.
    no_clone3: BpfProgram,
}

impl Filters {
    /// Compiles the filters for a process whose ports have these drivers.
    ///
    /// # Errors
    /// `Architecture` or `Compile`.
    pub fn compile(drivers: &[&str], forbidden: Forbidden) -> Result<Filters, ConfineError> {
        let otherwise = match forbidden {
            Forbidden::Kills => SeccompAction::KillProcess,
            Forbidden::IsLogged => SeccompAction::Log,
        };
        let mut programs = BTreeMap::new();
        for kind in ThreadKind::ALL {
            let calls = calls_of(kind, drivers);
            programs.insert(kind, program(calls, otherwise.clone(), SeccompAction::Allow)?);
        }
        let clone3 = Calls::from([(libc::SYS_clone3, Allowed { name: "clone3", alternatives: Vec::new() })]);
        let errno = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        Ok(Filters { programs, no_clone3: program(clone3, SeccompAction::Allow, errno)? })
    }
}

/// Holds every thread that the process has to the control core's calls, and from here on each that says what it is
/// ([`enter`]) to its own. Without filters threads give up their capabilities only. Once a process.
///
/// # Errors
/// `Filter`; the process should end then.
pub fn put_in_force(filters: Option<Filters>) -> Result<(), ConfineError> {
    let now = IN_FORCE.get_or_init(|| InForce { filters });
    if let Some(filters) = &now.filters {
        have_memory_given_back();
        seccompiler::apply_filter_all_threads(&filters.no_clone3)?;
        seccompiler::apply_filter_all_threads(&filters.programs[&ThreadKind::Control])?;
    }
    Ok(())
}

/// Has the C library learn how memory is given back to the kernel. glibc opens `/proc/sys/vm/overcommit_memory` for that, once
/// in a process, when it first shrinks the heap of a thread other than the main one: be it in a worker weeks later.
fn have_memory_given_back() {
    /// Below what has a mapping of its own; and so many that a whole heap of a thread (64 MiB) is had, as what is kept of a
    /// heap may grow to nearly that. Nothing but the blocks' heads is touched.
    const BLOCK: usize = 100_000;
    const BLOCKS: usize = (64 << 20) / BLOCK - 10;
    let use_heap = || {
        let mut blocks = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS {
            let mut block: Vec<u8> = Vec::new();
            if block.try_reserve_exact(BLOCK).is_err() {
                break;
            }
            blocks.push(std::hint::black_box(block));
        }
        // The last first: a heap shrinks at its end.
        while blocks.pop().is_some() {}
    };
    // Where there can be no thread now there is nothing to learn either.
    if let Ok(thread) = std::thread::Builder::new().spawn(use_heap) {
        // It does not panic.
        thread.join().ok();
    }
}

/// Leaves the calling thread, which the control core or DPDK has started, what its kind needs: no capability, no
/// signal that is for the process, and the calls of its kind.
///
/// # Errors
/// See [`ConfineError`]; the thread should not go on then.
pub fn enter(kind: ThreadKind) -> Result<(), ConfineError> {
    let Some(in_force) = IN_FORCE.get() else { return Ok(()) };
    leave_signals_to_others()?;
    keep_capabilities(&[])?;
    if let Some(filters) = &in_force.filters {
        let opens = matches!(kind, ThreadKind::Control | ThreadKind::Files | ThreadKind::FlowLog);
        MAY_OPEN_FILES.set(opens);
        seccompiler::apply_filter(&filters.programs[&kind])?;
    }
    Ok(())
}

/// Whether the calling thread may open files: a panic's backtrace is made from some.
#[must_use]
pub fn may_open_files() -> bool {
    MAY_OPEN_FILES.get()
}

/// Leaves the calling thread these capabilities, of those that it has, and no program that it starts any. For good.
///
/// # Errors
/// `Capabilities`, or `System`.
pub fn keep_capabilities(of: &[Capability]) -> Result<(), ConfineError> {
    nix::sys::prctl::set_no_new_privs()?;
    let has = caps::read(None, CapSet::Permitted)?;
    let keeps = of.iter().copied().filter(|capability| has.contains(capability)).collect();
    // What is effective has to be permitted at any time.
    caps::clear(None, CapSet::Effective)?;
    caps::set(None, CapSet::Permitted, &keeps)?;
    caps::set(None, CapSet::Effective, &keeps)?;
    Ok(caps::clear(None, CapSet::Inheritable)?)
}

/// The names of the calls that this kind of thread may make in a daemon whose ports have these drivers, in order; and for each
/// whether its arguments matter. For the documentation.
#[must_use]
pub fn names_of_calls(kind: ThreadKind, drivers: &[&str]) -> Vec<(&'static str, bool)> {
    let calls = calls_of(kind, drivers).into_values();
    let mut names: Vec<_> = calls.map(|call| (call.name, !call.alternatives.is_empty())).collect();
    names.sort_unstable();
    names
}

/// Blocks the signals that are for the process as a whole, so that their handlers, which make calls of their own,
/// run in the main thread. Those that tell a thread of its own fault stay.
fn leave_signals_to_others() -> Result<(), ConfineError> {
    let mut signals = SigSet::all();
    for own in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGTRAP,
        Signal::SIGABRT,
        Signal::SIGSYS,
    ] {
        signals.remove(own);
    }
    Ok(signals.thread_block()?)
}

fn program(
    calls: Calls,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, ConfineError> {
    let architecture = std::env::consts::ARCH;
    let target = architecture.try_into().map_err(|_| ConfineError::Architecture(architecture))?;
    let rules = calls.into_iter().map(|(call, allowed)| {
        let rules: Result<Vec<_>, _> = allowed.alternatives.iter().map(|all| rule(all)).collect();
        rules.map(|rules| (call, rules))
    });
    let rules = rules.collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok(SeccompFilter::new(rules, otherwise, listed, target)?.try_into()?)
}

/// The conditions are of `int`s and of flags in the lower half of a word.
fn rule(all: &[Condition]) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = |condition: &Condition| {
        let (argument, operator, value) = match *condition {
            Condition::Is(argument, value) => (argument, SeccompCmpOp::Eq, value),
            Condition::IsNot(argument, value) => (argument, SeccompCmpOp::Ne, value),
            Condition::Bits(argument, mask, value) => (argument, SeccompCmpOp::MaskedEq(mask), value),
        };
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    SeccompRule::new(all.iter().map(condition).collect::<Result<_, _>>()?)
}
