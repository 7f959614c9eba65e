//! `ETag` and `If-Match`: a version, so that two administrators do not overwrite each other unseen.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::code::Code;
use crate::problem::Problem;

/// The version that `If-Match` names, if it was sent.
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        if_match(&parts.headers).map(IfMatch)
    }
}

fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().ok().and_then(|text| text.trim().strip_prefix('"')?.strip_suffix('"'));
    // A tag that we never gave out, a weak one included, cannot be the current one.
    match tag.and_then(|tag| tag.parse().ok()) {
        Some(version) => Ok(Some(version)),
        None => {
            let detail = "`If-Match` takes the `ETag` of an earlier answer, such as `\"7\"`";
            Err(Problem::new(Code::PreconditionFailed, detail))
        }
    }
}

/// The `ETag` of a version.
pub(crate) fn etag(version: u64) -> [(HeaderName, HeaderValue); 1] {
    // Quotes and digits are always a header value.
    let value = HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""));
    [(header::ETAG, value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_tags_match() {
        let read = |text: &'static str| {
            if_match(&HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static(text))]))
        };
        assert_eq!(if_match(&HeaderMap::new()).unwrap(), None);
        assert_eq!(read("\"7\"").unwrap(), Some(7));
        for wrong in ["7", "W/\"7\"", "*", "\"7\", \"8\"", "\"\"", "\"-1\"", "\"x\""] {
            assert_eq!(read(wrong).unwrap_err().code(), Code::PreconditionFailed, "{wrong}");
        }
        let [(_, tag)] = etag(7);
        assert_eq!(tag, "\"7\"");
    }
}
