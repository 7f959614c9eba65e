//! The expected response for each user and query, derived from the generated spans alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use tracewarden_sample_data::{Shop, Span, Trace, TraceId};

use super::demo_users::{DEMO_USERS, DemoUser, PAYMENTS_ON_CALL, PROPOSAL, Policy, STOREFRONT_PRODUCTION};
use super::queries::{SearchQuery, queries};

/// A landmark trace as generated.
pub struct Landmark {
    pub name: &'static str,
    pub id: TraceId,
    pub start_unix_nanos: u64,
    pub spans: Vec<String>,
    /// Whether each user sees it, in the order of [`DEMO_USERS`].
    pub visible: Vec<bool>,
    /// Spans that satisfy each policy, in the order of [`DEMO_USERS`] and of the policies of their role.
    pub matching_spans: Vec<Vec<BTreeSet<String>>>,
}

/// Effect of [`PROPOSAL`] on users with [`STOREFRONT_PRODUCTION`], in traces of the whole sample.
#[derive(Default)]
pub struct Impact {
    pub gained: u64,
    pub lost: u64,
    pub unchanged: u64,
}

/// Traces of the whole sample that [`PAYMENTS_ON_CALL`] grants access to.
#[derive(Default)]
pub struct CollateralAccess {
    pub traces: u64,
    /// By service: whether any of its spans, in any trace, satisfies a policy.
    pub services: BTreeMap<&'static str, bool>,
}

/// Sort key of a matching trace in a response.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ResultPosition {
    /// Whether all relevant spans are outside the window. Such traces follow the others.
    outside: bool,
    /// Latest time first.
    time: std::cmp::Reverse<u64>,
    id: String,
}

/// All expectations for a sample.
pub struct Expectations {
    pub landmarks: Vec<Landmark>,
    pub queries: Vec<SearchQuery>,
    /// By query, then in the order of [`DEMO_USERS`].
    positions: Vec<Vec<Vec<ResultPosition>>>,
    /// Number of visible traces in the whole sample, in the order of [`DEMO_USERS`].
    pub visible: Vec<usize>,
    pub traces: usize,
    pub impact: Impact,
    pub collateral_access: CollateralAccess,
}

impl Expectations {
    pub fn new(shop: &Shop) -> Self {
        let names: HashMap<TraceId, &'static str> =
            shop.landmarks().named().into_iter().map(|(name, id)| (id, name)).collect();
        // The landmarks are generated first, so that this does not generate the whole sample.
        let first: Vec<Trace> = shop.traces().take(names.len()).collect();
        let landmarks =
            first.iter().filter_map(|trace| Some(landmark(names.get(&trace.id)?, trace))).collect();
        let queries = queries(shop, &first);
        let positions = queries.iter().map(|_| DEMO_USERS.iter().map(|_| Vec::new()).collect()).collect();
        Self {
            landmarks,
            queries,
            positions,
            visible: vec![0; DEMO_USERS.len()],
            traces: 0,
            impact: Impact::default(),
            collateral_access: CollateralAccess::default(),
        }
    }

    /// Adds a trace of the sample to the expectations.
    pub fn observe(&mut self, trace: &Trace) {
        self.traces += 1;
        let visible: Vec<bool> = DEMO_USERS.iter().map(|demo_user| is_visible(demo_user, trace)).collect();
        for (count, visible) in self.visible.iter_mut().zip(&visible) {
            *count += usize::from(*visible);
        }
        let grants_access = |policies: &[Policy]| {
            trace.spans.iter().any(|span| policies.iter().any(|policy| (policy.satisfied)(trace, span)))
        };
        match (grants_access(STOREFRONT_PRODUCTION.policies), grants_access(std::slice::from_ref(&PROPOSAL)))
        {
            (false, true) => self.impact.gained += 1,
            (true, false) => self.impact.lost += 1,
            (true, true) => self.impact.unchanged += 1,
            (false, false) => {}
        }
        if grants_access(PAYMENTS_ON_CALL.policies) {
            self.collateral_access.traces += 1;
            for span in &trace.spans {
                let matches = PAYMENTS_ON_CALL.policies.iter().any(|policy| (policy.satisfied)(trace, span));
                *self.collateral_access.services.entry(span.service.name()).or_default() |= matches;
            }
        }
        for (search_query, positions) in self.queries.iter().zip(&mut self.positions) {
            if !answers(search_query, trace) {
                continue;
            }
            for ((demo_user, positions), _) in
                DEMO_USERS.iter().zip(positions).zip(&visible).filter(|(_, visible)| **visible)
            {
                positions.extend(result_position(search_query, demo_user, trace));
            }
        }
    }

    /// Returns the expected trace ids for a query and user, in the expected order.
    pub fn answer(&self, search_query: usize, demo_user: usize) -> Vec<&str> {
        let positions = self.positions.get(search_query).and_then(|by_user| by_user.get(demo_user));
        let mut positions: Vec<&ResultPosition> = positions.into_iter().flatten().collect();
        positions.sort();
        positions.into_iter().map(|result_position| result_position.id.as_str()).collect()
    }
}

fn landmark(name: &'static str, trace: &Trace) -> Landmark {
    Landmark {
        name,
        id: trace.id,
        start_unix_nanos: trace.start_unix_nanos(),
        spans: trace.spans.iter().map(|span| span.id.to_string()).collect(),
        visible: DEMO_USERS.iter().map(|demo_user| is_visible(demo_user, trace)).collect(),
        matching_spans: DEMO_USERS.iter().map(|demo_user| matching_spans(demo_user, trace)).collect(),
    }
}

