//! The web application: embedded files that are accessible to all clients. The data on its pages comes from the API, with the
//! rights of the signed-in user.

use std::borrow::Cow;

use axum::Extension;
use axum::body::Body;
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use rust_embed::Embed;

use crate::code::Code;
use crate::headers::WebAppResponse;
use crate::problem::Problem;

/// Path of the web application. Its build contains this path too.
pub(crate) const BASE: &str = "/ui/";

/// The page of all addresses: the application does its own routing.
const INDEX_PAGE: &str = "index.html";

/// Folder of files whose names contain a hash of their content.
const HASHED_ASSETS: &str = "assets/";

/// `Cache-Control` of files whose names contain a hash of their content.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";

/// `Cache-Control` of files with fixed names: clients revalidate them, and unchanged files get a short response.
const CACHE_REVALIDATE: &str = "no-cache";

/// Encodings in which files are stored, in order of preference, with the suffix of the file name.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

const NOT_BUILT: &str = "This binary was built without the web application; only the API is available.\n\
                         To include it, run `cargo xtask web` and build again.\n";

/// The output of `npm run build`; empty if it was not run before compilation.
#[derive(Embed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct EmbeddedFiles;

/// One file of the application.
struct File {
    bytes: Cow<'static, [u8]>,
    sha256: [u8; 32],
}

/// Finds a file by its path below [`BASE`].
type FileLookup = fn(&str) -> Option<File>;

fn embedded(path: &str) -> Option<File> {
    let file = EmbeddedFiles::get(path)?;
    Some(File { sha256: file.metadata.sha256_hash(), bytes: file.data })
}

/// Redirects to the application.
pub(crate) async fn redirect() -> Redirect {
    Redirect::permanent(BASE)
}

/// Returns a file, or the page if there is no such file.
pub(crate) async fn get(uri: Uri, headers: HeaderMap) -> Response {
    answer(embedded, uri.path().strip_prefix(BASE).unwrap_or_default(), &headers)
}

/// Returns the response. `path` is not percent-decoded: names of files contain no character that would be encoded.
fn answer(files: FileLookup, path: &str, headers: &HeaderMap) -> Response {
    if files(INDEX_PAGE).is_none() {
        let uncached = Extension(WebAppResponse { cache_control: "no-store" });
        return (StatusCode::SERVICE_UNAVAILABLE, uncached, NOT_BUILT).into_response();
    }
    // An encoded form of a file is not available under its own name.
    let stored = |name: &str| ENCODINGS.iter().any(|(_, suffix)| name.ends_with(suffix));
    // Users and roles may have names that look like files, so every path without a file is an address of the page.
    let (name, cache_policy) = match files(path) {
        _ if path.starts_with(HASHED_ASSETS) => (path, CACHE_FOREVER),
        Some(_) => (path, CACHE_REVALIDATE),
        None => (INDEX_PAGE, CACHE_REVALIDATE),
    };
    match files(name).filter(|_| !stored(name)) {
        Some(file) => serve(files, name, file, cache_policy, headers),
        None => Problem::new(Code::NotFound, "the web application has no such file").into_response(),
    }
}

