//! The expected response for each user and query, derived from the generated spans alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use tracewarden_testkit::shop::{Shop, Span, Trace, TraceId};

use super::cast::{PAYMENTS_ON_CALL, PEOPLE, PROPOSAL, Person, Policy, STOREFRONT_PRODUCTION};
use super::questions::{Question, questions};

/// A landmark trace as generated.
pub struct Landmark {
    pub name: &'static str,
    pub id: TraceId,
    pub start_unix_nanos: u64,
    pub spans: Vec<String>,
    /// Whether each user sees it, in the order of [`PEOPLE`].
    pub visible: Vec<bool>,
    /// Spans that satisfy each policy, in the order of [`PEOPLE`] and of the policies of their role.
    pub openers: Vec<Vec<BTreeSet<String>>>,
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
pub struct Reach {
    pub traces: u64,
    /// By service: whether any of its spans, in any trace, satisfies a policy.
    pub services: BTreeMap<&'static str, bool>,
}

/// Sort key of a matching trace in a response.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Whether all relevant spans are outside the window. Such traces follow the others.
    outside: bool,
    /// Latest time first.
    time: std::cmp::Reverse<u64>,
    id: String,
}

/// All expectations for a sample.
pub struct Expectations {
    pub landmarks: Vec<Landmark>,
    pub questions: Vec<Question>,
    /// By query, then in the order of [`PEOPLE`].
    places: Vec<Vec<Vec<Place>>>,
    /// Number of visible traces in the whole sample, in the order of [`PEOPLE`].
    pub visible: Vec<usize>,
    pub traces: usize,
    pub impact: Impact,
    pub reach: Reach,
}

impl Expectations {
    pub fn new(shop: &Shop) -> Self {
        let names: HashMap<TraceId, &'static str> =
            shop.landmarks().named().into_iter().map(|(name, id)| (id, name)).collect();
        // The landmarks are generated first, so that this does not generate the whole sample.
        let first: Vec<Trace> = shop.traces().take(names.len()).collect();
        let landmarks =
            first.iter().filter_map(|trace| Some(landmark(names.get(&trace.id)?, trace))).collect();
        let questions = questions(shop, &first);
        let places = questions.iter().map(|_| PEOPLE.iter().map(|_| Vec::new()).collect()).collect();
        Self {
            landmarks,
            questions,
            places,
            visible: vec![0; PEOPLE.len()],
            traces: 0,
            impact: Impact::default(),
            reach: Reach::default(),
        }
    }

    /// Adds a trace of the sample to the expectations.
    pub fn observe(&mut self, trace: &Trace) {
        self.traces += 1;
        let visible: Vec<bool> = PEOPLE.iter().map(|person| is_visible(person, trace)).collect();
        for (count, visible) in self.visible.iter_mut().zip(&visible) {
            *count += usize::from(*visible);
        }
        let opens = |policies: &[Policy]| {
            trace.spans.iter().any(|span| policies.iter().any(|policy| (policy.satisfied)(trace, span)))
        };
        match (opens(STOREFRONT_PRODUCTION.policies), opens(std::slice::from_ref(&PROPOSAL))) {
            (false, true) => self.impact.gained += 1,
            (true, false) => self.impact.lost += 1,
            (true, true) => self.impact.unchanged += 1,
            (false, false) => {}
        }
        if opens(PAYMENTS_ON_CALL.policies) {
            self.reach.traces += 1;
            for span in &trace.spans {
                let matches = PAYMENTS_ON_CALL.policies.iter().any(|policy| (policy.satisfied)(trace, span));
                *self.reach.services.entry(span.service.name()).or_default() |= matches;
            }
        }
        for (question, places) in self.questions.iter().zip(&mut self.places) {
            if !answers(question, trace) {
                continue;
            }
            for ((person, places), _) in
                PEOPLE.iter().zip(places).zip(&visible).filter(|(_, visible)| **visible)
            {
                places.extend(place(question, person, trace));
            }
        }
    }

    /// Returns the expected trace ids for a query and user, in the expected order.
    pub fn answer(&self, question: usize, person: usize) -> Vec<&str> {
        let places = self.places.get(question).and_then(|people| people.get(person));
        let mut places: Vec<&Place> = places.into_iter().flatten().collect();
        places.sort();
        places.into_iter().map(|place| place.id.as_str()).collect()
    }
}

