//! Headers as typed views over bytes. A view's constructor proves the length once; after it,
//! accessors are plain loads. Nothing here knows DPDK, sockets or clocks.
