//! Checks the formatting with rustfmt.

use anyhow::{Context, Result};

use crate::workspace;

pub fn violations() -> Result<Vec<String>> {
    let mut command = workspace::cargo();
    command.args(["fmt", "--all", "--check", "--", "--files-with-diff"]);
    let output = command.output().context("cannot run `cargo fmt`")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(unformatted(output.status.success(), &stdout, &stderr, &workspace::root().display().to_string()))
}

/// Returns the files that rustfmt would change, which it prints. A failure without a list has another cause, such as a file that
/// cannot be parsed.
fn unformatted(success: bool, stdout: &str, stderr: &str, root: &str) -> Vec<String> {
    let relative = |path: &str| path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned();
    let mut files: Vec<String> = stdout.lines().map(relative).filter(|path| !path.is_empty()).collect();
    files.sort();
    files.dedup();
    if !success && files.is_empty() {
        return vec![format!("`cargo fmt --check` failed: {}", stderr.trim())];
    }
    files.into_iter().map(|path| format!("{path}: not formatted; run `cargo fmt`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_named_once_and_relative() {
        let found = unformatted(false, "/r/src/b.rs\n/r/src/a.rs\n/r/src/a.rs\n", "", "/r");
        assert_eq!(
            found,
            ["src/a.rs: not formatted; run `cargo fmt`", "src/b.rs: not formatted; run `cargo fmt`"]
        );
        assert!(unformatted(true, "", "", "/r").is_empty());
    }

    #[test]
    fn a_failure_without_a_list_is_a_violation() {
        assert_eq!(
            unformatted(false, "", "cannot parse", "/r"),
            ["`cargo fmt --check` failed: cannot parse"]
        );
    }
}
