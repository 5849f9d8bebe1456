//! How many instructions a packet takes on each way through a worker, by callgrind, and how many of them are for counting,
//! for the notes of what becomes of a packet, and for captures while there is none.
//!
//! `scripts/instructions` builds this program four times: whole, without counters, without counters and notes, and without
//! captures. Each runs under callgrind, way by way; the differences are what is printed. Two runs of one program differ by
//! nothing, however busy the machine is.

mod frames;
mod gateway;
#[path = "../../one_wire.rs"]
mod one_wire;
mod port;
mod report;

extern crate datapath_alone as flowgate;

use std::process::ExitCode;

use flowgate::io::isa::Isa;
use gateway::{Gateway, WAYS};

const USAGE: &str = "usage: flowgate-instructions play WAY | report [--short] FOLDER";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["play", name] => match WAYS.iter().find(|way| way.name == name) {
            Some(way) => {
                // What valgrind says the CPU has may be less than what it has.
                let level = if Isa::best() == Isa::PORTABLE { "portable" } else { report::V3 };
                println!("{} {level}", Gateway::new(way).play(way));
                ExitCode::SUCCESS
            }
            None => complain(&format!("there is no way '{name}'")),
        },
        ["report", folder] => report::print(folder.as_ref(), false),
        ["report", "--short", folder] => report::print(folder.as_ref(), true),
        _ => complain(USAGE),
    }
}

fn complain(words: &str) -> ExitCode {
    eprintln!("{words}");
    ExitCode::FAILURE
}
