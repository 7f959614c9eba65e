//! Starts the local store.

use std::process::ExitCode;

use clap::Parser;
use tracewarden_localstore::{options::Options, serve};

fn main() -> ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    match serve::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tracewarden-localstore: {error}");
            ExitCode::FAILURE
        }
    }
}
