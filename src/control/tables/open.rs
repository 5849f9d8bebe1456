//! The way to a node's tables: what is found is looked at, taken over or replaced.

use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::identity::{Identity, LENGTH, NAME};
use super::{NodeTables, OfWorker, Outcome, Plan, Restart, TablesError, file_name, new_seed, unhealthy};
use crate::control::node;
use crate::control::resume::{self, HEALTH_HOLDS, Keeper, Resume, SETTLED, boot_ms};
use crate::flow::{
    Entry, FilePages, HashSeed, InFile, Keep, NotFound, Pages, Table, TableConfig, TableError, TakenOver,
};
use crate::id::{Millis, WorkerId};
use crate::io::clock::Clock;
use crate::io::owner::Owner;
use crate::io::shelf::{Found, HugeMount, Shelf, ShelfError, huge_mounts};

/// Tables that nobody has worked on for so long have no live flow, and their times would soon seem to lie ahead.
const TOO_OLD: Duration = Duration::from_secs(10 * 86_400);

/// So many daemons in a row may take tables over within [`LOOP_WITHIN`] and end, not in order, before they have settled: if it is
/// for what is in the tables, the next one would do so, too, and so on for ever.
const LOOP_STARTS: usize = 3;

/// See above.
const LOOP_WITHIN: Duration = Duration::from_secs(60);

/// What is wrong with what was found.
enum Wrong {
    /// It is not ours to touch.
    Foreign(String),
    /// It is ours and of no use.
    Useless(String),
}

