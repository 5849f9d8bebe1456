//! Whatever fails and whenever the power goes: what was accepted is there, what was refused is not, and the
//! history has what was accepted before.

use super::*;
use crate::control::model::Change;
use crate::control::store::simulated::{Fault, SimulatedDisk, Trouble};

const FOLDER_NAME: &str = "/state";

/// The state that change `number` leads to: told apart by its only group's delay.
fn state(number: u64) -> State {
    let seed =
        State::from_document(r#"{ "version": 1, "target_groups": [ { "name": "fw" } ] }"#).expect("valid");
    (1..=number).fold(seed, |state, number| {
        let change = Change::ModifyTargetGroupAttributes {
            target_group: "fw".to_owned(),
            attributes: vec![("deregistration_delay.timeout_seconds".to_owned(), number.to_string())],
        };
        state.apply(&change).expect("accepted").0
    })
}

fn record(number: u64) -> Option<ChangeRecord> {
    let what = vec![format!("change {number}")];
    Some(ChangeRecord { generation: number, unix_ms: number * 1000, by: Some("tests".to_owned()), what })
}

fn opened(disk: SimulatedDisk) -> (Versions<SimulatedDisk>, Option<State>) {
    let mut versions = Versions::new(disk, Path::new(FOLDER_NAME));
    let state = versions.load().expect("never half a state");
    (versions, state)
}

fn saved(disk: SimulatedDisk, numbers: std::ops::RangeInclusive<u64>) -> SimulatedDisk {
    let (mut versions, _) = opened(disk);
    for number in numbers {
        versions.save(&state(number), record(number)).expect("nothing in the way");
    }
    versions.disk
}

/// That the disk holds `present`, and before it exactly what was accepted, in whatever is left of the history
/// but at least up to `complete`.
fn assert_whole(disk: &SimulatedDisk, present: u64, what: &str) {
    let (versions, found) = opened(disk.clone());
    assert_eq!(found.as_ref(), Some(&state(present)), "{what}");
    let kept: Vec<u64> = versions.all().iter().map(|version| version.generation).collect();
    let expected: Vec<u64> = (0..=present).rev().collect();
    assert_eq!(kept, expected, "{what}");
    for version in versions.all() {
        assert_eq!(version.change, record(version.generation), "{what}");
        assert_eq!(version.is_current, version.generation == present, "{what}");
        if !version.is_current {
            let earlier = versions.earlier(version.generation).expect("readable");
            assert_eq!(earlier, Some(state(version.generation)), "{what}");
        }
    }
}

/// How many operations a save takes on such a disk.
fn operations(disk: &SimulatedDisk, number: u64) -> usize {
    let (mut versions, _) = opened(disk.with_fault(None));
    versions.save(&state(number), record(number)).expect("nothing in the way");
    versions.disk.operations
}

fn disks() -> [SimulatedDisk; 2] {
    [SimulatedDisk::new(), SimulatedDisk::without_links()]
}

const KINDS: [io::ErrorKind; 4] = [
    io::ErrorKind::StorageFull,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::Other,
];

#[test]
fn whenever_the_power_goes_an_accepted_state_is_there_and_so_are_those_before_it() {
    for disk in disks() {
        let before = saved(disk, 0..=2);
        let steps = operations(&before, 3);
        assert!(steps >= 7, "{steps} steps");
        let mut found = [0; 2];
        // After the last step too: then it was answered.
        for after in 0..=steps {
            let fault = Fault { after, what: Trouble::PowerCut };
            let (mut versions, _) = opened(before.with_fault(Some(fault)));
            let accepted = versions.save(&state(3), record(3)).is_ok();
            assert_eq!(accepted, after >= steps);
            for (number, disk) in versions.disk.after_power_cut().into_iter().enumerate() {
                let what = format!("cut before {after}, outcome {number}");
                let (_, state_found) = opened(disk.clone());
                let is_new = state_found == Some(state(3));
                assert!(is_new || !accepted, "{what}: a lost change");
                assert_whole(&disk, if is_new { 3 } else { 2 }, &what);
                found[usize::from(is_new)] += 1;
                // And what was left lying about is not in the way of the next.
                let next = if is_new { 4 } else { 3 };
                assert_whole(&saved(disk, next..=next + 1), next + 1, &what);
            }
        }
        assert!(found.iter().all(|found| *found > 0), "both were found: {found:?}");
    }
}

#[test]
fn whatever_step_fails_the_change_is_refused_and_the_next_is_stored() {
    for disk in disks() {
        let before = saved(disk, 0..=2);
        let steps = operations(&before, 3);
        for (after, kind) in (0..steps).flat_map(|after| KINDS.map(|kind| (after, kind))) {
            for what in [Trouble::Fails(kind), Trouble::FailsFromThenOn(kind)] {
                let told = format!("{what:?} at {after}");
                let (mut versions, _) = opened(before.with_fault(Some(Fault { after, what })));
                let Err(error) = versions.save(&state(3), record(3)) else {
                    // To find nothing to remove, and no second names, is no failure.
                    assert!(matches!(what, Trouble::Fails(_)), "{told}");
                    continue;
                };
                assert_eq!(error.kind(), kind, "{told}");
                assert_eq!(versions.all()[0].change, record(2), "{told}: what it goes by is the old state");
                // The daemon goes on, by its old state, and another change comes once the disk is well.
                versions.disk.fault = None;
                versions.save(&other(3), record(3)).expect("the disk is well again");
                let (again, found) = opened(versions.disk.clone());
                assert_eq!(found, Some(other(3)), "{told}");
                assert_eq!(
                    again.earlier(2).expect("readable"),
                    Some(state(2)),
                    "{told}: not what was refused"
                );
                versions.save(&state(4), record(4)).expect("and the next");
                let (again, _) = opened(versions.disk);
                assert_eq!(again.earlier(3).expect("readable"), Some(other(3)), "{told}");
            }
        }
    }
}

/// Another state of the same generation as `state(number)`.
fn other(number: u64) -> State {
    let change = Change::ModifyTargetGroupAttributes {
        target_group: "fw".to_owned(),
        attributes: vec![("deregistration_delay.timeout_seconds".to_owned(), "3600".to_owned())],
    };
    state(number - 1).apply(&change).expect("accepted").0
}

#[test]
fn a_daemon_that_was_refused_and_then_loses_its_power_has_one_of_the_two() {
    let before = saved(SimulatedDisk::new(), 0..=2);
    let steps = operations(&before, 3);
    for first in 0..steps {
        let failed = Fault { after: first, what: Trouble::Fails(io::ErrorKind::StorageFull) };
        let (mut versions, _) = opened(before.with_fault(Some(failed)));
        let refused = versions.save(&state(3), record(3)).is_err();
        if !refused {
            continue;
        }
        for second in 0..=steps {
            let (mut versions, _) = (versions_of(&versions), ());
            versions.disk = versions.disk.with_fault(Some(Fault { after: second, what: Trouble::PowerCut }));
            let accepted = versions.save(&other(3), record(3)).is_ok();
            for disk in versions.disk.after_power_cut() {
                let (again, found) = opened(disk);
                let found = found.expect("a state");
                assert!(found == other(3) || !accepted, "{first}, {second}: a lost change");
                assert!([state(2), state(3), other(3)].contains(&found), "{first}, {second}");
                // What was refused is never among the earlier states.
                let earlier = again.earlier(3).expect("readable");
                assert!(earlier.is_none(), "{first}, {second}: {earlier:?}");
                assert_eq!(again.earlier(1).expect("readable"), Some(state(1)), "{first}, {second}");
            }
        }
    }
}

fn versions_of(versions: &Versions<SimulatedDisk>) -> Versions<SimulatedDisk> {
    Versions {
        disk: versions.disk.clone(),
        directory: versions.directory.clone(),
        current: versions.current.clone(),
        earlier: versions.earlier.clone(),
    }
}

#[test]
fn the_end_of_a_drain_is_stored_under_the_change_before_it() {
    let (mut versions, _) = opened(saved(SimulatedDisk::new(), 0..=1));
    versions.save(&state(2), None).expect("nothing in the way");
    let (mut versions, found) = opened(versions.disk);
    assert_eq!(found, Some(state(2)));
    let told = |versions: &Versions<SimulatedDisk>| {
        versions.all().iter().map(|version| (version.generation, version.change.clone())).collect::<Vec<_>>()
    };
    assert_eq!(told(&versions), [(1, record(1)), (0, record(0))]);
    versions.save(&state(3), record(3)).expect("nothing in the way");
    let (versions, _) = opened(versions.disk);
    assert_eq!(told(&versions), [(3, record(3)), (1, record(1)), (0, record(0))]);
    assert_eq!(versions.earlier(1).expect("readable"), Some(state(2)), "as it was in the end");
}

#[test]
fn so_many_states_are_kept_and_no_more() {
    let last = MAX_EARLIER as u64 + 7;
    let disk = saved(SimulatedDisk::new(), 0..=last);
    let (versions, _) = opened(disk.clone());
    let kept: Vec<u64> = versions.all().iter().map(|version| version.generation).collect();
    assert_eq!(kept, (7..=last).rev().collect::<Vec<_>>());
    assert_eq!(disk.paths().len(), MAX_EARLIER + 1, "{:?}", disk.paths());
}

#[test]
fn a_number_never_names_two_states() {
    let disk = saved(SimulatedDisk::new(), 0..=5);
    let (objects, third) = (Path::new("/state/objects.json"), Path::new("/state/history/3.json"));
    // An operator puts an earlier state back by hand,
    let mut restored = disk.clone();
    let text = disk.read(third).expect("readable").expect("there");
    restored.put(objects, &text);
    // or moves the objects away to start from the seed again,
    let mut seeded = disk.clone();
    seeded.remove(objects).expect("there");
    let (versions, none) = opened(seeded);
    assert_eq!(none, None);
    // after which the next number is one above all that there are.
    assert_eq!(versions.above_all(state(0)).generation(), 5);
    let (mut versions, found) = opened(restored);
    let found = found.expect("there");
    assert_eq!(found.generation(), 5);
    assert_eq!(
        found.to_document().replace(r#""generation": 5"#, r#""generation": 3"#),
        state(3).to_document()
    );
    versions.save(&found.with_generation_above(5), record(6)).expect("nothing in the way");
    let (versions, _) = opened(versions.disk);
    let kept: Vec<u64> = versions.all().iter().map(|version| version.generation).collect();
    assert_eq!(kept, [6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(versions.earlier(4).expect("readable"), Some(state(4)));
}

#[test]
fn a_past_that_cannot_be_read_keeps_nobody_from_the_present() {
    let mut disk = saved(SimulatedDisk::new(), 0..=3);
    disk.put(Path::new("/state/history/1.json"), b"{ \"version\": 1, ");
    disk.put(Path::new("/state/history/readme.txt"), b"no state");
    disk.put(Path::new("/state/history/007.json"), b"no name of ours");
    let (versions, found) = opened(disk);
    assert_eq!(found, Some(state(3)));
    let kept: Vec<(u64, bool)> =
        versions.all().iter().map(|version| (version.generation, version.change.is_some())).collect();
    assert_eq!(kept, [(3, true), (2, true), (1, false), (0, true)]);
    let told = versions.earlier(1).expect_err("damaged").to_string();
    assert!(told.starts_with("/state/history/1.json: EOF while parsing"), "{told}");
}
