//! Sees that the crate is compiled again when the web application has changed. Nothing is built here: compiling the service
//! needs neither Node nor npm.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // cargo takes a directory that is absent for one that always changes. Where it cannot be created, as in a read-only
    // checkout, that is what happens.
    let _ = std::fs::create_dir_all(&built);
    println!("cargo::rerun-if-changed={}", built.display());
}
