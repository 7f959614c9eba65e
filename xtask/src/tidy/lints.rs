//! Checks that all crates have the same lints, that `unsafe` is confined to one module, and that release builds check arithmetic.

use toml::{Table, Value};

use super::Source;

/// The only crate that calls C. It cannot inherit the lint table, because `forbid` cannot be overridden for a module.
const C_BINDINGS: &str = "crates/localstore/";
const C_BINDING_SOURCES: &[&str] = &["crates/localstore/src/engine.rs", "crates/localstore/src/engine/"];

pub fn violations(sources: &[Source]) -> Vec<String> {
    let mut found = unsafe_code(sources);
    let Some(workspace) = sources.iter().find(|source| source.path == "Cargo.toml").and_then(lints) else {
        found.push("Cargo.toml: no [workspace.lints]".to_owned());
        return found;
    };
    if !sources.iter().any(|source| source.path == "Cargo.toml" && checks_arithmetic(source)) {
        found.push("Cargo.toml: [profile.release] does not have `overflow-checks = true`".to_owned());
    }
    let manifests = sources.iter().filter(|source| source.path.ends_with("/Cargo.toml"));
    found.extend(manifests.filter_map(|manifest| differing_lints(manifest, &workspace)));
    found
}

fn lints(workspace: &Source) -> Option<Table> {
    let manifest: Table = workspace.text.parse().ok()?;
    manifest.get("workspace")?.get("lints")?.as_table().cloned()
}

fn checks_arithmetic(workspace: &Source) -> bool {
    let manifest: Table = workspace.text.parse().unwrap_or_default();
    let checks = manifest.get("profile").and_then(|profiles| profiles.get("release")?.get("overflow-checks"));
    checks.and_then(Value::as_bool) == Some(true)
}

fn differing_lints(manifest: &Source, workspace: &Table) -> Option<String> {
    let parsed = manifest.text.parse::<Table>().unwrap_or_default();
    let own = parsed.get("lints").and_then(Value::as_table).cloned().unwrap_or_default();
    if own.get("workspace").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    if !manifest.path.starts_with(C_BINDINGS) {
        return Some(format!(
            "{}: does not inherit the workspace's lints (`[lints] workspace = true`)",
            manifest.path
        ));
    }
    let mut expected = workspace.clone();
    if let Some(rust) = expected.get_mut("rust").and_then(Value::as_table_mut) {
        rust.insert("unsafe_code".to_owned(), Value::String("deny".to_owned()));
    }
    (own != expected).then(|| {
        format!(
            "{}: its lints differ from the workspace's in more than `unsafe_code = \"deny\"`",
            manifest.path
        )
    })
}

/// Finds `unsafe` outside the permitted module of the crate that calls C. In all other crates the compiler forbids it.
fn unsafe_code(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let rust =
        sources.iter().filter(|source| source.path.starts_with(C_BINDINGS) && source.path.ends_with(".rs"));
    for source in
        rust.filter(|source| !C_BINDING_SOURCES.iter().any(|module| source.path.starts_with(module)))
    {
        for (index, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let forms = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern"];
            if forms.iter().any(|form| code.contains(form)) {
                found.push(format!("{}:{}: `unsafe` outside the engine module", source.path, index + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    const WORKSPACE: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n[workspace.lints.clippy]\npanic = \"deny\"\n\
         [profile.release]\noverflow-checks = true";

    fn check(path: &str, text: &str) -> Vec<String> {
        violations(&[source("Cargo.toml", WORKSPACE), source(path, text)])
    }

    #[test]
    fn a_crate_that_does_not_inherit_is_found() {
        assert!(check("crates/model/Cargo.toml", "[lints]\nworkspace = true").is_empty());
        assert_eq!(check("crates/model/Cargo.toml", "[package]").len(), 1);
        assert_eq!(check("crates/model/Cargo.toml", "[lints.rust]\nunsafe_code = \"forbid\"").len(), 1);
        assert_eq!(violations(&[source("Cargo.toml", "[workspace]")]).len(), 1);
    }

    #[test]
    fn releases_that_do_not_check_arithmetic_are_found() {
        assert!(violations(&[source("Cargo.toml", WORKSPACE)]).is_empty());
        for without in
            [WORKSPACE.replace("= true", "= false"), WORKSPACE.replace("overflow-checks = true", "")]
        {
            assert_eq!(violations(&[source("Cargo.toml", &without)]).len(), 1, "{without}");
        }
    }

    #[test]
    fn the_crate_that_calls_c_lists_the_same_lints() {
        let same = "[lints.rust]\nunsafe_code = \"deny\"\n[lints.clippy]\npanic = \"deny\"";
        assert!(check("crates/localstore/Cargo.toml", same).is_empty());
        assert_eq!(check("crates/localstore/Cargo.toml", &same.replace("panic", "todo")).len(), 1);
        assert_eq!(check("crates/localstore/Cargo.toml", "[lints.rust]\nunsafe_code = \"deny\"").len(), 1);
    }

    #[test]
    fn unsafe_code_outside_the_engine_module_is_found() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(check("crates/localstore/src/http/mod.rs", text).len(), 1);
        assert!(check("crates/localstore/src/http/mod.rs", "// unsafe { } is elsewhere").is_empty());
        assert!(check("crates/localstore/src/engine/library.rs", text).is_empty());
        assert!(check("crates/localstore/src/engine/mod.rs", text).is_empty());
    }
}
