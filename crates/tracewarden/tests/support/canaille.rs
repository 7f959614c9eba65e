//! A second identity provider, of another make and in another language than [`super::identity`]'s: Canaille, with SQLite.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use tracewarden_testkit::python::prepared_python;

use super::identity::{Browser, PASSWORD, PROVIDER};
use super::secrets;

const CLIENT_SECRET: &str = "another-secret-that-only-the-two-know";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Canaille in its own process, which ends with this value.
pub struct Canaille {
    directory: tempfile::TempDir,
    program: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Canaille {
    /// Prepares a provider with one user, in one group.
    pub fn new(user: &str, group: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = prepared_python().unwrap().with_file_name("canaille");
        // Free until the provider listens on it, unless another process takes it meanwhile.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let provider = Self { directory, program, port, server: None };
        let configuration = format!(
            "SECRET_KEY = \"only for tests\"\nSERVER_NAME = \"127.0.0.1:{port}\"\nPREFERRED_URL_SCHEME = \"http\"\n\
             [CANAILLE]\nDATABASE = \"sql\"\n[CANAILLE_SQL]\nDATABASE_URI = \"sqlite:///{}\"\n[CANAILLE_OIDC]\n",
            provider.directory.path().join("canaille.db").display()
        );
        let file = provider.directory.path().join("canaille.toml");
        std::fs::write(&file, &configuration).unwrap();
        let key: Value = serde_json::from_str(&provider.run(&["jwk", "create", "rsa"])).unwrap();
        let members = key.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
        let members: Vec<String> = members.map(|(name, value)| format!("{name} = {value}")).collect();
        std::fs::write(&file, format!("{configuration}ACTIVE_JWKS = [{{{}}}]\n", members.join(", ")))
            .unwrap();
        provider.run(&["install"]);
        let address = format!("{user}@example.com");
        let names = ["--family-name", "Example", "--given-name", "Ada", "--emails", &address];
        provider
            .run(&[&["create", "user", "--user-name", user, "--password", PASSWORD], &names[..]].concat());
        provider.run(&["create", "group", "--display-name", group, "--members", user]);
        secrets::keep(CLIENT_SECRET);
        provider
    }

    /// Runs a command of its administrator, and returns what it prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.command();
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.directory.path())
            .env("CANAILLE_CONFIG", self.directory.path().join("canaille.toml"))
            // It refuses tokens over plain HTTP otherwise, also on a loopback address.
            .env("AUTHLIB_INSECURE_TRANSPORT", "1");
        command
    }

    /// Returns the file of settings of a service, to which `more` lines are added.
    pub fn settings_file(&self, more: &str) -> String {
        let (secret, file) =
            (self.directory.path().join("secret"), self.directory.path().join("providers.toml"));
        std::fs::write(&secret, CLIENT_SECRET).unwrap();
        let settings = format!(
            "[{PROVIDER}]\nissuer = \"http://127.0.0.1:{}\"\nclient_id = \"tracewarden\"\nclient_secret_file = \"{}\"\n{more}",
            self.port,
            secret.display()
        );
        std::fs::write(&file, settings).unwrap();
        file.display().to_string()
    }

    /// Registers a service as client, and starts the provider.
    pub async fn start(&mut self, base: &str) {
        let redirect_uri = format!("{base}/login/{PROVIDER}/callback");
        let client =
            ["--client-id", "tracewarden", "--client-secret", CLIENT_SECRET, "--client-name", "Traces"];
        let grants = ["--grant-types", "authorization_code", "--grant-types", "refresh_token"];
        let scopes = ["--scope", "openid", "--scope", "profile", "--scope", "groups"];
        let rest = ["--response-types", "code", "--token-endpoint-auth-method", "client_secret_basic"];
        let redirect = ["--redirect-uris", redirect_uri.as_str()];
        self.run(&[&["create", "client"], &client[..], &grants, &scopes, &rest, &redirect].concat());
        // Without it, ID tokens have no audience.
        self.run(&["set", "client", "tracewarden", "--audience", "tracewarden"]);
        let bind = format!("127.0.0.1:{}", self.port);
        let mut command = self.command();
        command.args(["run", "--bind", &bind]).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(command.spawn().unwrap());
        let end = Instant::now() + START_TIMEOUT;
        while std::net::TcpStream::connect(&bind).is_err() {
            assert!(Instant::now() < end, "the provider does not listen");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Opens an address of the service and signs in at the provider; returns the address at the service to which it redirects.
    pub async fn sign_in(&self, browser: &mut Browser, begin: &str, service: &str, login: &str) -> String {
        let mut url = begin.to_owned();
        for _ in 0..20 {
            let page = browser.open(&url).await;
            let to = match page.location {
                Some(location) => location,
                None => {
                    let token = page.text.split("name=\"csrf_token\" value=\"").nth(1);
                    let token =
                        token.unwrap_or_else(|| panic!("{url}: {}", page.text)).split('"').next().unwrap();
                    let form = [
                        ("csrf_token", token),
                        ("login", login),
                        ("password", PASSWORD),
                        ("answer", "accept"),
                    ];
                    let answer = browser.send(Method::POST, &url, Some(&form)).await;
                    answer.location.unwrap_or_else(|| panic!("{url}: {}", answer.text))
                }
            };
            if to.starts_with(service) {
                return to;
            }
            url = to;
        }
        panic!("no end of the sign-in: {url}")
    }
}

impl Drop for Canaille {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
