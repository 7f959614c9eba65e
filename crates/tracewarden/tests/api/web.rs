//! `/ui/`: the web application's files. The response to each kind of file is tested in the module that serves it, without a
//! build of the application.

use std::path::Path;

use reqwest::Method;

use crate::support::{Answer, Service};

/// Whether the program under test contains the application: it embeds the files that exist at compile time.
fn is_built() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist/index.html").exists()
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.bytes).unwrap()
}

/// Returns the path of the script that the page loads.
fn script(page: &Answer) -> String {
    let (_, from) = text(page).split_once("src=\"/ui/assets/").unwrap();
    format!("/ui/assets/{}", from.split('"').next().unwrap())
}

#[tokio::test]
async fn the_root_redirects_to_the_application() {
    let service = Service::start();
    for path in ["/", "/ui"] {
        let answer = service.anonymous().get(path).await.expect(308);
        assert_eq!(header(&answer, "location"), "/ui/", "{path}");
    }
}

#[tokio::test]
async fn paths_of_the_application_return_its_page() {
    let service = Service::start();
    let browser = service.anonymous().with("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for path in
        ["/ui/", "/ui/traces/0af7651916cd43dd8448eb211c80319c", "/ui/users/ada.lovelace?tab=keys", "/ui/%ff"]
    {
        let answer = browser.get(path).await;
        let policy = header(&answer, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}: {policy}");
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
        assert_eq!(header(&answer, "referrer-policy"), "no-referrer");
        assert_eq!(header(&answer, "x-frame-options"), "DENY");
        assert_eq!(header(&answer, "x-request-id").len(), 32);
        if is_built() {
            assert_eq!((answer.status, header(&answer, "content-type")), (200, "text/html; charset=utf-8"));
            assert_eq!(header(&answer, "cache-control"), "no-cache");
            assert!(text(&answer).starts_with("<!doctype html>"), "{path}");
        } else {
            assert_eq!((answer.status, header(&answer, "content-type")), (503, "text/plain; charset=utf-8"));
            assert!(text(&answer).contains("`cargo xtask web`"), "{path}");
        }
        let head = browser.send(Method::HEAD, path, None).await;
        assert_eq!((head.status, head.bytes.len()), (answer.status, 0));
        assert_eq!(header(&head, "etag"), header(&answer, "etag"));
    }
    // A missing file is not a view of the application.
    if is_built() {
        for path in ["/ui/assets/index.js", "/ui/assets/", "/ui/index.html.br"] {
            browser.get(path).await.problem(404, "not_found");
        }
    }
}

#[tokio::test]
async fn files_are_sent_as_they_are_stored() {
    let service = Service::start();
    let anonymous = service.anonymous();
    if !is_built() {
        return assert_eq!(anonymous.get("/ui/assets/index.js").await.status, 503);
    }
    let page = anonymous.get("/ui/").await.expect(200);
    let path = script(&page);
    let plain = anonymous.get(&path).await.expect(200);
    assert_eq!(header(&plain, "content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header(&plain, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header(&plain, "content-encoding"), "");
    assert_eq!(header(&plain, "vary"), "accept-encoding");
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    let name = path.strip_prefix("/ui/").unwrap();
    let mut tags = vec![header(&plain, "etag").to_owned()];
    for (accepted, encoding, suffix) in
        [("br, gzip, zstd", "br", ".br"), ("gzip, zstd", "gzip", ".gz"), ("zstd", "", "")]
    {
        let answer = anonymous.with("accept-encoding", accepted).get(&path).await.expect(200);
        assert_eq!(header(&answer, "content-encoding"), encoding);
        assert_eq!(header(&answer, "vary"), "accept-encoding");
        let stored = std::fs::read(dist.join(format!("{name}{suffix}"))).unwrap();
        assert!(answer.bytes == stored, "{accepted}: {} of {} bytes", answer.bytes.len(), stored.len());
        tags.push(header(&answer, "etag").to_owned());
    }
    assert_eq!(tags[0], tags[3]);
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 3);
    let not_modified =
        anonymous.with("if-none-match", header(&page, "etag")).get("/ui/traces").await.expect(304);
    assert!(not_modified.bytes.is_empty());
}

#[tokio::test]
async fn only_reads_of_the_application_are_allowed() {
    let service = Service::start();
    let anonymous = service.anonymous();
    for path in ["/", "/ui", "/ui/", "/ui/traces"] {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let answer = anonymous.send(method, path, None).await.problem(405, "method_not_allowed");
            assert_eq!(header(&answer, "allow"), "GET,HEAD");
        }
    }
    let document = anonymous.get("/openapi.json").await.expect(200).body;
    assert!(
        document["paths"].as_object().unwrap().keys().all(|path| path != "/" && !path.starts_with("/ui"))
    );
}