/// Returns the spans that satisfy each policy of the user's role.
fn matching_spans(demo_user: &DemoUser, trace: &Trace) -> Vec<BTreeSet<String>> {
    let policies = demo_user.role.map(|role| role.policies).unwrap_or_default();
    let of = |policy: &Policy| {
        let spans = trace.spans.iter().filter(|span| (policy.satisfied)(trace, span));
        spans.map(|span| span.id.to_string()).collect()
    };
    policies.iter().map(of).collect()
}

/// A trace is visible if any of its spans grants access, inside the window or not.
fn is_visible(demo_user: &DemoUser, trace: &Trace) -> bool {
    trace.spans.iter().any(|span| demo_user.is_granted_by(trace, span))
}

fn is_in_window(search_query: &SearchQuery, span: &Span) -> bool {
    (search_query.from..search_query.to).contains(&span.start_unix_nanos)
}

/// Whether a trace matches a query: some span is in the window, and each condition matches some span, inside the window or not.
fn answers(search_query: &SearchQuery, trace: &Trace) -> bool {
    trace.spans.iter().any(|span| is_in_window(search_query, span))
        && search_query
            .conditions
            .iter()
            .all(|condition| trace.spans.iter().any(|span| (condition.holds)(trace, span)))
}

/// Returns the sort key of a matching, visible trace: with conditions the latest match inside the window, without conditions the
/// latest span that grants access.
fn result_position(
    search_query: &SearchQuery,
    demo_user: &DemoUser,
    trace: &Trace,
) -> Option<ResultPosition> {
    let latest = |counts: &dyn Fn(&Span) -> bool| {
        let inside = trace.spans.iter().filter(|span| is_in_window(search_query, span) && counts(span));
        inside.map(|span| span.start_unix_nanos).max()
    };
    let latest_match = if search_query.conditions.is_empty() {
        latest(&|span| demo_user.is_granted_by(trace, span))
    } else {
        latest(&|span| search_query.conditions.iter().any(|condition| (condition.holds)(trace, span)))
    };
    let time = latest_match.or_else(|| latest(&|_| true))?;
    Some(ResultPosition {
        outside: latest_match.is_none(),
        time: std::cmp::Reverse(time),
        id: trace.id.to_string(),
    })
}

/// Returns the query's filter in the API's format.
pub fn filter(search_query: &SearchQuery) -> Value {
    let conditions: Vec<Value> =
        search_query.conditions.iter().map(|condition| condition.request_json.clone()).collect();
    serde_json::json!({ "conditions": conditions })
}

#[cfg(test)]
mod tests {
    use tracewarden_sample_data::SEED;

    use super::*;

    /// 1 November 2026, 10:00 UTC.
    const NOW: u64 = 1_793_527_200_000_000_000;

    fn expectations() -> Expectations {
        let shop = Shop::new(SEED, NOW).with_spans(60_000);
        let mut expectations = Expectations::new(&shop);
        shop.traces().for_each(|trace| expectations.observe(&trace));
        expectations
    }

    #[test]
    fn users_see_different_traces_and_the_administrator_none() {
        let expectations = expectations();
        let (administrator, others) = expectations.visible.split_last().unwrap();
        assert_eq!(*administrator, 0);
        assert!(others.iter().all(|visible| (1..expectations.traces).contains(visible)));
        let views: std::collections::HashSet<Vec<bool>> = (0..DEMO_USERS.len())
            .map(|demo_user| {
                expectations.landmarks.iter().map(|landmark| landmark.visible[demo_user]).collect()
            })
            .collect();
        assert_eq!(views.len(), DEMO_USERS.len(), "two users see the same landmarks");
    }

    #[test]
    fn every_query_with_matches_distinguishes_users() {
        let expectations = expectations();
        // Queries by filter also cover landmarks that no user sees.
        let general = |search_query: &SearchQuery| !search_query.name.starts_with("by filter");
        for (index, search_query) in
            expectations.queries.iter().enumerate().filter(|(_, search_query)| general(search_query))
        {
            let answers: Vec<usize> =
                (0..DEMO_USERS.len()).map(|demo_user| expectations.answer(index, demo_user).len()).collect();
            let differ = answers.iter().any(|count| *count > 0);
            assert_eq!(differ, search_query.name != "nothing matches", "{}: {answers:?}", search_query.name);
        }
    }

    #[test]
    fn the_proposal_gains_loses_and_keeps_traces_and_collateral_access_shows_more_services() {
        let Expectations { impact, collateral_access, .. } = expectations();
        assert!(impact.gained > 0 && impact.lost > 0 && impact.unchanged > 0);
        let shared = collateral_access.services.values().filter(|matches| !**matches).count();
        assert!(shared > 0 && shared < collateral_access.services.len());
    }

    #[test]
    fn answers_are_newest_first() {
        let expectations = expectations();
        for search_query in 0..expectations.queries.len() {
            for positions in &expectations.positions[search_query] {
                let mut sorted: Vec<&ResultPosition> = positions.iter().collect();
                sorted.sort();
                let times: Vec<u64> = sorted
                    .iter()
                    .filter(|result_position| !result_position.outside)
                    .map(|result_position| result_position.time.0)
                    .collect();
                assert!(times.is_sorted_by(|a, b| a >= b));
            }
        }
    }
}
