//! Flowgate's data path, from the same files, with nothing of the control core, the daemon or DPDK. Their tests are that
//! package's: there is nothing to be tested here.

#[cfg(not(test))]
#[path = "../../../src/balance/mod.rs"]
pub mod balance;
#[cfg(not(test))]
#[path = "../../../src/datapath/mod.rs"]
pub mod datapath;
#[cfg(not(test))]
#[path = "../../../src/flow/mod.rs"]
pub mod flow;
#[cfg(not(test))]
#[path = "../../../src/id.rs"]
pub mod id;
#[cfg(not(test))]
#[path = "../../../src/io/mod.rs"]
pub mod io;
#[cfg(not(test))]
#[path = "../../../src/wire/mod.rs"]
pub mod wire;
