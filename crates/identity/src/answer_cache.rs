//! What a provider said about access tokens, kept for the configured time.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tracewarden_model::Timestamp;

use crate::person::MAX_CLAIMS_BYTES;

/// Answers have a few KiB as text, and at most 64. The one that was not used for the longest time goes first.
const CAPACITY: usize = 1_000;

/// What a provider was asked about a token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Question {
    Introspection,
    UserInfo,
}

struct Answer {
    received_at: Timestamp,
    /// As JSON, which takes a fraction of the memory of the claims.
    text: String,
}

/// Answers by question and token. Only digests of tokens are kept.
pub(crate) struct AnswerCache {
    ttl_nanos: i64,
    answers: Mutex<LruCache<[u8; 32], Answer>>,
}

impl AnswerCache {
    /// Creates a cache that keeps nothing if the time is zero.
    pub(crate) fn new(ttl: Duration) -> Self {
        let ttl_nanos = i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX);
        Self { ttl_nanos, answers: Mutex::new(LruCache::new(CAPACITY)) }
    }

    pub(crate) fn get(&self, question: Question, token: &str, now: Timestamp) -> Option<Map<String, Value>> {
        let mut answers = self.answers();
        let answer = answers.get(&key(question, token)).filter(|answer| self.is_current(answer, now))?;
        serde_json::from_str(&answer.text).ok()
    }

    pub(crate) fn put(&self, question: Question, token: &str, claims: &Map<String, Value>, now: Timestamp) {
        let Some(text) = serde_json::to_string(claims).ok().filter(|text| text.len() <= MAX_CLAIMS_BYTES)
        else {
            return;
        };
        if self.ttl_nanos > 0 {
            let mut answers = self.answers();
            answers.retain(|_, answer| self.is_current(answer, now));
            answers.insert(key(question, token), Answer { received_at: now, text });
        }
    }

    /// An answer from the future is not: the clock was set back.
    fn is_current(&self, answer: &Answer, now: Timestamp) -> bool {
        answer.received_at <= now && now < answer.received_at.saturating_add(self.ttl_nanos)
    }

    fn answers(&self) -> MutexGuard<'_, LruCache<[u8; 32], Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(question: Question, token: &str) -> [u8; 32] {
    let kind: &[u8] = match question {
        Question::Introspection => b"introspection\0",
        Question::UserInfo => b"userinfo\0",
    };
    Sha256::new().chain_update(kind).chain_update(token).finalize().into()
}

impl fmt::Debug for AnswerCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AnswerCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_the_configured_time() {
        let claims: Map<String, Value> = [("sub".to_owned(), Value::from("paula"))].into_iter().collect();
        let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let cache = AnswerCache::new(Duration::from_secs(10));
        cache.put(Question::UserInfo, "a", &claims, at(100));
        let found = |question, token, second| cache.get(question, token, at(second)).is_some();
        assert!(found(Question::UserInfo, "a", 100) && found(Question::UserInfo, "a", 109));
        assert!(!found(Question::UserInfo, "a", 110) && !found(Question::UserInfo, "a", 99));
        assert!(!found(Question::Introspection, "a", 105) && !found(Question::UserInfo, "b", 105));

        let large = [("x".to_owned(), Value::from("x".repeat(MAX_CLAIMS_BYTES)))].into_iter().collect();
        cache.put(Question::UserInfo, "large", &large, at(100));
        assert!(!found(Question::UserInfo, "large", 100));
        for number in 0..CAPACITY {
            cache.put(Question::UserInfo, &number.to_string(), &claims, at(100));
        }
        assert!(!found(Question::UserInfo, "a", 105), "it was not used for the longest time");
        cache.put(Question::UserInfo, "b", &claims, at(110));
        assert_eq!(cache.answers().len(), 1, "the others are too old");
        let none = AnswerCache::new(Duration::ZERO);
        none.put(Question::UserInfo, "a", &claims, at(100));
        assert!(none.get(Question::UserInfo, "a", at(100)).is_none());
    }
}
