//! `tracewarden ddl`: prints SQL statements for the bound table that can be piped into ClickHouse's client. It uses the
//! service's configuration instead of its API, so that operators who may change tables need no API key. It runs none of the
//! statements.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use secrecy::ExposeSecret as _;
use tracewarden_model::Binding;
use tracewarden_service::{AppDb, ClickHouse, DdlAdvice, DdlState, DdlSuggestion, Reads};

use crate::command_line::Format;
use crate::configuration::Configuration;
use crate::policy::report;
use crate::{ambient, serve};

pub fn run(configuration: &Configuration, format: Format) -> anyhow::Result<()> {
    let (binding, advice) = serve::runtime()?.block_on(fetch_advice(configuration))?;
    let text = match format {
        Format::Text => sql(&binding, &advice),
        Format::Json => report::json(&advice),
    };
    io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}

async fn fetch_advice(configuration: &Configuration) -> anyhow::Result<(Binding, DdlAdvice)> {
    // The database URL may contain a password, so the error shows only the database's own message.
    let db = AppDb::open_existing(configuration.database_url.expose_secret()).await?;
    let model = async { db.begin_read().await?.access_model().await }.await;
    db.close().await;
    let model = model?;
    let binding = model
        .binding
        .ok_or_else(|| anyhow!("no trace source is bound: bind one with `PUT /schema/binding` first"))?;
    let store = ClickHouse::new(serve::store_config(configuration), Arc::new(ambient::SystemEntropy))
        .context("cannot set up the ClickHouse client")?;
    let advice = store.session().ddl(&binding, &model.fields, configuration.discovery_samples).await?;
    Ok((binding, advice))
}

/// Formats the statements, one per line and with a semicolon, and everything else as comments.
fn sql(binding: &Binding, advice: &DdlAdvice) -> String {
    let mut text = String::new();
    let mut add_comment = |line: &str| comment(&mut text, line);
    add_comment(&format!(
        "{}.{}: {} to add, {} in place",
        binding.database,
        binding.table,
        advice.suggestions.len(),
        advice.in_place.len()
    ));
    for found in &advice.in_place {
        add_comment(&format!("in place: {} ({})", found.id, found.name));
    }
    for note in &advice.notes {
        add_comment(&format!("note: {note}"));
    }
    for suggestion in &advice.suggestions {
        text.push('\n');
        describe(&mut text, suggestion);
        for statement in &suggestion.statements {
            let _ = writeln!(text, "{statement};");
        }
        if !suggestion.follow_up.is_empty() {
            comment(&mut text, "when ClickHouse has built that (see system.mutations):");
            for statement in &suggestion.follow_up {
                comment(&mut text, &format!("{statement};"));
            }
        }
        if let Some(name) = &suggestion.bind_trace_index {
            comment(
                &mut text,
                &format!("then bind it: PUT /schema/binding with \"trace_index\": \"{name}\""),
            );
        }
    }
    text
}

fn describe(text: &mut String, suggestion: &DdlSuggestion) {
    comment(text, &format!("{}. {}", suggestion.number, suggestion.id));
    comment(text, &format!("   speeds up {}", suggestion.speeds_up));
    if let (Some(before), Some(after)) = (suggestion.reads_before, suggestion.reads_after) {
        let gain = suggestion.gain.map_or(String::new(), |gain| format!(", {gain:.1} times less"));
        let (on, before, after) = (&suggestion.measured_on, reads(before), reads(after));
        comment(text, &format!("   {on} reads {before} before, {after} after{gain}"));
    }
    if let Some(bytes) = suggestion.disk_bytes {
        comment(text, &format!("   takes about {} on disk", size(bytes)));
    }
    for field in &suggestion.omitted_fields {
        comment(text, &format!("   does not speed up searches on {field}"));
    }
    for needed in &suggestion.needs {
        comment(text, &format!("   needs {needed}"));
    }
    match suggestion.state {
        DdlState::Missing => {}
        DdlState::Partial => comment(text, "   partly in place: the missing parts follow"),
        DdlState::Building => comment(text, "   ClickHouse is building it (see system.mutations)"),
    }
}

/// Appends a comment. A name may contain a line break, and the text after it must not become a statement.
fn comment(text: &mut String, line: &str) {
    text.push_str("-- ");
    for character in line.chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text.push('\n');
}

fn reads(Reads { rows, bytes }: Reads) -> String {
    bytes.map_or_else(|| format!("{rows} rows"), |bytes| format!("{rows} rows ({})", size(bytes)))
}

/// Formats a number of bytes in the largest unit of which there are at least two.
fn size(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= unit.saturating_mul(2)) else {
        return format!("{bytes} B");
    };
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_comment() {
        let mut text = String::new();
        comment(&mut text, "key_column:m[\"a\n; DROP TABLE t; --\r\u{1b}[2J\u{85}\"]");
        assert_eq!(text, "-- key_column:m[\"a\\n; DROP TABLE t; --\\r\\u{1b}[2J\\u{85}\"]\n");
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (2_047, "2047 B"),
            (2_048, "2.0 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
