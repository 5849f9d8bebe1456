//! File systems of the tests' own, in a mount namespace that ends with the test's thread. Needs root.

use std::fs;
use std::path::{Path, PathBuf};

use flowgate::control::model::{Change, ChangeRecord, State};
use flowgate::control::store::{Store, StoreError};
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};

/// A file system of `bytes` that nobody else sees.
fn small(folder: &Path, bytes: u32) -> PathBuf {
    unshare(CloneFlags::CLONE_NEWNS).expect("as root");
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("of our own");
    mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some(format!("size={bytes}").as_str()))
        .expect("a small one");
    folder.join("state")
}

/// What is in `folder` can be read from now on and not written. Files that are open stay as they are, as with
/// a file system that turns so after an error.
fn forbid_writing(folder: &Path) {
    let none = None::<&str>;
    mount(Some(folder), folder, none, MsFlags::MS_BIND, none).expect("on itself");
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, folder, none, read_only, none).expect("ours");
}

/// `state` after one more change.
fn next(state: &State) -> State {
    let seconds = (state.generation() % 3000 + 1).to_string();
    let change = Change::ModifyTargetGroupAttributes {
        target_group: "fw".to_owned(),
        attributes: vec![("deregistration_delay.timeout_seconds".to_owned(), seconds)],
    };
    state.apply(&change).expect("accepted").0
}

fn save(store: &mut Store, before: &State) -> Result<State, StoreError> {
    let after = next(before);
    store.save(&after, Some(ChangeRecord::new(before, &after, 0, None)))?;
    Ok(after)
}

fn seed() -> State {
    State::from_document(r#"{ "version": 1, "target_groups": [ { "name": "fw" } ] }"#).expect("valid")
}

#[test]
fn on_a_full_disk_a_change_is_refused_with_what_to_do_and_the_state_is_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = small(folder.path(), 64 << 10);
    let mut store = Store::open(&directory).expect("there is room");
    let mut state = save(&mut store, &seed()).expect("there is room");
    state = save(&mut store, &state).expect("there is room");
    // Another program's file takes all that is left.
    let other = folder.path().join("other");
    fs::write(&other, vec![0; 64 << 10]).expect_err("there is not that much");
    let told = save(&mut store, &state).expect_err("full").to_string();
    let objects = directory.join("objects.json");
    let expected = "cannot replace it: No space left on device (os error 28); make room on this disk";
    assert_eq!(told, format!("{}: {expected}", objects.display()));
    assert!(!directory.join("objects.json.new").exists(), "nothing is left that takes room");
    // A restart finds it, though not one byte can be written.
    drop(store);
    let mut store = Store::open(&directory).expect("a full disk keeps nobody from a start");
    assert_eq!(store.load(None).expect("whole"), (state.clone(), false));
    save(&mut store, &state).expect_err("still full");
    fs::remove_file(other).expect("there");
    let after = save(&mut store, &state).expect("there is room again");
    assert_eq!(store.load(None).expect("whole"), (after, false));
    assert_eq!(store.earlier(state.generation()).expect("readable"), Some(state));
}

#[test]
fn what_cannot_be_written_to_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = small(folder.path(), 1 << 20);
    let mut store = Store::open(&directory).expect("free");
    let state = save(&mut store, &seed()).expect("writable");
    forbid_writing(folder.path());
    let remedy = "Read-only file system (os error 30); mount this file system for writing";
    let told = save(&mut store, &state).expect_err("read-only").to_string();
    assert_eq!(told, format!("{}: cannot replace it: {remedy}", directory.join("objects.json").display()));
    assert_eq!(store.load(None).expect("whole"), (state.clone(), false));
    drop(store);
    let told = Store::open(&directory).expect_err("read-only").to_string();
    assert_eq!(told, format!("{}: cannot open the lock: {remedy}", directory.join("lock").display()));
    let elsewhere = folder.path().join("other/state");
    let told = Store::open(&elsewhere).expect_err("read-only").to_string();
    assert_eq!(told, format!("{}: cannot make the state directory: {remedy}", elsewhere.display()));
    umount(folder.path()).expect("what was put over it");
    let mut store = Store::open(&directory).expect("free");
    assert_eq!(store.load(None).expect("whole"), (state, false));
}
