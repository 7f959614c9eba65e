//! A change of roles or of the access model, and its two sides.

use tracewarden_appdb::{ModelState, User};
use tracewarden_model::{Binding, Display, Window};

use crate::core::attribute_bytes;

pub(crate) struct Change<'a> {
    pub(crate) before: &'a ModelState,
    pub(crate) after: &'a ModelState,
    /// The role that changes, if only one does.
    pub(crate) role: Option<&'a str>,
    pub(crate) window: Window,
}

impl<'a> Change<'a> {
    /// The binding after the change, if it reads the table differently than before.
    pub(super) fn binding_after(&self) -> Option<&'a Binding> {
        let (before, after) = (self.before.model.binding.as_ref(), self.after.model.binding.as_ref());
        let without_display = |binding: &Binding| Binding { display: Display::default(), ..binding.clone() };
        let changes = before != after && before.map(without_display) != after.map(without_display);
        after.filter(|_| changes)
    }

    pub(super) fn replaces_table(&self) -> bool {
        let table = |side: &'a ModelState| {
            side.model.binding.as_ref().map(|binding| (&binding.database, &binding.table))
        };
        table(self.before) != table(self.after)
    }

    /// Whether the change may affect this user's access. The access to another table is not compared.
    pub(super) fn affects(&self, user: &User) -> bool {
        let Self { before, after, .. } = self;
        // All holders of one role are evaluated. If the fields or the rows differ, the effect of any policy may differ.
        let all = self.role.is_some()
            || before.model.fields != after.model.fields
            || self.binding_after().is_some();
        !self.replaces_table()
            && user.roles.iter().any(|role| all || before.roles.get(role) != after.roles.get(role))
    }

    /// Estimates the size of this user's policies in bytes, if each contains all of the user's attributes.
    pub(super) fn weight(&self, user: &User) -> usize {
        let policies = |side: &ModelState| -> usize {
            user.roles.iter().filter_map(|role| side.roles.get(role)).map(Vec::len).sum()
        };
        attribute_bytes(&user.attributes).saturating_mul(policies(self.before) + policies(self.after))
    }
}
