//! Text output for terminals.

mod differences;
mod impact;

use std::fmt::Write as _;

use super::answers::{Plan, RoleRemoval, Tests};
use super::file::ModelFile;
use super::paint::{Paint, sanitize};
use tracewarden_documents::pluralize;

pub(super) use differences::differences;

/// Maximum number of user names shown for a role.
const MAX_SHOWN_USERS: usize = 10;

/// Formats a plan: changes, warnings, test results and affected users, with a summary line at the end.
pub(super) fn plan(plan: &Plan, file: &ModelFile, base: &str, paint: Paint) -> String {
    let Plan { version, changes, warnings, tests, members, impact, notes } = plan;
    let mut text = format!("The access model of {base} is at version {version}.\n");
    if changes.is_empty() {
        text.push_str("The file equals the current access model.\n");
    }
    text.push_str(&differences(changes, paint));
    for warning in warnings {
        let _ = write!(text, "\n{}\n", file.warning(warning));
    }
    if let Some(tests) = tests {
        show_tests(&mut text, tests, paint);
    }
    show_role_removals(&mut text, members, paint);
    if let Some(impact) = impact {
        impact::show(&mut text, impact, paint);
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "note: {}", sanitize(note));
    }
    let count =
        |wanted: &[&str]| changes.iter().filter(|found| wanted.contains(&found.change.as_str())).count();
    let (added, removed) = (count(&["added"]), count(&["removed"]));
    // Includes kinds of changes that only a newer service knows.
    let changed = changes.len() - added - removed;
    let summary = format!("{added} to add, {changed} to change, {removed} to remove");
    let _ = writeln!(text, "\n{}", paint.heading(summary));
    text
}

fn show_tests(text: &mut String, tests: &Tests, paint: Paint) {
    let Tests { passed, failed } = tests;
    if *passed == 0 && failed.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", paint.heading("Tests"));
    for test in failed {
        let _ = writeln!(text, "  {} {}", paint.removed("FAIL"), sanitize(&test.name));
        for line in test.message.lines() {
            let _ = writeln!(text, "         {}", sanitize(line));
        }
    }
    let _ = writeln!(text, "  {} passed, {} failed", pluralize(*passed, "test"), failed.len());
}

fn show_role_removals(text: &mut String, members: &[RoleRemoval], paint: Paint) {
    if members.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", paint.heading("Users who lose a role"));
    for RoleRemoval { role, users, usernames } in members {
        let shown: Vec<String> = usernames.iter().take(MAX_SHOWN_USERS).map(|name| sanitize(name)).collect();
        let left = users.saturating_sub(shown.len() as u64);
        let more = if left > 0 && !shown.is_empty() { format!(" and {left} more") } else { String::new() };
        let users = pluralize(*users, "user");
        let names = if shown.is_empty() { String::new() } else { format!(": {}{more}", shown.join(", ")) };
        let _ = writeln!(text, "  {} {}  {users}{names}", paint.removed("-"), sanitize(role));
    }
}
