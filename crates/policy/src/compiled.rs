//! Compiled policies, kept from request to request.
//!
//! What is kept is what a text means under a model: nothing about a caller, and no decision. The key is everything that
//! the meaning depends on: the model with all its fields — its version alone would not do, since a restored backup can
//! bring another model under a number that was used before — whether fields are known that are policy inputs only, and
//! the text. So there is nothing that could be out of date, and nothing to be told of changes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tracewarden_model::AccessModel;

use crate::check::{Checked, check_here};
use crate::diagnostics::Diagnostic;
use crate::expression::{Kind, Known, Node};

/// So many models are kept at once: the present one in its two forms, and the one before it while a change is on its
/// way through requests that began earlier.
const MAX_MODELS: usize = 4;
/// Policies of one generation of one model. Each model has two generations.
const MAX_POLICIES: usize = 4_096;
/// Roughly how much memory one generation of one model may take.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Policies that were compiled before, for all requests of a process. Bounded; whatever falls out is compiled again.
#[derive(Debug, Default)]
pub struct CompiledPolicies {
    /// Most recently added first.
    models: RwLock<Vec<Arc<UnderModel>>>,
    found: AtomicU64,
    compiled: AtomicU64,
}

/// How often policies were there, since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// Policies that had been compiled before.
    pub found: u64,
    /// Policies that had to be compiled, successfully or not.
    pub compiled: u64,
}

impl CompiledPolicies {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often policies were there.
    pub fn reuse(&self) -> Reuse {
        Reuse { found: self.found.load(Ordering::Relaxed), compiled: self.compiled.load(Ordering::Relaxed) }
    }

    /// The policies of this model, as someone may know it who does or does not know of fields that are policy inputs
    /// only.
    pub(crate) fn under(&self, model: &AccessModel, knows_policy_fields: bool) -> Compiling<'_> {
        Compiling { counts: self, policies: self.under_model(model, knows_policy_fields) }
    }

    fn under_model(&self, model: &AccessModel, knows_policy_fields: bool) -> Arc<UnderModel> {
        let find = |models: &[Arc<UnderModel>]| {
            models.iter().find(|kept| kept.is_for(model, knows_policy_fields)).cloned()
        };
        // Whoever died while holding a lock left nothing half done: entries are inserted whole.
        if let Some(found) = find(&self.models.read().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&models) {
            return found;
        }
        let new = Arc::new(UnderModel {
            model: model.clone(),
            knows_policy_fields,
            known: known(model, knows_policy_fields).into_owned(),
            generations: RwLock::default(),
        });
        models.insert(0, Arc::clone(&new));
        models.truncate(MAX_MODELS);
        new
    }
}

/// The policies of one model, for one request.
pub(crate) struct Compiling<'a> {
    counts: &'a CompiledPolicies,
    policies: Arc<UnderModel>,
}

impl Compiling<'_> {
    /// The text compiled under the model. Call it inside [`on_deep_stack`](crate::parse::on_deep_stack).
    ///
    /// # Errors
    /// Those of [`check`](crate::check()). They are not kept.
    pub(crate) fn policy(&self, text: &str) -> Result<Arc<Checked>, Vec<Diagnostic>> {
        if let Some(found) = self.policies.find(text) {
            self.counts.found.fetch_add(1, Ordering::Relaxed);
            return Ok(found);
        }
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        let checked = Arc::new(check_here(text, &self.policies.known)?);
        self.policies.keep(text, &checked);
        Ok(checked)
    }
}

/// The model as someone may know it.
pub(crate) fn known(model: &AccessModel, knows_policy_fields: bool) -> Cow<'_, AccessModel> {
    if knows_policy_fields {
        return Cow::Borrowed(model);
    }
    let fields = model.fields.iter().filter(|field| field.filterable).cloned().collect();
    Cow::Owned(AccessModel { fields, version: model.version, binding: model.binding.clone() })
}

#[derive(Debug)]
struct UnderModel {
    model: AccessModel,
    knows_policy_fields: bool,
    /// The model as the authors of these policies may know it.
    known: AccessModel,
    generations: RwLock<Generations>,
}

