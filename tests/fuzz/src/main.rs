//! libFuzzer, over the target that `FLOWGATE_FUZZ` names. Called by `scripts/fuzz`.

#![no_main]

use flowgate_fuzz::{TARGETS, Target, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn target() -> Target {
    let name = std::env::var("FLOWGATE_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    *found.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FLOWGATE_FUZZ must be one of {}", names.join(", "));
        std::process::exit(2)
    })
}

fuzz_target!(|data: &[u8]| (TARGET.get_or_init(target).run)(data));

// Half of the changes are libFuzzer's own: bits, bytes, and the words of the dictionary.
fuzz_mutator!(|data: &mut [u8], size: usize, longest: usize, seed: u32| {
    if seed % 2 == 0 {
        return fuzzer_mutate(data, size, longest);
    }
    let output = mutate(&data[..size], seed, longest);
    data[..output.len()].copy_from_slice(&output);
    output.len()
});
