//! What a provider said about access tokens, kept for the configured time.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tracewarden_model::Timestamp;

use crate::person::MAX_CLAIMS_BYTES;

/// Answers have a few KiB; the oldest one goes first.
const CAPACITY: usize = 1_000;

/// What a provider was asked about a token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Question {
    Introspection,
    UserInfo,
}

struct Answer {
    received_at: Timestamp,
    claims: Map<String, Value>,
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
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.get(&key(question, token))?;
        // A clock that was set back must not make an answer valid for longer.
        let is_current = answer.received_at <= now && now < answer.received_at.saturating_add(self.ttl_nanos);
        is_current.then(|| answer.claims.clone())
    }

    pub(crate) fn put(&self, question: Question, token: &str, claims: Map<String, Value>, now: Timestamp) {
        let is_small = serde_json::to_string(&claims).is_ok_and(|text| text.len() <= MAX_CLAIMS_BYTES);
        if self.ttl_nanos > 0 && is_small {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.insert(key(question, token), Answer { received_at: now, claims });
        }
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
        cache.put(Question::UserInfo, "a", claims.clone(), at(100));
        let found = |question, token, second| cache.get(question, token, at(second)).is_some();
        assert!(found(Question::UserInfo, "a", 100) && found(Question::UserInfo, "a", 109));
        assert!(!found(Question::UserInfo, "a", 110) && !found(Question::UserInfo, "a", 99));
        assert!(!found(Question::Introspection, "a", 105) && !found(Question::UserInfo, "b", 105));

        let large = [("x".to_owned(), Value::from("x".repeat(MAX_CLAIMS_BYTES)))].into_iter().collect();
        cache.put(Question::UserInfo, "large", large, at(100));
        assert!(!found(Question::UserInfo, "large", 100));
        for number in 0..CAPACITY {
            cache.put(Question::UserInfo, &number.to_string(), claims.clone(), at(100));
        }
        assert!(!found(Question::UserInfo, "a", 105), "the oldest one has gone");
        let none = AnswerCache::new(Duration::ZERO);
        none.put(Question::UserInfo, "a", claims, at(100));
        assert!(none.get(Question::UserInfo, "a", at(100)).is_none());
    }
}
