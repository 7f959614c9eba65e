//! The format of files about policies: an access model, roles with their policies, and tests. All parts share one format, in
//! which each member may be absent. So the response of `GET /schema` is such a file, and so is an exported or imported model.

mod field;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tracewarden_model::{AccessModel, Binding, ClaimsMappings, MarkedField};
use tracewarden_service::{ModelFile, ModelState, Policy, present};
use utoipa::ToSchema;

use crate::document::{Document, Fault, Lines};
use crate::json::Json;
use crate::user::EvaluatedUser;

pub(crate) use field::FileField;

/// A file about policies.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schema(as = ModelFile)]
pub struct PolicyFile {
    /// Path of a file with the access model, relative to this one; not allowed in an imported file.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Version of the access model, as in `GET /schema`; ignored by an import.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) version: Option<u64>,
    /// The bound table; null for none.
    #[schema(required = true)]
    pub(crate) binding: Option<Binding>,
    /// The marked fields.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, required = true)]
    pub(crate) fields: Option<Vec<FileField>>,
    /// Roles.
    #[serde(default)]
    #[schema(required = true)]
    pub roles: Vec<FileRole>,
    /// Mappings of claims to roles and attributes, by identity provider. An import of a file without this member is refused if
    /// mappings exist.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub identity: Option<ClaimsMappings>,
    /// Policies without a role; not allowed in an imported file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub policies: Vec<Policy>,
    /// Users in the tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub users: Vec<EvaluatedUser>,
    /// Traces in the tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub traces: Vec<FileTrace>,
    /// Tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub tests: Vec<FileTest>,
}

/// A role.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schema(as = ModelFileRole)]
pub struct FileRole {
    /// Name.
    pub name: String,
    /// Policies of the role.
    pub policies: Vec<Policy>,
}

/// A trace in the tests.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schema(as = ModelFileTrace)]
pub struct FileTrace {
    /// Name.
    pub name: String,
    /// Spans in the format of query results.
    #[schema(value_type = Vec<Object>)]
    pub spans: Vec<Json>,
}

/// A test: the expected access of a user, or the expected outcome of policies on spans.
#[serde_with::apply(Option => #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")])]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schema(as = ModelFileTest)]
pub struct FileTest {
    /// Name of the test.
    pub name: String,
    /// Name of a user in this file.
    pub user: String,
    /// Name of a trace in this file.
    #[schema(nullable = false)]
    pub trace: Option<String>,
    /// The spans, instead of a trace.
    #[schema(nullable = false, value_type = Option<Vec<Object>>)]
    pub spans: Option<Vec<Json>>,
    /// Whether the user should see the trace.
    #[schema(nullable = false)]
    pub visible: Option<bool>,
    /// Expected outcome of policies, by title or `role/title`: `true`, `false` or `error`, or a list with one for each span.
    #[schema(nullable = false, value_type = Option<Object>)]
    pub policies: Option<Json>,
}

/// A fault in a member of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFault {
    /// JSON Pointer to the member.
    pub pointer: String,
    /// Message in lower case, without a final period.
    pub message: String,
}

