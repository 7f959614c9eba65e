//! A real identity provider, and a browser that signs in with it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_service::Tool;
use tracewarden_testkit::node::prepared_node;

use super::{Client, Service, secrets};

/// Name of the provider in the configuration of services.
pub const PROVIDER: &str = "company";

/// Secret of the client at the provider.
const CLIENT_SECRET: &str = "a secret that only the two know";

/// A program of a person, which is a public client of the provider.
pub const PROGRAM: &str = "program";
const PROGRAM_REDIRECT_URI: &str = "http://127.0.0.1:9/callback";
/// 43 characters, the minimum.
const CODE_VERIFIER: &str = "a-code-verifier-for-tests-of-a-program-____";
/// SHA-256 of the verifier.
const CODE_CHALLENGE: &str = "gAgG_L8H3qlNXW3s1RKVtF877uJf8lHMiV-scA-H73I";
/// Further settings of a provider whose access tokens are accepted.
pub const ACCEPT_TOKENS: &str = "[company.access_tokens]\n";

/// Credential for requests that change the provider.
const CONTROL_TOKEN: &str = "only for tests";

/// Password of every user at the provider.
pub const PASSWORD: &str = "password at the provider";

/// Returns a file of settings with a provider that is not there, in this directory.
pub fn absent_provider(directory: &Path) -> String {
    let path = directory.join("providers.toml");
    std::fs::write(&path, "[company]\nissuer = \"http://127.0.0.1:9\"\nclient_id = \"tracewarden\"\n")
        .unwrap();
    path.display().to_string()
}

/// Standard input and output of the provider.
struct Console {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Console {
    fn send(&mut self, configuration: &Value) {
        writeln!(self.input, "{configuration}").unwrap();
    }

    /// Returns the rest of the next line with this beginning.
    fn wait_for(&mut self, beginning: &str) -> String {
        let mut lines = self.output.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix(beginning).map(str::to_owned)).unwrap()
    }
}

/// `proof/testkit/identity-provider` in its own process, which ends with this value or with this process.
pub struct IdentityProvider {
    child: Child,
    console: Mutex<Console>,
    /// Issuer identifier, which is also its address.
    pub issuer: String,
    /// Configuration for services.
    directory: tempfile::TempDir,
}

