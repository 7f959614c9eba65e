//! Cursors of trace queries: the position at which a page ended, encrypted and authenticated.
//!
//! A cursor carries no authority: every page is authorised again. It is encrypted because its position reveals traces that
//! the caller may have lost access to, and so that clients cannot depend on its content.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tracewarden_clickhouse::{Position, TraceOrder};
use tracewarden_model::{Binding, Display, Entropy, Filter, RawCondition, Timestamp, Window};

use crate::core::error::{CursorFault, Result, ServiceError};
use crate::core::principal::Principal;
use crate::core::query_input::condition_detail;
use crate::core::sealing_key::SealingKey;

/// Common properties of the pages of one query, as digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    filter: [u8; 32],
    /// Everything else: the order, the binding and the caller.
    query: [u8; 32],
}

/// Content of a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) window: Window,
    pub(crate) position: Position,
}

/// Encryption key that all replicas share.
pub(crate) struct CursorKey(SealingKey);

const VERSION: u8 = 2;
const PURPOSE: &[u8] = b"tracewarden trace cursor";
/// Maximum length of a cursor text, far above any real cursor; longer texts are not decoded.
const TEXT_MAX_BYTES: usize = 4_096;

impl CursorKey {
    pub(crate) fn new(key: &[u8]) -> Result<Self> {
        SealingKey::new(key).map(Self)
    }

    /// Encrypts the cursor into text for the client.
    pub(crate) fn seal(&self, cursor: &Cursor, entropy: &dyn Entropy) -> Result<String> {
        self.0.seal(&encode(cursor), PURPOSE, entropy)
    }

    /// Decrypts a text that [`CursorKey::seal`] returned.
    pub(crate) fn open(&self, text: &str) -> Result<Cursor> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(CursorFault::TooLong.into());
        }
        let plain = self.0.open(text, PURPOSE).map_err(CursorFault::from)?;
        Ok(decode(&plain).ok_or(CursorFault::OtherVersion)?)
    }
}

impl Fingerprint {
    /// Computes the fingerprint of a query by this caller. It includes the order, the caller's preview and the policy of
    /// their key: a position is valid only with the same ones.
    pub(crate) fn new(
        sent: &Filter<RawCondition>,
        order: TraceOrder,
        binding: &Binding,
        principal: &Principal,
    ) -> Self {
        // `longest` and `most_errors` depend on the display columns.
        let display = (order != TraceOrder::Newest).then_some(&binding.display);
        let rows = Binding { display: Display::default(), ..binding.clone() };
        // The fingerprint of a previewed user stays the same when their roles change, like the caller's own.
        let preview = principal.preview().map(|preview| match &preview.user_id {
            Some(id) => json!({ "of": id }),
            None => json!(preview),
        });
        let caller = (principal.user_id(), preview, principal.key_policy());
        Self { filter: filter_digest(sent), query: digest(&json!([order, rows, display, caller])) }
    }
}

impl Cursor {
    /// Checks that this cursor continues the query with this fingerprint.
    pub(crate) fn check(&self, query: &Fingerprint) -> Result<()> {
        if self.fingerprint.filter != query.filter {
            return Err(ServiceError::CursorFilterMismatch);
        }
        if self.fingerprint != *query {
            return Err(CursorFault::OtherQuery.into());
        }
        Ok(())
    }
}

/// Returns the digest of a filter. Its parts are ANDed, so their order is ignored.
fn filter_digest(sent: &Filter<RawCondition>) -> [u8; 32] {
    let sorted = |mut texts: Vec<String>| {
        texts.sort_unstable();
        texts
    };
    let list = |conditions: &[RawCondition]| {
        sorted(conditions.iter().map(|condition| condition_detail(condition).to_string()).collect())
    };
    let groups = sent.same_span.iter().map(|group| json!(list(group)).to_string());
    digest(&json!([list(&sent.conditions), sorted(groups.collect()), list(&sent.none)]))
}

fn digest(content: &Value) -> [u8; 32] {
    Sha256::digest(content.to_string()).into()
}

pub(crate) fn encode(cursor: &Cursor) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(cursor.fingerprint.filter);
    bytes.extend(cursor.fingerprint.query);
    bytes.extend(cursor.window.from().as_nanos().to_be_bytes());
    bytes.extend(cursor.window.to().as_nanos().to_be_bytes());
    bytes.push(cursor.position.tier);
    bytes.extend(cursor.position.key.to_be_bytes());
    bytes.extend(cursor.position.trace_id.as_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Cursor> {
    let ([VERSION], rest) = bytes.split_first_chunk::<1>()? else { return None };
    let (filter, rest) = rest.split_first_chunk::<32>()?;
    let (query, rest) = rest.split_first_chunk::<32>()?;
    let (from, rest) = rest.split_first_chunk::<8>()?;
    let (to, rest) = rest.split_first_chunk::<8>()?;
    let ([tier], rest) = rest.split_first_chunk::<1>()?;
    let (key, trace_id) = rest.split_first_chunk::<8>()?;
    let at = |bytes: &[u8; 8]| Timestamp::from_nanos(i64::from_be_bytes(*bytes));
    Some(Cursor {
        fingerprint: Fingerprint { filter: *filter, query: *query },
        window: Window::new(at(from), at(to)).ok()?,
        position: Position {
            tier: *tier,
            key: i64::from_be_bytes(*key),
            trace_id: String::from_utf8(trace_id.to_vec()).ok()?,
        },
    })
}

#[cfg(test)]
mod tests;
