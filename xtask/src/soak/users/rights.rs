//! Tracks what each user may see at each moment, as far as a client can know it.
//!
//! Between sending a change and its acknowledgement, either state may be in effect. A change without a response stays undecided
//! until its retry is acknowledged. A request is checked against all states that were possible while it ran: traces that every
//! state grants access to must be shown, traces that no state grants access to must not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::policies::{Attributes, Mask, Policy};

/// Roles, attributes and status of a user.
#[derive(Clone, PartialEq)]
pub struct Grant {
    pub roles: Vec<usize>,
    pub attributes: Attributes,
    pub enabled: bool,
}

/// What a user may have been able to see during a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Conditions of any possible state.
    pub upper: Mask,
    /// Conditions of every possible state.
    pub lower: Mask,
    pub maybe_enabled: bool,
    pub surely_enabled: bool,
}

impl Range {
    fn widen(&mut self, other: Self) {
        self.upper |= other.upper;
        self.lower &= other.lower;
        self.maybe_enabled |= other.maybe_enabled;
        self.surely_enabled &= other.surely_enabled;
    }

    /// Whether a trace may be shown. A scoped API key additionally requires one of the conditions in `restriction`.
    pub fn may_show(self, trace: Mask, restriction: Option<Mask>) -> bool {
        trace & self.upper != 0 && restriction.is_none_or(|restriction| trace & restriction != 0)
    }

    /// Whether a trace must be shown.
    pub fn must_show(self, trace: Mask, restriction: Option<Mask>) -> bool {
        trace & self.lower != 0 && restriction.is_none_or(|restriction| trace & restriction != 0)
    }
}

/// A session or an API key.
pub struct Credential {
    /// Name and value of the header.
    pub header: (&'static str, String),
    /// Id of the API key.
    pub id: String,
    /// Policy of a scoped API key.
    pub restriction: Option<Mask>,
    life: AtomicU8,
}

/// The credential works.
pub const LIVE: u8 = 0;
/// The credential may work or not: its revocation was sent, or the outcome is unknown.
pub const ENDING: u8 = 1;
/// The revocation was acknowledged.
pub const ENDED: u8 = 2;

impl Credential {
    pub fn new(header: (&'static str, String), id: String, restriction: Option<Mask>) -> Self {
        Self { header, id, restriction, life: AtomicU8::new(LIVE) }
    }

    pub fn life(&self) -> u8 {
        self.life.load(Ordering::SeqCst)
    }

    /// Sets the state. A revoked credential never becomes valid again.
    pub fn set(&self, life: u8) {
        self.life.fetch_max(life, Ordering::SeqCst);
    }

    pub fn is_key(&self) -> bool {
        self.header.0 == "authorization"
    }
}

#[derive(Default)]
struct Held {
    credentials: Vec<Arc<Credential>>,
    /// Number of revocations that others began or completed; each revocation counts twice.
    endings: u64,
}

struct Watch {
    user: usize,
    range: Range,
}

struct State {
    users: Vec<Vec<Grant>>,
    roles: Vec<Vec<Vec<Policy>>>,
    held: Vec<Held>,
    watches: HashMap<u64, Watch>,
    next: u64,
}

impl State {
    fn range(&self, user: usize) -> Range {
        let grants = self.users.get(user).map(Vec::as_slice).unwrap_or_default();
        let mut range: Option<Range> = None;
        for grant in grants {
            let mut own =
                Range { upper: 0, lower: 0, maybe_enabled: grant.enabled, surely_enabled: grant.enabled };
            let roles = grant.roles.iter().filter_map(|role| self.roles.get(*role)).filter(|_| grant.enabled);
            for contents in roles {
                let masks = contents.iter().map(|policies| {
                    policies.iter().fold(0, |mask, policy| mask | policy.mask(grant.attributes))
                });
                own.upper |= masks.clone().fold(0, |all, mask| all | mask);
                own.lower |= masks.reduce(|all, mask| all & mask).unwrap_or_default();
            }
            match &mut range {
                None => range = Some(own),
                Some(range) => range.widen(own),
            }
        }
        let nobody = Range { upper: 0, lower: 0, maybe_enabled: false, surely_enabled: false };
        range.unwrap_or(nobody)
    }

