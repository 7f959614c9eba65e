//! Configures a trace source as an administrator does.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{Client, expect, list};

/// Binds a table with the structural columns and the trace index that the service proposes. Returns the binding.
pub fn bind(administrator: &Client, database: &str, table: &str) -> Result<Value> {
    let tables = administrator.get("/schema/tables")?;
    let found = list(&tables, "/tables")?
        .iter()
        .find(|found| {
            found.get("database") == Some(&json!(database)) && found.get("name") == Some(&json!(table))
        })
        .with_context(|| format!("the service does not see the table {database}.{table}: {tables}"))?;
    let proposal = found.get("proposal").filter(|proposal| proposal.is_object());
    let binding = proposal.cloned().context("the service proposes no binding for the exporter's table")?;
    let (path, version_tag) = ("/schema/binding", version(administrator)?);
    let answer = administrator.send("PUT", path, version_tag.as_deref(), Some(&binding))?;
    expect(&answer, "PUT", path, &[200, 201])?;
    Ok(binding)
}

/// Replaces the field definitions.
pub fn mark(administrator: &Client, fields: &Value) -> Result<()> {
    let (path, version_tag) =
        ("/schema/fields", version(administrator)?.context("the answer to GET /schema has no ETag")?);
    let answer = administrator.send("PUT", path, Some(&version_tag), Some(&json!({ "fields": fields })))?;
    expect(&answer, "PUT", path, &[200])?;
    Ok(())
}

/// Returns the access model's version for `If-Match`, or `None` if no table is bound.
fn version(administrator: &Client) -> Result<Option<String>> {
    let answer = administrator.send("GET", "/schema", None, None)?;
    expect(&answer, "GET", "/schema", &[200, 409])?;
    Ok(answer.etag)
}
