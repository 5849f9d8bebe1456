//! See the package's description.

fn main() {}
