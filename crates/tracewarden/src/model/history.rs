//! `tracewarden model history`.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use tracewarden_documents::Json;

use super::answers::{Change, ChangeDetails, History};
use super::api_client::ApiClient;
use super::paint::{Paint, sanitize, seconds};
use super::{apply, show};
use crate::command_line::{Format, ModelHistory};
use crate::policy::{self, ErrorReport, report};

/// Maximum page size of the service.
const PAGE_SIZE: u32 = 100;

/// Lists changes, or shows one.
pub(super) fn run(options: &ModelHistory) -> Result<u8, ErrorReport> {
    let api_client = ApiClient::new(&options.connection)?;
    let text = match options.version {
        Some(number) => show_change(&api_client, number, options.format)?,
        None => list_changes(&api_client, options.limit, options.format)?,
    };
    policy::write(&text)?;
    Ok(0)
}

fn show_change(api_client: &ApiClient, number: u64, format: Format) -> Result<String, ErrorReport> {
    if format == Format::Json {
        return Ok(report::json(&apply::change::<Json>(api_client, number)?));
    }
    let found: ChangeDetails = apply::change(api_client, number)?;
    let paint = Paint::for_stdout();
    let mut text = String::new();
    entry(&mut text, &found.entry, false, paint);
    text.push_str(&show::differences(&found.differences, paint));
    Ok(text)
}

fn list_changes(api_client: &ApiClient, limit: u32, format: Format) -> Result<String, ErrorReport> {
    let mut changes: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let remaining = limit.saturating_sub(u32::try_from(changes.len()).unwrap_or(u32::MAX));
        let path = format!("/schema/history?limit={}{cursor}", remaining.min(PAGE_SIZE));
        let page: Value =
            api_client.json(Method::GET, &path, None, None).map_err(|failure| api_client.explain(failure))?;
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
        return Ok(report::json(&answer));
    }
    let History { changes } = api_client.decode(answer)?;
    let mut text = entries(&changes, Paint::for_stdout());
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
    let author = if by.username.is_empty() { "the service".to_owned() } else { sanitize(&by.username) };
    let target = target.as_deref().map_or_else(String::new, |target| format!(" `{}`", sanitize(target)));
    let _ = writeln!(
        text,
        "{} {}  {author}  {}{target}",
        paint.heading(format!("{version:>5}")),
        seconds(at),
        sanitize(action),
    );
    for line in lines.iter().filter(|_| summary) {
        let _ = writeln!(text, "        {}", sanitize(line));
    }
}
