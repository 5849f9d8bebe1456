//! The operator's command line. It speaks to the daemon's control socket and needs no DPDK.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    flowgate::cli::main()
}
