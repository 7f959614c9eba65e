//! Invalid API keys and addresses with their error messages, and the destinations to which an API key is never sent.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio_rustls::TlsAcceptor;

use super::Workspace;
use crate::support::{Client, Service};

const FILE: &str = "{\"binding\": null, \"fields\": [], \"roles\": []}";

/// Every command that uses a service.
const COMMANDS: [&[&str]; 6] = [
    &["export"],
    &["plan", "access.json"],
    &["apply", "access.json", "--yes"],
    &["history"],
    &["history", "1"],
    &["restore", "1", "--yes"],
];

#[tokio::test]
async fn keys_without_administration_are_rejected_with_advice() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let scoped = json!({"name": "narrowed", "tools": ["svc_get_trace"]});
    let scoped = admin.post("/me/api-keys", scoped).await.expect(201).body;
    let workspaces = [
        (Workspace::for_caller(&service, &ada).await, "that is not scoped"),
        (Workspace::with_key(&service.base, scoped["token"].as_str().unwrap()), "that is not scoped"),
        (
            Workspace::with_key(&service.base, "twk_thisisnotakeyofanybody0000000000000000"),
            "rejected the API key",
        ),
    ];
    for (workspace, expected) in &workspaces {
        workspace.write("access.json", FILE);
        for command in COMMANDS {
            let refused = workspace.run(command).expect_error(2);
            assert!(refused.contains(expected), "{command:?}: {refused}");
            assert_eq!(refused.lines().count(), 1, "{refused}");
        }
    }
}

#[tokio::test]
async fn sources_of_the_api_key() {
    let service = Service::start();
    let admin = service.admin().await;
    let mut workspace = Workspace::for_caller(&service, &admin).await;
    let key = workspace.key.clone();
    workspace.write("key", &format!("{key}\n"));
    workspace.write("wrong", "twk_thisisnotakeyofanybody0000000000000000");
    workspace.write("empty", "\n");
    // The option takes precedence over the variable, and an empty variable counts as not set.
    workspace.run(&["export", "--api-key-file", "key"]).expect_output(0);
    workspace.run(&["export", "--api-key-file", "wrong"]).expect_error(2);
    let empty = workspace.run(&["export", "--api-key-file", "empty"]).expect_error(2);
    assert!(empty.contains("the key's file empty is empty"), "{empty}");
    let absent = workspace.run(&["export", "--api-key-file", "absent"]).expect_error(2);
    assert!(absent.contains("the key's file absent cannot be read: "), "{absent}");
    let set = |workspace: &mut Workspace, key: &str, file: &str| {
        let url = ("TRACEWARDEN_URL".to_owned(), service.base.clone());
        let key = ("TRACEWARDEN_API_KEY".to_owned(), key.to_owned());
        workspace.environment = vec![url, key, ("TRACEWARDEN_API_KEY_FILE".to_owned(), file.to_owned())];
    };
    set(&mut workspace, "", "key");
    workspace.run(&["export"]).expect_output(0);
    set(&mut workspace, &key, "key");
    let both = workspace.run(&["export"]).expect_error(2);
    assert!(both.contains("are both set; keep one"), "{both}");
    set(&mut workspace, "", "");
    let none = workspace.run(&["export"]).expect_error(2);
    assert!(none.contains("set `TRACEWARDEN_API_KEY` or `TRACEWARDEN_API_KEY_FILE`"), "{none}");
    set(&mut workspace, "a secret\nx: y", "");
    let wrong = workspace.run(&["export"]).expect_error(2);
    assert!(wrong.contains("a key begins with `twk_`") && !wrong.contains("secret"), "{wrong}");
    // The service accepts the command line's variables and does not take them for misspelt settings.
    let mut command = crate::support::program();
    command.arg("check-config").envs(workspace.environment.iter().map(|(name, value)| (name, value)));
    let checked = command.current_dir(workspace.directory.path()).output().unwrap();
    assert!(
        !String::from_utf8_lossy(&checked.stderr).contains("no such environment variable"),
        "{checked:?}"
    );
}

