//! `kill -9` at any moment, some hundreds of times over one directory: a process of this test's saves one
//! state after the other and says each once it is accepted, as the daemon answers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flowgate::control::model::{Change, ChangeRecord, State, TargetDescription, Weight};
use flowgate::control::store::{MAX_EARLIER, Store, read_state};

/// Names the directory to the process that writes; without it that test has nothing to do.
const DIRECTORY: &str = "FLOWGATE_TEST_STATE_DIRECTORY";
/// How often the writer is killed, unless the environment says otherwise (nightly).
const KILLS: usize = 200;
const KILLS_ASKED_FOR: &str = "FLOWGATE_KILLS";
/// The states are large enough for a kill to come in the midst of writing one.
const TARGETS: u32 = 100;

const SEED: &str = r#"{ "version": 1, "target_groups": [ { "name": "fw" } ] }"#;

/// The state after `state`: every target has the next weight.
fn next(state: &State) -> (State, Change) {
    let weight = weight_of(state.generation() + 1);
    let target = |number: u32| TargetDescription {
        address: Ipv4Addr::from(0x0a00_0000 + number),
        zone: None,
        weight: Some(Weight::try_from(weight).expect("in range")),
    };
    let targets = (1..=TARGETS).map(target).collect();
    let change = Change::RegisterTargets { target_group: "fw".to_owned(), targets };
    (state.apply(&change).expect("accepted").0, change)
}

fn weight_of(generation: u64) -> u16 {
    u16::try_from(generation % 1000 + 1).expect("small")
}

/// That a state is what its generation says, whole.
fn assert_is(state: &State, generation: u64) {
    assert_eq!(state.generation(), generation);
    let group = state.target_group("fw").expect("in every state");
    let expected = if generation == 0 { 0 } else { TARGETS as usize };
    assert_eq!(group.targets.len(), expected, "generation {generation}");
    assert!(group.targets.values().all(|target| target.weight.get() == weight_of(generation)));
}

/// Saves states until it is killed.
#[test]
fn writer() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let mut store = Store::open(Path::new(&directory)).expect("whoever had it is dead");
    let (mut state, is_seed) = store.load(None).expect("never half a state");
    if is_seed {
        state = State::from_document(SEED).expect("valid");
        store.save(&state, Some(ChangeRecord::new(&State::default(), &state, 0, None))).expect("stored");
    }
    let mut answers = std::io::stdout();
    loop {
        let (after, _) = next(&state);
        let record = ChangeRecord::new(&state, &after, 0, Some("writer"));
        store.save(&after, Some(record)).expect("stored");
        state = after;
        writeln!(answers, "\naccepted {}", state.generation()).expect("somebody listens");
    }
}

fn start(directory: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "kills::writer", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test can be run")
}

/// Times to let a writer live, from none to that of some saves, the same in every run.
fn lives() -> impl Iterator<Item = Duration> {
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    std::iter::repeat_with(move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        Duration::from_micros(random % 12_000)
    })
}

#[test]
fn no_accepted_state_is_lost_and_no_half_of_one_is_found_however_often_the_writer_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("state");
    let (mut last, mut accepted, mut in_the_midst) = (0, 0, 0);
    let asked = std::env::var(KILLS_ASKED_FOR).ok();
    let kills = asked.map_or(KILLS, |kills| kills.parse().expect("a number"));
    let begun = Instant::now();
    for life in lives().take(kills) {
        let mut writer = start(&directory);
        let mut answers = BufReader::new(writer.stdout.take().expect("a pipe"));
        // A life begins with the first answer; some end before it.
        let mut lines = Vec::new();
        if life > Duration::from_micros(600) {
            let mut line = String::new();
            while !line.starts_with("accepted ") {
                line.clear();
                assert_ne!(answers.read_line(&mut line).expect("text"), 0, "the writer ended by itself");
            }
            lines.push(line);
        }
        std::thread::sleep(life);
        writer.kill().expect("it runs");
        writer.wait().expect("it was killed");
        // What it said before it died is still in the pipe.
        lines.extend(answers.lines().map(|line| line.expect("text")));
        let answered =
            lines.iter().filter_map(|line| line.trim_end().strip_prefix("accepted ")?.parse().ok());
        let known = answered.max().unwrap_or(last);
        let state = read_state(&directory, None).expect("never half a state");
        let found = state.generation();
        assert!(found == known || found == known + 1, "accepted {known}, found {found}");
        if found > 0 {
            assert_is(&state, found);
        }
        in_the_midst += usize::from(std::fs::exists(directory.join("objects.json.new")).expect("readable"));
        accepted += known - last;
        last = found;
    }
    let took = begun.elapsed();
    let mut store = Store::open(&directory).expect("nobody has it");
    store.load(None).expect("whole");
    let history = store.history();
    // The last kill may have come before the oldest was taken away.
    let full = last.min(MAX_EARLIER as u64) + 1;
    assert!((full..=full + 1).contains(&(history.len() as u64)), "{} states are kept", history.len());
    for (version, generation) in history.iter().zip((0..=last).rev()) {
        assert_eq!(version.generation, generation, "nothing is missing, and nothing there twice");
        if !version.is_current {
            assert_is(&store.earlier(generation).expect("readable").expect("kept"), generation);
        }
    }
    println!(
        "{kills} kills in {took:?}, {accepted} states accepted, {in_the_midst} kills in the midst of a save"
    );
    assert!(accepted > kills as u64 / 2, "only {accepted} states were accepted");
    assert!(in_the_midst > kills / 10, "only {in_the_midst} kills came in the midst of a save");
}
