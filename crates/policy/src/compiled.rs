//! Cache of compiled policies, shared by all requests.
//!
//! The cache holds the meaning of a text under a model: no data about callers, and no decisions. The key contains
//! everything that the meaning depends on: the text, the model with all its fields, and whether the author knows of
//! policy-only fields. The model's version alone is not enough, because a restored backup can bring another model
//! under a version that was used before. So entries never become stale and need no invalidation.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tracewarden_model::AccessModel;

use crate::check::{CheckedPolicy, check_on_current_stack};
use crate::diagnostics::Diagnostic;
use crate::expression::{Constant, Kind, Node};

/// Maximum number of cached models: the current one in its two forms, and the two forms of the previous one while
/// requests that started before a change still run.
const MAX_MODELS: usize = 4;
/// Maximum number of policies of one model.
const MAX_POLICIES: usize = 8_192;
/// Approximate memory limit for the policies of one model, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bounded cache of compiled policies, for all requests of a process. Evicted policies are compiled again.
#[derive(Debug, Default)]
pub struct CompiledPolicies {
    /// Most recently added first.
    models: RwLock<Vec<Arc<ModelCache>>>,
    found: AtomicU64,
    compiled: AtomicU64,
}

/// Cache hits and misses since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyCacheStats {
    /// Number of policies found in the cache.
    pub found: u64,
    /// Number of policies that had to be compiled, successfully or not.
    pub compiled: u64,
}

impl CompiledPolicies {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the cache hits and misses.
    pub fn cache_stats(&self) -> PolicyCacheStats {
        PolicyCacheStats {
            found: self.found.load(Ordering::Relaxed),
            compiled: self.compiled.load(Ordering::Relaxed),
        }
    }

    /// Returns the policies of this model. `knows_policy_fields` says whether their author may know of policy-only
    /// fields.
    pub(crate) fn compiler(&self, model: &AccessModel, knows_policy_fields: bool) -> PolicyCompiler<'_> {
        PolicyCompiler { cache: self, policies: self.model_cache(model, knows_policy_fields) }
    }

    fn model_cache(&self, model: &AccessModel, knows_policy_fields: bool) -> Arc<ModelCache> {
        let find = |models: &[Arc<ModelCache>]| {
            let is_of_model = |cached: &&Arc<ModelCache>| {
                cached.knows_policy_fields == knows_policy_fields && cached.model == *model
            };
            models.iter().find(is_of_model).cloned()
        };
        // A thread that panicked while it held the lock left no partial state: entries are inserted as a whole.
        if let Some(found) = find(&self.models.read().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&models) {
            return found;
        }
        let new = Arc::new(ModelCache {
            model: model.clone(),
            knows_policy_fields,
            known: known(model, knows_policy_fields).into_owned(),
            entries: RwLock::default(),
        });
        models.insert(0, Arc::clone(&new));
        models.truncate(MAX_MODELS);
        new
    }
}

/// The policies of one model, for one request.
pub(crate) struct PolicyCompiler<'a> {
    cache: &'a CompiledPolicies,
    policies: Arc<ModelCache>,
}

impl PolicyCompiler<'_> {
    /// Compiles the text under the model, or returns it from the cache. Call it inside
    /// [`on_deep_stack`](crate::parse::on_deep_stack).
    ///
    /// # Errors
    /// The errors of [`check`](crate::check()). They are not cached.
    pub(crate) fn policy(&self, text: &str) -> Result<Arc<CheckedPolicy>, Vec<Diagnostic>> {
        if let Some(found) = self.policies.find(text) {
            self.cache.found.fetch_add(1, Ordering::Relaxed);
            return Ok(found);
        }
        self.cache.compiled.fetch_add(1, Ordering::Relaxed);
        let checked = Arc::new(check_on_current_stack(text, &self.policies.known)?);
        self.policies.store(text, &checked);
        Ok(checked)
    }
}

/// Returns the model without the fields that the author must not know of.
pub(crate) fn known(model: &AccessModel, knows_policy_fields: bool) -> Cow<'_, AccessModel> {
    if knows_policy_fields {
        return Cow::Borrowed(model);
    }
    let fields = model.fields.iter().filter(|field| field.filterable).cloned().collect();
    Cow::Owned(AccessModel { fields, version: model.version, binding: model.binding.clone() })
}