impl MemberFault {
    pub(crate) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

impl PolicyFile {
    /// Returns the access model in the file, if there is one.
    ///
    /// # Errors
    /// Every field that no table can have.
    pub fn access_model(&mut self) -> Result<Option<AccessModel>, Vec<MemberFault>> {
        let Some(sent) = self.fields.take() else { return Ok(None) };
        let mut faults = Vec::new();
        let mut fields: Vec<MarkedField> = Vec::with_capacity(sent.len());
        for (index, field) in sent.into_iter().enumerate() {
            let pointer = format!("/fields/{index}");
            match field.into_marked_field() {
                Ok(field) if fields.iter().any(|known| known.field == field.field) => {
                    faults.push(MemberFault::new(pointer, format!("`{}` appears twice", field.field)));
                }
                Ok(field) => fields.push(field),
                Err((member, message)) => faults.push(MemberFault::new(pointer + member, message)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let binding = self.binding.take();
        Ok(Some(AccessModel { version: self.version.unwrap_or_default(), binding, fields }))
    }

    /// Returns the whole model as a file, in its canonical form.
    ///
    /// # Errors
    /// When the stored tests are not a valid [`TestsDocument`].
    pub fn from_state(state: ModelState) -> Result<Self, Fault> {
        let ModelState { model, roles, mappings, tests } = state;
        let TestsDocument { users, traces, tests } = TestsDocument::read(&tests)?;
        let roles = roles.into_iter().map(|(name, policies)| FileRole { name, policies });
        Ok(Self {
            binding: model.binding,
            fields: Some(model.fields.into_iter().map(FileField::from).collect()),
            roles: roles.collect(),
            identity: Some(mappings).filter(|mappings| !mappings.is_empty()),
            users,
            traces,
            tests,
            ..Self::default()
        })
    }

    /// Converts a file with a whole model. The service checks the model itself.
    ///
    /// # Errors
    /// Every member that is not allowed in such a file.
    pub fn into_model_file(self) -> Result<ModelFile, Vec<MemberFault>> {
        let mut faults = Vec::new();
        if self.model.is_some() {
            let message = "the file must contain the model itself: put the binding and the fields here";
            faults.push(MemberFault::new("/model", message));
        }
        if !self.policies.is_empty() {
            let message = "every policy belongs to a role: put it under `roles`";
            faults.push(MemberFault::new("/policies", message));
        }
        let mut fields = Vec::new();
        for (at, field) in self.fields.unwrap_or_default().into_iter().enumerate() {
            let (field, wrong_reference) = field.into_service_field();
            if let Some((member, message)) = wrong_reference {
                faults.push(MemberFault::new(format!("/fields/{at}{member}"), message));
            }
            fields.push(field);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let tests = TestsDocument { users: self.users, traces: self.traces, tests: self.tests };
        let roles = self.roles.into_iter().map(|role| (role.name, role.policies));
        let (roles, mappings) = (roles.collect(), self.identity);
        Ok(ModelFile { binding: self.binding, fields, roles, mappings, tests: tests.text() })
    }

    /// Returns the policies, each with its JSON Pointer and its role.
    pub fn policies(&self) -> impl Iterator<Item = (String, Option<&str>, &Policy)> {
        let of_roles = self.roles.iter().enumerate().flat_map(|(at, role)| {
            let policies = role.policies.iter().enumerate();
            policies.map(move |(index, policy)| {
                (format!("/roles/{at}/policies/{index}"), Some(role.name.as_str()), policy)
            })
        });
        let loose = self.policies.iter().enumerate();
        of_roles.chain(loose.map(|(at, policy)| (format!("/policies/{at}"), None, policy)))
    }

    /// Returns the roles whose names differ from an earlier one only by case. The service rejects these with `conflict`.
    pub fn case_conflicts(&self) -> Vec<MemberFault> {
        let folded: Vec<String> = self.roles.iter().map(|role| role.name.to_ascii_lowercase()).collect();
        let message = "the names of two roles must not differ only by case";
        let conflicts = duplicate_indexes(folded.iter().map(String::as_str)).into_iter();
        conflicts.map(|at| MemberFault::new(format!("/roles/{at}/name"), message)).collect()
    }

    /// Returns the ambiguities in the file: duplicate names, and expressions whose meaning depends on YAML line folding. Policies
    /// of a role may have the same title, as in the service.
    pub fn ambiguities(&self, document: &Document) -> Vec<MemberFault> {
        let mut faults = Vec::new();
        let mut fault = |pointer: String, message: &str| faults.push(MemberFault::new(pointer, message));
        for at in duplicate_indexes(self.roles.iter().map(|role| role.name.as_str())) {
            fault(format!("/roles/{at}/name"), "a role with this name is already listed");
        }
        for at in duplicate_indexes(self.policies.iter().map(|policy| policy.title.as_str())) {
            fault(format!("/policies/{at}/title"), "a policy with this title is already listed");
        }
        for (pointer, _, policy) in self.policies() {
            let pointer = format!("{pointer}/expression");
            // A comment would extend to the end of the joined line and hide conditions.
            if document.lines(&pointer) == Some(Lines::Joined) && policy.expression.contains("//") {
                fault(
                    pointer,
                    "YAML joins the lines of this expression, so a comment would hide the text after it: \
                     write the expression after `|`",
                );
            }
        }
        faults
    }
}

/// The stored tests of a model, as one text that is always the same for the same tests.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestsDocument {
    /// Users in the tests.
    pub users: Vec<EvaluatedUser>,
    /// Traces in the tests.
    pub traces: Vec<FileTrace>,
    /// The tests.
    pub tests: Vec<FileTest>,
}

impl TestsDocument {
    /// Parses the stored text; an empty text means no tests.
    ///
    /// # Errors
    /// When the text is not a tests document.
    pub fn read(text: &str) -> Result<Self, Fault> {
        if text.is_empty() { Ok(Self::default()) } else { Document::read_json(text)?.parse() }
    }

    fn text(&self) -> String {
        if self.users.is_empty() && self.traces.is_empty() && self.tests.is_empty() {
            return String::new();
        }
        // The document consists of strings, numbers, lists and objects with string keys, so serialising cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the positions of names that occurred before.
pub(crate) fn duplicate_indexes<'n>(names: impl Iterator<Item = &'n str>) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    names.enumerate().filter(|(_, name)| !seen.insert(*name)).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn model(text: &str) -> Result<AccessModel, String> {
        let document = Document::read(text).unwrap();
        let mut file: PolicyFile =
            document.parse().map_err(|fault| format!("{} {}", fault.position, fault.message))?;
        let faults = |faults: Vec<MemberFault>| format!("{} {}", faults[0].pointer, faults[0].message);
        file.access_model().map_err(faults).map(|model| model.unwrap())
    }

    #[test]
    fn a_field_needs_only_a_name() {
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
    fn impossible_fields_are_refused() {
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
        assert!(refused("{name: a}\n  - {name: a}").starts_with("/fields/1 `a` appears twice"));
        assert_eq!(refused("{nam: a}"), "2:6 unknown member `nam`; did you mean `name`?");
        assert!(refused("{name: a, type: text}").contains("unknown variant `text`"));
    }
}
