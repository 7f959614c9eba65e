//! `tracewarden model export`.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use http::Method;

use super::api_client::ApiClient;
use super::error::CommandError;
use super::paint::sanitize;
use crate::command_line::{FileFormat, ModelExport};
use crate::policy;

/// Writes the access model exactly as the service returns it: the same model gives the same bytes.
pub(super) fn run(options: &ModelExport) -> Result<u8, CommandError> {
    let api_client = ApiClient::new(&options.connection)?;
    let accept = match options.format.unwrap_or_else(|| file_format(options.output.as_deref())) {
        FileFormat::Yaml => "application/yaml",
        FileFormat::Json => "application/json",
    };
    let answer = api_client
        .send(Method::GET, "/schema/export", accept, None, None)
        .map_err(|failure| api_client.explain(failure))?;
    let version = answer.version();
    let bytes = answer.into_bytes();
    let Some(path) = &options.output else {
        let text = String::from_utf8_lossy(&bytes);
        // A pipe gets the service's bytes unchanged; on a terminal, control characters are replaced.
        let text = if io::stdout().is_terminal() { sanitize_lines(&text) } else { text.into_owned() };
        policy::write(&text)?;
        return Ok(0);
    };
    let display_name = sanitize(&path.display().to_string());
    std::fs::write(path, &bytes)
        .map_err(|error| CommandError::failed(format!("{display_name} cannot be written: {error}")))?;
    let version_text = version.map_or_else(String::new, |version| format!(", version {version},"));
    policy::write(&format!("the access model of {}{version_text} is in {display_name}\n", api_client.base))?;
    Ok(0)
}

fn file_format(output: Option<&Path>) -> FileFormat {
    let ending = output.and_then(Path::extension);
    if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        FileFormat::Json
    } else {
        FileFormat::Yaml
    }
}

fn sanitize_lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => sanitize(line) + "\n",
            None => sanitize(line),
        })
        .collect()
}
