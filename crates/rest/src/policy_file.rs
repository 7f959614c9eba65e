//! What files about policies hold: an access model, roles with their policies, and tests of them. One format for all of
//! it, each member of which may be absent, so that the answer of `GET /schema` is such a file.

use serde::Deserialize;
use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

use crate::json::Json;
use crate::policies::EvaluatedUser;
use crate::schema_wire::{self, WireBinding, WireFieldSource};

/// A file about policies.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct PolicyFile {
    /// Path of a file with the access model, relative to this one.
    pub model: Option<String>,
    /// Version of the access model.
    version: Option<u64>,
    /// The bound table.
    binding: Option<WireBinding>,
    /// The marked fields.
    fields: Option<Vec<FileField>>,
    /// Roles.
    #[serde(default)]
    pub roles: Vec<FileRole>,
    /// Policies that no role holds.
    #[serde(default)]
    pub policies: Vec<FilePolicy>,
    /// Users of the tests.
    #[serde(default)]
    pub users: Vec<EvaluatedUser>,
    /// Traces of the tests.
    #[serde(default)]
    pub traces: Vec<FileTrace>,
    /// Tests.
    #[serde(default)]
    pub tests: Vec<FileTest>,
}

/// A marked field, as `GET /schema` answers with it; by hand, the name is enough.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct FileField {
    /// The map or JSON column; empty or absent for a column of its own.
    map: Option<String>,
    /// The key, the path, or the column.
    name: String,
    /// How policies name it; follows from the others.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Its type; the natural one of the column's type where it is absent.
    #[serde(rename = "type")]
    logical: Option<schema_wire::LogicalType>,
    /// Type of the column, of the map's values, or of what is at the path.
    column_type: Option<String>,
    /// Where the value is; follows from the others, but for a path of a declared type.
    source: Option<WireFieldSource>,
    /// Whether filters may use it.
    filterable: Option<bool>,
    /// Whether policies may use it; they may, unless it is a number.
    policy: Option<bool>,
    /// The materialized column that policies read in place of a map's key.
    column: Option<String>,
}

/// A role.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct FileRole {
    /// Name.
    pub name: String,
    /// Its policies.
    pub policies: Vec<FilePolicy>,
}

/// A policy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct FilePolicy {
    /// What it is for.
    pub title: String,
    /// CEL.
    pub expression: String,
    /// More about it.
    #[serde(rename = "description", default)]
    _description: Option<String>,
}

/// A trace of the tests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct FileTrace {
    /// Name.
    pub name: String,
    /// Its spans, as a query answers with them.
    pub spans: Vec<Json>,
}

/// A test: what a user may see, or what policies are on spans.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct FileTest {
    /// What it shows.
    pub name: String,
    /// The name of a user of this file.
    pub user: String,
    /// The name of a trace of this file.
    pub trace: Option<String>,
    /// The spans, in place of a trace.
    pub spans: Option<Vec<Json>>,
    /// Whether the user sees the trace.
    pub visible: Option<bool>,
    /// What policies are, by title or `role/title`: `true`, `false` or `error`, or a list with one for each span.
    pub policies: Option<Json>,
}

/// What is wrong with a member of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFault {
    /// JSON Pointer to the member.
    pub pointer: String,
    /// Lower case, no final period.
    pub message: String,
}