/// What was used lately, and what was used before that: what is used moves to the front, and when the front is full,
/// what was not used since it was last full is gone.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Arc<Checked>>,
    young_bytes: usize,
    old: HashMap<String, Arc<Checked>>,
}

impl UnderModel {
    fn is_for(&self, model: &AccessModel, knows_policy_fields: bool) -> bool {
        self.knows_policy_fields == knows_policy_fields && self.model == *model
    }

    fn find(&self, text: &str) -> Option<Arc<Checked>> {
        let generations = self.generations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = generations.young.get(text) {
            return Some(Arc::clone(found));
        }
        let found = generations.old.get(text).cloned()?;
        drop(generations);
        self.keep(text, &found);
        Some(found)
    }

    fn keep(&self, text: &str, checked: &Arc<Checked>) {
        let bytes = text.len() + checked.weight();
        if bytes > MAX_BYTES {
            return;
        }
        let mut generations = self.generations.write().unwrap_or_else(PoisonError::into_inner);
        let full = generations.young.len() >= MAX_POLICIES
            || generations.young_bytes.saturating_add(bytes) > MAX_BYTES;
        if full {
            generations.old = std::mem::take(&mut generations.young);
            generations.young_bytes = 0;
        }
        if generations.young.insert(text.to_owned(), Arc::clone(checked)).is_none() {
            generations.young_bytes += bytes;
        }
    }
}

/// How much a node takes besides its text: itself, and what its vectors and boxes leave unused.
const NODE_BYTES: usize = 2 * size_of::<Node>();

impl Checked {
    /// Roughly how many bytes it takes.
    fn weight(&self) -> usize {
        let own = |node: &Node| match &node.kind {
            Kind::Known(Known::Text(text)) | Kind::Attribute(text) | Kind::HasAttribute(text) => text.len(),
            Kind::Matches(_, pattern) => {
                let prefix = pattern.prefix.as_ref().map_or(0, String::len);
                pattern.re2.len() + pattern.reference.len() + prefix
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

    fn checked(expression: &str) -> Arc<Checked> {
        Arc::new(check(expression, &model()).unwrap())
    }

    fn kept() -> UnderModel {
        let generations = RwLock::default();
        UnderModel { model: model(), knows_policy_fields: true, known: model(), generations }
    }

    #[test]
    fn all_that_takes_memory_weighs() {
        let field = size_of::<MarkedField>() + "Field".len() + "String".len();
        let pattern = Pattern::parse("^ab").unwrap();
        let patterns = pattern.re2.len() + pattern.reference.len() + "ab".len();
        for (expression, nodes, besides) in [
            ("true", 1, 0),
            ("\"abc\" == \"\"", 3, 3),
            ("user.attributes.abc == \"\"", 3, 3),
            ("has(user.attributes.abc)", 1, 3),
            ("Field == \"\"", 3, field),
            ("Field.matches(\"^ab\")", 2, field + patterns),
        ] {
            // Each node takes itself, and as much again.
            let nodes = nodes * 2 * size_of::<Node>();
            assert_eq!(checked(expression).weight(), nodes + besides, "{expression}");
        }
    }

    #[test]
    fn there_is_room_for_so_many_bytes() {
        const ROOM: usize = 8_388_608;
        let (text, checked) = ("true", checked("true"));
        let bytes = text.len() + checked.weight();
        for (filled, is_full) in [(ROOM - bytes, false), (ROOM - bytes + 1, true)] {
            let policies = kept();
            policies.generations.write().unwrap().young_bytes = filled;
            policies.keep(text, &checked);
            let young_bytes = policies.generations.read().unwrap().young_bytes;
            assert_eq!(young_bytes, if is_full { bytes } else { ROOM });
        }
        for (longer, is_kept) in [(0, true), (1, false)] {
            let (policies, text) = (kept(), "a".repeat(ROOM - checked.weight() + longer));
            policies.keep(&text, &checked);
            assert_eq!(policies.find(&text).is_some(), is_kept);
        }
    }
}