impl From<ShelfError> for Wrong {
    fn from(error: ShelfError) -> Wrong {
        match error {
            ShelfError::Io { .. } => Wrong::Useless(error.to_string()),
            ShelfError::InUse(_) | ShelfError::Foreign { .. } => Wrong::Foreign(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Wrong {
    fn from(error: std::io::Error) -> Wrong {
        Wrong::Useless(error.to_string())
    }
}

/// What there is, before anything is made.
pub struct Looked(Seen);

enum Seen {
    /// They were taken over.
    Taken(Box<NodeTables>),
    /// There are none, or of no use: new ones go here. What was handed on beside those of no use.
    Room(Shelf, Outcome, Option<Box<Resume>>),
    /// There is no place for them.
    NoRoom(Outcome),
}

pub(super) fn look(plan: &Plan<'_>) -> Result<Looked, TablesError> {
    if plan.workers == 0 {
        // An idle node is no reason to lose what it had before.
        return Ok(Looked(Seen::NoRoom(Outcome::First)));
    }
    let folder = plan.settings.folder(plan.state_directory);
    if !plan.settings.keep {
        // Memory that an earlier daemon has left is not to lie about for ever.
        if let Ok(shelf) = Shelf::open_existing(&folder, plan.owner) {
            clear(&shelf, plan.owner);
        }
        return Ok(Looked(Seen::NoRoom(Outcome::Off)));
    }
    let shelf = match Shelf::open(&folder, plan.owner) {
        Ok(shelf) => shelf,
        Err(error @ ShelfError::InUse(_)) => return Err(TablesError::InUse(error)),
        Err(error) => return Ok(Looked(Seen::NoRoom(Outcome::NotKept(error.to_string())))),
    };
    Ok(Looked(match find(plan, &shelf) {
        Ok(Some(mut tables)) => {
            tables.shelves.push(shelf);
            Seen::Taken(Box::new(tables))
        }
        Ok(None) => Seen::Room(shelf, Outcome::First, None),
        Err(Wrong::Foreign(why)) => Seen::NoRoom(Outcome::NotKept(why)),
        Err(Wrong::Useless(why)) => {
            let known = handed_on(plan, &shelf).map(Box::new);
            Seen::Room(shelf, Outcome::Lost(why), known)
        }
    }))
}

/// What a control core has handed on beside tables that are of no use: the targets' numbers and health are as good without
/// flows, so that those that are adopted go to healthy targets from the first on (H-9).
fn handed_on(plan: &Plan<'_>, shelf: &Shelf) -> Option<Resume> {
    let Ok(Found::File(node)) = shelf.find(NAME, LENGTH) else { return None };
    let identity = Identity::read(node.try_clone().ok()?).ok()?.ok()?;
    let keeper = Identity::keeper(node).ok().filter(|_| identity.is_of_here(plan))?;
    // Whatever brought so many daemons down may be in it.
    let is_harmless = keeper.starts_within(LOOP_WITHIN) < LOOP_STARTS;
    let is_fresh = keeper.anchor()?.age() <= HEALTH_HOLDS;
    keeper.last().filter(|_| is_harmless && is_fresh).cloned()
}

impl Looked {
    /// What was taken over, or else new tables in the place of what was found.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn make(self, plan: &Plan<'_>) -> Result<NodeTables, TablesError> {
        let (shelf, outcome, known) = match self.0 {
            Seen::Taken(tables) => {
                // Here and not before: a start that is refused until then says nothing about the tables. The memory for it
                // was taken with the file; if it cannot be written nothing but a loop is overlooked.
                resume::lock(&tables.keeper).note_start().ok();
                return Ok(*tables);
            }
            Seen::NoRoom(outcome) => return in_own_memory(plan, outcome, None),
            Seen::Room(shelf, outcome, known) => (shelf, outcome, known),
        };
        clear(&shelf, plan.owner);
        let mut tables = match make(plan, &shelf, outcome.clone()) {
            Ok(mut tables) => {
                tables.shelves.push(shelf);
                tables
            }
            Err(why) => {
                clear(&shelf, plan.owner);
                let lost = if let Outcome::Lost(lost) = outcome { Some(lost) } else { None };
                in_own_memory(plan, Outcome::NotKept(why), lost)?
            }
        };
        if let Some(known) = known {
            tables.unhealthy = unhealthy(&known, tables.clock.now(), boot_ms());
            // Where it cannot be written the control core of this process has it all the same.
            resume::lock(&tables.keeper).keep(*known).ok();
        }
        Ok(tables)
    }
}

/// Tables that end with the process; `lost` is why those of the daemon before could not be taken over, if there were any.
fn in_own_memory(plan: &Plan<'_>, outcome: Outcome, lost: Option<String>) -> Result<NodeTables, TablesError> {
    let seed = new_seed()?;
    let mut workers = Vec::new();
    for worker in (0..plan.workers).map(WorkerId) {
        workers.push(OfWorker { table: Table::new(config(plan, worker, &seed))?, links: None });
    }
    let clock = Clock::start();
    let adopt_until = adopt_until(plan).filter(|_| lost.is_some()).map(|until| by_clock(until, &clock));
    Ok(NodeTables {
        workers,
        clock,
        keeper: Keeper::shared(),
        unhealthy: Vec::new(),
        restart: Restart { adopt_until, lost, ..Restart::nothing(outcome) },
        same_ports: Vec::new(),
        shelves: Vec::new(),
    })
}

fn config(plan: &Plan<'_>, worker: WorkerId, seed: &HashSeed) -> TableConfig {
    let &Plan { capacity, workers, pages, .. } = plan;
    TableConfig { capacity, worker, workers, pages, seed: seed.clone() }
}

/// What pages a shelf's tables have.
fn pages(shelf: &Shelf, transparent: bool) -> FilePages {
    match shelf.huge_page() {
        Some(size) => FilePages::Reserved { size },
        None if transparent => FilePages::Transparent,
        None => FilePages::Small,
    }
}

/// Takes the names of a former making away. What was not ours would not have come so far, but for names that were never
/// looked at; these stay.
fn clear(shelf: &Shelf, owner: Owner) {
    // However long another version has made it.
    let length = if let Ok(Found::OtherLength(length)) = shelf.find(NAME, LENGTH) { length } else { LENGTH };
    let node = shelf.find(NAME, length).ok();
    if let Some(Found::File(file)) = node
        && let Ok(Ok(Identity { folder: Some(folder), .. })) = Identity::read(file)
        && let Ok(other) = Shelf::open_existing(&folder, owner)
    {
        clear_tables(&other);
    }
    clear_tables(shelf);
    if let Ok(Found::File(_) | Found::OtherLength(_)) = shelf.find(NAME, LENGTH) {
        // What cannot be removed is told by whoever cannot make it anew.
        shelf.remove(NAME).ok();
    }
}

fn clear_tables(shelf: &Shelf) {
    for name in (0..=u8::MAX).map(WorkerId).map(file_name) {
        if let Ok(Found::File(_) | Found::OtherLength(_)) = shelf.find(&name, 0) {
            shelf.remove(&name).ok();
        }
    }
}

/// Looks for tables, and takes them over.
fn find(plan: &Plan<'_>, shelf: &Shelf) -> Result<Option<NodeTables>, Wrong> {
    let node = match shelf.find(NAME, LENGTH)? {
        Found::Nothing => return Ok(None),
        Found::File(node) => node,
        Found::OtherLength(length) => {
            let path = shelf.path().join(NAME);
            return Err(Wrong::Useless(format!(
                "{} is {length} bytes long and not {LENGTH}",
                path.display()
            )));
        }
    };
    let began = Instant::now();
    let identity = Identity::read(node.try_clone()?)?.map_err(Wrong::Useless)?;
    if let Some(why) = identity.differs(plan) {
        return Err(Wrong::Useless(why));
    }
    let mut keeper = Identity::keeper(node)?;
    let useless = |why: &str| Wrong::Useless(why.to_owned());
    if keeper.starts_within(LOOP_WITHIN) >= LOOP_STARTS {
        let (times, within, seconds) = (LOOP_STARTS, LOOP_WITHIN.as_secs(), SETTLED.as_secs());
        return Err(Wrong::Useless(format!(
            "{times} daemons in a row have taken them over within {within} s, and each of them crashed before it had run \
             for {seconds} s, which may be for what is in them"
        )));
    }
    let anchor = keeper.anchor().ok_or_else(|| useless("what time it was for them is not known"))?;
    if anchor.age() > TOO_OLD {
        return Err(useless("nobody has worked on them for ten days, in which every flow has ended"));
    }
    let mut resume =
        keeper.last().cloned().ok_or_else(|| useless("what their flows' targets are was damaged"))?;
    let other =
        identity.folder.as_deref().map(|folder| Shelf::open_existing(folder, plan.owner)).transpose()?;
    let same_endpoints = Identity::same(&identity.endpoints, &plan.endpoints);
    let look = Look { plan, identity: &identity, shelf: other.as_ref().unwrap_or(shelf) };
    let (workers, came) = look.all(&resume, &same_endpoints)?;

    if anchor.age() > HEALTH_HOLDS {
        resume.forget_health();
        keeper.keep(resume.clone())?;
    }
    let mut clock = Clock::at_rate(anchor.cycles_per_second);
    let (now, boot) = (anchor.now(), boot_ms());
    clock.advance(now.0.wrapping_sub(clock.now().0));
    keeper.keep_time(clock.now(), clock.cycles_per_second())?;
    let lost_some = came.iter().any(|came| came.refused > 0);
    let begins = adopt_until(plan).filter(|_| lost_some);
    // Whoever takes over next is to know what the numbers stand for from now on, and until when strangers are adopted.
    let next = Identity {
        endpoints: plan.endpoints.clone(),
        ports: plan.ports.clone(),
        owner: plan.owner.uid,
        adopt_until_boot_ms: begins.max(adopts_still(&identity, plan)),
        ..identity.clone()
    };
    if next != identity {
        let Found::File(node) = shelf.find(NAME, LENGTH)? else { return Err(useless("they are gone")) };
        next.write(node)?;
    }
    let sum = |of: fn(&TakenOver) -> u32| came.iter().map(|came| u64::from(of(came))).sum::<u64>();
    let restart = Restart {
        kept: sum(|came| came.kept),
        torn: sum(|came| came.torn),
        refused: sum(|came| came.refused),
        took: began.elapsed(),
        last_round: last_round(&workers, now),
        adopt_until: next.adopt_until_boot_ms.map(|until| by_clock(until, &clock)),
        ..Restart::nothing(Outcome::TakenOver)
    };
    Ok(Some(NodeTables {
        workers,
        clock,
        keeper: Arc::new(Mutex::new(keeper)),
        unhealthy: unhealthy(&resume, now, boot),
        restart,
        same_ports: Identity::same(&identity.ports, &plan.ports),
        shelves: other.into_iter().collect(),
    }))
}

/// The last of all workers' rounds before `now`, by the clock: a worker that was paused is behind it.
fn last_round(workers: &[OfWorker], now: Millis) -> Option<Millis> {
    let rounds = workers.iter().map(|worker| worker.table.beat()).map(|beat| beat.round.plus(beat.paused));
    rounds.min_by_key(|round| now.since(*round))
}

/// Until when packets of no flow begin one if flows were lost now, in milliseconds of [`boot_ms`].
fn adopt_until(plan: &Plan<'_>) -> Option<u64> {
    let ms = u64::try_from(plan.settings.adopt().as_millis()).unwrap_or(u64::MAX);
    (ms > 0).then(|| boot_ms().saturating_add(ms))
}

/// The same, as flows were lost by a start before this one. No longer than the operator says now.
fn adopts_still(identity: &Identity, plan: &Plan<'_>) -> Option<u64> {
    let until = identity.adopt_until_boot_ms.filter(|until| *until > boot_ms())?;
    Some(until.min(adopt_until(plan)?))
}

/// A moment of [`boot_ms`] by the workers' clock.
fn by_clock(until: u64, clock: &Clock) -> Millis {
    let left = until.saturating_sub(boot_ms());
    clock.now().plus(u32::try_from(left).unwrap_or(u32::MAX / 2))
}

/// Taking over of all workers' tables, each by a thread of its own.
struct Look<'a> {
    plan: &'a Plan<'a>,
    identity: &'a Identity,
    shelf: &'a Shelf,
}

impl Look<'_> {
    fn all(&self, resume: &Resume, endpoints: &[bool]) -> Result<(Vec<OfWorker>, Vec<TakenOver>), Wrong> {
        let mut files = Vec::new();
        for worker in (0..self.plan.workers).map(WorkerId) {
            files.push((worker, self.file(worker)?));
        }
        let keep = |entry: &Entry| {
            let slot = resume.slots.get(entry.target.index());
            let target =
                slot.is_some_and(|slot| slot.holder.is_some() && slot.generation == entry.target_generation);
            let endpoint = endpoints.get(entry.key().endpoint().index()).copied().unwrap_or(false);
            if target && endpoint { Keep::Yes } else { Keep::No }
        };
        let one = |worker: WorkerId, file: &File| self.one(worker, file, keep);
        let done: Vec<Result<(OfWorker, TakenOver), Wrong>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                files.iter().map(|(worker, file)| scope.spawn(move || one(*worker, file))).collect();
            let gone = || Wrong::Useless("looking at them failed".to_owned());
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(gone()))).collect()
        });
        let mut all = (Vec::new(), Vec::new());
        for done in done {
            let (worker, came) = done?;
            all.0.push(worker);
            all.1.push(came);
        }
        Ok(all)
    }

    fn file(&self, worker: WorkerId) -> Result<File, Wrong> {
        let name = file_name(worker);
        let length = file_length(self.plan, worker, self.pages())
            .map_err(|error| Wrong::Useless(error.to_string()))?;
        let path = || self.shelf.path().join(&name).display().to_string();
        match self.shelf.find(&name, length)? {
            Found::File(file) => Ok(file),
            Found::Nothing => Err(Wrong::Useless(format!("{} is missing", path()))),
            Found::OtherLength(found) => {
                Err(Wrong::Useless(format!("{} is {found} bytes long and not {length}", path())))
            }
        }
    }

    fn pages(&self) -> FilePages {
        pages(self.shelf, self.identity.transparent)
    }

    fn one(
        &self,
        worker: WorkerId,
        file: &File,
        keep: impl Fn(&Entry) -> Keep,
    ) -> Result<(OfWorker, TakenOver), Wrong> {
        let seed = HashSeed::of_secret(self.identity.seed);
        let place = InFile { file, pages: self.pages(), making: self.identity.making };
        let path = self.shelf.path().join(file_name(worker));
        let told = |error: NotFound| Wrong::Useless(format!("{}: {error}", path.display()));
        let mut table = Table::find_in(&config(self.plan, worker, &seed), &place).map_err(told)?;
        let came = table.take_over(keep);
        let links = table.kept_links();
        Ok((OfWorker { table, links }, came))
    }
}

