//! What is known beforehand: the store's estimates, and how earlier searches went. Both only choose between ways to the
//! same answer, so that they may be old, or wrong.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use tokio::time::{Duration, Instant};

/// How long something is remembered.
const LIFE: Duration = Duration::from_secs(60);
/// How many things are.
const MAX_KEPT: usize = 4_096;

/// What something is remembered under.
pub(crate) type Subject = u64;

/// The subject of a text with values.
pub(crate) fn subject(parts: impl Hash) -> Subject {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// How an earlier search for the same went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Experience {
    /// Traces of the answer in a nanosecond of the window, if steps found any.
    pub(crate) density: Option<f64>,
    /// The demand, by its place, of which the candidates were few when the steps disappointed.
    pub(crate) candidates: Option<usize>,
    /// Whether steps looked at what shows the other demands, too.
    pub(crate) wide: bool,
}

/// Remembers for a minute; how large traces are, for good, since that hardly changes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    rows: Mutex<HashMap<Subject, (Instant, Option<u64>)>>,
    experience: Mutex<HashMap<Subject, (Instant, Experience)>>,
    /// Spans and traces of the pages read from a table, the later ones counting more.
    read: Mutex<HashMap<Subject, (f64, f64)>>,
}

impl Memory {
    /// Spans that a trace of a table has, by the pages read from it; nothing before the first.
    pub(crate) fn spans_of_a_trace(&self, table: Subject) -> Option<u64> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.get(&table).map(|(spans, traces)| (spans / traces.max(1.0)) as u64)
    }

    pub(crate) fn remember_read(&self, table: Subject, spans: u64, traces: usize) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= MAX_KEPT && !read.contains_key(&table) {
            read.clear();
        }
        let known = read.entry(table).or_default();
        *known = (known.0 / 2.0 + spans as f64, known.1 / 2.0 + traces as f64);
    }

    /// Rows that the store reckoned with; the inner `None` where it had no estimate.
    pub(crate) fn rows(&self, subject: Subject) -> Option<Option<u64>> {
        recall(&self.rows, subject)
    }

    pub(crate) fn remember_rows(&self, subject: Subject, rows: Option<u64>) {
        remember(&self.rows, subject, rows);
    }

    pub(crate) fn experience(&self, subject: Subject) -> Option<Experience> {
        recall(&self.experience, subject)
    }

    pub(crate) fn remember_experience(&self, subject: Subject, experience: Experience) {
        remember(&self.experience, subject, experience);
    }
}

fn recall<T: Copy>(kept: &Mutex<HashMap<Subject, (Instant, T)>>, subject: Subject) -> Option<T> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.get(&subject).filter(|(since, _)| since.elapsed() < LIFE).map(|(_, value)| *value)
}

fn remember<T>(kept: &Mutex<HashMap<Subject, (Instant, T)>>, subject: Subject, value: T) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= MAX_KEPT {
        kept.retain(|_, (since, _)| since.elapsed() < LIFE);
    }
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(subject, (Instant::now(), value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_forgotten_after_a_minute() {
        let memory = Memory::default();
        memory.remember_rows(1, Some(7));
        memory.remember_rows(2, None);
        assert_eq!((memory.rows(1), memory.rows(2), memory.rows(3)), (Some(Some(7)), Some(None), None));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(memory.rows(1), None);
        for number in 0..10_000 {
            memory.remember_rows(number, None);
        }
        assert!(memory.rows.lock().unwrap().len() <= MAX_KEPT);
        assert_eq!(memory.rows(9_999), Some(None));
    }

    #[test]
    fn a_page_of_many_traces_says_more_of_them_than_a_single_one() {
        let memory = Memory::default();
        assert_eq!(memory.spans_of_a_trace(1), None);
        memory.remember_read(1, 2_000, 200);
        assert_eq!(memory.spans_of_a_trace(1), Some(10));
        memory.remember_read(1, 1_000, 1);
        assert_eq!(memory.spans_of_a_trace(1), Some(19));
        memory.remember_read(1, 200_000, 200);
        memory.remember_read(1, 200_000, 200);
        assert!(memory.spans_of_a_trace(1).is_some_and(|spans| spans > 800));
        assert_eq!(memory.spans_of_a_trace(2), None);
    }
}
