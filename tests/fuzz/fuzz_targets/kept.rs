//! The target `kept`, for `cargo fuzz`. `scripts/fuzz` has all targets in one program.

#![no_main]

include!("../src/fuzzer.rs");
