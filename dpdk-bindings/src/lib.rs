//! Raw bindings to the DPDK that is installed on this machine: its C functions under their own
//! names, `shim_*` for those it defines inline, and [`Mbuf`] laid out by hand so that packet bytes
//! are reached without a C call. `src/io/dpdk` of the root package is the safe layer above, and the
//! only caller; every function here has the contract that DPDK's API documentation gives it.

mod mbuf;

pub use bindings::*;
pub use mbuf::Mbuf;

#[allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::pedantic,
    reason = "written by bindgen, in C's style"
)]
mod bindings {
    use super::Mbuf as rte_mbuf;

    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
