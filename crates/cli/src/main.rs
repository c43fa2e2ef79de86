//! The `tantalum` command.
fn main() {}
