//! Marking of fields for filters and policies.

use std::collections::HashSet;

use tracewarden_appdb::CurrentModel;
use tracewarden_clickhouse::{Column, adoption_error};
use tracewarden_model::{AccessModel, FieldRef, LogicalType, MarkedField};

use crate::core::{
    Administrator, FieldError, IfMatch, Result, ServiceError, check_version, resolve, validate,
};
use crate::source::discovery::Source;

/// A field to mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMark {
    /// Map column that contains the key; `None` for a field with its own column.
    pub map: Option<String>,
    /// Key or column name.
    pub name: String,
    /// Logical type; the column's natural type when absent.
    pub logical: Option<LogicalType>,
    /// Whether filters may use it.
    pub filterable: bool,
    /// Whether policies may use it; `None` means yes, except for numbers.
    pub policy: Option<bool>,
    /// For a map key: the materialized column that policies read in its place.
    pub column: Option<String>,
}

const FIELDS_MAX: usize = 1_000;
const NAME_MAX_CHARS: usize = 512;

impl Source {
    /// Replaces all marked fields in one step. An identical list makes no change.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], [`ServiceError::PreconditionRequired`], [`ServiceError::PreconditionFailed`],
    /// [`ServiceError::Refused`] with pointers into `/fields`, [`ServiceError::Conflict`] naming stored policies that would
    /// break, or a ClickHouse failure. Newly adopted columns are compared with the data, which can take long.
    pub async fn put_fields(
        &self,
        admin: &Administrator<'_>,
        marks: Vec<FieldMark>,
        if_match: Option<IfMatch>,
    ) -> Result<CurrentModel> {
        let result = async {
            let current = self.core.db.current_model().await?;
            check_version(if_match.clone(), &current)?;
            let current = current.model;
            let binding = current.binding.clone().ok_or(ServiceError::NotBound)?;
            check_field_count(&marks)?;
            let columns = self.core.clickhouse.catalogue().columns(&binding.database, &binding.table).await?;
            if columns.is_empty() {
                let detail = "the bound table no longer exists";
                return Err(ServiceError::conflict(detail));
            }
            let fields = resolve_marks(marks, &columns)?;
            self.compare_adopted(&binding, &current, &fields).await?;
            let next = AccessModel { version: current.version, binding: Some(binding), fields };
            self.core.put_model(admin, "schema.put_fields", &current, next, if_match).await
        };
        self.core.audit_denial(admin, "schema.put_fields", None, result.await).await
    }
}

pub(crate) fn check_field_count(marks: &[FieldMark]) -> Result<()> {
    if marks.len() > FIELDS_MAX {
        let detail = format!("at most {FIELDS_MAX} fields");
        return Err(ServiceError::invalid("/fields", detail));
    }
    Ok(())
}

/// Whether policies may use a field, given the explicit setting.
pub(crate) fn is_usable_in_policies(explicit: Option<bool>, logical: LogicalType) -> bool {
    explicit.unwrap_or(logical != LogicalType::Number)
}

/// Resolves marks to fields of a table with these columns.
///
/// # Errors
/// [`ServiceError::Refused`] with pointers into `/fields`.
pub(crate) fn resolve_marks(marks: Vec<FieldMark>, columns: &[Column]) -> Result<Vec<MarkedField>> {
    let mut errors = Vec::new();
    let mut fields: Vec<MarkedField> = Vec::with_capacity(marks.len());
    let mut seen = HashSet::new();
    let useless = |field: &FieldRef| {
        format!("`{field}` is neither searchable nor usable in policies; set `filterable` or `policy`")
    };
    for (index, mark) in marks.into_iter().enumerate() {
        let field = FieldRef { map: mark.map, name: mark.name };
        let pointer = |member: &str| format!("/fields/{index}/{member}");
        let mut refuse = |member: &str, code: &'static str, detail: String| {
            errors.push(FieldError::new(pointer(member), code, detail));
        };
        let chars = field.name.chars().count();
        if !(1..=NAME_MAX_CHARS).contains(&chars) || !validate::is_storable(&field.name) {
            let detail = format!("a name has 1 to {NAME_MAX_CHARS} characters, none of them U+0000");
            refuse("name", "invalid_value", detail);
            continue;
        }
        if !seen.insert(field.clone()) {
            refuse("name", "invalid_value", format!("`{field}` is listed twice"));
            continue;
        }
        if !mark.filterable && mark.policy == Some(false) {
            refuse("filterable", "invalid_value", useless(&field));
            continue;
        }
        match resolve(&field, mark.logical, columns) {
            Err((member, code, detail)) => refuse(member, code, detail),
            Ok((_, LogicalType::Number, _)) if mark.policy == Some(true) => {
                let detail = format!("`{field}` is a number, which policies cannot use");
                refuse("policy", "invalid_value", detail);
            }
            Ok((_, LogicalType::Number, _)) if !mark.filterable => {
                refuse("filterable", "invalid_value", useless(&field));
            }
            Ok((_, logical, _)) if is_usable_in_policies(mark.policy, logical) && !field.can_be_named() => {
                let holder = field.map.as_ref().unwrap_or(&field.name);
                let detail = format!(
                    "policies cannot reference `{field}`: the name of column `{holder}` must be an \
                     identifier, or several joined by dots, and neither `user` nor a reserved word of CEL"
                );
                refuse("policy", "invalid_value", detail);
            }
            Ok((source, logical, column_type)) => {
                let marked = MarkedField {
                    field,
                    source,
                    logical,
                    column_type,
                    filterable: mark.filterable,
                    policy: is_usable_in_policies(mark.policy, logical),
                    column: mark.column,
                };
                match adoption_error(&marked, columns) {
                    Some(reason) => refuse("column", "invalid_value", reason),
                    None => fields.push(marked),
                }
            }
        }
    }
    validate::no_errors(errors)?;
    Ok(fields)
}
