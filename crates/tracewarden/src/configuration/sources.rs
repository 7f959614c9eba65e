//! Sources of settings: a TOML file and environment variables, which take precedence. An unknown setting prevents the
//! start: a misspelt limit that was silently ignored would not be enforced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracewarden_model::nearest::nearest;

/// Prefix of the names of Tracewarden's environment variables.
const PREFIX: &str = "TRACEWARDEN_";

/// Variables with this prefix that belong to the local ClickHouse, the development commands and the command line.
const FOREIGN_VARIABLES: &[&str] = &[
    "TRACEWARDEN_LIBCHDB",
    "TRACEWARDEN_PYTHON",
    "TRACEWARDEN_CONFIG",
    "TRACEWARDEN_URL",
    "TRACEWARDEN_API_KEY",
    "TRACEWARDEN_API_KEY_FILE",
    "TRACEWARDEN_CA_FILE",
];

/// Prefix of variables that belong to the local ClickHouse.
const FOREIGN_PREFIX: &str = "TRACEWARDEN_LOCALSTORE_";

/// A setting. Its file key is `name`; its environment variable is `TRACEWARDEN_` and the name in capitals.
#[derive(Debug)]
pub struct Setting {
    /// Key in the configuration file.
    pub name: &'static str,
    /// Whether the value is never shown, and can also be given as the path of a file that holds it, under the name with
    /// `_file`.
    pub secret: bool,
    /// Default value, in the notation of the configuration file.
    pub default: Option<&'static str>,
    /// Description for the documentation.
    #[cfg_attr(not(test), allow(dead_code, reason = "the documentation is written by a test"))]
    pub help: &'static str,
}

/// Returns the environment variable of a file key.
pub fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase())
}

/// A setting that was given, before it is parsed.
#[derive(Debug)]
pub struct SettingValue {
    pub text: String,
    /// Variable or file key that it came from, for messages.
    origin: String,
}

/// All settings that were given.
#[derive(Debug)]
pub struct Sources {
    settings: &'static [Setting],
    pub(crate) values: BTreeMap<&'static str, SettingValue>,
    /// The files that secrets came from: those named for a secret, and the configuration file if it contains a secret
    /// itself.
    pub(super) secret_files: Vec<PathBuf>,
    pub(crate) errors: Vec<String>,
}

impl Sources {
    /// No sources yet, for these settings.
    pub fn new(settings: &'static [Setting]) -> Self {
        Self { settings, values: BTreeMap::new(), secret_files: Vec::new(), errors: Vec::new() }
    }

    /// Reads the file, if there is one, and the environment.
    pub fn read(&mut self, file: Option<&Path>, environment: impl IntoIterator<Item = (String, String)>) {
        if let Some(path) = file {
            match std::fs::read_to_string(path) {
                Ok(text) => self.add_file(&path.display().to_string(), &text),
                Err(error) => self.errors.push(format!("the configuration file {}: {error}", path.display())),
            }
        }
        self.add_environment(environment);
    }

    /// Returns the value of a setting with a default; `None` after an error.
    pub fn value<T>(
        &mut self,
        name: &'static str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.values.get(name).map(|given| (given.text.as_str(), given.origin.as_str()));
        let (text, origin) = given.unwrap_or((default, name));
        parse(text).map_err(|message| self.errors.push(format!("{origin}: {message}"))).ok()
    }

