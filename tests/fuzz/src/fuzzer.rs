// libFuzzer, over one target. Included by each program, as the fuzzer's functions are a program's own.

use flowgate_fuzz::{TARGETS, Target, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn target() -> Target {
    let name = match env!("CARGO_BIN_NAME") {
        "flowgate-fuzz" => std::env::var("FLOWGATE_FUZZ").unwrap_or_default(),
        name => name.to_owned(),
    };
    let found = TARGETS.iter().find(|target| target.name == name);
    *found.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FLOWGATE_FUZZ must be one of {}", names.join(", "));
        std::process::exit(2)
    })
}

fuzz_target!(|data: &[u8]| (TARGET.get_or_init(target).run)(data));

// Of text half of the changes are libFuzzer's own, of anything else all: bits, bytes, and the words of the dictionary.
fuzz_mutator!(|data: &mut [u8], size: usize, longest: usize, seed: u32| {
    if seed % 2 == 0 || !TARGET.get_or_init(target).is_text {
        return fuzzer_mutate(data, size, longest);
    }
    let output = mutate(&data[..size], seed, longest);
    data[..output.len()].copy_from_slice(&output);
    output.len()
});