fn serve(
    files: FileLookup,
    name: &str,
    plain: File,
    cache_policy: &'static str,
    headers: &HeaderMap,
) -> Response {
    let stored = ENCODINGS
        .iter()
        .filter_map(|(encoding, suffix)| files(&format!("{name}{suffix}")).map(|file| (*encoding, file)));
    let stored: Vec<(&'static str, File)> = stored.collect();
    let varies = !stored.is_empty();
    let chosen = stored.into_iter().find(|(encoding, _)| accepts_encoding(headers, encoding));
    let (encoding, file) = chosen.map_or((None, plain), |(encoding, file)| (Some(encoding), file));

    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(WebAppResponse { cache_control: cache_policy });
    let answer = response.headers_mut();
    if varies {
        answer.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    // The hash of the bytes that are sent, so that the encoded forms of a file have different tags.
    let etag = format!("\"{}\"", hex::encode(file.sha256.get(..16).unwrap_or_default()));
    if let Ok(value) = HeaderValue::from_str(&etag) {
        answer.insert(header::ETAG, value);
    }
    if matches_etag(headers, &etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    if let Some(encoding) = encoding {
        answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if let Ok(value) = HeaderValue::from_str(&content_type(name)) {
        answer.insert(header::CONTENT_TYPE, value);
    }
    *response.body_mut() = Body::from(match file.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    });
    response
}

fn content_type(name: &str) -> String {
    let kind = mime_guess::from_path(name).first_or_octet_stream();
    if kind.type_() == mime_guess::mime::TEXT { format!("{kind}; charset=utf-8") } else { kind.to_string() }
}

/// Whether `Accept-Encoding` permits the encoding (RFC 9110, 12.5.3).
pub(crate) fn accepts_encoding(headers: &HeaderMap, encoding: &str) -> bool {
    let weight = |wanted: &str| {
        list(headers, header::ACCEPT_ENCODING).find_map(|item| {
            let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=');
            name.trim().eq_ignore_ascii_case(wanted).then(|| weight.parse::<f32>().unwrap_or_default())
        })
    };
    weight(encoding).or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

/// Whether `If-None-Match` contains the tag (RFC 9110, 13.1.2), by weak comparison.
pub(crate) fn matches_etag(headers: &HeaderMap, etag: &str) -> bool {
    list(headers, header::IF_NONE_MATCH).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

/// Returns the items of a header, which may span several lines.
fn list(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const SCRIPT: &str = "assets/index-abc123.js";

    fn test_files(path: &str) -> Option<File> {
        let (bytes, first): (&'static [u8], u8) = match path {
            INDEX_PAGE => (b"<!doctype html>", 1),
            "index.html.br" => (b"page in brotli", 2),
            "favicon.svg" => (b"<svg/>", 3),
            SCRIPT => (b"let a = 1;", 4),
            "assets/index-abc123.js.br" => (b"script in brotli", 5),
            "assets/index-abc123.js.gz" => (b"script in gzip", 6),
            _ => return None,
        };
        Some(File { bytes: Cow::Borrowed(bytes), sha256: [first; 32] })
    }

    struct TestResponse {
        status: u16,
        headers: HeaderMap,
        body: String,
    }

    impl TestResponse {
        fn header(&self, name: header::HeaderName) -> &str {
            self.headers.get(name).map_or("", |value| value.to_str().unwrap())
        }
    }

    /// Sends a request and adds the headers that the middleware around all routes sets.
    async fn fetch_from(
        files: FileLookup,
        path: &str,
        headers: &[(header::HeaderName, &'static str)],
    ) -> TestResponse {
        let headers =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let mut response = answer(files, path, &headers);
        crate::headers::add_security_headers(&mut response, false);
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        TestResponse { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn fetch(path: &str, headers: &[(header::HeaderName, &'static str)]) -> TestResponse {
        fetch_from(test_files, path, headers).await
    }

    #[tokio::test]
    async fn every_route_of_the_application_serves_the_page() {
        for path in ["", "login", "traces/0af7", "users/ada.lovelace", "roles/team.json", "a/b.css", "assets"]
        {
            let answer = fetch(path, &[]).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, "<!doctype html>"), "{path}");
            assert_eq!(answer.header(header::CONTENT_TYPE), "text/html; charset=utf-8");
            assert_eq!(answer.header(header::CACHE_CONTROL), "no-cache");
        }
        assert_eq!(fetch("index.html", &[]).await.body, "<!doctype html>");
    }

    #[tokio::test]
    async fn files_with_a_hash_in_their_name_are_immutable() {
        let script = fetch(SCRIPT, &[]).await;
        assert_eq!((script.status, script.body.as_str()), (200, "let a = 1;"));
        assert_eq!(script.header(header::CACHE_CONTROL), "public, max-age=31536000, immutable");
        assert_eq!(script.header(header::CONTENT_TYPE), "text/javascript; charset=utf-8");
        let icon = fetch("favicon.svg", &[]).await;
        assert_eq!(icon.header(header::CACHE_CONTROL), "no-cache");
        assert_eq!(icon.header(header::CONTENT_TYPE), "image/svg+xml");
        assert!(!icon.headers.contains_key(header::VARY));
    }

    #[tokio::test]
    async fn missing_files_are_not_answered_with_the_page() {
        for path in [
            "assets/index-old.js",
            "assets/",
            "assets/view",
            "assets/../index.html",
            "assets/index-abc123.js.br",
            "index.html.br",
        ] {
            let answer = fetch(path, &[]).await;
            assert_eq!((answer.status, answer.body.as_str()), (404, ""), "{path}");
            assert_eq!(answer.header(header::CACHE_CONTROL), "no-store", "{path}");
        }
    }

    #[tokio::test]
    async fn the_served_encoding_is_accepted_by_the_client() {
        for (accepted, encoding, body) in [
            ("br, gzip, zstd", "br", "script in brotli"),
            ("gzip, deflate", "gzip", "script in gzip"),
            ("gzip;q=1.0, BR;q=0.5", "br", "script in brotli"),
            ("br;q=0, *", "gzip", "script in gzip"),
            ("br; q=0, gzip;q=0", "", "let a = 1;"),
            ("zstd", "", "let a = 1;"),
            ("*", "br", "script in brotli"),
            ("", "", "let a = 1;"),
        ] {
            let answer = fetch(SCRIPT, &[(header::ACCEPT_ENCODING, accepted)]).await;
            assert_eq!(answer.header(header::CONTENT_ENCODING), encoding, "{accepted}");
            assert_eq!(answer.body, body, "{accepted}");
            assert_eq!(answer.header(header::CONTENT_TYPE), "text/javascript; charset=utf-8");
            assert_eq!(answer.header(header::VARY), "accept-encoding");
        }
        let page = fetch("", &[(header::ACCEPT_ENCODING, "gzip")]).await;
        assert_eq!((page.header(header::CONTENT_ENCODING), page.body.as_str()), ("", "<!doctype html>"));
        assert_eq!(page.header(header::VARY), "accept-encoding");
    }

    #[tokio::test]
    async fn cached_files_are_not_sent_again() {
        let etag = "\"01010101010101010101010101010101\"";
        assert_eq!(fetch("", &[]).await.header(header::ETAG), etag);
        for held in [etag, "\"x\", W/\"01010101010101010101010101010101\"", "*"] {
            let answer = fetch("traces", &[(header::IF_NONE_MATCH, held)]).await;
            assert_eq!((answer.status, answer.body.as_str()), (304, ""), "{held}");
            assert_eq!(answer.header(header::ETAG), etag);
            assert_eq!(answer.header(header::VARY), "accept-encoding");
            assert_eq!(answer.header(header::CACHE_CONTROL), "no-cache");
        }
        // Another encoding is another representation.
        let other = [(header::IF_NONE_MATCH, etag), (header::ACCEPT_ENCODING, "br")];
        assert_eq!(fetch("", &other).await.status, 200);
    }

    #[tokio::test]
    async fn only_scripts_of_the_application_are_allowed() {
        let policy = |answer: TestResponse| answer.header(header::CONTENT_SECURITY_POLICY).to_owned();
        for path in ["", SCRIPT] {
            let policy = policy(fetch(path, &[]).await);
            assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src"), "{policy}");
            assert!(policy.contains("; connect-src 'self'; ") && !policy.contains("  "), "{policy}");
        }
        assert!(policy(fetch("assets/none.js", &[]).await).ends_with("; sandbox"));
    }

    #[tokio::test]
    async fn a_binary_without_the_application_says_how_to_build_it() {
        for path in ["", "traces", SCRIPT] {
            let answer = fetch_from(|_| None, path, &[]).await;
            assert_eq!(answer.status, 503, "{path}");
            assert!(answer.body.contains("cargo xtask web"), "{}", answer.body);
            assert_eq!(answer.header(header::CONTENT_TYPE), "text/plain; charset=utf-8");
            assert_eq!(answer.header(header::CACHE_CONTROL), "no-store");
        }
    }
}
