//! Checks that the licences of npm packages are allowed. Packages in the web application are distributed to its users, so that
//! `deny.toml` must allow their licences. Packages that are only used to build or test may have a few more.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Source;

/// Lock file of the web application. Packages that it does not mark with `dev` are shipped.
const LOCK: &str = "web/package-lock.json";

/// Lock file of the clients that the service is tested with. None of its packages is shipped.
const TEST_LOCK: &str = "crates/tracewarden/tests/mcp/clients/package-lock.json";

/// Licences of tools in addition to those of `deny.toml`: their conditions apply to distributing the tools.
pub const ALLOWED_FOR_TOOLS: [&str; 2] = ["MPL-2.0", "Python-2.0"];

/// The list of licences for everything that is shipped.
const ALLOWED: &str = "deny.toml";

pub fn violations(sources: &[Source]) -> Result<Vec<String>> {
    let text = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        source.map(|source| source.text.as_str()).with_context(|| format!("no `{path}`"))
    };
    let allowed = allowed(text(ALLOWED)?)?;
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    let mut found = check_packages(LOCK, text(LOCK)?, &allowed, false)?;
    found.extend(check_packages(TEST_LOCK, text(TEST_LOCK)?, &allowed, true)?);
    Ok(found)
}

/// Returns the licences that `deny.toml` allows.
pub fn allowed(deny: &str) -> Result<Vec<String>> {
    let deny: toml::Table = toml::from_str(deny).with_context(|| format!("`{ALLOWED}` is not TOML"))?;
    let allowed =
        deny.get("licenses").and_then(|licenses| licenses.get("allow")).and_then(toml::Value::as_array);
    let allowed = allowed.with_context(|| format!("`{ALLOWED}` allows no licences"))?;
    Ok(allowed.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

/// Returns the violations in an npm lock file. With `all_tools`, none of its packages is shipped.
fn check_packages(path: &str, text: &str, allowed: &[&str], all_tools: bool) -> Result<Vec<String>> {
    let lock: Value = serde_json::from_str(text).with_context(|| format!("`{path}` is not JSON"))?;
    let packages = lock.get("packages").and_then(Value::as_object);
    let packages = packages.with_context(|| format!("`{path}` lists no packages"))?;
    let of_tools = [allowed, &ALLOWED_FOR_TOOLS].concat();
    let mut found = Vec::new();
    // The package without a name is the application itself.
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        let is_tool = all_tools || package.get("dev").and_then(Value::as_bool).unwrap_or_default();
        let allowed = if is_tool { of_tools.as_slice() } else { allowed };
        match package.get("license").and_then(Value::as_str) {
            Some(licence) if is_allowed(licence, allowed) => {}
            Some(licence) => {
                found.push(format!("{path}: `{name}` is {licence}, which `{ALLOWED}` does not allow"))
            }
            None => found.push(format!("{path}: `{name}` has no licence")),
        }
    }
    Ok(found)
}

/// Whether an SPDX expression is allowed. Nested parentheses, which no package uses, are not parsed, and such expressions are not
/// allowed.
pub fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let expression = expression.trim();
    let inner = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(expression);
    !inner.contains(['(', ')'])
        && inner
            .split(" OR ")
            .any(|choice| choice.split(" AND ").all(|licence| allowed.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn check(packages: &str) -> Vec<String> {
        let lock = format!(r#"{{"packages": {{"": {{"license": "Own"}}, {packages}}}}}"#);
        let deny = "[licenses]\nallow = [\"MIT\", \"0BSD\"]\n";
        let tests = r#"{"packages": {"node_modules/client": {"license": "MPL-2.0"}}}"#;
        violations(&[source(LOCK, &lock), source(TEST_LOCK, tests), source(ALLOWED, deny)]).unwrap()
    }

    #[test]
    fn shipped_packages_have_allowed_licences() {
        for (licence, is_fine) in [
            ("MIT", true),
            ("(MIT OR CC0-1.0)", true),
            ("CC0-1.0 OR 0BSD", true),
            ("MIT AND 0BSD", true),
            ("GPL-3.0", false),
            ("(MIT AND CC0-1.0)", false),
            ("(MIT OR CC0-1.0) AND GPL-3.0", false),
            ("GPL-3.0 AND (MIT OR CC0-1.0)", false),
            ("(GPL-3.0 AND (CC0-1.0 OR MIT OR 0BSD))", false),
            ("", false),
        ] {
            let shipped = format!(r#""node_modules/a": {{"license": "{licence}"}}"#);
            assert_eq!(check(&shipped).is_empty(), is_fine, "{licence}");
            let tool = format!(r#""node_modules/a": {{"license": "{licence}", "dev": true}}"#);
            assert_eq!(check(&tool).is_empty(), is_fine, "{licence}");
        }
        // MPL-2.0 is allowed for tools only.
        let of_tools = |more: &str| check(&format!(r#""node_modules/a": {{"license": "MPL-2.0"{more}}}"#));
        assert_eq!((of_tools(r#", "dev": true"#).len(), of_tools("").len()), (0, 1));
        assert_eq!(
            check(r#""node_modules/a": {}"#),
            ["web/package-lock.json: `node_modules/a` has no licence"]
        );
    }
}
