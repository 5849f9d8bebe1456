//! The state directory on real file systems: a writer that is killed at any moment, a disk that is full, a
//! file system that cannot be written to.

mod disks;
mod kills;
