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
pub struct UserState {
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
    fn include(&mut self, other: Self) {
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
    validity: AtomicU8,
}

/// The credential works.
pub const VALID: u8 = 0;
/// The credential may work or not: its revocation was sent, or the outcome is unknown.
pub const BEING_REVOKED: u8 = 1;
/// The revocation was acknowledged.
pub const REVOKED: u8 = 2;

impl Credential {
    pub fn new(header: (&'static str, String), id: String, restriction: Option<Mask>) -> Self {
        Self { header, id, restriction, validity: AtomicU8::new(VALID) }
    }

    pub fn validity(&self) -> u8 {
        self.validity.load(Ordering::SeqCst)
    }

    /// Sets the state. A revoked credential never becomes valid again.
    pub fn set(&self, validity: u8) {
        self.validity.fetch_max(validity, Ordering::SeqCst);
    }

    pub fn is_key(&self) -> bool {
        self.header.0 == "authorization"
    }
}

#[derive(Default)]
struct UserCredentials {
    credentials: Vec<Arc<Credential>>,
    /// Number of revocations that others began or completed; each revocation counts twice.
    revocation_events: u64,
}

struct OpenRequest {
    user: usize,
    range: Range,
}

struct State {
    users: Vec<Vec<UserState>>,
    roles: Vec<Vec<Vec<Policy>>>,
    user_credentials: Vec<UserCredentials>,
    open_requests: HashMap<u64, OpenRequest>,
    next: u64,
}

impl State {
    fn range(&self, user: usize) -> Range {
        let user_states = self.users.get(user).map(Vec::as_slice).unwrap_or_default();
        let mut range: Option<Range> = None;
        for user_state in user_states {
            let mut own = Range {
                upper: 0,
                lower: 0,
                maybe_enabled: user_state.enabled,
                surely_enabled: user_state.enabled,
            };
            let roles = user_state
                .roles
                .iter()
                .filter_map(|role| self.roles.get(*role))
                .filter(|_| user_state.enabled);
            for contents in roles {
                let masks = contents.iter().map(|policies| {
                    policies.iter().fold(0, |mask, policy| mask | policy.mask(user_state.attributes))
                });
                own.upper |= masks.clone().fold(0, |all, mask| all | mask);
                own.lower |= masks.reduce(|all, mask| all & mask).unwrap_or_default();
            }
            match &mut range {
                None => range = Some(own),
                Some(range) => range.include(own),
            }
        }
        let no_access = Range { upper: 0, lower: 0, maybe_enabled: false, surely_enabled: false };
        range.unwrap_or(no_access)
    }

