//! The Tracewarden binary.
fn main() {}
