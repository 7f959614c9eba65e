//! The demo's company: an identity provider, and a person whose group there is mapped to a role here.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use ureq::Agent;

use super::demo_users::{AGENT_OWNER, DEMO_USERS, DemoUser, PAYMENTS_ON_CALL};
use crate::stack::api::Client;
use crate::stack::identity_provider::{IdentityProvider, NAME};
use crate::stack::secret;

/// The person. What they may see is what the colleague [`AGENT_OWNER`] may see, who has a password here.
pub const PERSON: &str = "petra";
/// Their group at the provider.
pub const GROUP: &str = "/payments/on-call";

/// A running provider.
pub struct Company {
    provider: IdentityProvider,
    /// The person's password at the provider.
    pub password: String,
}

impl Company {
    pub fn start(directory: &Path) -> Result<Self> {
        let password = secret::password()?;
        let claims = json!({"groups": [GROUP], "department": "payments"});
        let users = json!({(PERSON): {"password": password, "claims": claims}});
        Ok(Self { provider: IdentityProvider::start(directory, &users)?, password })
    }

    /// Returns the settings of a service that trusts the provider.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.provider.settings().into()
    }

    /// Makes the service a client of the provider, and maps the claims of its people.
    pub fn set_up(&mut self, base: &str, administrator: &Client) -> Result<()> {
        self.provider.register(base)?;
        let mapping = json!({
            "roles": [{"role": PAYMENTS_ON_CALL.name, "when": format!("\"{GROUP}\" in claims.groups")}],
            "attributes": {"team": "claims.department"},
        });
        let path = format!("/identity/providers/{NAME}/mapping");
        administrator.call("PUT", &path, Some(&mapping)).map(drop)
    }

    /// Returns the issuer identifier.
    pub fn issuer(&self) -> &str {
        &self.provider.issuer
    }

    /// Returns the demo's user who may see the same as the person.
    pub fn colleague() -> Option<(usize, &'static DemoUser)> {
        DEMO_USERS.iter().enumerate().find(|(_, demo_user)| demo_user.username == AGENT_OWNER)
    }

    /// Signs the person in as a browser does.
    pub fn sign_in(&self, base: &str, anonymous: &Client) -> Result<Client> {
        let mut browser = Browser::default();
        let form = browser.follow(format!("{base}/login/{NAME}"))?;
        ensure!(form.starts_with(self.issuer()), "the sign-in begins at {form}");
        let fields = [("login", PERSON), ("password", self.password.as_str())];
        let next =
            browser.send(&form, Some(&fields))?.with_context(|| format!("{form} refused the password"))?;
        let page = browser.follow(next)?;
        ensure!(page == format!("{base}/ui/"), "the sign-in ended at {page}");
        let session = browser.cookies.get("tracewarden").context("the sign-in gave no session")?;
        Ok(anonymous.with_cookie(&format!("tracewarden={session}")))
    }

    /// Returns an error with the end of the log if the provider has exited.
    pub fn check(&mut self) -> Result<()> {
        self.provider.check()
    }

    /// Stops the provider. Returns an error if it did not exit cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.provider.stop()
    }
}

/// Follows redirects and keeps cookies. All servers are on this machine, so that each may get all cookies.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Opens an address and follows redirects. Returns the address of the page.
    fn follow(&mut self, mut address: String) -> Result<String> {
        for _ in 0..10 {
            match self.send(&address, None)? {
                Some(next) => address = next,
                None => return Ok(address),
            }
        }
        bail!("too many redirects, at last to {address}")
    }

    /// Sends a request, with `POST` if there is a form. Returns the address that it is redirected to.
    fn send(&mut self, address: &str, form: Option<&[(&str, &str)]>) -> Result<Option<String>> {
        let agent: Agent =
            Agent::config_builder().max_redirects(0).http_status_as_error(false).build().into();
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = cookies.join("; ");
        let context = || format!("no answer from {address}");
        let response = match form {
            None => agent.get(address).header("cookie", cookies).call().with_context(context)?,
            Some(fields) => {
                let fields = fields.iter().copied();
                agent.post(address).header("cookie", cookies).send_form(fields).with_context(context)?
            }
        };
        let headers = response.headers();
        for cookie in headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok()) {
            let pair = cookie.split(';').next().and_then(|pair| pair.split_once('='));
            self.cookies.extend(pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let Some(location) = headers.get("location") else {
            ensure!(response.status() == 200, "{address} was answered with {}", response.status());
            return Ok(None);
        };
        let location = location.to_str().context("a redirect to an unreadable address")?;
        let origin = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        Ok(Some(if location.starts_with('/') { format!("{origin}{location}") } else { location.to_owned() }))
    }
}

/// Returns the roles and attributes that a signed-in person has.
pub fn access_of(client: &Client) -> Result<Value> {
    let me = client.get("/me")?;
    Ok(json!({"roles": me.get("roles"), "attributes": me.get("attributes")}))
}
