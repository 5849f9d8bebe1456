//! One daemon after the other over the same folder: what is handed on, what is refused, and in which words.

mod room;

use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use super::identity::{LENGTH, NAME};
use super::*;
use crate::control::resume::{self, Holder, Resume, SlotRecord};
use crate::flow::{FlowFlags, FlowKey, FlowState, LinkId, NewEntry};
use crate::id::EndpointId;
use crate::io::shelf::HugeMount;

struct Node {
    folder: tempfile::TempDir,
    settings: node::Tables,
    workers: u8,
    capacity: u32,
    endpoints: Vec<String>,
    ports: Vec<String>,
    owner: Owner,
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Node {
    fn new() -> Node {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let directory = Some(folder.path().join("tables"));
        Node {
            settings: node::Tables { directory, ..node::Tables::default() },
            folder,
            workers: 2,
            capacity: 1024,
            endpoints: names(&["office", "lab"]),
            ports: names(&["left", "right", "under"]),
            owner: Owner::present(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("tables").join(name)
    }

    fn plan(&self) -> Plan<'_> {
        Plan {
            settings: &self.settings,
            state_directory: self.folder.path(),
            workers: self.workers,
            capacity: self.capacity,
            pages: Pages::Small,
            owner: self.owner,
            endpoints: self.endpoints.clone(),
            ports: self.ports.clone(),
        }
    }

    fn try_open(&self) -> Result<NodeTables, TablesError> {
        NodeTables::open(&self.plan())
    }

    fn open(&self) -> NodeTables {
        self.try_open().unwrap()
    }

    /// A daemon that has had so many flows in each worker's table, and is gone.
    fn used(&self, flows: u32) {
        let mut tables = self.open();
        assert_eq!(tables.restart.outcome, Outcome::First);
        hand_on(&tables);
        for worker in &mut tables.workers {
            for n in 0..flows {
                insert(&mut worker.table, n);
            }
            worker.table.note_round(tables.clock.now(), true);
        }
    }

    /// What came of it, without the folder's path; nothing that was found may be lost where it is somebody else's.
    fn told(&self) -> String {
        let tables = self.open();
        tables.restart.sentence().replace(&self.folder.path().display().to_string(), "…")
    }
}

/// Even flows are of one endpoint, odd ones of another; the last digit is the target.
fn insert(table: &mut Table, n: u32) {
    let key = key(n);
    let new = NewEntry {
        state: FlowState::Established,
        flags: FlowFlags::empty(),
        target: TargetId(u16::try_from(n % 10).unwrap()),
        target_generation: 3,
        link: [LinkId::NONE; 2],
        now: Millis(n),
    };
    table.insert(table.hash(&key), &key, new).unwrap();
}

fn key(n: u32) -> FlowKey {
    let endpoint = EndpointId(u16::try_from(n % 2).unwrap());
    FlowKey::new(endpoint, 4, 6, (0x0a00_0000 + n).into(), 0xc0a8_0001, 40_000, 443).0
}

/// The control core says whose slots 0 to 8 are: the first nine targets'. Slot 9 is nobody's.
fn hand_on(tables: &NodeTables) {
    let slot = |n: u8| SlotRecord {
        generation: 3,
        holder: (n < 9).then(|| Holder {
            group: "fw".to_owned(),
            address: [192, 0, 2, n].into(),
            health: None,
        }),
    };
    let slots = (0..10).map(slot).collect();
    resume::lock(&tables.keeper).keep(Resume { slots, free: vec![9], gateways: Vec::new() }).unwrap();
}

// F-5, F-9
#[test]
fn flows_go_on_with_their_time_and_their_targets() {
    let node = Node::new();
    node.used(100);
    std::thread::sleep(Duration::from_millis(30));
    let tables = node.open();
    let Restart { outcome, kept, torn, refused, last_round, adopt_until, .. } = &tables.restart;
    assert_eq!((outcome, *kept, *torn), (&Outcome::TakenOver, 180, 0));
    assert_eq!(*refused, 20, "slot 9 is nobody's, and so its flows are gone");
    assert!(adopt_until.is_some(), "and are adopted by whom they come to");
    let silent = tables.clock.now().since(last_round.unwrap());
    assert!((30..20_000).contains(&silent), "{silent} ms");
    for worker in &tables.workers {
        for n in (0..100).filter(|n| n % 10 != 9) {
            let id = worker.table.find(worker.table.hash(&key(n)), &key(n)).unwrap();
            let entry = worker.table.entry(id);
            assert_eq!((entry.last_seen, entry.target.0), (Millis(n), u16::try_from(n % 10).unwrap()));
        }
        assert!(worker.links.is_some());
    }
    let keeper = resume::lock(&tables.keeper);
    assert_eq!(keeper.last().unwrap().slots.len(), 10);
    drop(keeper);
    assert!(tables.is_same_port(PortId(2)) && !tables.is_same_port(PortId(3)));
    let before = tables.clock.now();
    drop(tables);
    let again = node.open();
    assert_eq!((again.restart.kept, again.restart.refused), (180, 0));
    assert!(again.clock.now().since(before) < 20_000, "time does not jump");
    assert!(before.since(again.clock.now()) <= 1, "nor go back");
}

// An upgrade from a daemon that was root all the time: no flow is lost, and the next start finds nothing of root's.
#[test]
fn flows_of_a_daemon_that_stayed_root_go_on_under_the_daemons_user() {
    if !nix::unistd::geteuid().is_root() {
        println!("left out: not root");
        return;
    }
    let mut node = Node::new();
    node.used(100);
    node.owner = Owner { uid: 4711, gid: 4712 };
    for start in 1..=2 {
        let tables = node.open();
        assert_eq!(
            (&tables.restart.outcome, tables.restart.kept),
            (&Outcome::TakenOver, 180),
            "start {start}"
        );
        drop(tables);
        for name in ["", NAME, "worker-0", "worker-1"] {
            let about = std::fs::metadata(node.path(name)).unwrap();
            assert_eq!((about.uid(), about.gid()), (4711, 4712), "{name}");
        }
    }
    // Back to root: the user's are not trusted as root's own.
    node.owner = Owner::present();
    let told = node.told();
    let expected = "flow tables are not kept, and flows will end with the daemon: …/tables belongs to user 4711, and the daemon is \
                    user 0";
    assert_eq!(told, expected);
}

// F-8
#[test]
fn who_starts_again_adopts_for_what_is_left_of_the_time() {
    let mut node = Node::new();
    node.used(100);
    node.settings.adopt_seconds = 2;
    let left = |node: &Node| {
        let tables = node.open();
        assert_eq!(tables.restart.outcome, Outcome::TakenOver);
        resume::lock(&tables.keeper).note_settled().unwrap();
        (tables.restart.refused, tables.restart.adopt_until.map(|until| until.since(tables.clock.now())))
    };
    let (refused, first) = left(&node);
    assert_eq!(refused, 20);
    std::thread::sleep(Duration::from_millis(100));
    let (refused, then) = left(&node);
    assert_eq!(refused, 0);
    assert!((1..=first.unwrap() - 90).contains(&then.unwrap()), "{first:?}, {then:?}");
    // The operator's word of now is what counts, and what is over is over.
    node.settings.adopt_seconds = 1;
    assert!(left(&node).1.unwrap() <= 1000);
    std::thread::sleep(Duration::from_millis(1010));
    assert_eq!(left(&node), (0, None));
}

// F-8
#[test]
fn flows_that_are_lost_are_adopted_by_tables_that_are_not_kept_too() {
    let mut node = Node::new();
    node.used(100);
    // No room for a new one where that was.
    std::fs::remove_file(node.path("worker-0")).unwrap();
    std::fs::create_dir(node.path("worker-0")).unwrap();
    node.workers = 1;
    let tables = node.open();
    let told = tables.restart.sentence().replace(&node.folder.path().display().to_string(), "…");
    assert_eq!(
        told,
        "flow tables are not kept, and flows will end with the daemon: cannot make …/tables/worker-0: File exists \
         (os error 17); those of the daemon before this one are lost: they are of 2 workers, and now it is 1 worker"
    );
    let adopts = tables.restart.adopt_until.unwrap().since(tables.clock.now());
    assert!((300_000..=350_000).contains(&adopts), "{adopts}");
    assert!(tables.workers.iter().all(|worker| worker.links.is_none()));
}

#[test]
fn who_says_where_the_tables_are_has_none_in_other_folders() {
    let mut node = Node::new();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mount = HugeMount { path: folder.path().to_owned(), page: 2 << 20, free: 1 << 40 };
    let shelves = |node: &Node| open::huge_shelves(&node.plan(), vec![mount.clone()]).count();
    assert_eq!(shelves(&node), 0);
    node.settings.directory = None;
    assert_eq!(shelves(&node), 1);
}

#[test]
fn tables_that_bring_one_daemon_down_after_the_other_are_given_up() {
    let node = Node::new();
    node.used(100);
    let crash = |times: usize| {
        for _ in 0..times {
            let tables = node.open();
            assert_eq!(tables.restart.outcome, Outcome::TakenOver);
        }
    };
    // Whoever settles or ends in order breaks the row, and whoever is refused before there is anything to run on is not in it.
    for _ in 0..3 {
        crash(2);
        drop(NodeTables::look(&node.plan()).unwrap());
        resume::lock(&node.open().keeper).note_settled().unwrap();
    }
    crash(3);
    let tables = node.open();
    assert_eq!(
        tables.restart.sentence(),
        "the flow tables of the daemon before this one could not be taken over: 3 daemons in a row have taken them over \
         within 60 s, and each of them crashed before it had run for 20 s, which may be for what is in them"
    );
    assert!(
        tables.restart.adopt_until.is_some() && tables.workers.iter().all(|worker| worker.table.is_empty())
    );
    hand_on(&tables);
    drop(tables);
    crash(1);
}

#[test]
fn nothing_is_left_where_another_version_had_its_tables() {
    let node = Node::new();
    node.used(1);
    let elsewhere = node.folder.path().join("huge");
    std::fs::DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
    for name in ["worker-0", "worker-1"] {
        std::fs::rename(node.path(name), elsewhere.join(name)).unwrap();
    }
    let open = || std::fs::OpenOptions::new().read(true).write(true).open(node.path(NAME)).unwrap();
    let before = identity::Identity::read(open()).unwrap().unwrap();
    identity::Identity { folder: Some(elsewhere.clone()), ..before }.write(open()).unwrap();
    // It knew of more.
    open().set_len(LENGTH + 4096).unwrap();
    assert!(matches!(node.open().restart.outcome, Outcome::Lost(_)));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn the_gap_is_told_without_the_pauses_before() {
    let node = Node::new();
    node.used(10);
    let mut tables = node.open();
    for worker in &mut tables.workers {
        let own = tables.clock.now().0.wrapping_sub(400_000);
        worker.table.note_pause(400_000);
        worker.table.note_round(Millis(own), true);
    }
    drop(tables);
    let tables = node.open();
    let silent = tables.clock.now().since(tables.restart.last_round.unwrap());
    assert!(silent < 20_000, "{silent} ms");
}

#[test]
fn who_has_nothing_to_lose_adopts_nobody() {
    let node = Node::new();
    let tables = node.open();
    assert_eq!(tables.restart, Restart::nothing(Outcome::First));
    for name in ["node", "worker-0", "worker-1"] {
        let file = std::fs::metadata(node.path(name)).unwrap();
        assert_eq!(file.mode() & 0o7777, 0o600);
        assert!(file.blocks() * 512 >= file.len(), "{name} has all of its memory");
    }
    assert_eq!(std::fs::metadata(node.path(".")).unwrap().mode() & 0o7777, 0o700);
}

type Spoil = fn(&mut Node);

/// What is ours and of no use is told in a sentence and made anew, and strangers are adopted for a while (F-8).
#[test]
fn what_cannot_be_taken_over_is_told_and_made_anew() {
    fn rewrite(node: &Node, change: fn(&mut serde_json::Value)) {
        let open = || std::fs::OpenOptions::new().read(true).write(true).open(node.path(NAME)).unwrap();
        let identity = identity::Identity::read(open()).unwrap().unwrap();
        let mut json = serde_json::to_value(identity).unwrap();
        change(&mut json);
        let (mut place, _) = resume::Doubled::open(open(), 0, 512 << 10).unwrap();
        place.write(json.to_string().as_bytes()).unwrap();
    }
    fn write(node: &Node, name: &str, at: u64, bytes: &[u8]) {
        let file = std::fs::OpenOptions::new().write(true).open(node.path(name)).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }
    let cases: [(&str, Spoil); 18] = [
        ("they are of 2 workers, and now it is 1 worker", |node| node.workers = 1),
        ("they are for 1024 flows a worker, and there is to be room for 2048", |node| node.capacity = 2048),
        ("the machine was started anew since, or they are of another", |node| {
            rewrite(node, |identity| identity["boot"] = "another".into());
        }),
        ("they are user 4711's, and the daemon is user 0", |node| {
            rewrite(node, |identity| identity["owner"] = 4711.into());
        }),
        ("they are of layout 5, and this version's is 7", |node| {
            rewrite(node, |identity| identity["layout"] = 5.into());
        }),
        ("they are in format 7, and this version's is 1", |node| {
            rewrite(node, |identity| {
                *identity = serde_json::json!({"format": 7, "what": "is only known then"});
            });
        }),
        ("what they are cannot be read: missing field `making`", |node| {
            rewrite(node, |identity| drop(identity.as_object_mut().unwrap().remove("making")));
        }),
        ("…/tables/worker-1: a flow table's making is ", |node| {
            rewrite(node, |identity| identity["making"] = 1.into());
        }),
        ("what they are was not written to its end, or is damaged", |node| {
            write(node, NAME, 60, b"?");
            write(node, NAME, (512 << 10) + 48 + 60, b"?");
        }),
        ("what their flows' targets are was damaged", |node| {
            let start = resume::Doubled::size(512 << 10) + resume::Doubled::size(256);
            let length = usize::try_from(LENGTH - start).unwrap();
            write(node, NAME, start, &vec![1; length]);
        }),
        ("what time it was for them is not known", |node| {
            write(node, NAME, resume::Doubled::size(512 << 10), &vec![1; 2 * (48 + 256)]);
        }),
        ("…/tables/node is 77 bytes long and not ", |node| {
            std::fs::OpenOptions::new().write(true).open(node.path(NAME)).unwrap().set_len(77).unwrap();
        }),
        ("…/tables/worker-1 is missing", |node| std::fs::remove_file(node.path("worker-1")).unwrap()),
        ("…/tables/worker-0 is 4096 bytes long and not ", |node| {
            std::fs::OpenOptions::new()
                .write(true)
                .open(node.path("worker-0"))
                .unwrap()
                .set_len(4096)
                .unwrap();
        }),
        ("…/tables/worker-0: the header of a flow table is damaged", |node| {
            write(node, "worker-0", 20, &[1]);
        }),
        ("…/tables/worker-1: it is no flow table, or one that was not made to the end", |node| {
            write(node, "worker-1", 0, &[0; 64]);
        }),
        ("…/tables/worker-1: a flow table is of layout 4, and this version's is 7", |node| {
            write(node, "worker-1", 8, &4_u32.to_le_bytes());
        }),
        ("…/tables/worker-0: a flow table's worker is 1, and 0 was expected", |node| {
            std::fs::rename(node.path("worker-0"), node.path("x")).unwrap();
            std::fs::rename(node.path("worker-1"), node.path("worker-0")).unwrap();
            std::fs::rename(node.path("x"), node.path("worker-1")).unwrap();
        }),
    ];
    for (sentence, spoil) in cases {
        let mut node = Node::new();
        node.used(100);
        spoil(&mut node);
        let tables = node.open();
        let told = tables.restart.sentence().replace(&node.folder.path().display().to_string(), "…");
        let rest =
            told.strip_prefix("the flow tables of the daemon before this one could not be taken over: ");
        let rest = rest.unwrap_or_else(|| panic!("{sentence}: {told}"));
        // Whichever worker's table is looked at first.
        let rest = rest.replace("worker-0: a flow table's making", "worker-1: a flow table's making");
        assert!(rest.starts_with(sentence), "{sentence}: {told}");
        let adopts = tables.restart.adopt_until.unwrap().since(tables.clock.now());
        assert!((300_000..=350_000).contains(&adopts), "{sentence}: {adopts}");
        assert_eq!(tables.workers.len(), usize::from(node.workers));
        assert!(tables.workers.iter().all(|worker| worker.table.is_empty() && worker.links.is_some()));
        hand_on(&tables);
        drop(tables);
        let next = node.open();
        assert_eq!(next.restart.outcome, Outcome::TakenOver, "{sentence}");
        assert_eq!((next.restart.kept, next.restart.refused), (0, 0), "{sentence}: nothing is lost again");
        let goes_on = next.restart.adopt_until.unwrap().since(next.clock.now());
        assert!((299_000..=adopts).contains(&goes_on), "{sentence}: {goes_on}");
    }
}

// H-9
#[test]
fn what_is_known_of_targets_goes_on_where_their_flows_are_lost() {
    let know = |node: &Node| {
        let tables = node.open();
        let mut last = resume::lock(&tables.keeper).last().unwrap().clone();
        for (slot, healthy) in last.slots.iter_mut().zip([true, false]) {
            let health = resume::KnownHealth { healthy, since_boot_ms: resume::boot_ms(), reason: None };
            slot.holder.as_mut().unwrap().health = Some(health);
        }
        resume::lock(&tables.keeper).keep(last).unwrap();
    };
    let cases: [(Spoil, bool); 4] = [
        (|node| node.capacity = 2048, true),
        (|node| std::fs::remove_file(node.path("worker-1")).unwrap(), true),
        // Then nobody knows how old it is.
        (
            |node| {
                let file = std::fs::OpenOptions::new().write(true).open(node.path(NAME)).unwrap();
                file.write_all_at(&vec![1; 2 * (48 + 256)], resume::Doubled::size(512 << 10)).unwrap();
            },
            false,
        ),
        (|node| std::fs::remove_file(node.path(NAME)).unwrap(), false),
    ];
    for (number, (spoil, goes_on)) in cases.into_iter().enumerate() {
        let mut node = Node::new();
        node.used(10);
        know(&node);
        spoil(&mut node);
        let tables = node.open();
        assert_ne!(tables.restart.outcome, Outcome::TakenOver, "case {number}");
        let keeper = resume::lock(&tables.keeper);
        let known = keeper.last().map_or(0, |last| last.health().len());
        assert_eq!(known, if goes_on { 2 } else { 0 }, "case {number}");
        let unhealthy: Vec<TargetId> = tables.unhealthy.iter().map(|(target, _)| *target).collect();
        assert_eq!(unhealthy, if goes_on { vec![TargetId(1)] } else { vec![] }, "case {number}");
        if goes_on {
            assert_eq!(keeper.last().unwrap().slots[0].generation, 3, "case {number}");
        }
    }
}

#[test]
fn what_is_not_ours_alone_is_left_and_the_tables_are_not_kept() {
    let cases: [(&str, Spoil); 7] = [
        ("…/tables/worker-0 belongs to user 4711, and the daemon is user 0", |node| {
            std::os::unix::fs::chown(node.path("worker-0"), Some(4711), None).unwrap();
        }),
        ("…/tables belongs to user 4711, and the daemon is user 0", |node| {
            std::os::unix::fs::chown(node.path("."), Some(4711), None).unwrap();
        }),
        ("…/tables/node is a symbolic link", |node| {
            std::fs::rename(node.path(NAME), node.folder.path().join("elsewhere")).unwrap();
            symlink(node.folder.path().join("elsewhere"), node.path(NAME)).unwrap();
        }),
        ("…/tables/worker-1 is a symbolic link", |node| {
            std::fs::rename(node.path("worker-1"), node.folder.path().join("elsewhere")).unwrap();
            symlink(node.folder.path().join("elsewhere"), node.path("worker-1")).unwrap();
        }),
        ("…/tables/worker-0 has mode 0644, which is open to others", |node| {
            std::fs::set_permissions(node.path("worker-0"), PermissionsExt::from_mode(0o644)).unwrap();
        }),
        ("…/tables/node has 2 names", |node| {
            std::fs::hard_link(node.path(NAME), node.folder.path().join("elsewhere")).unwrap();
        }),
        ("…/tables has mode 0755, which is open to others", |node| {
            std::fs::set_permissions(node.path("."), PermissionsExt::from_mode(0o755)).unwrap();
        }),
    ];
    for (sentence, spoil) in cases {
        let mut node = Node::new();
        node.used(100);
        spoil(&mut node);
        let list = |node: &Node| {
            let files = std::fs::read_dir(node.path(".")).unwrap();
            let mut files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
            files.sort();
            let bytes = files.iter().map(|name| std::fs::read(node.path(name.to_str().unwrap())).unwrap());
            let bytes: Vec<Vec<u8>> = bytes.collect();
            (files, bytes)
        };
        let before = list(&node);
        let told = node.told();
        assert_eq!(told, format!("flow tables are not kept, and flows will end with the daemon: {sentence}"));
        assert!(list(&node) == before, "{sentence}: it was touched");
        assert!(node.open().workers.iter().all(|worker| worker.table.is_empty() && worker.links.is_none()));
    }
}

#[test]
fn two_daemons_never_share_tables() {
    let node = Node::new();
    let first = node.open();
    let refused = node.try_open().err().unwrap().to_string();
    assert!(
        refused.starts_with("the flow tables' folder ") && refused.ends_with(" is in use by another daemon"),
        "{refused}"
    );
    drop(first);
    assert_eq!(node.open().restart.outcome, Outcome::TakenOver);
}

// O-4
#[test]
fn flows_of_an_endpoint_whose_number_is_anothers_are_not_given_to_that_one() {
    let mut node = Node::new();
    node.used(100);
    node.endpoints = names(&["office", "another", "lab"]);
    node.ports = names(&["left", "under"]);
    let tables = node.open();
    // The odd ones are of the endpoint that has another number now.
    assert_eq!((tables.restart.kept, tables.restart.refused), (2 * 50, 2 * 50));
    assert!(tables.restart.adopt_until.is_some(), "they are adopted by what they go on at");
    assert_eq!([0, 1, 2].map(|port| tables.is_same_port(PortId(port))), [true, false, false]);
    drop(tables);
    let next = node.open();
    assert_eq!((next.restart.kept, next.restart.refused), (2 * 50, 0));
    assert!(next.is_same_port(PortId(1)));
}

#[test]
fn tables_that_are_not_to_be_kept_leave_nothing_behind() {
    let mut node = Node::new();
    node.used(100);
    node.settings.keep = false;
    assert_eq!(node.told(), "flow tables are not kept: tables.keep is false");
    assert_eq!(std::fs::read_dir(node.path(".")).unwrap().count(), 0);
    node.settings.keep = true;
    node.settings.directory = Some("/proc/1/tables".into());
    let told = node.told();
    assert!(
        told.starts_with("flow tables are not kept, and flows will end with the daemon: cannot make"),
        "{told}"
    );
}

#[test]
fn the_time_of_adoption_is_the_operators() {
    let mut node = Node::new();
    node.used(1);
    (node.workers, node.settings.adopt_seconds) = (1, 0);
    let tables = node.open();
    assert!(matches!(tables.restart.outcome, Outcome::Lost(_)));
    assert_eq!(tables.restart.adopt_until, None);
}

//
#[test]
fn a_target_is_unhealthy_since_when_it_was_found_so() {
    let health = |healthy, since_boot_ms| resume::KnownHealth { healthy, since_boot_ms, reason: None };
    let holder = |n: u8, health| SlotRecord {
        generation: 0,
        holder: Some(Holder { group: "fw".to_owned(), address: [192, 0, 2, n].into(), health }),
    };
    let slots = vec![
        holder(0, None),
        holder(1, Some(health(false, 999_000))),
        holder(2, Some(health(true, 999_000))),
        SlotRecord::default(),
        holder(4, Some(health(false, 0))),
    ];
    let known = unhealthy(&Resume { slots, ..Resume::default() }, Millis(500), 1_000_000);
    assert_eq!(known[0], (TargetId(1), Millis(500_u32.wrapping_sub(1000))));
    assert_eq!(known[1], (TargetId(4), Millis(500_u32.wrapping_sub(1_000_000))));
    assert_eq!(known.len(), 2);
}
