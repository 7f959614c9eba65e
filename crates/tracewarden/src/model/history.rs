//! `tracewarden model history`.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use tracewarden_rest::json::Json;

use super::answers::{Change, ChangeInFull, History};
use super::paint::{Paint, plain, seconds};
use super::remote::Remote;
use super::{Stop, apply, show};
use crate::command_line::{Format, ModelHistory};
use crate::policy::{self, report};

/// Maximum page size of the service.
const PAGE: u32 = 100;

/// Lists changes, or shows one.
pub(super) fn run(options: &ModelHistory) -> Result<u8, Stop> {
    let remote = Remote::new(&options.connection)?;
    let text = match options.version {
        Some(number) => one(&remote, number, options.format)?,
        None => list(&remote, options.limit, options.format)?,
    };
    policy::write(&text)?;
    Ok(0)
}

fn one(remote: &Remote, number: u64, format: Format) -> Result<String, Stop> {
    if format == Format::Json {
        return Ok(pretty(&apply::change::<Json>(remote, number)?));
    }
    let found: ChangeInFull = apply::change(remote, number)?;
    let paint = Paint::of_output();
    let mut text = String::new();
    entry(&mut text, &found.entry, false, paint);
    text.push_str(&show::differences(&found.differences, paint));
    Ok(text)
}

fn list(remote: &Remote, limit: u32, format: Format) -> Result<String, Stop> {
    let mut changes: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let left = limit.saturating_sub(u32::try_from(changes.len()).unwrap_or(u32::MAX));
        let path = format!("/schema/history?limit={}{cursor}", left.min(PAGE));
        let page: Value =
            remote.json(Method::GET, &path, None, None).map_err(|failure| remote.explained(failure))?;
        let next = page.get("next_cursor").and_then(Value::as_str);
        cursor = next.map_or_else(String::new, |next| {
            let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
            format!("&cursor={next}")
        });
        let found = page.get("changes").and_then(Value::as_array).cloned().unwrap_or_default();
        let done = cursor.is_empty() || found.is_empty();
        changes.extend(found);
        if done || changes.len() >= limit as usize {
            break;
        }
    }
    let more = !cursor.is_empty();
    let answer = json!({ "changes": changes });
    if format == Format::Json {
        return Ok(pretty(&answer));
    }
    let History { changes } = remote.known(answer)?;
    let mut text = entries(&changes, Paint::of_output());
    if more {
        let _ = writeln!(text, "older changes: --limit {}", limit.saturating_mul(2));
    }
    Ok(text)
}

pub(super) fn entries(changes: &[Change], paint: Paint) -> String {
    let mut text = String::new();
    for change in changes {
        entry(&mut text, change, true, paint);
    }
    text
}

/// Appends a line for the change, and one for each part of its summary.
fn entry(text: &mut String, change: &Change, summary: bool, paint: Paint) {
    let Change { version, at, by, action, target, summary: lines } = change;
    let who = if by.username.is_empty() { "the service".to_owned() } else { plain(&by.username) };
    let target = target.as_deref().map_or_else(String::new, |target| format!(" `{}`", plain(target)));
    let _ = writeln!(
        text,
        "{} {}  {who}  {}{target}",
        paint.heading(format!("{version:>5}")),
        seconds(at),
        plain(action),
    );
    for line in lines.iter().filter(|_| summary) {
        let _ = writeln!(text, "        {}", plain(line));
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = String::new();
    report::json(value, &mut text);
    text
}