#[derive(Debug)]
struct ModelCache {
    model: AccessModel,
    knows_policy_fields: bool,
    /// The model without the fields that the authors of these policies must not know of.
    known: AccessModel,
    entries: RwLock<Entries>,
}

/// Policies by their text. When it is full, all are dropped: compiling them again costs less than tracking their use.
#[derive(Debug, Default)]
struct Entries {
    policies: HashMap<String, Arc<CheckedPolicy>>,
    bytes: usize,
}

impl ModelCache {
    fn find(&self, text: &str) -> Option<Arc<CheckedPolicy>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).policies.get(text).cloned()
    }

    fn store(&self, text: &str, checked: &Arc<CheckedPolicy>) {
        let bytes = text.len() + checked.weight();
        if bytes > MAX_BYTES {
            return;
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.policies.len() >= MAX_POLICIES || entries.bytes.saturating_add(bytes) > MAX_BYTES {
            *entries = Entries::default();
        }
        if entries.policies.insert(text.to_owned(), Arc::clone(checked)).is_none() {
            entries.bytes += bytes;
        }
    }
}

/// Approximate memory of a node without its text: the node itself, and unused capacity of its vectors and boxes.
const NODE_BYTES: usize = 2 * size_of::<Node>();

impl CheckedPolicy {
    /// Returns the approximate size in bytes.
    fn weight(&self) -> usize {
        let own = |node: &Node| match &node.kind {
            Kind::Constant(Constant::Text(text)) | Kind::Attribute(text) | Kind::HasAttribute(text) => {
                text.len()
            }
            Kind::Matches(_, pattern) => {
                let prefix = pattern.prefix.as_ref().map_or(0, String::len);
                pattern.text.len() + pattern.re2.len() + pattern.reference.len() + prefix
            }
            // Each use of a field may hold its own copy.
            Kind::Field(field) | Kind::HasKey(field) => {
                size_of_val(&**field) + field.field.name.len() + field.column_type.to_string().len()
            }
            _ => 0,
        };
        self.root.walk().into_iter().map(|node| NODE_BYTES + own(node)).sum()
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

    use super::*;
    use crate::check::check;
    use crate::pattern::Pattern;

    fn model() -> AccessModel {
        let field = MarkedField {
            field: FieldRef::column("Field"),
            source: FieldSource::Column,
            logical: LogicalType::String,
            column_type: ColumnType::parse("String"),
            filterable: true,
            policy: true,
            column: None,
        };
        AccessModel { version: 1, binding: None, fields: vec![field] }
    }

    fn checked(expression: &str) -> Arc<CheckedPolicy> {
        Arc::new(check(expression, &model()).unwrap())
    }

    fn cached() -> ModelCache {
        let entries = RwLock::default();
        ModelCache { model: model(), knows_policy_fields: true, known: model(), entries }
    }

    #[test]
    fn weights_include_all_memory() {
        let field = size_of::<MarkedField>() + "Field".len() + "String".len();
        let pattern = Pattern::parse("^ab").unwrap();
        let patterns = "^ab".len() + pattern.re2.len() + pattern.reference.len() + "ab".len();
        for (expression, nodes, besides) in [
            ("true", 1, 0),
            ("\"abc\" == \"\"", 3, 3),
            ("user.attributes.abc == \"\"", 3, 3),
            ("has(user.attributes.abc)", 1, 3),
            ("Field == \"\"", 3, field),
            ("Field.matches(\"^ab\")", 2, field + patterns),
        ] {
            // Each node counts twice its own size.
            let nodes = nodes * 2 * size_of::<Node>();
            assert_eq!(checked(expression).weight(), nodes + besides, "{expression}");
        }
    }

    #[test]
    fn the_cache_is_limited_in_bytes() {
        const ROOM: usize = 16_777_216;
        let (text, checked) = ("true", checked("true"));
        let bytes = text.len() + checked.weight();
        for (filled, is_full) in [(ROOM - bytes, false), (ROOM - bytes + 1, true)] {
            let policies = cached();
            policies.entries.write().unwrap().bytes = filled;
            policies.store(text, &checked);
            let total = policies.entries.read().unwrap().bytes;
            assert_eq!(total, if is_full { bytes } else { ROOM });
        }
        for (longer, is_kept) in [(0, true), (1, false)] {
            let (policies, text) = (cached(), "a".repeat(ROOM - checked.weight() + longer));
            policies.store(&text, &checked);
            assert_eq!(policies.find(&text).is_some(), is_kept);
        }
    }
}