#[test]
fn the_address_is_encrypted_or_on_this_machine() {
    let workspace = Workspace::with_key("http://traces.example.com", "twk_unknown");
    let refused = workspace.run(&["export"]).expect_error(2);
    assert!(refused.contains("must be `https`"), "{refused}");
    let refused = workspace.run(&["export", "--url", "https://u:hunter2@traces.example.com"]).expect_error(2);
    assert!(!refused.contains("hunter2"), "{refused}");
    let workspace = Workspace::with_key("", "twk_unknown");
    let refused = workspace.run(&["export"]).expect_error(2);
    assert!(refused.contains("`--url` or `TRACEWARDEN_URL`"), "{refused}");
    // The discard port: no program listens on it.
    let refused = workspace.run(&["export", "--url", "http://127.0.0.1:9"]).expect_error(2);
    assert!(
        refused.contains("http://127.0.0.1:9 cannot be reached: ") && refused.contains("refused"),
        "{refused}"
    );
}

/// Starts a server that sends this answer on every connection and forwards the requests that it receives.
fn server(answer: String) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut request = vec![0; 64 * 1024];
            let read = connection.read(&mut request).unwrap_or_default();
            let _ = sender.send(String::from_utf8_lossy(&request[..read]).into_owned());
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    (base, received)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

#[test]
fn other_servers_are_recognised_and_get_no_key_by_a_redirect() {
    let run = |status: &str, headers: &str, body: &str| {
        let (base, _received) = server(answer(status, headers, body));
        let workspace = Workspace::with_key(&base, "twk_unknown");
        workspace.run(&["export"]).expect_error(2)
    };
    let (elsewhere, received) = server(answer("200 OK", "", "{}"));
    let moved = run("302 Found", &format!("location: {elsewhere}/schema/export\r\n"), "");
    assert!(moved.contains("redirects to another address (302)"), "{moved}");
    assert!(received.try_recv().is_err(), "the key was sent to the other address");
    let strange = run("502 Bad Gateway", "", "<html>");
    assert!(strange.contains("answered with 502, but not as Tracewarden does"), "{strange}");
    let older =
        run("404 Not Found", "", r#"{"code": "not_found", "title": "No such resource", "detail": "x"}"#);
    assert!(older.contains("is older than this program"), "{older}");
    let busy =
        r#"{"code": "unavailable", "title": "Temporarily unavailable", "detail": "the\u001b[2J store"}"#;
    let busy = run("503 Service Unavailable", "retry-after: 7\r\n", busy);
    assert!(busy.contains("the\u{fffd}[2J store (503); try again in 7 seconds"), "{busy}");
}

#[test]
fn a_lost_answer_leaves_the_outcome_of_the_change_open() {
    let plan =
        r#"{"version": 4, "changes": [{"kind": "role", "name": "a", "change": "added", "after": {}}]}"#;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let mut received = Vec::new();
        for (turn, connection) in listener.incoming().map_while(Result::ok).take(2).enumerate() {
            let mut connection = connection;
            let mut request = vec![0; 64 * 1024];
            let read = connection.read(&mut request).unwrap();
            received.push(String::from_utf8_lossy(&request[..read]).into_owned());
            if turn == 0 {
                connection.write_all(answer("200 OK", "", plan).as_bytes()).unwrap();
            }
        }
        received
    });
    let workspace = Workspace::with_key(&base, "twk_unknown");
    workspace.write("access.json", FILE);
    let lost = workspace.run(&["apply", "access.json", "--yes"]).expect_error(2);
    assert!(lost.contains("it is not known whether the change was made"), "{lost}");
    let received = served.join().unwrap();
    assert!(
        received[1].starts_with("PUT /schema/import ") && received[1].contains("if-match: \"4\""),
        "{}",
        received[1]
    );
}

/// Starts a TLS proxy in front of a service, with a certificate of a CA that no system trusts.
async fn with_tls_proxy(service: &Service) -> (String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let inner = service.base.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let Ok(mut outer) = acceptor.accept(connection).await else { continue };
            let mut inner = tokio::net::TcpStream::connect(&inner).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
        }
    });
    (format!("https://localhost:{port}"), authority.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_when_it_is_named() {
    let service = Service::start();
    let admin: Client = service.admin().await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    let (url, authority) = with_tls_proxy(&service).await;
    let refused = workspace.run(&["export", "--url", &url]).expect_error(2);
    assert!(refused.contains("cannot be reached: ") && refused.contains("certificate"), "{refused}");
    workspace.write("ca.pem", &authority);
    workspace.run(&["export", "--url", &url, "--ca-file", "ca.pem"]).expect_output(0);
    workspace.write("none.pem", "nothing");
    let none = workspace.run(&["export", "--url", &url, "--ca-file", "none.pem"]).expect_error(2);
    assert!(none.contains("the certificates of none.pem cannot be used"), "{none}");
}