impl PolicyFile {
    /// The access model that the file holds, if it holds one.
    ///
    /// # Errors
    /// Every field that no table can have.
    pub fn access_model(&mut self) -> Result<Option<AccessModel>, Vec<MemberFault>> {
        let Some(sent) = self.fields.take() else { return Ok(None) };
        let mut faults = Vec::new();
        let mut fields: Vec<MarkedField> = Vec::with_capacity(sent.len());
        for (index, field) in sent.into_iter().enumerate() {
            let pointer = format!("/fields/{index}");
            match marked(field) {
                Ok(field) if fields.iter().any(|known| known.field == field.field) => {
                    let message = format!("`{}` is there twice", field.field);
                    faults.push(MemberFault { pointer, message });
                }
                Ok(field) => fields.push(field),
                Err((member, message)) => {
                    faults.push(MemberFault { pointer: format!("{pointer}{member}"), message });
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let binding = self.binding.take().map(Into::into);
        Ok(Some(AccessModel { version: self.version.unwrap_or_default(), binding, fields }))
    }
}

fn marked(sent: FileField) -> Result<MarkedField, (&'static str, String)> {
    let map = sent.map.filter(|map| !map.is_empty());
    let wanted: Option<LogicalType> = sent.logical.map(Into::into);
    let column_type = sent.column_type.as_deref().map(ColumnType::parse);
    let source = match (sent.source, &map) {
        (Some(source), _) => source.into(),
        (None, None) => FieldSource::Column,
        (None, Some(_)) if column_type == Some(ColumnType::Dynamic) => FieldSource::JsonPath,
        (None, Some(_)) => FieldSource::MapKey,
    };
    if (source == FieldSource::Column) != map.is_none() {
        return Err(("/source", "a column has no `map`, a key or path has one".to_owned()));
    }
    let column_type = column_type.unwrap_or_else(|| usual_type(source, wanted));
    let within = match source {
        FieldSource::Column => Ok(column_type.logical_types()),
        FieldSource::MapKey => {
            let map = ColumnType::Map(Box::new(ColumnType::String), Box::new(column_type.clone()));
            map.within(&sent.name).map(|(.., possible)| possible)
        }
        FieldSource::JsonPath => {
            let declared = column_type != ColumnType::Dynamic;
            let typed = declared.then(|| (sent.name.clone(), column_type.clone()));
            ColumnType::Json { typed: typed.into_iter().collect() }
                .within(&sent.name)
                .map(|(.., possible)| possible)
        }
    };
    let possible = within.map_err(|message| ("", message))?;
    let logical = match (wanted, possible.first()) {
        (_, None) => return Err(("/column_type", format!("no field can be made of the type {column_type}"))),
        (None, Some(natural)) => *natural,
        (Some(wanted), _) if possible.contains(&wanted) => wanted,
        (Some(wanted), _) => {
            return Err(("/type", format!("a field of the column type {column_type} cannot be a {wanted}")));
        }
    };
    let field = FieldRef { map, name: sent.name };
    if sent.reference.is_some_and(|reference| reference != field.to_string()) {
        return Err(("/ref", format!("the field is called `{field}`; `ref` may be left out")));
    }
    if sent.column.is_some() && source != FieldSource::MapKey {
        return Err(("/column", "only a key of a map has a column in its place".to_owned()));
    }
    let policy = sent.policy.unwrap_or(logical != LogicalType::Number);
    if policy && logical == LogicalType::Number {
        return Err(("/policy", "policies cannot use numbers".to_owned()));
    }
    Ok(MarkedField {
        field,
        source,
        logical,
        column_type,
        filterable: sent.filterable.unwrap_or(true),
        policy,
        column: sent.column,
    })
}

/// The type of the column where a file does not say it: that of the OpenTelemetry exporter's tables.
fn usual_type(source: FieldSource, logical: Option<LogicalType>) -> ColumnType {
    let column = match logical {
        None | Some(LogicalType::String) => "String",
        Some(LogicalType::StringArray) => "Array(String)",
        Some(LogicalType::Boolean) => "Bool",
        Some(LogicalType::Number) => "UInt64",
    };
    match source {
        FieldSource::Column => ColumnType::parse(column),
        FieldSource::MapKey => ColumnType::String,
        FieldSource::JsonPath => ColumnType::Dynamic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Document;

    fn model(text: &str) -> Result<AccessModel, String> {
        let document = Document::read(text).unwrap();
        let mut file: PolicyFile =
            document.parse().map_err(|fault| format!("{} {}", fault.place, fault.message))?;
        let faults = |faults: Vec<MemberFault>| format!("{} {}", faults[0].pointer, faults[0].message);
        file.access_model().map_err(faults).map(|model| model.unwrap())
    }

    #[test]
    fn the_name_of_a_field_is_enough() {
        let read = model(
            "fields:\n  - {name: ServiceName}\n  - {map: SpanAttributes, name: flag, type: boolean}\n  - {map: Attrs, name: \
             a.b, column_type: Dynamic}\n  - {name: Events.Name, type: string_array}\n  - {name: Duration, type: number}\n",
        )
        .unwrap();
        let seen: Vec<String> = read
            .fields
            .iter()
            .map(|field| {
                format!("{} {} {} {}", field.field, field.logical, field.source.as_str(), field.policy)
            })
            .collect();
        assert_eq!(
            seen,
            [
                "ServiceName string column true",
                "SpanAttributes[\"flag\"] boolean map_key true",
                "Attrs[\"a.b\"] string json_path true",
                "Events.Name string_array column true",
                "Duration number column false",
            ]
        );
    }

    #[test]
    fn what_no_table_can_have_is_refused() {
        let refused = |field: &str| model(&format!("fields:\n  - {field}\n")).unwrap_err();
        assert!(
            refused("{name: a, column_type: 'Tuple(a String)'}")
                .starts_with("/fields/0/column_type no field")
        );
        assert!(
            refused("{name: a, column_type: Bool, type: string}").starts_with("/fields/0/type a field of")
        );
        assert!(refused("{name: a, type: number, policy: true}").starts_with("/fields/0/policy policies"));
        assert!(refused("{name: a, ref: b}").starts_with("/fields/0/ref the field is called `a`"));
        assert!(refused("{name: a, source: map_key}").starts_with("/fields/0/source"));
        assert!(refused("{name: a, column: b}").starts_with("/fields/0/column only a key"));
        assert!(refused("{name: a, source: row}").contains("unknown variant `row`"));
        assert!(refused("{name: a}\n  - {name: a}").starts_with("/fields/1 `a` is there twice"));
        assert_eq!(refused("{nam: a}"), "2:6 unknown member `nam`; did you mean `name`?");
        assert!(refused("{name: a, type: text}").contains("unknown variant `text`"));
    }
}