    /// Returns the value of a setting without a default, `Some(None)` if it was not given, or `None` after an error.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        if self.values.contains_key(name) { self.value(name, "", parse).map(Some) } else { Some(None) }
    }

    /// Returns one line per setting with its effective value and source, in the order of the documentation. Values of
    /// secrets are not shown.
    pub fn lines(&self) -> Vec<String> {
        let line = |setting: &Setting| {
            let name = setting.name;
            match (self.values.get(name), setting.default) {
                (Some(SettingValue { origin, .. }), _) if setting.secret => {
                    format!("{name}: not shown ({origin})")
                }
                (Some(SettingValue { text, origin }), _) => {
                    format!("{name} = {} ({origin})", display_text(text))
                }
                (None, Some(default)) => format!("{name} = {} (default)", display_text(default)),
                (None, None) => format!("{name}: not set"),
            }
        };
        self.settings.iter().map(line).collect()
    }

    pub(crate) fn add_file(&mut self, path: &str, text: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            // The library's full message quotes the line, which may contain a secret.
            Err(error) => {
                let error: toml::de::Error = error;
                let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                self.errors.push(format!("{path}, line {line}: not TOML: {}", error.message()));
                return;
            }
        };
        let mut found = Vec::new();
        if self.settings.iter().any(|setting| setting.secret && table.contains_key(setting.name)) {
            self.secret_files.push(PathBuf::from(path));
        }
        for (key, value) in table {
            let origin = format!("`{key}` in {path}");
            match plain_text(&value) {
                Some(text) => found.push((key, text, origin)),
                None => self
                    .errors
                    .push(format!("{origin}: must be a string, a number, a boolean or a list of strings")),
            }
        }
        self.add(found, str::to_owned, "setting");
    }

    fn add_environment(&mut self, environment: impl IntoIterator<Item = (String, String)>) {
        let ours = environment.into_iter().filter(|(name, value)| {
            name.starts_with(PREFIX)
                && !FOREIGN_VARIABLES.contains(&name.as_str())
                && !name.starts_with(FOREIGN_PREFIX)
                && !is_set_by_kubernetes(name, value)
                // Container configurations often pass variables with empty values.
                && !value.is_empty()
        });
        let found = ours.map(|(name, value)| (name.clone(), value, format!("`{name}`"))).collect();
        self.add(found, variable, "environment variable");
    }

    /// Adds the settings of one source, each with its key, text and origin. They override those of earlier sources.
    /// `spelling` returns the key of a name in this source.
    fn add(&mut self, found: Vec<(String, String, String)>, spelling: fn(&str) -> String, what: &str) {
        // Each key with its setting, and whether it names a file with the value.
        let plain = self.settings.iter().map(|setting| (spelling(setting.name), setting, false));
        let secrets = self.settings.iter().filter(|setting| setting.secret);
        let by_file = secrets.map(|setting| (spelling(&format!("{}_file", setting.name)), setting, true));
        let known: Vec<(String, &Setting, bool)> = plain.chain(by_file).collect();
        let mut origins: BTreeMap<&str, String> = BTreeMap::new();
        for (key, text, origin) in found {
            let Some((_, setting, in_file)) = known.iter().find(|(name, ..)| *name == key) else {
                let hint = match nearest(&key, known.iter().map(|(name, ..)| name.as_str())).first() {
                    Some(name) => format!("; did you mean `{name}`?"),
                    None => String::new(),
                };
                self.errors.push(format!("{origin}: no such {what}{hint}"));
                continue;
            };
            if let Some(other) = origins.insert(setting.name, origin.clone()) {
                self.errors.push(format!("{other} and {origin} both give `{}`; keep one", setting.name));
            }
            let text = if *in_file {
                self.secret_files.push(PathBuf::from(&text));
                read_secret(&text)
            } else {
                Ok(text)
            };
            match text {
                Ok(text) => {
                    self.values.insert(setting.name, SettingValue { text, origin });
                }
                Err(error) => self.errors.push(format!("{origin}: {error}")),
            }
        }
    }
}

/// Whether Kubernetes sets this variable in every container, for a Service whose name begins like this program's.
fn is_set_by_kubernetes(variable: &str, value: &str) -> bool {
    let is_address = variable.ends_with("_PORT") && value.contains("://");
    let has_protocol = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| variable.contains(protocol));
    is_address
        || (variable.contains("_PORT_") && has_protocol)
        || variable.ends_with("_SERVICE_HOST")
        || variable.ends_with("_SERVICE_PORT")
        || variable.contains("_SERVICE_PORT_")
}

fn plain_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

fn read_secret(path: &str) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => match text.trim_end_matches(['\r', '\n']) {
            // An empty file is a secret that was never filled in. To set no secret, name no file.
            "" => Err(format!("the file {path} is empty")),
            text => Ok(text.to_owned()),
        },
        Err(error) => Err(format!("the file {path} cannot be read: {error}")),
    }
}

fn display_text(text: &str) -> &str {
    if text.is_empty() { "empty" } else { text }
}
