//! What is found after a restart, and whom the state directory is refused to.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::control::model::Change;

const SEED: &str = r#"{ "version": 1, "target_groups": [ { "name": "fw" } ] }"#;

const NODE: &str = r#"
workers.cores = [1]
underlay = { port = "t", address = "192.0.2.1/24" }
ports = [ { name = "t", device = "net_null0" }, { name = "l", device = "net_null1" }, { name = "r", device = "net_null2" } ]
endpoints = [ { name = "e", id = 1, kind = "wire", ports = ["l", "r"], load_balancer = "gw" } ]
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn node(line: &str) -> NodeConfig {
    NodeConfig::parse(&format!("{line}\n{NODE}")).expect("good")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// A state that no document is the seed of: one change ahead of `SEED`.
fn changed() -> State {
    with_delay("7")
}

/// `SEED` after as many changes as lead from a delay of 7 s to one of `seconds`.
fn with_delay(seconds: &str) -> State {
    let seed = State::from_document(SEED).expect("valid");
    ["7", "8", "9"].into_iter().take_while(|one| *one <= seconds).fold(seed, |state, one| {
        let change = Change::ModifyTargetGroupAttributes {
            target_group: "fw".to_owned(),
            attributes: vec![("deregistration_delay.timeout_seconds".to_owned(), one.to_owned())],
        };
        state.apply(&change).expect("accepted").0
    })
}

#[test]
fn what_was_saved_is_found_again_and_the_seed_is_not_asked() {
    let folder = folder();
    let seed = folder.path().join("seed.json");
    fs::write(&seed, SEED).expect("written");
    let directory = folder.path().join("state");
    let mut store = Store::open(&directory).expect("free");
    let (seeded, is_seed) = store.load(Some(&seed)).expect("the seed's");
    assert_eq!((&seeded, is_seed), (&State::from_document(SEED).expect("valid"), true));
    assert!(!directory.join(OBJECTS).exists(), "a start that may yet be refused leaves nothing");
    store.save(&changed(), None).expect("saved");
    drop(store);
    let mut store = Store::open(&directory).expect("free again");
    fs::write(&seed, "not even JSON").expect("written");
    assert_eq!(store.load(Some(&seed)).expect("the stored one"), (changed(), false));
    store.save(&seeded, None).expect("saved");
    assert_eq!(store.load(None).expect("the last one"), (seeded, false));
}

#[test]
fn without_a_stored_state_and_a_seed_there_are_no_objects() {
    let folder = folder();
    let absent = folder.path().join("absent");
    assert_eq!(read_state(&absent, None).expect("empty"), State::default());
    assert!(!absent.exists(), "asking makes nothing");
}

#[test]
fn a_second_daemon_is_told_which_process_has_the_directory() {
    let folder = folder();
    let first = Store::open(folder.path()).expect("free");
    let told = Store::open(folder.path()).expect_err("taken").to_string();
    assert_eq!(
        told,
        format!(
            "{}: another daemon (process {}) uses this state directory; stop it, or give this one a directory of its own",
            folder.path().display(),
            std::process::id()
        )
    );
    drop(first);
    Store::open(folder.path()).expect("free again");
}

// Root opens the folder of a user whom somebody may have become.
#[test]
fn links_in_the_folder_are_neither_written_nor_read_through() {
    let folder = folder();
    let (state, precious) = (folder.path().join("state"), folder.path().join("shadow"));
    fs::create_dir(&state).expect("made");
    fs::write(&precious, "root:x").expect("written");
    let told = |refused: Result<Store, StoreError>| refused.expect_err("refused").to_string();
    std::os::unix::fs::symlink(&precious, state.join(LOCK)).expect("made");
    assert!(told(Store::open(&state)).contains("lock: cannot open the lock: it is a symbolic link"));
    fs::remove_file(state.join(LOCK)).expect("there");
    fs::hard_link(&precious, state.join(LOCK)).expect("made");
    assert!(told(Store::open(&state)).contains("cannot use the lock, which has another name elsewhere"));
    fs::remove_file(state.join(LOCK)).expect("there");
    for name in [OBJECTS, HASH_SEED] {
        std::os::unix::fs::symlink(&precious, state.join(name)).expect("made");
    }
    let mut store = Store::open(&state).expect("free");
    const LINK: &str = "it is a symbolic link, and those are not followed; put the file itself in its place, or move it away";
    assert!(store.load(None).expect_err("refused").to_string().contains(LINK));
    assert!(store.hash_seed(&node("")).expect_err("refused").to_string().contains(LINK));
    assert_eq!(fs::read_to_string(&precious).expect("there"), "root:x");
    // Nor is a folder, or whatever else has the name.
    fs::remove_file(state.join(OBJECTS)).expect("there");
    fs::create_dir(state.join(OBJECTS)).expect("made");
    let refused = store.load(None).expect_err("refused").to_string();
    assert!(
        refused.ends_with("it is not a file; put the file itself in its place, or move it away"),
        "{refused}"
    );
}

#[test]
fn a_lock_file_that_a_killed_daemon_left_behind_is_no_lock() {
    let folder = folder();
    fs::write(folder.path().join(LOCK), "4194304\n and more than any process id has").expect("written");
    Store::open(folder.path()).expect("nobody holds it");
    let text = fs::read_to_string(folder.path().join(LOCK)).expect("the lock");
    assert_eq!(text, format!("{}\n", std::process::id()));
}

#[test]
fn a_damaged_state_is_refused_as_a_whole_and_the_seed_does_not_take_its_place() {
    let folder = folder();
    let mut store = Store::open(folder.path()).expect("free");
    store.save(&changed(), None).expect("saved");
    let path = folder.path().join(OBJECTS);
    let whole = fs::read_to_string(&path).expect("saved");
    let seed = folder.path().join("seed.json");
    fs::write(&seed, SEED).expect("written");
    // Cut anywhere, as by a disk that lost its end: the last line break alone may be missing.
    for length in 0..whole.len() - 1 {
        fs::write(&path, &whole[..length]).expect("written");
        let error = store.load(Some(&seed)).expect_err("cut");
        assert!(matches!(error, StoreError::Damaged { .. }), "cut to {length}: {error}");
    }
    fs::write(&path, whole.replace("\"version\": 1", "\"version\": 2")).expect("written");
    assert_eq!(
        store.load(Some(&seed)).expect_err("newer").to_string(),
        format!(
            "{}: a newer flowgated wrote it, in version 2 of the format: start that one again, or restore this \
             file, or move it away to start from the seed again",
            path.display()
        )
    );
    fs::write(&path, [0xff, 0xfe]).expect("written");
    let told = |store: &mut Store| store.load(Some(&seed)).expect_err("damaged").to_string();
    let restore = "the daemon does not start with part of a state: restore this file, or move it away to start \
                   from the seed again";
    let expected = |fault: &str| format!("{}: {fault}; {restore}", path.display());
    assert_eq!(told(&mut store), expected("it is no text: byte 1 is wrong"));
    fs::write(&path, "").expect("written");
    assert_eq!(told(&mut store), expected("it is empty"));
}

#[test]
fn whichever_bit_of_a_stored_state_is_another_it_is_noticed() {
    let folder = folder();
    let mut store = Store::open(folder.path()).expect("free");
    let record = ChangeRecord::new(&State::default(), &changed(), 1_795_985_257_007, Some("root"));
    store.save(&changed(), Some(record)).expect("saved");
    let path = folder.path().join(OBJECTS);
    let whole = fs::read(&path).expect("saved");
    // The line break at the end is no part of the JSON, but of the checksum.
    for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
        let mut text = whole.clone();
        text[place] ^= 1 << bit;
        let found = versions::read_stored(&text, &path);
        assert!(found.is_err(), "byte {place}, bit {bit}: {}", String::from_utf8_lossy(&text));
    }
    assert_eq!(versions::read_stored(&whole, &path).expect("as it was"), changed());
}