impl IdentityProvider {
    /// Starts a provider without users.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.path().join("certificate.pem"), pair.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
        let program = program_directory();
        let mut child = Command::new(prepared_node(&program).unwrap())
            .arg(program.join("provider.mjs"))
            .env("NODE_EXTRA_CA_CERTS", directory.path().join("certificate.pem"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut console = Console {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
        };
        console.send(&json!({"clients": [], "control_token": CONTROL_TOKEN}));
        let issuer = console.wait_for("listening ");
        secrets::keep(CLIENT_SECRET);
        secrets::keep(PASSWORD);
        Self { child, console: Mutex::new(console), issuer, directory }
    }

    /// Returns the file of settings with this provider, to which `more` lines are added.
    pub fn settings_file(&self, more: &str) -> String {
        let path = self.path("providers.toml");
        std::fs::write(&path, format!("{}label = \"Company account\"\n{more}", self.settings(PROVIDER)))
            .unwrap();
        path
    }

    /// Returns the settings of this provider under a name, with its client's secret.
    pub fn settings(&self, name: &str) -> String {
        let secret = self.path("secret");
        std::fs::write(&secret, CLIENT_SECRET).unwrap();
        format!(
            "[{name}]\nissuer = \"{}\"\nclient_id = \"tracewarden\"\nclient_secret_file = \"{secret}\"\n",
            self.issuer
        )
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Registers a service as client of the provider under its names in the configuration.
    pub fn register(&self, base: &str, names: &[&str]) {
        let redirect_uris: Vec<String> =
            names.iter().map(|name| format!("{base}/login/{name}/callback")).collect();
        let clients = json!([{
            "client_id": "tracewarden",
            "client_secret": CLIENT_SECRET,
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "post_logout_redirect_uris": [format!("{base}/ui/login")],
            "backchannel_logout_uri": format!("{base}/logout/backchannel/{PROVIDER}"),
            "backchannel_logout_session_required": true,
        }]);
        let mut clients = clients.as_array().unwrap().clone();
        clients.push(json!({
            "client_id": PROGRAM,
            "redirect_uris": [PROGRAM_REDIRECT_URI],
            "token_endpoint_auth_method": "none",
        }));
        let tools = Tool::ALL.map(Tool::name);
        let resources = json!({format!("{base}/mcp"): tools, format!("{base}/"): tools});
        let mut console = self.console.lock().unwrap();
        console.send(&json!({ "clients": clients, "resources": resources }));
        console.wait_for("configured");
    }

    /// Makes the provider issue access tokens that only it can read.
    pub fn issue_opaque_tokens(&self) {
        let mut console = self.console.lock().unwrap();
        console.send(&json!({"access_token_format": "opaque"}));
        console.wait_for("configured");
    }

    /// Returns an access token for a resource, which a program gets after a person has signed in to the provider in a browser.
    pub async fn access_token(&self, login: &str, resource: &str, scopes: &str) -> String {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("client_id", PROGRAM),
                ("response_type", "code"),
                ("redirect_uri", PROGRAM_REDIRECT_URI),
                ("scope", scopes),
                ("resource", resource),
                ("code_challenge", CODE_CHALLENGE),
                ("code_challenge_method", "S256"),
            ])
            .finish();
        let begin = format!("{}/auth?{query}", self.issuer);
        let answer = Browser::default().follow(&begin, PROGRAM_REDIRECT_URI, login).await;
        let answer = reqwest::Url::parse(&answer).unwrap();
        let code =
            answer.query_pairs().find(|(name, _)| name == "code").unwrap_or_else(|| panic!("{answer}")).1;
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("client_id", PROGRAM),
                ("grant_type", "authorization_code"),
                ("redirect_uri", PROGRAM_REDIRECT_URI),
                ("code", &code),
                ("resource", resource),
                ("code_verifier", CODE_VERIFIER),
            ])
            .finish();
        let request = Client::new(&self.issuer).request(Method::POST, "/token").body(body);
        let response =
            request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        let token = answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}"));
        secrets::keep(token);
        token.to_owned()
    }

    /// Creates or replaces a user.
    pub async fn put_user(&self, login: &str, claims: Value) {
        let user = json!({"password": PASSWORD, "claims": claims});
        self.control(&format!("user?login={login}"), user.to_string()).await;
    }

    /// Disables a user, who can no longer sign in.
    pub async fn disable_user(&self, login: &str) {
        let user = json!({"password": PASSWORD, "disabled": true});
        self.control(&format!("user?login={login}"), user.to_string()).await;
    }

    /// Returns how many refresh tokens the provider has accepted.
    pub async fn refreshes(&self) -> u64 {
        let request = Client::new(&self.issuer).request(Method::GET, "/control/refreshes");
        request.bearer_auth(CONTROL_TOKEN).send().await.unwrap().text().await.unwrap().parse().unwrap()
    }

    /// Replaces the keys of the provider.
    pub async fn rotate_keys(&self) {
        self.control("rotate-keys", String::new()).await;
    }

    /// Sends a back-channel logout of one session, or of all of a person. Returns whether the service accepted it.
    pub async fn log_out(&self, login: &str, session: Option<&str>) -> bool {
        let session = session.map(|session| format!("&session={session}")).unwrap_or_default();
        self.try_control(&format!("logout?login={login}&client=tracewarden{session}"), String::new()).await
    }

    async fn control(&self, action: &str, body: String) {
        assert!(self.try_control(action, body).await, "{action}");
    }

    async fn try_control(&self, action: &str, body: String) -> bool {
        let request = Client::new(&self.issuer).request(Method::POST, &format!("/control/{action}"));
        let response = request.bearer_auth(CONTROL_TOKEN).body(body).send().await.unwrap();
        let is_success = response.status().is_success();
        println!("{action}: {}", response.text().await.unwrap());
        is_success
    }

    /// Ends the provider: its port is closed.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The directory for files of the test.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/testkit/identity-provider")
}

/// Server of a client's metadata document, whose certificate one provider trusts. It ends with this value.
pub struct MetadataDocument {
    child: Child,
    /// Address of the document, which is the client's id.
    pub url: String,
}

