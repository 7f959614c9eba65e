//! What each user must get for each question, worked out from the generated spans alone.

use std::collections::HashMap;

use serde_json::Value;
use tracewarden_testkit::shop::{Shop, Span, Trace, TraceId};

use super::cast::{PEOPLE, Person};
use super::questions::{Question, questions};

/// A landmark as it was generated.
pub struct Landmark {
    pub name: &'static str,
    pub id: TraceId,
    pub start_unix_nanos: u64,
    pub spans: Vec<String>,
    /// By the order of [`PEOPLE`].
    pub visible: Vec<bool>,
}

/// One trace that answers a question, with what decides its place in the answer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Traces whose deciding spans all lie outside of the window follow the others.
    outside: bool,
    /// Newest first: the greatest time comes first.
    time: std::cmp::Reverse<u64>,
    id: String,
}

/// All expectations of one sample.
pub struct Expectations {
    pub landmarks: Vec<Landmark>,
    pub questions: Vec<Question>,
    /// By question, then by the order of [`PEOPLE`].
    places: Vec<Vec<Vec<Place>>>,
    /// Visible traces of the whole sample, by the order of [`PEOPLE`].
    pub visible: Vec<usize>,
    pub traces: usize,
}

impl Expectations {
    pub fn new(shop: &Shop) -> Self {
        let names: HashMap<TraceId, &'static str> =
            shop.landmarks().named().into_iter().map(|(name, id)| (id, name)).collect();
        // The landmarks come first: this does not generate the sample.
        let first: Vec<Trace> = shop.traces().take(names.len()).collect();
        let landmarks =
            first.iter().filter_map(|trace| Some(landmark(names.get(&trace.id)?, trace))).collect();
        let questions = questions(shop, &first);
        let places = questions.iter().map(|_| PEOPLE.iter().map(|_| Vec::new()).collect()).collect();
        Self { landmarks, questions, places, visible: vec![0; PEOPLE.len()], traces: 0 }
    }

    /// Takes a trace of the sample into account.
    pub fn observe(&mut self, trace: &Trace) {
        self.traces += 1;
        for (person, visible) in PEOPLE.iter().zip(&mut self.visible) {
            *visible += usize::from(is_visible(person, trace));
        }
        for (question, places) in self.questions.iter().zip(&mut self.places) {
            for (person, places) in PEOPLE.iter().zip(places) {
                places.extend(place(question, person, trace));
            }
        }
    }

    /// The ids that a user must get for a question, in the order in which they must come.
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
    }
}

/// One span is enough, wherever it is.
fn is_visible(person: &Person, trace: &Trace) -> bool {
    trace.spans.iter().any(|span| person.is_granted_by(trace, span))
}

fn place(question: &Question, person: &Person, trace: &Trace) -> Option<Place> {
    let inside = |span: &&Span| (question.from..question.to).contains(&span.start_unix_nanos);
    let latest_inside = trace.spans.iter().filter(inside).map(|span| span.start_unix_nanos).max()?;
    let matches = |span: &Span| question.conditions.iter().any(|condition| (condition.holds)(trace, span));
    let all = question
        .conditions
        .iter()
        .all(|condition| trace.spans.iter().any(|span| (condition.holds)(trace, span)));
    if !all || !is_visible(person, trace) {
        return None;
    }
    // With conditions the latest match decides; without, the latest span that grants access.
    let decides = |span: &&Span| {
        if question.conditions.is_empty() { person.is_granted_by(trace, span) } else { matches(span) }
    };
    let deciding = trace.spans.iter().filter(inside).filter(decides).map(|span| span.start_unix_nanos).max();
    Some(Place {
        outside: deciding.is_none(),
        time: std::cmp::Reverse(deciding.unwrap_or(latest_inside)),
        id: trace.id.to_string(),
    })
}

/// The filter of a question as the service is asked it.
pub fn filter(question: &Question) -> Value {
    let conditions: Vec<Value> = question.conditions.iter().map(|condition| condition.wire.clone()).collect();
    serde_json::json!({ "conditions": conditions })
}
