//! Recompiles the crate when the web application has changed. This script builds nothing: compiling the service needs neither
//! Node nor npm.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // cargo treats an absent directory as always changed. If the directory cannot be created, as in a read-only checkout, the
    // crate is recompiled by every build.
    let _ = std::fs::create_dir_all(&built);
    println!("cargo::rerun-if-changed={}", built.display());
}
