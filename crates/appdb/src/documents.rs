//! The JSON documents that rows contain. Their types are private to this crate and reject unknown members: a document
//! of a newer version must not be read as if it said less.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tracewarden_model::{
    AccessModel, AttributeValue, Binding, ColumnType, ColumnValue, Display, FieldRef, FieldSource,
    LogicalType, MarkedField, ReadAs, RowOptions, TimeBucket, TimeUnit, Timestamp,
};

use crate::audit_prune::PrunedAudit;
use crate::error::DbError;
use crate::records::Preview;
use crate::rows::columns;

#[derive(Serialize, Deserialize)]
#[serde(remote = "AttributeValue", untagged)]
enum AttributeForm {
    String(String),
    Bool(bool),
    Strings(Vec<String>),
}

#[derive(Serialize, Deserialize)]
struct AttributeDocument(#[serde(with = "AttributeForm")] AttributeValue);

/// Writes and reads a member of a document in another form.
macro_rules! form {
    ($name:ident: $member:ty = $stored:ty, |$value:ident: $borrowed:ty| $write:expr, |$read:ident| $convert:expr) => {
        struct $name;

        impl $name {
            fn serialize<S: Serializer>($value: $borrowed, serializer: S) -> Result<S::Ok, S::Error> {
                $write.serialize(serializer)
            }

            fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$member, D::Error> {
                let $read = <$stored>::deserialize(deserializer)?;
                let converted: Result<_, String> = $convert;
                converted.map_err(D::Error::custom)
            }
        }
    };
}

form!(
    AttributesForm: BTreeMap<String, AttributeValue> = BTreeMap<String, AttributeDocument>,
    |attributes: &BTreeMap<String, AttributeValue>| {
        let documents = attributes.iter().map(|(name, value)| (name, AttributeDocument(value.clone())));
        documents.collect::<BTreeMap<_, _>>()
    },
    |documents| Ok(documents.into_iter().map(|(name, AttributeDocument(value))| (name, value)).collect())
);
form!(
    UnitForm: Option<TimeUnit> = Option<String>,
    |unit: &Option<TimeUnit>| unit.map(TimeUnit::as_str),
    |text| parse_spelling(text, TimeUnit::parse)
);
form!(
    ReadAsForm: Option<ReadAs> = Option<String>,
    |read_as: &Option<ReadAs>| read_as.map(ReadAs::as_str),
    |text| parse_spelling(text, ReadAs::parse)
);
form!(
    OnlyForm: Vec<ColumnValue> = Vec<(String, String)>,
    |only: &[ColumnValue]| only.iter().map(|only| (&only.column, &only.value)).collect::<Vec<_>>(),
    |pairs| Ok(pairs.into_iter().map(|(column, value)| ColumnValue { column, value }).collect())
);
form!(
    TimeBucketForm: Option<TimeBucket> = Option<(String, u32)>,
    |bucket: &Option<TimeBucket>| bucket.as_ref().map(|bucket| (&bucket.column, bucket.seconds)),
    |pair| Ok(pair.map(|(column, seconds)| TimeBucket { column, seconds }))
);

fn parse_spelling<T>(text: Option<String>, parse: fn(&str) -> Option<T>) -> Result<Option<T>, String> {
    text.map(|text| parse(&text).ok_or_else(|| format!("unknown value `{text}`"))).transpose()
}

#[derive(Serialize, Deserialize)]
struct AttributesDocument(#[serde(with = "AttributesForm")] BTreeMap<String, AttributeValue>);

#[derive(Serialize, Deserialize)]
struct PreviewDocument(#[serde(with = "PreviewForm")] Preview);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Preview")]
struct PreviewForm {
    roles: BTreeSet<String>,
    #[serde(with = "AttributesForm")]
    attributes: BTreeMap<String, AttributeValue>,
    username: Option<String>,
    #[serde(default)]
    user_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct BindingDocument(#[serde(with = "BindingForm")] Binding);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Binding")]
struct BindingForm {
    database: String,
    table: String,
    trace_id: String,
    span_id: String,
    timestamp: String,
    parent_span_id: String,
    trace_index: Option<String>,
    /// Absent in documents of earlier versions, and for tables that need none.
    #[serde(with = "RowOptionsForm", default, skip_serializing_if = "is_default")]
    rows: RowOptions,
    #[serde(with = "DisplayForm")]
    display: Display,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "RowOptions")]
struct RowOptionsForm {
    #[serde(with = "UnitForm", default, skip_serializing_if = "Option::is_none")]
    timestamp_unit: Option<TimeUnit>,
    #[serde(with = "ReadAsForm", default, skip_serializing_if = "Option::is_none")]
    read_as: Option<ReadAs>,
    #[serde(with = "OnlyForm", default, skip_serializing_if = "Vec::is_empty")]
    only: Vec<ColumnValue>,
    #[serde(with = "TimeBucketForm", default, skip_serializing_if = "Option::is_none")]
    time_bucket: Option<TimeBucket>,
}

fn is_default(rows: &RowOptions) -> bool {
    *rows == RowOptions::default()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Display")]
struct DisplayForm {
    name: Option<String>,
    service: Option<String>,
    duration: Option<String>,
    #[serde(with = "UnitForm", default, skip_serializing_if = "Option::is_none")]
    duration_unit: Option<TimeUnit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    status: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    error_values: Vec<String>,
    kind: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldDocument {
    map: Option<String>,
    name: String,
    logical: String,
    column_type: String,
    /// Absent in documents of earlier versions, in which every map is a `Map` column.
    #[serde(default)]
    source: Option<String>,
    filterable: bool,
    policy: bool,
    /// Absent if no column is adopted, and in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelDocument {
    binding: Option<BindingDocument>,
    fields: Vec<FieldDocument>,
}

/// Detail of an audit record, which may contain more members.
#[derive(Deserialize)]
struct PrunedDocument {
    through: u64,
    hash: String,
    removed: u64,
    before: Option<String>,
}

fn corrupt(what: &str, error: impl std::fmt::Display) -> DbError {
    DbError::Corrupt(format!("{what}: {error}"))
}

fn write(what: &str, document: &impl Serialize) -> Result<String, DbError> {
    serde_json::to_string(document).map_err(|error| corrupt(what, error))
}

fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, DbError> {
    serde_json::from_str(text).map_err(|error| corrupt(what, error))
}

pub(crate) fn write_attributes(attributes: &BTreeMap<String, AttributeValue>) -> Result<String, DbError> {
    write("attributes", &AttributesDocument(attributes.clone()))
}

pub(crate) fn read_attributes(text: &str) -> Result<BTreeMap<String, AttributeValue>, DbError> {
    read("attributes", text).map(|AttributesDocument(attributes)| attributes)
}

pub(crate) fn write_preview(preview: &Preview) -> Result<String, DbError> {
    write("preview", &PreviewDocument(preview.clone()))
}

pub(crate) fn read_preview(text: &str) -> Result<Preview, DbError> {
    let PreviewDocument(preview) = read("preview", text)?;
    if preview.username.is_some() {
        // Earlier versions copied the user's roles and attributes, which may be outdated. Without the user's id the
        // preview grants no access.
        return Ok(Preview { roles: BTreeSet::new(), attributes: BTreeMap::new(), ..preview });
    }
    Ok(preview)
}

/// Returns the removed records and, if recorded, the time from which records were kept.
pub(crate) fn read_pruned(text: &str) -> Result<(PrunedAudit, Option<Timestamp>), DbError> {
    let what = "removal of audit records";
    let PrunedDocument { through, hash, removed, before } = read(what, text)?;
    let before = before.map(|before| Timestamp::parse(&before)).transpose();
    Ok((PrunedAudit { through, hash, removed }, before.map_err(|error| corrupt(what, error))?))
}

pub(crate) fn write_tools(tools: &[String]) -> Result<String, DbError> {
    write("tools", &tools)
}

pub(crate) fn read_tools(text: &str) -> Result<Vec<String>, DbError> {
    read("tools", text)
}

pub(crate) fn write_model(model: &AccessModel) -> Result<String, DbError> {
    let binding = model.binding.clone().map(BindingDocument);
    let fields = model
        .fields
        .iter()
        .map(|marked| FieldDocument {
            map: marked.field.map.clone(),
            name: marked.field.name.clone(),
            logical: marked.logical.as_str().to_owned(),
            column_type: marked.column_type.to_string(),
            source: Some(marked.source.as_str().to_owned()),
            filterable: marked.filterable,
            policy: marked.policy,
            column: marked.column.clone(),
        })
        .collect();
    write("access model", &ModelDocument { binding, fields })
}

pub(crate) fn read_model(version: u64, text: &str) -> Result<AccessModel, DbError> {
    let document: ModelDocument = read("access model", text)?;
    let refuse = |reason: String| corrupt("access model", reason);
    let binding = document.binding.map(|BindingDocument(binding)| binding);
    let fields = document
        .fields
        .into_iter()
        .map(|field| {
            let logical = LogicalType::parse(&field.logical)
                .ok_or_else(|| refuse(format!("no logical type `{}`", field.logical)))?;
            let source = match &field.source {
                Some(text) => {
                    FieldSource::parse(text).ok_or_else(|| refuse(format!("no source of fields `{text}`")))?
                }
                None if field.map.is_some() => FieldSource::MapKey,
                None => FieldSource::Column,
            };
            // The source must match the name: a key that is read as a column would be another field.
            if (source == FieldSource::Column) != field.map.is_none() {
                return Err(refuse(format!("`{}` is not a {}", field.name, source.as_str())));
            }
            if field.column.is_some() && source != FieldSource::MapKey {
                return Err(refuse(format!("`{}` is not a key with a column", field.name)));
            }
            Ok(MarkedField {
                field: FieldRef { map: field.map, name: field.name },
                source,
                logical,
                column_type: ColumnType::parse(&field.column_type),
                filterable: field.filterable,
                policy: field.policy,
                column: field.column,
            })
        })
        .collect::<Result<Vec<_>, DbError>>()?;
    Ok(AccessModel { version, binding, fields })
}

columns! {
    BTreeMap<String, AttributeValue> = String: |text, _| read_attributes(&text);
    Preview = String: |text, _| read_preview(&text);
    Vec<String> = String: |text, _| read_tools(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &str) -> Result<Vec<MarkedField>, DbError> {
        read_model(7, &format!("{{\"binding\": null, \"fields\": [{fields}]}}")).map(|model| model.fields)
    }

    #[test]
    fn marked_fields_survive_a_round_trip() {
        let marked = |field: FieldRef, source, column_type: &str| MarkedField {
            field,
            source,
            logical: LogicalType::String,
            column_type: ColumnType::parse(column_type),
            filterable: true,
            policy: false,
            column: None,
        };
        let fields = vec![
            marked(FieldRef::column("Kind"), FieldSource::Column, r"Enum8('it\'s' = -3, 'a, b' = 1, '' = 0)"),
            marked(FieldRef::column("Links.Rel"), FieldSource::Column, "Array(Nullable(FixedString(4)))"),
            marked(FieldRef::key("Labels", "k"), FieldSource::MapKey, "LowCardinality(Nullable(String))"),
            marked(FieldRef::key("Doc", "a.b"), FieldSource::JsonPath, "Dynamic"),
            marked(FieldRef::key("Doc", "we`ird \"\\"), FieldSource::JsonPath, "Nullable(UUID)"),
        ];
        let model = AccessModel { version: 7, binding: None, fields };
        assert_eq!(read_model(7, &write_model(&model).unwrap()).unwrap(), model);
    }

    #[test]
    fn adopted_columns_survive_and_belong_to_keys_of_maps() {
        let rest =
            "\"logical\": \"string\", \"column_type\": \"String\", \"filterable\": true, \"policy\": true";
        let key = "\"map\": \"m\", \"name\": \"a\"";
        let column = "\"column\": \"m_a\"";
        let fields = |start: &str| fields(&format!("{{{start}, {rest}}}"));
        let read = fields(&format!("{key}, {column}")).unwrap();
        assert_eq!(read[0].column.as_deref(), Some("m_a"));
        let model = AccessModel { version: 7, binding: None, fields: read };
        assert_eq!(read_model(7, &write_model(&model).unwrap()).unwrap(), model);
        assert_eq!(fields(key).unwrap()[0].column, None, "documents of earlier versions have none");
        for wrong in [
            format!("\"map\": null, \"name\": \"a\", {column}"),
            format!("{key}, \"source\": \"json_path\", {column}"),
        ] {
            assert!(matches!(fields(&wrong), Err(DbError::Corrupt(_))), "{wrong}");
        }
    }

    #[test]
    fn documents_without_sources_keep_their_meaning() {
        let rest =
            "\"logical\": \"string\", \"column_type\": \"String\", \"filterable\": true, \"policy\": true";
        let read = |start: &str| fields(&format!("{{{start}, {rest}}}")).map(|fields| fields[0].source);
        assert_eq!(read("\"map\": null, \"name\": \"a\"").unwrap(), FieldSource::Column);
        assert_eq!(read("\"map\": \"m\", \"name\": \"a\"").unwrap(), FieldSource::MapKey);
        assert_eq!(
            read("\"map\": \"m\", \"name\": \"a\", \"source\": \"json_path\"").unwrap(),
            FieldSource::JsonPath
        );
        for wrong in [
            "\"map\": \"m\", \"name\": \"a\", \"source\": \"column\"",
            "\"map\": null, \"name\": \"a\", \"source\": \"map_key\"",
            "\"map\": null, \"name\": \"a\", \"source\": \"json_path\"",
            "\"map\": \"m\", \"name\": \"a\", \"source\": \"elsewhere\"",
            "\"map\": \"m\", \"name\": \"a\", \"unheard_of\": 1",
        ] {
            assert!(matches!(read(wrong), Err(DbError::Corrupt(_))), "{wrong}");
        }
    }
}