fn landmark(name: &'static str, trace: &Trace) -> Landmark {
    Landmark {
        name,
        id: trace.id,
        start_unix_nanos: trace.start_unix_nanos(),
        spans: trace.spans.iter().map(|span| span.id.to_string()).collect(),
        visible: PEOPLE.iter().map(|person| is_visible(person, trace)).collect(),
        openers: PEOPLE.iter().map(|person| openers(person, trace)).collect(),
    }
}

/// Returns the spans that satisfy each policy of the user's role.
fn openers(person: &Person, trace: &Trace) -> Vec<BTreeSet<String>> {
    let policies = person.role.map(|role| role.policies).unwrap_or_default();
    let of = |policy: &Policy| {
        let spans = trace.spans.iter().filter(|span| (policy.satisfied)(trace, span));
        spans.map(|span| span.id.to_string()).collect()
    };
    policies.iter().map(of).collect()
}

/// A trace is visible if any of its spans grants access, inside the window or not.
fn is_visible(person: &Person, trace: &Trace) -> bool {
    trace.spans.iter().any(|span| person.is_granted_by(trace, span))
}

fn is_inside(question: &Question, span: &Span) -> bool {
    (question.from..question.to).contains(&span.start_unix_nanos)
}

/// Whether a trace matches a query: some span is in the window, and each condition matches some span, inside the window or not.
fn answers(question: &Question, trace: &Trace) -> bool {
    trace.spans.iter().any(|span| is_inside(question, span))
        && question
            .conditions
            .iter()
            .all(|condition| trace.spans.iter().any(|span| (condition.holds)(trace, span)))
}

/// Returns the sort key of a matching, visible trace: with conditions the latest match inside the window, without conditions the
/// latest span that grants access.
fn place(question: &Question, person: &Person, trace: &Trace) -> Option<Place> {
    let latest = |counts: &dyn Fn(&Span) -> bool| {
        let inside = trace.spans.iter().filter(|span| is_inside(question, span) && counts(span));
        inside.map(|span| span.start_unix_nanos).max()
    };
    let deciding = if question.conditions.is_empty() {
        latest(&|span| person.is_granted_by(trace, span))
    } else {
        latest(&|span| question.conditions.iter().any(|condition| (condition.holds)(trace, span)))
    };
    let time = deciding.or_else(|| latest(&|_| true))?;
    Some(Place { outside: deciding.is_none(), time: std::cmp::Reverse(time), id: trace.id.to_string() })
}

/// Returns the query's filter in the API's format.
pub fn filter(question: &Question) -> Value {
    let conditions: Vec<Value> = question.conditions.iter().map(|condition| condition.wire.clone()).collect();
    serde_json::json!({ "conditions": conditions })
}

#[cfg(test)]
mod tests {
    use tracewarden_testkit::shop::SEED;

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
        let views: std::collections::HashSet<Vec<bool>> = (0..PEOPLE.len())
            .map(|person| expectations.landmarks.iter().map(|landmark| landmark.visible[person]).collect())
            .collect();
        assert_eq!(views.len(), PEOPLE.len(), "two users see the same landmarks");
    }

    #[test]
    fn every_question_but_the_empty_one_tells_users_apart() {
        let expectations = expectations();
        // Queries by filter also cover landmarks that no user sees.
        let general = |question: &Question| !question.name.starts_with("by filter");
        for (index, question) in
            expectations.questions.iter().enumerate().filter(|(_, question)| general(question))
        {
            let answers: Vec<usize> =
                (0..PEOPLE.len()).map(|person| expectations.answer(index, person).len()).collect();
            let differ = answers.iter().any(|count| *count > 0);
            assert_eq!(differ, question.name != "nothing matches", "{}: {answers:?}", question.name);
        }
    }

    #[test]
    fn the_proposal_gives_takes_and_leaves_and_sharing_shows_more_services_than_match() {
        let Expectations { impact, reach, .. } = expectations();
        assert!(impact.gained > 0 && impact.lost > 0 && impact.unchanged > 0);
        let shared = reach.services.values().filter(|matches| !**matches).count();
        assert!(shared > 0 && shared < reach.services.len());
    }

    #[test]
    fn answers_are_newest_first() {
        let expectations = expectations();
        for question in 0..expectations.questions.len() {
            for places in &expectations.places[question] {
                let mut sorted: Vec<&Place> = places.iter().collect();
                sorted.sort();
                let times: Vec<u64> =
                    sorted.iter().filter(|place| !place.outside).map(|place| place.time.0).collect();
                assert!(times.is_sorted_by(|a, b| a >= b));
            }
        }
    }
}