    /// Adds the new state to all running requests, which may be evaluated against it.
    fn include(&mut self) {
        let mut open_requests = std::mem::take(&mut self.open_requests);
        for open_request in open_requests.values_mut() {
            open_request.range.include(self.range(open_request.user));
        }
        self.open_requests = open_requests;
    }
}

/// The access of all users.
pub struct ExpectedAccess(Mutex<State>);

/// A running request.
pub struct Ticket(u64);

impl ExpectedAccess {
    pub fn new(users: Vec<UserState>, roles: Vec<Vec<Policy>>) -> Self {
        let user_credentials = users.iter().map(|_| UserCredentials::default()).collect();
        let users = users.into_iter().map(|user_state| vec![user_state]).collect();
        let roles = roles.into_iter().map(|policies| vec![policies]).collect();
        Self(Mutex::new(State { users, roles, user_credentials, open_requests: HashMap::new(), next: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, user: usize) -> Ticket {
        let mut state = self.state();
        let range = state.range(user);
        let number = state.next;
        state.next += 1;
        state.open_requests.insert(number, OpenRequest { user, range });
        Ticket(number)
    }

    /// Returns what the user may have been able to see since [`Self::begin`], or `None` for an unknown ticket.
    pub fn end(&self, Ticket(number): Ticket) -> Option<Range> {
        self.state().open_requests.remove(&number).map(|open_request| open_request.range)
    }

    /// Returns what the user may be able to see now.
    pub fn now(&self, user: usize) -> Range {
        self.state().range(user)
    }

    /// Returns the user's last acknowledged state, or a later state that may be in effect.
    pub fn user_state(&self, user: usize) -> Option<UserState> {
        self.state().users.get(user).and_then(|user_states| user_states.last()).cloned()
    }

    /// Records that a change of the user to this state was sent.
    pub fn user_change_sent(&self, user: usize, user_state: UserState) {
        let mut state = self.state();
        if let Some(user_states) = state.users.get_mut(user) {
            user_states.push(user_state);
        }
        state.include();
    }

    /// Records that a change of the user to this state was acknowledged.
    pub fn user_change_acknowledged(&self, user: usize, user_state: UserState) {
        if let Some(user_states) = self.state().users.get_mut(user) {
            *user_states = vec![user_state];
        }
    }

    /// Records that a change of the role to these policies was sent.
    pub fn role_change_sent(&self, role: usize, policies: Vec<Policy>) {
        let mut state = self.state();
        if let Some(contents) = state.roles.get_mut(role) {
            contents.push(policies);
        }
        state.include();
    }

    /// Records that a change of the role to these policies was acknowledged.
    pub fn role_change_acknowledged(&self, role: usize, policies: Vec<Policy>) {
        if let Some(contents) = self.state().roles.get_mut(role) {
            *contents = vec![policies];
        }
    }

    /// Returns the number of begun and completed revocations of the user's credentials, for [`Self::add_credential`].
    pub fn revocation_events(&self, user: usize) -> u64 {
        self.state()
            .user_credentials
            .get(user)
            .map(|user_credentials| user_credentials.revocation_events)
            .unwrap_or_default()
    }

    /// Adds a credential that was requested when the number of revocation events was `revocation_events`. If it has changed or a revocation
    /// is in progress, the new credential may be revoked too.
    pub fn add_credential(&self, user: usize, credential: &Arc<Credential>, revocation_events: u64) {
        let mut state = self.state();
        let Some(user_credentials) = state.user_credentials.get_mut(user) else { return };
        if user_credentials.revocation_events != revocation_events || revocation_events % 2 == 1 {
            credential.set(BEING_REVOKED);
        }
        user_credentials.credentials.retain(|credential| credential.validity() != REVOKED);
        user_credentials.credentials.push(Arc::clone(credential));
    }

    /// Records that another party begins to revoke the user's credentials selected by `selects`, and returns them.
    pub fn revocation_sent(
        &self,
        user: usize,
        selects: impl Fn(&Credential) -> bool,
    ) -> Vec<Arc<Credential>> {
        let mut state = self.state();
        let Some(user_credentials) = state.user_credentials.get_mut(user) else { return Vec::new() };
        user_credentials.revocation_events += 1;
        let chosen: Vec<_> =
            user_credentials.credentials.iter().filter(|credential| selects(credential)).cloned().collect();
        chosen.iter().for_each(|credential| credential.set(BEING_REVOKED));
        chosen
    }

    /// Records that a revocation was acknowledged or given up.
    pub fn revocation_finished(&self, user: usize) {
        if let Some(user_credentials) = self.state().user_credentials.get_mut(user) {
            user_credentials.revocation_events += 1;
        }
    }

    /// Returns an API key of the user that is not known to be revoked.
    pub fn valid_key(&self, user: usize) -> Option<Arc<Credential>> {
        let state = self.state();
        let mut credentials = state.user_credentials.get(user)?.credentials.iter().rev();
        credentials.find(|credential| credential.is_key() && credential.validity() == VALID).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn expected_access() -> (ExpectedAccess, UserState) {
        let attributes = Attributes::any(&mut Random::new(1, 1));
        let user_state = UserState { roles: vec![0], attributes, enabled: true };
        let roles = vec![vec![Policy::Fixed(0)], vec![Policy::Fixed(1)]];
        (ExpectedAccess::new(vec![user_state.clone()], roles), user_state)
    }

    fn mask(place: usize) -> Mask {
        Policy::Fixed(place).mask(Attributes::any(&mut Random::new(1, 1)))
    }

    #[test]
    fn requests_during_a_change_may_see_either_state_and_later_ones_only_the_new() {
        let (expected_access, user_state) = expected_access();
        let during = expected_access.begin(0);
        let other = UserState { roles: vec![1], ..user_state };
        expected_access.user_change_sent(0, other.clone());
        let cut_off = expected_access.now(0);
        assert_eq!((cut_off.upper, cut_off.lower), (mask(0) | mask(1), 0));
        expected_access.user_change_acknowledged(0, other);
        let observed = expected_access.end(during).unwrap();
        assert!(observed.may_show(mask(0), None) && observed.may_show(mask(1), None));
        assert!(!observed.must_show(mask(0), None) && !observed.must_show(mask(1), None));
        let after = expected_access.now(0);
        assert_eq!((after.upper, after.lower), (mask(1), mask(1)));
    }

    #[test]
    fn role_changes_affect_their_members_and_disabled_users_see_nothing() {
        let (expected_access, user_state) = expected_access();
        expected_access.role_change_sent(0, vec![Policy::Fixed(0), Policy::Fixed(2)]);
        assert_eq!(
            (expected_access.now(0).upper, expected_access.now(0).lower),
            (mask(0) | mask(2), mask(0))
        );
        expected_access.role_change_acknowledged(0, vec![Policy::Fixed(2)]);
        assert_eq!(expected_access.now(0).upper, mask(2));
        let disabled = UserState { enabled: false, ..user_state };
        expected_access.user_change_sent(0, disabled.clone());
        assert!(expected_access.now(0).maybe_enabled && !expected_access.now(0).surely_enabled);
        expected_access.user_change_acknowledged(0, disabled);
        let nothing = expected_access.now(0);
        assert!(!nothing.maybe_enabled && !nothing.may_show(Mask::MAX, None));
    }

    #[test]
    fn a_scoped_key_needs_both() {
        let (expected_access, _) = expected_access();
        let range = expected_access.now(0);
        assert!(range.may_show(mask(0) | mask(5), Some(mask(5))));
        assert!(!range.may_show(mask(0), Some(mask(5))));
        assert!(!range.must_show(mask(5), Some(mask(5))));
    }

    #[test]
    fn a_credential_created_during_a_revocation_may_be_revoked() {
        let (expected_access, _) = expected_access();
        let new = || Arc::new(Credential::new(("cookie", String::new()), String::new(), None));
        let (before, concurrent, after) = (new(), new(), new());
        expected_access.add_credential(0, &before, expected_access.revocation_events(0));
        let events_before = expected_access.revocation_events(0);
        assert_eq!(expected_access.revocation_sent(0, |_| true).len(), 1);
        expected_access.revocation_finished(0);
        expected_access.add_credential(0, &concurrent, events_before);
        expected_access.add_credential(0, &after, expected_access.revocation_events(0));
        assert_eq!(
            [before.validity(), concurrent.validity(), after.validity()],
            [BEING_REVOKED, BEING_REVOKED, VALID]
        );
        before.set(REVOKED);
        before.set(BEING_REVOKED);
        assert_eq!(before.validity(), REVOKED);
    }
}
