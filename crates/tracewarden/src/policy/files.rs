//! Files with access models, users, spans, roles and tests.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tracewarden_model::{AccessModel, Caller};
use tracewarden_rest::json::Json;
use tracewarden_rest::policies::EvaluatedUser;
use tracewarden_rest::policy_file::{MemberFault, PolicyFile};
use tracewarden_rest::text::{Document, Fault, Lines};

use super::{Line, Trouble};

/// Larger files are refused.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Text without characters that a terminal would obey or that are invisible or turn others around.
pub(crate) fn plain(text: &str) -> String {
    let deceptive = |character: char| {
        character.is_control()
            || matches!(u32::from(character), 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x2069 | 0xFEFF)
    };
    text.chars().map(|character| if deceptive(character) { '\u{fffd}' } else { character }).collect()
}

/// How a file is called in messages.
pub(crate) fn shown(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { plain(&path.display().to_string()) }
}

pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A file's text; `-` is the standard input.
pub(crate) fn text(path: &Path) -> Result<String, Trouble> {
    let failed = |error: std::io::Error| Trouble::one(format!("{}: cannot be read: {error}", shown(path)));
    let mut bytes = Vec::new();
    let read = if is_standard_input(path) {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Trouble::one(format!("{}: files are limited to {MAX_BYTES} bytes", shown(path))));
    }
    // Some editors mark UTF-8 so.
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(.."\u{feff}".len());
    }
    String::from_utf8(bytes).map_err(|_| Trouble::one(format!("{}: not UTF-8", shown(path))))
}

/// The standard input can be read once: the second time nothing would be there.
pub(super) fn one_standard_input<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Trouble> {
    if paths.into_iter().filter(|path| is_standard_input(path)).count() > 1 {
        return Err(Trouble::one("only one file can be read from the standard input"));
    }
    Ok(())
}

/// Where a policy comes from.
pub(crate) struct Origin {
    file: String,
    /// Which policy of the file it is; empty where the file is one policy.
    policy: String,
    /// The line of the file on which its text begins, where the lines of the text are lines of the file.
    first_line: Option<usize>,
}

impl Origin {
    /// A text that is no part of a file of roles.
    pub(crate) fn alone(name: String) -> Self {
        Self { file: name, policy: String::new(), first_line: None }
    }

    /// "roles.yaml:12, role `dev`, policy `One`", for a line of the policy's text.
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

/// A document with the name that messages call it by.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) document: Document,
}

impl Named {
    pub(crate) fn read(path: &Path) -> Result<Self, Trouble> {
        Self::of_text(shown(path), &text(path)?)
    }

    pub(crate) fn of_text(name: String, text: &str) -> Result<Self, Trouble> {
        match Document::read(text) {
            Ok(document) => Ok(Self { name, document }),
            Err(fault) => Err(at_place(&name, &fault)),
        }
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, Trouble> {
        self.document.parse().map_err(|fault| at_place(&self.name, &fault))
    }

    /// "roles.yaml:3:5: message", for the member that a JSON Pointer names.
    pub(crate) fn at(&self, pointer: &str, message: &str) -> String {
        format!("{}:{}: {}", self.name, self.document.place(pointer), plain(message))
    }

    /// Where the policy comes from that a JSON Pointer names, and that `name` names to people.
    pub(crate) fn origin(&self, pointer: &str, name: &str) -> Origin {
        let first_line = match self.document.lines(&format!("{pointer}/expression")) {
            Some(Lines::Kept(first)) => Some(first),
            _ => None,
        };
        Origin { file: self.name.clone(), policy: format!(", {name}"), first_line }
    }

    fn trouble(&self, faults: Vec<MemberFault>) -> Trouble {
        Trouble(faults.iter().map(|fault| Line::Message(self.at(&fault.pointer, &fault.message))).collect())
    }
}

fn at_place(name: &str, fault: &Fault) -> Trouble {
    Trouble::one(format!("{name}:{}: {}", fault.place, plain(&fault.message)))
}

/// The access model of a file.
pub(super) fn model(path: &Path) -> Result<AccessModel, Trouble> {
    let named = Named::read(path)?;
    let mut file: PolicyFile = named.parse()?;
    match file.access_model().map_err(|faults| named.trouble(faults))? {
        Some(model) => Ok(model),
        None => Err(Trouble::one(format!("{}: holds no access model: there are no `fields`", named.name))),
    }
}

/// A file with roles, with the access model that they are for: the given one, or that of the file.
pub(super) fn roles(
    path: &Path,
    given: Option<&AccessModel>,
) -> Result<(Named, PolicyFile, AccessModel), Trouble> {
    let named = Named::read(path)?;
    let mut file: PolicyFile = named.parse()?;
    let own = file.access_model().map_err(|faults| named.trouble(faults))?;
    let mut unclear = file.unclear(&named.document);
    if unclear.is_empty() {
        unclear = file.case_conflicts();
    }
    if !unclear.is_empty() {
        return Err(named.trouble(unclear));
    }
    let model = match (given, own, file.model.take()) {
        (_, Some(_), Some(_)) => {
            let message = "there are `fields` already: the model is either here or in another file";
            return Err(Trouble::one(named.at("/model", message)));
        }
        (Some(given), ..) => given.clone(),
        (None, Some(own), None) => own,
        (None, None, Some(relative)) => {
            // A file of the name `-` is none that is given on the command line.
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            let beside = match directory {
                None if relative == "-" => PathBuf::from("./-"),
                None => PathBuf::from(&relative),
                Some(directory) => directory.join(&relative),
            };
            model(&beside)?
        }
        (None, None, None) => {
            return Err(Trouble::one(format!(
                "{}: no access model: give `fields`, `model` or the option `--model`",
                named.name
            )));
        }
    };
    Ok((named, file, model))
}

/// The user of a file.
pub(super) fn user(path: &Path) -> Result<Caller, Trouble> {
    Ok(Named::read(path)?.parse::<EvaluatedUser>()?.into())
}

/// Spans of a file: a list, or what a query or `GET /traces/{id}` answers with.
pub(super) fn spans(path: &Path) -> Result<(Named, Vec<Json>, &'static str), Trouble> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object")]
    struct Answer {
        #[serde(rename = "schema")]
        _schema: Option<Json>,
        spans: Vec<Json>,
        #[serde(rename = "next_cursor")]
        _next_cursor: Option<String>,
    }
    let named = Named::read(path)?;
    if named.document.is_list() {
        let spans = named.parse()?;
        return Ok((named, spans, ""));
    }
    let answer: Answer = named.parse()?;
    Ok((named, answer.spans, "/spans"))
}
