//! Generated spans, independent of a layout, and rows of a table.

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// Integer.
    Integer(i64),
    /// Floating-point number.
    Float(f64),
    /// Boolean.
    Bool(bool),
}

impl Value {
    /// Returns the value as exporters write it into a map of strings.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Bool(value) => value.to_string(),
        }
    }

    /// Returns the value as JSON.
    pub fn json(&self) -> String {
        match self {
            Self::Text(text) => super::row::quoted(text),
            other => other.text(),
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            #[allow(clippy::cast_precision_loss, reason = "thresholds of questions are far from the values")]
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Bool(_) => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Within a process.
    Internal,
    /// Handles a request.
    Server,
    /// Sends a request.
    Client,
}

impl Kind {
    /// Returns the name that the OpenTelemetry Collector writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "Internal",
            Self::Server => "Server",
            Self::Client => "Client",
        }
    }

    /// Returns the number of the OpenTelemetry protocol.
    pub fn number(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Server => 2,
            Self::Client => 3,
        }
    }
}

/// A span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Trace id.
    pub trace: u128,
    /// Span id.
    pub id: u64,
    /// Id of the parent; the parent need not exist.
    pub parent: Option<u64>,
    /// Service.
    pub service: &'static str,
    /// Operation.
    pub name: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Start, in nanoseconds since the Unix epoch.
    pub start: i64,
    /// Duration in nanoseconds; negative where the span ends before it begins.
    pub duration: i64,
    /// Whether the status is an error.
    pub error: bool,
    /// Attributes, in order. A key can occur twice.
    pub attributes: Vec<(&'static str, Value)>,
    /// Attributes of the resource.
    pub resource: Vec<(&'static str, String)>,
}

impl Span {
    /// Returns an attribute; the first of several values.
    pub fn attribute(&self, key: &str) -> Option<Value> {
        self.attributes.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone())
    }

    /// Returns a text attribute, or an empty text.
    pub fn text(&self, key: &str) -> String {
        self.attribute(key).map(|value| value.text()).unwrap_or_default()
    }

    /// Returns an attribute of the resource.
    pub fn resource(&self, key: &str) -> Option<Value> {
        let found = self.resource.iter().find(|(known, _)| *known == key);
        found.map(|(_, value)| Value::Text(value.clone()))
    }

    /// Returns the end, in nanoseconds since the Unix epoch.
    pub fn end(&self) -> i64 {
        self.start + self.duration
    }

    /// Returns the text attributes, the others as numbers, and the booleans, for layouts that separate them.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &Value)> + Clone {
        self.of_type(|value| matches!(value, Value::Text(_)))
    }

    /// Returns the integers.
    pub fn integers(&self) -> impl Iterator<Item = (&'static str, &Value)> + Clone {
        self.of_type(|value| matches!(value, Value::Integer(_)))
    }

    /// Returns the floating-point numbers.
    pub fn floats(&self) -> impl Iterator<Item = (&'static str, &Value)> + Clone {
        self.of_type(|value| matches!(value, Value::Float(_)))
    }

    /// Returns the integers and the floating-point numbers.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, &Value)> + Clone {
        self.of_type(|value| matches!(value, Value::Integer(_) | Value::Float(_)))
    }

    /// Returns the booleans.
    pub fn booleans(&self) -> impl Iterator<Item = (&'static str, &Value)> + Clone {
        self.of_type(|value| matches!(value, Value::Bool(_)))
    }

    fn of_type(&self, is_wanted: fn(&Value) -> bool) -> impl Iterator<Item = (&'static str, &Value)> + Clone {
        let all = self.attributes.iter().map(|(key, value)| (*key, value));
        all.filter(move |(_, value)| is_wanted(value))
    }
}

/// A row of a trace table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The span that the row contains.
    pub span: Span,
    /// Version of the row: of the rows of a span, the one with the highest version counts.
    pub version: i64,
    /// Whether the row says that the span is deleted.
    pub deleted: bool,
    /// Project that the row belongs to; [`Row::PROJECT`] or another.
    pub project: u8,
}

impl Row {
    /// The project that is bound, in layouts with projects.
    pub const PROJECT: u8 = 7;

    /// Returns the project as a UUID.
    pub fn project_uuid(&self) -> String {
        super::row::uuid(u128::from(self.project))
    }
}
