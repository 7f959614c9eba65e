//! `tracewarden model export`.

use std::io::{self, IsTerminal as _};

use http::Method;

use super::api_client::ApiClient;
use super::file::is_json;
use super::paint::sanitize;
use crate::command_line::{FileFormat, ModelExport};
use crate::policy::{self, ErrorReport};

/// Writes the access model exactly as the service returns it: the same model gives the same bytes.
pub(super) fn run(options: &ModelExport) -> Result<u8, ErrorReport> {
    let api_client = ApiClient::new(&options.connection)?;
    let is_json = match options.format {
        Some(format) => format == FileFormat::Json,
        None => options.output.as_deref().is_some_and(is_json),
    };
    let accept = if is_json { "application/json" } else { "application/yaml" };
    let answer = api_client
        .send(Method::GET, "/schema/export", accept, None, None)
        .map_err(|failure| api_client.explain(failure))?;
    let Some(path) = &options.output else {
        let text = String::from_utf8_lossy(&answer.bytes);
        // A pipe gets the service's bytes unchanged; on a terminal, control characters are replaced.
        let text = if io::stdout().is_terminal() {
            text.split('\n').map(sanitize).collect::<Vec<_>>().join("\n")
        } else {
            text.into_owned()
        };
        policy::write(&text)?;
        return Ok(0);
    };
    let display_name = sanitize(&path.display().to_string());
    std::fs::write(path, &answer.bytes)
        .map_err(|error| ErrorReport::failed(format!("{display_name} cannot be written: {error}")))?;
    let version_text = answer.version().map_or_else(String::new, |version| format!(", version {version},"));
    policy::write(&format!("the access model of {}{version_text} is in {display_name}\n", api_client.base))?;
    Ok(0)
}
