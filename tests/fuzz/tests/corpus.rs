//! Every target over every input in the repository, without a fuzzer.

use flowgate_fuzz::TARGETS;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The files in a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn what_the_corpus_holds_breaks_no_promise() {
    let mut broken = Vec::new();
    for target in TARGETS {
        let inputs = files(&corpus().join(target.name));
        assert!(inputs.len() >= 3, "{} has next to no inputs", target.name);
        for path in inputs {
            let input = fs::read(&path).unwrap();
            // Each by itself, and cut short: a file half written, a connection that broke.
            for length in [input.len(), input.len() / 2] {
                if catch_unwind(|| (target.run)(&input[..length])).is_err() {
                    broken.push(format!("{} ({length} bytes)", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "the reasons stand above: {broken:#?}");
}

#[test]
fn every_folder_of_the_corpus_is_a_targets() {
    let folders: Vec<String> =
        files(&corpus()).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
}

/// The longest input: what is longer is made of what can be smaller.
const LONGEST: u64 = 900;

#[test]
fn inputs_of_bytes_are_small() {
    for target in TARGETS.iter().filter(|target| !target.is_text) {
        for path in files(&corpus().join(target.name)) {
            let length = fs::metadata(&path).unwrap().len();
            assert!(length <= LONGEST, "{} has {length} bytes", path.display());
        }
    }
}

#[test]
fn cargo_fuzz_finds_every_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest: toml::Value =
        toml::from_str(&fs::read_to_string(folder.join("Cargo.toml")).unwrap()).unwrap();
    assert_eq!(manifest["package"]["metadata"]["cargo-fuzz"], toml::Value::Boolean(true));
    for target in TARGETS {
        let path = format!("fuzz_targets/{}.rs", target.name.replace('-', "_"));
        let programs = manifest["bin"].as_array().unwrap();
        let is_it = |program: &&toml::Value| program["name"].as_str() == Some(target.name);
        let program = programs.iter().find(is_it).unwrap_or_else(|| panic!("no program of {}", target.name));
        assert_eq!(program["path"].as_str(), Some(path.as_str()));
        assert!(folder.join(path).exists());
    }
    assert_eq!(files(&folder.join("fuzz_targets")).len(), TARGETS.len());
}