fn file_length(plan: &Plan<'_>, worker: WorkerId, pages: FilePages) -> Result<u64, TableError> {
    let seed = HashSeed::of_secret([0; 8]);
    Ok(config(plan, worker, &seed).file_bytes(pages)? as u64)
}

/// New tables in files; why not, in a sentence.
fn make(plan: &Plan<'_>, shelf: &Shelf, outcome: Outcome) -> Result<NodeTables, String> {
    let mut tries = Vec::new();
    if plan.pages == Pages::Huge {
        tries.extend(huge_shelves(plan, huge_mounts()));
    }
    // In huge pages if that goes well, beside the file that says so if not.
    for huge in tries {
        if let Ok(tables) = make_in(plan, shelf, Some(&huge), outcome.clone()) {
            return Ok(NodeTables { shelves: vec![huge], ..tables });
        }
        clear_tables(&huge);
        clear(shelf, plan.owner);
    }
    make_in(plan, shelf, None, outcome)
}

/// Folders where there are as many reserved huge pages as it takes. None where the operator has said where the tables are to
/// be: he knows what outlives the daemon, and a container's own huge pages go with it.
pub(super) fn huge_shelves(plan: &Plan<'_>, mounts: Vec<HugeMount>) -> impl Iterator<Item = Shelf> {
    let name = node::Tables::name(plan.state_directory);
    let mounts = if plan.settings.directory.is_some() { Vec::new() } else { mounts };
    mounts.into_iter().filter_map(move |mount| {
        let small = file_length(plan, WorkerId(0), FilePages::Small).ok()?;
        let pages = FilePages::Reserved { size: mount.page };
        let whole = file_length(plan, WorkerId(0), pages).ok()?;
        // As with memory of its own: half of a page of 1 GiB given away is memory that a flow was promised.
        let is_waste = whole - small > (small / 8).max(1 << 20);
        let fits = whole.saturating_mul(plan.workers.into()) <= mount.free;
        if is_waste || !fits { None } else { Shelf::open(&mount.path.join(&name), plan.owner).ok() }
    })
}

