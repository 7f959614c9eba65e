//! Formats which users would see more or fewer traces.

use std::fmt::Write as _;

use crate::model::answers::{Impact, UserImpact};
use crate::model::paint::{Paint, sanitize, seconds};
use tracewarden_documents::pluralize;

/// Maximum number of users shown; the JSON output has all.
const MAX_SHOWN_USERS: usize = 20;
/// Maximum number of trace ids shown per user.
const MAX_SHOWN_IDS: usize = 3;

pub(super) fn show(text: &mut String, impact: &Impact, paint: Paint) {
    let Impact { from, to, counted_traces, sampled, fraction, members, members_compared, users, notes } =
        impact;
    let _ = writeln!(text, "\n{}", paint.heading("Users who would see more or fewer traces"));
    let which = if counted_traces == "readable" { "traces that you may read yourself" } else { "traces" };
    let _ = write!(text, "  {which} from {} to {}", seconds(from), seconds(to));
    let _ = match sampled {
        true => writeln!(text, ", estimated from {} of them", percent(*fraction)),
        false => writeln!(text),
    };
    let (affected, same): (Vec<&UserImpact>, Vec<&UserImpact>) =
        users.iter().partition(|user| user.gained > 0 || user.lost > 0);
    let shown = affected.iter().take(MAX_SHOWN_USERS);
    let width = shown.clone().map(|user| sanitize(&user.username).chars().count()).max().unwrap_or_default();
    for user in shown {
        let UserImpact { username, gained, lost, unchanged, gained_ids, lost_ids } = user;
        let about = if *sampled { "about " } else { "" };
        let _ = writeln!(
            text,
            "  {:<width$}  {about}{} {}, {unchanged} as before",
            sanitize(username),
            paint.added(format!("+{gained}")),
            paint.removed(format!("-{lost}")),
        );
        ids(text, &paint.added("+"), gained_ids);
        ids(text, &paint.removed("-"), lost_ids);
    }
    if affected.len() > MAX_SHOWN_USERS {
        let more = pluralize((affected.len() - MAX_SHOWN_USERS) as u64, "more user");
        let _ = writeln!(text, "  {more}: --format json shows them all");
    }
    let same = same.len() as u64 + members_compared.saturating_sub(users.len() as u64);
    let _ = match (affected.is_empty(), same) {
        (true, 0) => writeln!(text, "  none"),
        (true, _) => writeln!(text, "  none: {} compared, no change", pluralize(same, "user")),
        (false, 0) => Ok(()),
        (false, _) => writeln!(text, "  {} compared, no change", pluralize(same, "more user")),
    };
    if members > members_compared {
        let _ = writeln!(
            text,
            "  only {members_compared} of {members} users could be compared in the time allowed"
        );
    }
    for note in notes {
        let _ = writeln!(text, "  note: {}", sanitize(note));
    }
}

fn ids(text: &mut String, sign: &str, ids: &[String]) {
    for id in ids.iter().take(MAX_SHOWN_IDS) {
        let _ = writeln!(text, "      {sign} {}", sanitize(id));
    }
}

/// Formats a fraction as a percentage, at most 99 %: a sample is never all traces.
fn percent(fraction: f64) -> String {
    match fraction * 100.0 {
        part if part < 0.1 => "less than 0.1 %".to_owned(),
        part if part < 10.0 => format!("{part:.1} %"),
        part => format!("{:.0} %", part.min(99.0)),
    }
}
