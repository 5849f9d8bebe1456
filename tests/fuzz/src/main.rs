//! libFuzzer, over the target that `FLOWGATE_FUZZ` names. Called by `scripts/fuzz`.

#![no_main]

include!("fuzzer.rs");
