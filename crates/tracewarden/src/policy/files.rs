//! Files with access models, users, spans, roles and tests.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tracewarden_documents::{Document, EvaluatedUser, Fault, Json, Lines, MemberFault, PolicyFile};
use tracewarden_model::invisible::is_invisible_or_bidi_control;
use tracewarden_model::{AccessModel, Caller};

use super::error::{ErrorReport, Line};

/// Maximum size of a file; larger files are rejected.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Replaces control characters, invisible characters and characters that change the direction of text.
pub(crate) fn sanitize(text: &str) -> String {
    text.replace(is_invisible_or_bidi_control, "\u{fffd}")
}

/// Returns a file's name for messages.
pub(crate) fn display_name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { sanitize(&path.display().to_string()) }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a file's text; `-` is the standard input.
pub(crate) fn text(path: &Path) -> Result<String, ErrorReport> {
    let failed = |error: std::io::Error| {
        ErrorReport::failed(format!("{}: cannot be read: {error}", display_name(path)))
    };
    let mut bytes = Vec::new();
    let read = if is_standard_input(path) {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ErrorReport::failed(format!(
            "{}: files are limited to {MAX_BYTES} bytes",
            display_name(path)
        )));
    }
    // Skip a byte order mark.
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(.."\u{feff}".len());
    }
    String::from_utf8(bytes).map_err(|_| ErrorReport::failed(format!("{}: not UTF-8", display_name(path))))
}

/// Rejects several uses of the standard input: a second read would find it empty.
pub(super) fn require_single_standard_input<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), ErrorReport> {
    if paths.into_iter().filter(|path| is_standard_input(path)).count() > 1 {
        return Err(ErrorReport::failed("only one file can be read from the standard input"));
    }
    Ok(())
}

/// Where a policy comes from.
pub(crate) struct Origin {
    file: String,
    /// Which policy of the file it is; empty if the file contains a single policy.
    policy: String,
    /// First line of the policy's text in the file, if the lines of the text are lines of the file.
    first_line: Option<usize>,
}

impl Origin {
    /// Origin of a text that is not part of a file with roles.
    pub(crate) fn standalone(name: String) -> Self {
        Self { file: name, policy: String::new(), first_line: None }
    }

    /// Position of a line of the policy's text: "roles.yaml:12, role `dev`, policy `One`".
    pub(crate) fn at(&self, line: u32) -> String {
        match self.first_line {
            Some(first) => {
                format!("{}:{}{}", self.file, first + line.saturating_sub(1) as usize, self.policy)
            }
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.file, self.policy)
    }
}

/// A document with its name in messages.
#[derive(Debug)]
pub(crate) struct NamedDocument {
    pub(crate) name: String,
    pub(crate) document: Document,
}

impl NamedDocument {
    pub(crate) fn read(path: &Path) -> Result<Self, ErrorReport> {
        Self::from_text(display_name(path), &text(path)?)
    }

    pub(crate) fn from_text(name: String, text: &str) -> Result<Self, ErrorReport> {
        match Document::read(text) {
            Ok(document) => Ok(Self { name, document }),
            Err(fault) => Err(fault_report(&name, &fault)),
        }
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, ErrorReport> {
        self.document.parse().map_err(|fault| fault_report(&self.name, &fault))
    }

    /// Formats a message about the member at a JSON Pointer: "roles.yaml:3:5: message".
    pub(crate) fn at(&self, pointer: &str, message: &str) -> String {
        format!("{}:{}: {}", self.name, self.document.position(pointer), sanitize(message))
    }

    /// Returns the origin of the policy at a JSON Pointer; `name` is its name for people.
    pub(crate) fn origin(&self, pointer: &str, name: &str) -> Origin {
        let first_line = match self.document.lines(&format!("{pointer}/expression")) {
            Some(Lines::Preserved(first)) => Some(first),
            _ => None,
        };
        Origin { file: self.name.clone(), policy: format!(", {name}"), first_line }
    }

    fn error_report(&self, faults: Vec<MemberFault>) -> ErrorReport {
        faults.iter().map(|fault| Line::Message(self.at(&fault.pointer, &fault.message))).collect()
    }
}

fn fault_report(name: &str, fault: &Fault) -> ErrorReport {
    ErrorReport::failed(format!("{name}:{}: {}", fault.position, sanitize(&fault.message)))
}

/// Reads the access model from a file.
pub(super) fn model(path: &Path) -> Result<AccessModel, ErrorReport> {
    let named = NamedDocument::read(path)?;
    let mut file: PolicyFile = named.parse()?;
    let model = file.access_model().map_err(|faults| named.error_report(faults))?;
    model.ok_or_else(|| {
        ErrorReport::failed(format!("{}: contains no access model: `fields` is missing", named.name))
    })
}

/// Reads a file with roles and the access model for them: the given one, or the file's own.
pub(super) fn roles(
    path: &Path,
    given: Option<&AccessModel>,
) -> Result<(NamedDocument, PolicyFile, AccessModel), ErrorReport> {
    let named = NamedDocument::read(path)?;
    let mut file: PolicyFile = named.parse()?;
    let own = file.access_model().map_err(|faults| named.error_report(faults))?;
    let mut ambiguities = file.ambiguities(&named.document);
    if ambiguities.is_empty() {
        ambiguities = file.case_conflicts();
    }
    if !ambiguities.is_empty() {
        return Err(named.error_report(ambiguities));
    }
    let model = match (given, own, file.model.take()) {
        (_, Some(_), Some(_)) => {
            let message = "`fields` and `model` are both given: keep one";
            return Err(ErrorReport::failed(named.at("/model", message)));
        }
        (Some(given), ..) => given.clone(),
        (None, Some(own), None) => own,
        (None, None, Some(relative)) => {
            // `-` in a file names the file `-`, not the standard input.
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            let model_path = match directory {
                None if relative == "-" => PathBuf::from("./-"),
                None => PathBuf::from(&relative),
                Some(directory) => directory.join(&relative),
            };
            model(&model_path)?
        }
        (None, None, None) => {
            return Err(ErrorReport::failed(format!(
                "{}: no access model: give `fields`, `model` or the option `--model`",
                named.name
            )));
        }
    };
    Ok((named, file, model))
}

/// Reads a user from a file.
pub(super) fn user(path: &Path) -> Result<Caller, ErrorReport> {
    Ok(NamedDocument::read(path)?.parse::<EvaluatedUser>()?.into())
}

/// Reads spans from a file: a list, or the answer of a query or of `GET /traces/{id}`.
pub(super) fn spans(path: &Path) -> Result<(NamedDocument, Vec<Json>, &'static str), ErrorReport> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object")]
    struct Answer {
        #[serde(rename = "schema")]
        _schema: Option<Json>,
        spans: Vec<Json>,
        #[serde(rename = "next_cursor")]
        _next_cursor: Option<String>,
    }
    let named = NamedDocument::read(path)?;
    if named.document.is_list() {
        let spans = named.parse()?;
        return Ok((named, spans, ""));
    }
    let answer: Answer = named.parse()?;
    Ok((named, answer.spans, "/spans"))
}
