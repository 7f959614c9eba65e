//! The JSON documents that rows contain. Their types reject unknown members: a document of a newer version must not be read as
//! if it said less.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracewarden_model::{
    AccessModel, AttributeValue, Binding, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField,
    Timestamp,
};

use crate::audit_prune::PrunedAudit;
use crate::error::DbError;
use crate::records::Preview;
use crate::rows::columns;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldDocument {
    map: Option<String>,
    name: String,
    logical: LogicalType,
    column_type: String,
    /// Absent in documents of earlier versions, in which every map is a `Map` column.
    #[serde(default)]
    source: Option<FieldSource>,
    filterable: bool,
    policy: bool,
    /// Absent if no column is adopted, and in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelDocument {
    binding: Option<Binding>,
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

pub(crate) fn write(what: &str, document: &impl Serialize) -> Result<String, DbError> {
    serde_json::to_string(document).map_err(|error| corrupt(what, error))
}

pub(crate) fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, DbError> {
    serde_json::from_str(text).map_err(|error| corrupt(what, error))
}

pub(crate) fn read_preview(text: &str) -> Result<Preview, DbError> {
    let preview: Preview = read("preview", text)?;
    if preview.username.is_some() {
        // Earlier versions copied the user's roles and attributes, which may be outdated. Without the user's id the
        // preview grants no access.
        let Preview { username, user_id, .. } = preview;
        return Ok(Preview { username, user_id, ..Preview::default() });
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

pub(crate) fn write_model(model: &AccessModel) -> Result<String, DbError> {
    let fields = model
        .fields
        .iter()
        .map(|marked| FieldDocument {
            map: marked.field.map.clone(),
            name: marked.field.name.clone(),
            logical: marked.logical,
            column_type: marked.column_type.to_string(),
            source: Some(marked.source),
            filterable: marked.filterable,
            policy: marked.policy,
            column: marked.column.clone(),
        })
        .collect();
    write("access model", &ModelDocument { binding: model.binding.clone(), fields })
}

pub(crate) fn read_model(version: u64, text: &str) -> Result<AccessModel, DbError> {
    let ModelDocument { binding, fields } = read("access model", text)?;
    let refuse = |reason: String| corrupt("access model", reason);
    let fields = fields
        .into_iter()
        .map(|field| {
            let named = if field.map.is_some() { FieldSource::MapKey } else { FieldSource::Column };
            let source = field.source.unwrap_or(named);
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
                logical: field.logical,
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
    BTreeMap<String, AttributeValue> = String: |text, _| read("attributes", &text);
    BTreeMap<String, Option<AttributeValue>> = String: |text, _| read("mapped attributes", &text);
    Preview = String: |text, _| read_preview(&text);
    Vec<String> = String: |text, _| read("tools", &text);
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
