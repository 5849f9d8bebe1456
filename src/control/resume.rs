//! What a control core must know to go on with flow tables that live: whose the numbers are that flow entries and
//! counters carry, and what is known of the targets' health.
//!
//! It is plain data ([`Resume`]). The control core gives it to a [`Keeper`] before workers hear of a number in
//! it; whoever starts a control core beside living tables gives it the keeper's last word. That is a new
//! process that has taken over the tables of the one before it, and a control core that starts anew in the same process.
//! Where the tables are kept in memory that outlives the process the keeper writes there, too.

mod doubled;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub use doubled::Doubled;

use super::health::damping::Verdict;
use super::health::{ReasonCode, StateReason, TargetKey};
use super::model::Name;
use crate::id::Millis;

/// What is known of targets may be so old and is still gone by. A restart takes a second and an upgrade some; after a
/// minute nobody knows how a target is.
pub const HEALTH_HOLDS: Duration = Duration::from_secs(60);

/// Room for the data: 16,384 targets take less than 4 MiB.
const ROOM: usize = 8 << 20;

/// A daemon that has gone on with tables for so long, with one control core, is not brought down by what is in them: the ageing
/// hand has passed every entry by then, which takes it 16 s.
pub const SETTLED: Duration = Duration::from_secs(20);

/// Starts that are known at most.
const STARTS: usize = 8;

/// And for a moment, or for some of them.
const MOMENT_ROOM: usize = 256;

/// What a control core hands on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// By [`TargetId`](crate::id::TargetId).
    pub slots: Vec<SlotRecord>,
    /// Slots that nobody holds, longest free first.
    pub free: Vec<u16>,
    /// Load balancers by [`GatewayId`](crate::id::GatewayId).
    pub gateways: Vec<Name>,
}

/// A target's slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Which holder of the slot this is, or the next one will be.
    pub generation: u16,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// The target that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its group's name.
    pub group: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// What its checks decided, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<KnownHealth>,
}

/// What checks decided of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHealth {
    /// Whether they found it healthy.
    pub healthy: bool,
    /// Since when, in milliseconds of [`boot_ms`].
    pub since_boot_ms: u64,
    /// What was seen of an unhealthy one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<(ReasonCode, String)>,
}

impl Holder {
    /// The target.
    pub fn key(&self) -> TargetKey {
        TargetKey::new(self.group.as_str(), self.address)
    }
}

impl KnownHealth {
    /// Healthy or not since that moment.
    pub fn since(healthy: bool, since: Instant, reason: Option<(ReasonCode, String)>) -> KnownHealth {
        let age = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        KnownHealth { healthy, since_boot_ms: boot_ms().saturating_sub(age), reason }
    }

    /// What checks decided.
    pub fn verdict(&self) -> Verdict {
        if self.healthy { Verdict::Healthy } else { Verdict::Unhealthy }
    }

    /// For how long it has been so.
    pub fn age(&self) -> Duration {
        Duration::from_millis(boot_ms().saturating_sub(self.since_boot_ms))
    }

    /// Why it is unhealthy.
    pub fn reason(&self) -> Option<StateReason> {
        let (code, description) = self.reason.clone()?;
        Some(StateReason { code, description })
    }
}

impl Resume {
    /// What is known of each target's health.
    pub fn health(&self) -> HashMap<TargetKey, KnownHealth> {
        let holders = self.slots.iter().filter_map(|slot| slot.holder.as_ref());
        holders.filter_map(|holder| Some((holder.key(), holder.health.clone()?))).collect()
    }

    /// Forgets what is known of the targets' health.
    pub fn forget_health(&mut self) {
        self.slots.iter_mut().filter_map(|slot| slot.holder.as_mut()).for_each(|holder| holder.health = None);
    }

