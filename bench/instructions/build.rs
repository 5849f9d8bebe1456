//! Turns this package's features into what the data path's source asks for, which no feature of Flowgate itself may: a daemon
//! that counts nothing is of no use.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Features of Flowgate that its files ask for, and this package does not have.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"dpdk\", \"faults\"))");
    for left_out in ["counters", "notes", "captures"] {
        if std::env::var_os(format!("CARGO_FEATURE_WITHOUT_{}", left_out.to_uppercase())).is_some() {
            println!("cargo::rustc-cfg=without=\"{left_out}\"");
        }
    }
}
