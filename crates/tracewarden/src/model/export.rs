//! `tracewarden model export`.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use http::Method;

use super::Stop;
use super::paint::plain;
use super::remote::Remote;
use crate::command_line::{ModelExport, Notation};
use crate::policy;

/// Writes the access model exactly as the service returns it: the same model gives the same bytes.
pub(super) fn run(options: &ModelExport) -> Result<u8, Stop> {
    let remote = Remote::new(&options.connection)?;
    let accept = match options.format.unwrap_or_else(|| notation(options.output.as_deref())) {
        Notation::Yaml => "application/yaml",
        Notation::Json => "application/json",
    };
    let answer = remote
        .send(Method::GET, "/schema/export", accept, None, None)
        .map_err(|failure| remote.explained(failure))?;
    let version = answer.version();
    let bytes = answer.into_bytes();
    let Some(path) = &options.output else {
        let text = String::from_utf8_lossy(&bytes);
        // A pipe gets the service's bytes unchanged; on a terminal, control characters are replaced.
        let text = if io::stdout().is_terminal() { tame(&text) } else { text.into_owned() };
        policy::write(&text)?;
        return Ok(0);
    };
    let shown = plain(&path.display().to_string());
    std::fs::write(path, &bytes)
        .map_err(|error| Stop::not_done(format!("{shown} cannot be written: {error}")))?;
    let of = version.map_or_else(String::new, |version| format!(", version {version},"));
    policy::write(&format!("the access model of {}{of} is in {shown}\n", remote.base))?;
    Ok(0)
}

fn notation(output: Option<&Path>) -> Notation {
    let ending = output.and_then(Path::extension);
    if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        Notation::Json
    } else {
        Notation::Yaml
    }
}

fn tame(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => plain(line) + "\n",
            None => plain(line),
        })
        .collect()
}