    /// Whether it holds together: no target has two slots, and those that are free are nobody's. What does not was not
    /// written by a daemon.
    pub fn is_sound(&self) -> bool {
        let mut keys = HashSet::new();
        let mut free = HashSet::new();
        let held_once =
            self.slots.iter().filter_map(|slot| slot.holder.as_ref()).all(|holder| keys.insert(holder.key()));
        let nobodys =
            |number: &u16| self.slots.get(usize::from(*number)).is_some_and(|slot| slot.holder.is_none());
        held_once && self.free.iter().all(|number| nobodys(number) && free.insert(*number))
    }
}

/// A moment by the clock that all processes of one boot share and by the workers' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// See [`boot_ms`].
    pub boot_ms: u64,
    /// What the workers' clock showed then.
    pub workers_ms: u32,
    /// How often in a second the counter counts that it is read from.
    pub cycles_per_second: u64,
}

impl Anchor {
    /// What the workers' clock shows now.
    pub fn now(&self) -> Millis {
        let passed = boot_ms().saturating_sub(self.boot_ms);
        #[expect(clippy::cast_possible_truncation, reason = "Millis wraps")]
        let passed = passed as u32;
        Millis(self.workers_ms).plus(passed)
    }

    /// How long ago it was.
    pub fn age(&self) -> Duration {
        Duration::from_millis(boot_ms().saturating_sub(self.boot_ms))
    }
}

/// Keeps what a control core last handed on, in this process and, if there is a file, beyond it.
#[derive(Debug, Default)]
pub struct Keeper {
    last: Option<Resume>,
    file: Option<Doubled>,
    /// The file does not have `last`, as it could not be written.
    unwritten: bool,
    anchor: Option<Anchor>,
    anchor_file: Option<Doubled>,
    /// When daemons took the tables over that are not known to have [settled](SETTLED) or to have ended in order, in
    /// milliseconds of [`boot_ms`].
    starts: Vec<u64>,
    starts_file: Option<Doubled>,
}

/// A keeper that outlives a control core.
pub type SharedKeeper = Arc<Mutex<Keeper>>;

/// What is behind the lock is one value, replaced as a whole.
pub fn lock(keeper: &SharedKeeper) -> MutexGuard<'_, Keeper> {
    keeper.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// A keeper for as long as the process lives.
    pub fn shared() -> SharedKeeper {
        Arc::default()
    }

    /// A keeper that writes to this place of a file, too; its last word is what the file has.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn in_file(file: File, offset: u64) -> io::Result<Keeper> {
        let (moments, moment) = Doubled::open(file.try_clone()?, offset, MOMENT_ROOM)?;
        let data_at = offset + Doubled::size(MOMENT_ROOM);
        let (begun, starts) = Doubled::open(file.try_clone()?, data_at + Doubled::size(ROOM), MOMENT_ROOM)?;
        let (file, data) = Doubled::open(file, data_at, ROOM)?;
        let last = data.and_then(|data| serde_json::from_slice(&data).ok()).filter(Resume::is_sound);
        let anchor = moment.and_then(|moment| serde_json::from_slice(&moment).ok());
        let starts = starts.and_then(|starts| serde_json::from_slice(&starts).ok()).unwrap_or_default();
        let (file, anchor_file, starts_file) = (Some(file), Some(moments), Some(begun));
        Ok(Keeper { last, file, unwritten: false, anchor, anchor_file, starts, starts_file })
    }

    /// Bytes that it takes of its file.
    pub const fn size() -> u64 {
        2 * Doubled::size(MOMENT_ROOM) + Doubled::size(ROOM)
    }

    /// The moment that was noted last: until about then whoever handed on was alive.
    pub fn anchor(&self) -> Option<Anchor> {
        self.anchor
    }

    /// Notes what the workers' clock shows now.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep_time(&mut self, now: Millis, cycles_per_second: u64) -> io::Result<()> {
        let anchor = Anchor { boot_ms: boot_ms(), workers_ms: now.0, cycles_per_second };
        self.anchor = Some(anchor);
        match &mut self.anchor_file {
            Some(file) => {
                serde_json::to_vec(&anchor).map_err(io::Error::from).and_then(|data| file.write(&data))
            }
            None => Ok(()),
        }
    }

    /// How many daemons took the tables over within the time before now, and neither settled nor ended in order, in a row.
    pub fn starts_within(&self, time: Duration) -> usize {
        let (now, time) = (boot_ms(), u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.starts.iter().filter(|start| now.saturating_sub(**start) < time).count()
    }

    /// Notes that a daemon has taken the tables over.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_start(&mut self) -> io::Result<()> {
        self.starts.push(boot_ms());
        self.starts.drain(..self.starts.len().saturating_sub(STARTS));
        self.write_starts()
    }

    /// Notes that it is not brought down by what is in them.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_settled(&mut self) -> io::Result<()> {
        self.starts.clear();
        self.write_starts()
    }

    fn write_starts(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.starts_file else { return Ok(()) };
        file.write(&serde_json::to_vec(&self.starts)?)
    }

    /// What was handed on last.
    pub fn last(&self) -> Option<&Resume> {
        self.last.as_ref()
    }

    /// Forgets everything: the tables are empty.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn clear(&mut self) -> io::Result<()> {
        self.keep(Resume::default())?;
        self.last = None;
        Ok(())
    }

    /// Takes what is handed on from here on.
    ///
    /// # Errors
    /// If the file cannot be written: then a new process will know the one before. This one knows it, and writes it
    /// when it is told the same again.
    pub fn keep(&mut self, resume: Resume) -> io::Result<()> {
        if !self.unwritten && self.last.as_ref() == Some(&resume) {
            return Ok(());
        }
        let written = match &mut self.file {
            Some(file) => {
                serde_json::to_vec(&resume).map_err(io::Error::from).and_then(|data| file.write(&data))
            }
            None => Ok(()),
        };
        self.last = Some(resume);
        self.unwritten = written.is_err();
        written
    }
}