    /// Adds the new state to all running requests, which may be evaluated against it.
    fn widen(&mut self) {
        let mut watches = std::mem::take(&mut self.watches);
        for watch in watches.values_mut() {
            watch.range.widen(self.range(watch.user));
        }
        self.watches = watches;
    }
}

/// The access of all users.
pub struct Rights(Mutex<State>);

/// A running request.
pub struct Ticket(u64);

impl Rights {
    pub fn new(users: Vec<Grant>, roles: Vec<Vec<Policy>>) -> Self {
        let held = users.iter().map(|_| Held::default()).collect();
        let users = users.into_iter().map(|grant| vec![grant]).collect();
        let roles = roles.into_iter().map(|policies| vec![policies]).collect();
        Self(Mutex::new(State { users, roles, held, watches: HashMap::new(), next: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, user: usize) -> Ticket {
        let mut state = self.state();
        let range = state.range(user);
        let number = state.next;
        state.next += 1;
        state.watches.insert(number, Watch { user, range });
        Ticket(number)
    }

    /// Returns what the user may have been able to see since [`Self::begin`], or `None` for an unknown ticket.
    pub fn end(&self, Ticket(number): Ticket) -> Option<Range> {
        self.state().watches.remove(&number).map(|watch| watch.range)
    }

    /// Returns what the user may be able to see now.
    pub fn now(&self, user: usize) -> Range {
        self.state().range(user)
    }

    /// Returns the user's last acknowledged state, or a later state that may be in effect.
    pub fn grant(&self, user: usize) -> Option<Grant> {
        self.state().users.get(user).and_then(|grants| grants.last()).cloned()
    }

    /// Records that a change of the user to this state was sent.
    pub fn user_sent(&self, user: usize, grant: Grant) {
        let mut state = self.state();
        if let Some(grants) = state.users.get_mut(user) {
            grants.push(grant);
        }
        state.widen();
    }

    /// Records that a change of the user to this state was acknowledged.
    pub fn user_settled(&self, user: usize, grant: Grant) {
        if let Some(grants) = self.state().users.get_mut(user) {
            *grants = vec![grant];
        }
    }

    /// Records that a change of the role to these policies was sent.
    pub fn role_sent(&self, role: usize, policies: Vec<Policy>) {
        let mut state = self.state();
        if let Some(contents) = state.roles.get_mut(role) {
            contents.push(policies);
        }
        state.widen();
    }

    /// Records that a change of the role to these policies was acknowledged.
    pub fn role_settled(&self, role: usize, policies: Vec<Policy>) {
        if let Some(contents) = self.state().roles.get_mut(role) {
            *contents = vec![policies];
        }
    }

    /// Returns the number of begun and completed revocations of the user's credentials, for [`Self::hold`].
    pub fn endings(&self, user: usize) -> u64 {
        self.state().held.get(user).map(|held| held.endings).unwrap_or_default()
    }

    /// Adds a credential that was requested when the number of revocation events was `endings`. If it has changed or a revocation
    /// is in progress, the new credential may be revoked too.
    pub fn hold(&self, user: usize, credential: &Arc<Credential>, endings: u64) {
        let mut state = self.state();
        let Some(held) = state.held.get_mut(user) else { return };
        if held.endings != endings || endings % 2 == 1 {
            credential.set(ENDING);
        }
        held.credentials.retain(|credential| credential.life() != ENDED);
        held.credentials.push(Arc::clone(credential));
    }

    /// Records that another party begins to revoke the user's credentials selected by `which`, and returns them.
    pub fn ending(&self, user: usize, which: impl Fn(&Credential) -> bool) -> Vec<Arc<Credential>> {
        let mut state = self.state();
        let Some(held) = state.held.get_mut(user) else { return Vec::new() };
        held.endings += 1;
        let chosen: Vec<_> =
            held.credentials.iter().filter(|credential| which(credential)).cloned().collect();
        chosen.iter().for_each(|credential| credential.set(ENDING));
        chosen
    }

    /// Records that a revocation was acknowledged or given up.
    pub fn ended(&self, user: usize) {
        if let Some(held) = self.state().held.get_mut(user) {
            held.endings += 1;
        }
    }

    /// Returns an API key of the user that is not known to be revoked.
    pub fn live_key(&self, user: usize) -> Option<Arc<Credential>> {
        let state = self.state();
        let mut credentials = state.held.get(user)?.credentials.iter().rev();
        credentials.find(|credential| credential.is_key() && credential.life() == LIVE).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::chance::Chance;
    use super::*;

    fn rights() -> (Rights, Grant) {
        let attributes = Attributes::any(&mut Chance::new(1, 1));
        let grant = Grant { roles: vec![0], attributes, enabled: true };
        let roles = vec![vec![Policy::Alone(0)], vec![Policy::Alone(1)]];
        (Rights::new(vec![grant.clone()], roles), grant)
    }

    fn mask(place: usize) -> Mask {
        Policy::Alone(place).mask(Attributes::any(&mut Chance::new(1, 1)))
    }

    #[test]
    fn a_request_during_a_change_may_meet_either_state_and_one_after_it_only_the_new() {
        let (rights, grant) = rights();
        let during = rights.begin(0);
        let other = Grant { roles: vec![1], ..grant };
        rights.user_sent(0, other.clone());
        let cut_off = rights.now(0);
        assert_eq!((cut_off.upper, cut_off.lower), (mask(0) | mask(1), 0));
        rights.user_settled(0, other);
        let met = rights.end(during).unwrap();
        assert!(met.may_show(mask(0), None) && met.may_show(mask(1), None));
        assert!(!met.must_show(mask(0), None) && !met.must_show(mask(1), None));
        let after = rights.now(0);
        assert_eq!((after.upper, after.lower), (mask(1), mask(1)));
    }

    #[test]
    fn roles_change_for_those_who_hold_them_and_the_disabled_see_nothing() {
        let (rights, grant) = rights();
        rights.role_sent(0, vec![Policy::Alone(0), Policy::Alone(2)]);
        assert_eq!((rights.now(0).upper, rights.now(0).lower), (mask(0) | mask(2), mask(0)));
        rights.role_settled(0, vec![Policy::Alone(2)]);
        assert_eq!(rights.now(0).upper, mask(2));
        let disabled = Grant { enabled: false, ..grant };
        rights.user_sent(0, disabled.clone());
        assert!(rights.now(0).maybe_enabled && !rights.now(0).surely_enabled);
        rights.user_settled(0, disabled);
        let nothing = rights.now(0);
        assert!(!nothing.maybe_enabled && !nothing.may_show(Mask::MAX, None));
    }

    #[test]
    fn a_scoped_key_needs_both() {
        let (rights, _) = rights();
        let range = rights.now(0);
        assert!(range.may_show(mask(0) | mask(5), Some(mask(5))));
        assert!(!range.may_show(mask(0), Some(mask(5))));
        assert!(!range.must_show(mask(5), Some(mask(5))));
    }

    #[test]
    fn a_credential_made_beside_an_end_may_have_fallen_to_it() {
        let (rights, _) = rights();
        let new = || Arc::new(Credential::new(("cookie", String::new()), String::new(), None));
        let (before, beside, after) = (new(), new(), new());
        rights.hold(0, &before, rights.endings(0));
        let asked = rights.endings(0);
        assert_eq!(rights.ending(0, |_| true).len(), 1);
        rights.ended(0);
        rights.hold(0, &beside, asked);
        rights.hold(0, &after, rights.endings(0));
        assert_eq!([before.life(), beside.life(), after.life()], [ENDING, ENDING, LIVE]);
        before.set(ENDED);
        before.set(ENDING);
        assert_eq!(before.life(), ENDED);
    }
}
