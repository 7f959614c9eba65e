//! `ETag` and `If-Match`: versions that prevent lost updates when two administrators edit at the same time.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::code::Code;
use crate::problem::Problem;

/// The condition in `If-Match`, if it was sent.
pub(crate) struct IfMatch(pub(crate) Option<tracewarden_service::IfMatch>);

impl IfMatch {
    /// Combines the header with the version in the body, if it has one: both must match.
    pub(crate) fn and(self, version: Option<u64>) -> Option<tracewarden_service::IfMatch> {
        use tracewarden_service::IfMatch::{AtVersion, Existing, Versions};
        match (self.0, version) {
            (header, None) => header,
            (None | Some(Existing | AtVersion { .. }), Some(version)) => Some(Versions(vec![version])),
            (Some(Versions(mut versions)), Some(version)) => {
                versions.retain(|known| *known == version);
                Some(Versions(versions))
            }
        }
    }

    /// Combines the header with the version of the whole access model in the body, if it has one: both must match.
    pub(crate) fn and_model(self, version: Option<u64>) -> Option<tracewarden_service::IfMatch> {
        use tracewarden_service::IfMatch::{AtVersion, Versions};
        let Some(version) = version else { return self.0 };
        let tags = match self.0 {
            Some(Versions(tags)) => Some(tags),
            _ => None,
        };
        Some(AtVersion { version, tags })
    }
}

/// Rejects a body that names another resource than the path does.
pub(crate) fn check_matches_path(member: &str, sent: Option<&str>, path: &str) -> Result<(), Problem> {
    match sent {
        Some(sent) if sent != path => {
            let detail = format!(
                "`{member}` is `{sent}`, and the path names `{path}`; send the same, or leave it out"
            );
            Err(Problem::member(Code::InvalidValue, format!("/{member}"), detail))
        }
        _ => Ok(()),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        if_match(&parts.headers).map(IfMatch)
    }
}

/// Parses `*`, or a list of entity tags (RFC 9110, 13.1.1), which may span several headers.
fn if_match(headers: &HeaderMap) -> Result<Option<tracewarden_service::IfMatch>, Problem> {
    let mut values = headers.get_all(header::IF_MATCH).iter().peekable();
    if values.peek().is_none() {
        return Ok(None);
    }
    let lines: Vec<&str> = values.map(|value| value.to_str().unwrap_or_default().trim()).collect();
    if lines == ["*"] {
        return Ok(Some(tracewarden_service::IfMatch::Existing));
    }
    // Tags of this service contain digits only, so every comma is a separator; pieces of foreign tags never form a valid tag.
    let versions: Vec<u64> = lines.iter().flat_map(|line| line.split(',')).filter_map(version).collect();
    if versions.is_empty() {
        let detail = "`If-Match` takes the `ETag` of an earlier answer, such as `\"7\"`, or `*`";
        return Err(Problem::new(Code::PreconditionFailed, detail));
    }
    Ok(Some(tracewarden_service::IfMatch::Versions(versions)))
}

/// Parses the version in a tag. A tag that this service never issued, weak tags included, cannot be the current one.
fn version(tag: &str) -> Option<u64> {
    let digits = tag.trim().strip_prefix('"')?.strip_suffix('"')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Returns the `ETag` of a version.
pub(crate) fn etag(version: u64) -> [(HeaderName, HeaderValue); 1] {
    // Quotes and digits are always a valid header value.
    let value = HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""));
    [(header::ETAG, value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_etags_match() {
        let read = |lines: &[&'static str]| {
            let value = |line: &&'static str| (header::IF_MATCH, HeaderValue::from_static(line));
            if_match(&lines.iter().map(value).collect())
        };
        let versions = |list: &[u64]| Some(tracewarden_service::IfMatch::Versions(list.to_vec()));
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["*"]).unwrap(), Some(tracewarden_service::IfMatch::Existing));
        assert_eq!(read(&["\"7\""]).unwrap(), versions(&[7]));
        assert_eq!(read(&["\"7\", \"8\""]).unwrap(), versions(&[7, 8]));
        assert_eq!(read(&["\"7\" ,, W/\"9\",\"x\"", "\"8\""]).unwrap(), versions(&[7, 8]));
        for wrong in [
            "7", "W/\"7\"", "\"*\"", "\"\"", "\"-1\"", "\"+1\"", "\"x\"", "", ",", "*, \"x\"", "\"7;8\"",
            "\"",
        ] {
            assert_eq!(read(&[wrong]).unwrap_err().code(), Code::PreconditionFailed, "{wrong}");
        }
        let both =
            |header: &'static str, version: Option<u64>| IfMatch(read(&[header]).unwrap()).and(version);
        assert_eq!(IfMatch(None).and(Some(7)), versions(&[7]));
        assert_eq!(
            (both("*", Some(7)), both("*", None)),
            (versions(&[7]), Some(tracewarden_service::IfMatch::Existing))
        );
        assert_eq!((both("\"7\", \"8\"", Some(8)), both("\"7\"", Some(8))), (versions(&[8]), versions(&[])));
        for (text, version) in
            [("7", Some(7)), ("7.0", Some(7)), ("-1", None), ("7.5", None), ("\"7\"", None)]
        {
            assert_eq!(crate::body::parse::<u64>(text.as_bytes()).ok(), version, "{text}");
        }
        let [(_, tag)] = etag(7);
        assert_eq!(tag, "\"7\"");
    }
}