/// Milliseconds since the machine was started, sleep included: a clock that all processes of one boot share.
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(n: u8, health: Option<KnownHealth>) -> SlotRecord {
        SlotRecord {
            generation: u16::from(n),
            holder: Some(Holder { group: "fw".into(), address: [192, 0, 2, n].into(), health }),
        }
    }

    fn resume() -> Resume {
        let reason = Some((ReasonCode::Timeout, "Request timed out".to_owned()));
        let health = KnownHealth { healthy: false, since_boot_ms: 77, reason };
        Resume {
            slots: vec![holder(1, None), SlotRecord { generation: 9, holder: None }, holder(2, Some(health))],
            free: vec![1],
            gateways: vec![Name::try_from("gw".to_owned()).unwrap()],
        }
    }

    #[test]
    fn what_was_kept_in_a_file_is_there_for_the_next_process() {
        let file = tempfile::tempfile().unwrap();
        let mut keeper = Keeper::in_file(file.try_clone().unwrap(), 128).unwrap();
        assert_eq!(keeper.last(), None);
        keeper.keep(resume()).unwrap();
        let mut next = Keeper::in_file(file.try_clone().unwrap(), 128).unwrap();
        assert_eq!(next.last(), Some(&resume()));
        next.clear().unwrap();
        assert_eq!(next.last(), None);
        let next = Keeper::in_file(file, 128).unwrap();
        assert_eq!(next.last(), Some(&Resume::default()));
    }

    #[test]
    fn what_could_not_be_written_is_written_when_it_is_said_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let writable = || File::options().read(true).write(true).open(&path).unwrap();
        File::create(&path).unwrap();
        let mut keeper = Keeper::in_file(File::open(&path).unwrap(), 0).unwrap();
        for _ in 0..2 {
            assert!(keeper.keep(resume()).is_err(), "the file is open for reading only");
            assert_eq!(keeper.last(), Some(&resume()), "a control core of this process has it");
        }
        keeper.file = Keeper::in_file(writable(), 0).unwrap().file;
        keeper.keep(resume()).unwrap();
        assert_eq!(Keeper::in_file(writable(), 0).unwrap().last(), Some(&resume()));
    }

    #[test]
    fn starts_are_counted_until_one_settles_or_they_are_long_ago() {
        let file = tempfile::tempfile().unwrap();
        let keeper = || Keeper::in_file(file.try_clone().unwrap(), 0).unwrap();
        let minute = Duration::from_secs(60);
        for n in 0..20 {
            assert_eq!(keeper().starts_within(minute), n.min(STARTS));
            keeper().note_start().unwrap();
        }
        keeper().note_settled().unwrap();
        assert_eq!(keeper().starts_within(minute), 0);
        let mut late = keeper();
        late.starts = vec![boot_ms() - 50, boot_ms()];
        assert_eq!((late.starts_within(minute), late.starts_within(Duration::from_millis(50))), (2, 1));
    }

    #[test]
    fn what_no_daemon_would_write_is_not_believed() {
        assert!(resume().is_sound());
        let mut twice = resume();
        twice.slots.push(holder(1, None));
        let mut held_and_free = resume();
        held_and_free.free.push(0);
        let mut free_twice = resume();
        free_twice.free.push(1);
        let mut beyond = resume();
        beyond.free = vec![3];
        for wrong in [twice, held_and_free, free_twice, beyond] {
            assert!(!wrong.is_sound(), "{wrong:?}");
            let file = tempfile::tempfile().unwrap();
            Keeper::in_file(file.try_clone().unwrap(), 0).unwrap().keep(wrong).unwrap();
            assert_eq!(Keeper::in_file(file, 0).unwrap().last(), None);
        }
    }

    #[test]
    fn a_full_node_fits() {
        let health = || {
            let description = "Health checks failed with these codes: [503]".to_owned();
            let reason = Some((ReasonCode::ResponseCodeMismatch, description));
            Some(KnownHealth { healthy: false, since_boot_ms: u64::MAX, reason })
        };
        let slots = (0..16_384_u32).map(|n| SlotRecord {
            generation: u16::MAX,
            holder: Some(Holder {
                group: "a-name-as-long-as-a-name-may-be1".into(),
                address: Ipv4Addr::from(0xdede_0000 + n),
                health: health(),
            }),
        });
        let full = Resume { slots: slots.collect(), free: Vec::new(), gateways: Vec::new() };
        let file = tempfile::tempfile().unwrap();
        let mut keeper = Keeper::in_file(file.try_clone().unwrap(), 0).unwrap();
        keeper.keep(full.clone()).unwrap();
        assert_eq!(Keeper::in_file(file, 0).unwrap().last(), Some(&full));
    }

    #[test]
    fn health_is_known_of_those_of_whom_it_was_decided() {
        let mut resume = resume();
        let known = resume.health();
        let known: Vec<_> = known.iter().collect();
        let [(key, health)] = known[..] else { panic!("{known:?}") };
        assert_eq!((key.to_string().as_str(), health.verdict()), ("fw/192.0.2.2", Verdict::Unhealthy));
        assert_eq!(health.reason().unwrap().description, "Request timed out");
        resume.forget_health();
        assert!(resume.health().is_empty());
    }

    #[test]
    fn the_workers_time_goes_on_across_processes() {
        let file = tempfile::tempfile().unwrap();
        let mut keeper = Keeper::in_file(file.try_clone().unwrap(), 0).unwrap();
        assert_eq!(keeper.anchor(), None);
        keeper.keep_time(Millis(u32::MAX - 3), 2_000_000_000).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let anchor = Keeper::in_file(file, 0).unwrap().anchor().unwrap();
        assert_eq!(anchor.cycles_per_second, 2_000_000_000);
        let passed = anchor.now().since(Millis(u32::MAX - 3));
        assert!((19..10_000).contains(&passed), "{passed}");
        assert!(anchor.age() >= Duration::from_millis(19));
    }
}
