//! Hands to the binaries what they cannot know themselves: the version, with the commit of a release
//! build made in a git checkout, and the link arguments that the DPDK bindings ask for (an argument
//! does not reach a binary from a dependency's build script).

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=FLOWGATE_VERSION={}", version());
    // Set by dpdk-bindings/build.rs, if that is built at all.
    if let Ok(args) = env::var("DEP_DPDK_LINK_ARGS") {
        for arg in args.split_whitespace() {
            println!("cargo::rustc-link-arg={arg}");
        }
    }
}

/// `0.1.0`, or `0.1.0 (v0.1.0-3-g1234567)`.
fn version() -> String {
    let package = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // A debug build is not rebuilt for every commit.
    if env::var("PROFILE").as_deref() != Ok("release") {
        return package;
    }
    // A commit moves one of these; one that is not there would make cargo run this every time.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    match git(&["describe", "--always", "--dirty", "--tags"]) {
        Some(commit) => format!("{package} ({commit})"),
        None => package,
    }
}

/// What git says; nothing without git, or outside of a checkout.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
