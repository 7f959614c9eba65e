//! An identity provider on this machine, for the demo and the browser tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::api::Client;
use super::processes::ManagedProcess;
use super::secret;
use crate::npm;

/// Directory of the provider in the repository.
pub const PROGRAM: &str = "proof/testkit/identity-provider";
/// Name of the provider in the configuration of the service.
pub const NAME: &str = "company";
/// Text of its button on the sign-in page.
pub const LABEL: &str = "Company account";
/// Setting of the service with the file of providers.
const SETTING: &str = "TRACEWARDEN_IDENTITY_PROVIDERS";

/// A certified OpenID Connect provider, in its own process.
pub struct IdentityProvider {
    running: ManagedProcess,
    /// Issuer identifier, which is also its address.
    pub issuer: String,
    /// Credential for requests that change the provider.
    pub control_token: String,
    client_secret: String,
    settings_file: PathBuf,
}

impl IdentityProvider {
    /// Starts the provider with its log and the settings for the service in `directory`. `users` has an object with `password`
    /// and `claims` for each login.
    pub fn start(directory: &Path, users: &Value) -> Result<Self> {
        let program = npm::ensure_packages(PROGRAM)?;
        let (control_token, client_secret) = (secret::password()?, secret::password()?);
        let mut command = Command::new("node");
        command.arg(program.join("provider.mjs"));
        let mut running = ManagedProcess::start("identity-provider", &mut command, directory)?;
        running
            .send_line(&json!({"clients": [], "users": users, "control_token": control_token}).to_string())?;
        let issuer = running.wait_for_line("listening ")?;
        let (secret_file, settings_file) =
            (directory.join("client-secret"), directory.join("providers.toml"));
        let secret_path = secret_file.display();
        let settings = format!(
            "[{NAME}]\nlabel = \"{LABEL}\"\nissuer = \"{issuer}\"\nclient_id = \"tracewarden\"\n\
             client_secret_file = \"{secret_path}\"\n\n[{NAME}.access_tokens]\n"
        );
        secret::write(&secret_file, &client_secret)?;
        fs::write(&settings_file, settings)
            .with_context(|| format!("cannot write `{}`", settings_file.display()))?;
        Ok(Self { running, issuer, control_token, client_secret, settings_file })
    }

    /// Returns the settings of a service that trusts the provider.
    pub fn settings(&self) -> [(&'static str, String); 1] {
        [(SETTING, self.settings_file.display().to_string())]
    }

    /// Makes the service at this URL a client of the provider, and a resource for which it issues access tokens.
    pub fn register(&mut self, base: &str) -> Result<()> {
        let clients = json!([{
            "client_id": "tracewarden",
            "client_secret": self.client_secret,
            "redirect_uris": [format!("{base}/login/{NAME}/callback")],
            "post_logout_redirect_uris": [format!("{base}/ui/login")],
            "backchannel_logout_uri": format!("{base}/logout/backchannel/{NAME}"),
            "backchannel_logout_session_required": true,
        }]);
        let anonymous = Client::anonymous(base);
        let mut resources = Map::new();
        for path in ["", "/mcp"] {
            let metadata = anonymous.get(&format!("/.well-known/oauth-protected-resource{path}"))?;
            let resource = metadata.get("resource").and_then(Value::as_str).context("no `resource`")?;
            resources
                .insert(resource.to_owned(), metadata.get("scopes_supported").cloned().unwrap_or_default());
        }
        self.running.send_line(&json!({ "clients": clients, "resources": resources }).to_string())?;
        self.running.wait_for_line("configured").map(drop)
    }

    /// Returns an error with the end of the log if it has exited.
    pub fn check(&mut self) -> Result<()> {
        self.running.check()
    }

    /// Stops it. Returns an error if it did not exit cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.running.stop()
    }
}
