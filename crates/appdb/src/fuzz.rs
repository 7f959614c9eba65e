//! Fuzz targets for the documents in rows and for database addresses.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use std::collections::BTreeMap;

use fuzzing::{target, texts, within_time_limit};
use tracewarden_model::AttributeValue;

use crate::documents::{self, read_model, read_preview, read_pruned, write, write_model};
use crate::{DbError, postgres, sqlite};

/// Runs a decoder whose only permitted error is [`DbError::Corrupt`].
fn read<T>(read: impl FnOnce() -> Result<T, DbError>) -> Option<T> {
    match within_time_limit(read) {
        Ok(value) => Some(value),
        Err(DbError::Corrupt(reason)) => {
            assert!(!reason.is_empty());
            None
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn documents() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        let attributes = |text: &str| documents::read::<BTreeMap<String, AttributeValue>>("attributes", text);
        let tools = |text: &str| documents::read::<Vec<String>>("tools", text);
        if let Some(known) = read(|| attributes(text)) {
            assert_eq!(attributes(&write("attributes", &known).unwrap()).unwrap(), known);
        }
        if let Some(preview) = read(|| read_preview(text)) {
            // A preview of a user contains only a reference; roles and attributes stored by earlier versions grant no
            // access.
            assert!(
                preview.username.is_none() || (preview.roles.is_empty() && preview.attributes.is_empty())
            );
            let written = write("preview", &preview).unwrap();
            assert_eq!(read_preview(&written).unwrap(), preview);
        }
        if let Some(known) = read(|| tools(text)) {
            assert_eq!(tools(&write("tools", &known).unwrap()).unwrap(), known);
        }
        if let Some(model) = read(|| read_model(3, text)) {
            // A type that no field can have may be written differently the first time.
            let written = write_model(&model).unwrap();
            let again = read_model(3, &written).unwrap();
            assert_eq!((again.version, &again.binding), (3, &model.binding));
            assert_eq!(again.fields.len(), model.fields.len());
            assert!(again.fields.iter().zip(&model.fields).all(|(again, field)| again.field == field.field
                && again.logical == field.logical
                && again.source == field.source
                && (again.filterable, again.policy, &again.column)
                    == (field.filterable, field.policy, &field.column)));
            assert_eq!(write_model(&again).unwrap(), written);
        }
        read(|| read_pruned(text));
    };
    let seeds = texts([
        r#"{"team": "payments", "lead": true, "tenants": ["a", "b\u0000"]}"#,
        r#"{"roles": ["dev"], "attributes": {"a": "b"}, "username": null}"#,
        r#"{"roles": ["dev"], "attributes": {}, "username": "ada", "user_id": "user_1"}"#,
        r#"{"binding": {"database": "otel", "table": "t", "trace_id": "TraceId", "span_id": "SpanId", "timestamp": "Timestamp", "parent_span_id": "P", "trace_index": "i", "display": {"name": "SpanName", "service": null, "duration": null, "status": null, "kind": null}}, "fields": [{"map": "A", "name": "k", "logical": "string", "column_type": "String", "source": "map_key", "filterable": true, "policy": true, "column": "c"}, {"map": null, "name": "E", "logical": "string", "column_type": "Enum('a', 'b')", "filterable": false, "policy": true}]}"#,
        r#"{"through": 5, "hash": "ab", "removed": 5, "before": "2026-01-01T00:00:00Z", "more": 1}"#,
        r#"["query", "get"]"#,
        "[]",
    ]);
    target!(seeds, check);
}

/// Errors do not contain the password, and the driver receives exactly the accepted address.
#[test]
fn addresses() {
    const PASSWORD: &str = "kqzj8vxw";
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        for url in [
            text.to_owned(),
            format!("postgres://u:{PASSWORD}@{text}"),
            format!("postgres://u@h/d?password={PASSWORD}&{text}"),
        ] {
            match within_time_limit(|| postgres::address(&url)) {
                Ok(address) => assert_eq!(postgres::address(&address).unwrap(), address),
                Err(error) => {
                    assert!(text.contains(PASSWORD) || !error.to_string().contains(PASSWORD), "{error}")
                }
            }
        }
        if let Ok(path) = within_time_limit(|| sqlite::path(text)) {
            assert!(path.is_absolute() && !text.contains('?'), "{}", path.display());
        }
    };
    let seeds = texts([
        "postgres://u:p%40@h:1/d",
        "h/d?sslmode=verify-full&sslrootcert=%2Fca.pem&application_name=mine",
        "/d?host=/run/postgresql&connect_timeout=3&channel_binding=prefer",
        "h:notaport/d",
        "[::1]:5432/d?options[search_path]=x&target_session_attrs=standby",
        "///var/lib/t.db",
        ":memory:",
        "a/../b?mode=ro",
    ]);
    target!(seeds, check);
}
