//! Hands the link arguments that the DPDK bindings ask for to the programs: an argument does not reach a
//! binary from a dependency's build script.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for arg in std::env::var("DEP_DPDK_LINK_ARGS").unwrap_or_default().split_whitespace() {
        println!("cargo::rustc-link-arg={arg}");
    }
}