#[test]
fn a_state_that_was_changed_by_hand_is_read_once_its_checksum_is_taken_out() {
    let folder = folder();
    let mut store = Store::open(folder.path()).expect("free");
    store.save(&changed(), None).expect("saved");
    let path = folder.path().join(OBJECTS);
    let by_hand = fs::read_to_string(&path).expect("saved").replace(r#"seconds": "7""#, r#"seconds": "8""#);
    fs::write(&path, &by_hand).expect("written");
    let told = store.load(None).expect_err("not what was stored").to_string();
    assert_eq!(
        told,
        format!(
            "{}: its checksum is not that of the rest of it: it was damaged, or it was changed by hand. If you \
             changed it and it is as it should be, take out its line \"checksum\" and start again; the daemon does not \
             start with part of a state: restore this file, or move it away to start from the seed again",
            path.display()
        )
    );
    let line = |line: &&str| !line.contains("\"checksum\"");
    let without: String = by_hand.split_inclusive('\n').filter(line).collect();
    fs::write(&path, &without).expect("written");
    let (state, _) = store.load(None).expect("as the operator wants it");
    let delay = state.target_group("fw").expect("there").settings().deregistration_delay;
    assert_eq!(delay.as_secs(), 8);
    // As a seed, or to be applied, the daemon's own file serves as it is.
    assert_eq!(State::from_document(&by_hand).expect("nobody minds the checksum"), state);
    store.save(&state, None).expect("saved");
    assert!(
        fs::read_to_string(&path).expect("saved").contains("\"checksum\""),
        "from then on it has one again"
    );
}

#[test]
fn of_a_damaged_state_it_is_told_which_good_one_was_the_last_before_it() {
    let folder = folder();
    let mut store = Store::open(folder.path()).expect("free");
    let states = ["7", "8", "9"].map(with_delay);
    for state in &states {
        let record = ChangeRecord::new(&State::default(), state, 0, None);
        store.save(state, Some(record)).expect("saved");
    }
    // The one before is damaged as well.
    let history = |generation: u64| folder.path().join(HISTORY).join(format!("{generation}.json"));
    let (path, last_good) = (folder.path().join(OBJECTS), history(1));
    fs::write(history(2), "{").expect("written");
    for (text, told) in
        [("{ \"version\": 1, ", "EOF while parsing"), ("{ \"version\": 2 }", "a newer flowgated")]
    {
        // Not in place: the history shares what it can with it.
        fs::remove_file(&path).expect("there");
        fs::write(&path, text).expect("written");
        let error = store.load(None).expect_err("damaged").to_string();
        let out = format!("copy {} over it to go on from the last good state before it", last_good.display());
        assert!(error.contains(told) && error.contains(&out), "{error}");
    }
    fs::copy(&last_good, &path).expect("as was said");
    let (state, _) = store.load(None).expect("good");
    assert_eq!(state.generation(), 3, "and no number names two states");
    assert_eq!(
        state.to_document().replace(r#""generation": 3"#, r#""generation": 1"#),
        states[0].to_document()
    );
}

#[test]
fn a_seed_that_is_refused_is_told_with_file_and_path() {
    let folder = folder();
    let seed = folder.path().join("seed.json");
    let told = || read_state(folder.path(), Some(&seed)).expect_err("refused").to_string();
    let name = seed.display();
    assert_eq!(told(), format!("{name}: cannot read the objects: No such file or directory (os error 2)"));
    fs::write(&seed, SEED.replace("fw", "f w")).expect("written");
    let expected = format!("{name}: target_groups[0].name: the name 'f w' must be 1 to 32 letters");
    assert!(told().starts_with(&expected), "{}", told());
}

#[test]
fn a_state_that_cannot_be_written_is_told_and_the_old_one_stays() {
    let folder = folder();
    let mut store = Store::open(folder.path()).expect("free");
    store.save(&changed(), None).expect("saved");
    // A folder where the new file would be: not even root can write to it.
    fs::create_dir(folder.path().join("objects.json.new")).expect("made");
    let error = store.save(&State::default(), None).expect_err("in the way").to_string();
    let path = folder.path().join(OBJECTS);
    assert!(error.starts_with(&format!("{}: cannot replace it: ", path.display())), "{error}");
    assert_eq!(store.load(None).expect("whole"), (changed(), false));
}

#[test]
fn a_directory_that_cannot_be_made_is_told() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let error = Store::open(&file.join("state")).expect_err("a file is in the way").to_string();
    assert!(error.contains("cannot make the state directory"), "{error}");
}

#[test]
fn f4_a_hash_seed_is_made_once_for_its_owner_alone() {
    let (folder, other) = (folder(), folder());
    let store = Store::open(folder.path()).expect("free");
    let made = store.hash_seed(&node("")).expect("made");
    assert!(store.hash_seed(&node("")).expect("read") == made, "a restart changes no flow's target");
    assert_eq!(mode(&folder.path().join(HASH_SEED)), 0o600);
    let elsewhere = Store::open(other.path()).expect("free").hash_seed(&node("")).expect("made");
    assert!(elsewhere != made, "another node makes another");
}

#[test]
fn f4_a_hash_seed_that_is_configured_is_the_one_used() {
    let folder = folder();
    let store = Store::open(folder.path()).expect("free");
    let digits = "0123456789abcdef".repeat(4);
    let given = store.hash_seed(&node(&format!("hash_seed = \"{digits}\""))).expect("given");
    let file = folder.path().join("shared-seed");
    fs::write(&file, format!("{digits}\n")).expect("written");
    let from_file = || store.hash_seed(&node(&format!("hash_seed_file = \"{}\"", file.display())));
    assert!(from_file().expect("read") == given);
    assert_eq!(given.0[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    assert!(!folder.path().join(HASH_SEED).exists(), "none is made where one is given");
    fs::write(&file, "0123").expect("written");
    assert_eq!(
        from_file().expect_err("too short").to_string(),
        format!("{}: it has 4 characters and must be 64 hexadecimal digits", file.display())
    );
}

#[test]
fn files_of_the_state_are_not_for_everybody() {
    let folder = folder();
    let directory = folder.path().join("a/state");
    let mut store = Store::open(&directory).expect("made with what is above it");
    store.save(&changed(), None).expect("saved");
    store.save(&changed(), Some(ChangeRecord::new(&State::default(), &changed(), 0, None))).expect("saved");
    // The umask may take more away.
    assert_eq!(mode(&directory) & !0o750, 0);
    assert_eq!(mode(&directory.join(OBJECTS)) & !0o640, 0);
    assert_eq!(mode(&directory.join(LOCK)) & !0o640, 0);
    assert_eq!(mode(&directory.join(HISTORY)) & !0o750, 0);
    assert_eq!(mode(&directory.join(HISTORY).join("1.json")) & !0o640, 0);
}
