//! `ETag` and `If-Match`: a version, so that two administrators do not overwrite each other unseen.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::code::Code;
use crate::problem::Problem;

/// What `If-Match` demands, if it was sent.
pub(crate) struct IfMatch(pub(crate) Option<tracewarden_service::IfMatch>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        if_match(&parts.headers).map(IfMatch)
    }
}

fn if_match(headers: &HeaderMap) -> Result<Option<tracewarden_service::IfMatch>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().map(str::trim).unwrap_or_default();
    if text == "*" {
        return Ok(Some(tracewarden_service::IfMatch::Existing));
    }
    let tag = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    // A tag that we never gave out, a weak one included, cannot be the current one.
    match tag.and_then(|tag| tag.parse().ok()) {
        Some(version) => Ok(Some(tracewarden_service::IfMatch::Version(version))),
        None => {
            let detail = "`If-Match` takes the `ETag` of an earlier answer, such as `\"7\"`, or `*`";
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
        assert_eq!(read("\"7\"").unwrap(), Some(tracewarden_service::IfMatch::Version(7)));
        assert_eq!(read("*").unwrap(), Some(tracewarden_service::IfMatch::Existing));
        for wrong in ["7", "W/\"7\"", "\"*\"", "\"7\", \"8\"", "\"\"", "\"-1\"", "\"x\""] {
            assert_eq!(read(wrong).unwrap_err().code(), Code::PreconditionFailed, "{wrong}");
        }
        let [(_, tag)] = etag(7);
        assert_eq!(tag, "\"7\"");
    }
}