impl MetadataDocument {
    /// Serves the document of a program that people run on their machines.
    pub fn serve(provider: &IdentityProvider) -> Self {
        let program = program_directory();
        let mut child = Command::new(prepared_node(&program).unwrap())
            .arg(program.join("metadata-document.mjs"))
            .args([provider.path("certificate.pem"), provider.path("key.pem")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.strip_prefix("listening ").map(str::to_owned)).unwrap();
        Self { child, url }
    }
}

impl Drop for MetadataDocument {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser: it keeps cookies for each address, and follows redirects one by one.
#[derive(Default)]
pub struct Browser {
    cookies: BTreeMap<String, BTreeMap<String, String>>,
}

/// A response to a page of the browser.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    /// Address of the redirect, as an absolute URL.
    pub location: Option<String>,
    pub text: String,
    pub headers: reqwest::header::HeaderMap,
}

impl Browser {
    /// Opens an address, without following a redirect.
    pub async fn open(&mut self, url: &str) -> Page {
        self.send(Method::GET, url, None).await
    }

    pub async fn send(&mut self, method: Method, url: &str, form: Option<&[(&str, &str)]>) -> Page {
        let url = reqwest::Url::parse(url).unwrap();
        let origin = url.origin().ascii_serialization();
        let path = &url[url::Position::BeforePath..];
        let mut request = Client::new(&origin).request(method, path).header("accept", "text/html,*/*;q=0.8");
        let jar = self.cookies.entry(origin.clone()).or_default();
        if !jar.is_empty() {
            let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header("cookie", cookies.join("; "));
        }
        if let Some(form) = form {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
            request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        }
        let response = request.send().await.unwrap();
        for cookie in response.headers().get_all("set-cookie") {
            let (pair, attributes) = cookie.to_str().unwrap().split_once(';').unwrap_or_default();
            let (name, value) = pair.split_once('=').unwrap();
            if value.is_empty() || attributes.contains("Max-Age=0") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let location = headers.get("location").map(|to| url.join(to.to_str().unwrap()).unwrap().to_string());
        Page { status, location, text: response.text().await.unwrap(), headers }
    }

    /// Begins a sign-in at the service and signs in at the provider; returns the address at the service to which the provider
    /// redirects. A browser that is signed in there already is not asked again.
    pub async fn sign_in_at_provider(&mut self, service: &str, login: &str) -> String {
        self.begin(&format!("{service}/login/{PROVIDER}"), login).await
    }

    /// The same from any address at the service.
    pub async fn begin(&mut self, begin: &str, login: &str) -> String {
        let service = reqwest::Url::parse(begin).unwrap().origin().ascii_serialization();
        self.follow(begin, &service, login).await
    }

    /// Opens an address and signs in at the provider; returns the address with this beginning to which the provider redirects.
    pub async fn follow(&mut self, begin: &str, end: &str, login: &str) -> String {
        let mut page = self.open(begin).await;
        for _ in 0..10 {
            let Some(location) = page.location.clone() else { panic!("no redirect: {page:?}") };
            if location.starts_with(end) {
                return location;
            }
            page = self.open(&location).await;
            if location.contains("/interaction/") {
                let form = [("login", login), ("password", PASSWORD)];
                page = self.send(Method::POST, &location, Some(&form)).await;
            }
        }
        panic!("no end of the sign-in: {page:?}")
    }

    /// Signs in and returns a client with the session.
    pub async fn sign_in(&mut self, service: &Service, login: &str) -> Client {
        let callback = self.sign_in_at_provider(&service.base, login).await;
        let page = self.open(&callback).await;
        self.client(service).unwrap_or_else(|| panic!("not signed in: {page:?}"))
    }

    /// Tries to sign in; returns the reason that the sign-in page is given.
    pub async fn fail_to_sign_in(&mut self, service: &Service, login: &str) -> String {
        let callback = self.sign_in_at_provider(&service.base, login).await;
        self.failure_at(&callback).await
    }

    /// Opens the address of a callback; returns the reason that the sign-in page is given.
    pub async fn failure_at(&mut self, callback: &str) -> String {
        let page = self.open(callback).await;
        let location = page.location.clone().unwrap_or_else(|| panic!("no redirect: {page:?}"));
        let query = location.split_once("/ui/login?failed=").unwrap_or_else(|| panic!("{page:?}")).1;
        query.split('&').next().unwrap().to_owned()
    }

    /// Returns a client with the session in the browser, if there is one.
    pub fn client(&self, service: &Service) -> Option<Client> {
        let token = self.cookies.get(&service.base)?.get("tracewarden")?;
        secrets::keep(token);
        Some(service.anonymous().with("cookie", &format!("tracewarden={token}")))
    }

    /// The cookies for an address.
    pub fn cookies(&mut self, base: &str) -> &mut BTreeMap<String, String> {
        self.cookies.entry(base.to_owned()).or_default()
    }
}
