//! The binary: command line, configuration, wiring.

mod ambient;
mod command_line;
mod configuration;
mod logging;
mod prompt;
mod server;

fn main() {}
