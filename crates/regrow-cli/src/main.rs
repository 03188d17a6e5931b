//! The `regrow` command.

fn main() {}