fn make_in(
    plan: &Plan<'_>,
    shelf: &Shelf,
    huge: Option<&Shelf>,
    outcome: Outcome,
) -> Result<NodeTables, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let seed = new_seed().map_err(|error| text(&error))?;
    let [making, ..] = new_seed().map_err(|error| text(&error))?.secret();
    let transparent = plan.pages == Pages::Huge;
    let own = huge.unwrap_or(shelf);
    if let Some(huge) = huge {
        clear_tables(huge);
    }
    // With all of its memory: what is handed on later finds room for it, however full the file system is then.
    let node = shelf.create_whole(NAME, LENGTH).map_err(|error| text(&error))?;
    let mut workers = Vec::new();
    for worker in (0..plan.workers).map(WorkerId) {
        let pages = pages(own, transparent);
        let length = file_length(plan, worker, pages).map_err(|error| text(&error))?;
        let file = own.create_whole(&file_name(worker), length).map_err(|error| text(&error))?;
        let place = InFile { file: &file, pages, making };
        let mut table =
            Table::create_in(&config(plan, worker, &seed), &place).map_err(|error| text(&error))?;
        let links = table.kept_links();
        workers.push(OfWorker { table, links });
    }
    let clock = Clock::start();
    let mut keeper = node
        .try_clone()
        .and_then(Identity::keeper)
        .map_err(|error| format!("{}: {error}", shelf.path().join(NAME).display()))?;
    let adopt_until = adopt_until(plan).filter(|_| matches!(outcome, Outcome::Lost(_)));
    let identity = Identity {
        making,
        seed: seed.secret(),
        adopt_until_boot_ms: adopt_until,
        folder: huge.map(|huge| huge.path().to_owned()),
        transparent,
        ..Identity::of(plan)
    };
    keeper
        .keep_time(clock.now(), clock.cycles_per_second())
        .and_then(|()| keeper.clear())
        .and_then(|()| identity.write(node))
        .map_err(|error| format!("{}: {error}", shelf.path().join(NAME).display()))?;
    let adopt_until = adopt_until.map(|until| by_clock(until, &clock));
    Ok(NodeTables {
        workers,
        clock,
        keeper: Arc::new(Mutex::new(keeper)),
        unhealthy: Vec::new(),
        restart: Restart { adopt_until, ..Restart::nothing(outcome) },
        same_ports: vec![true; plan.ports.len()],
        shelves: Vec::new(),
    })
}
