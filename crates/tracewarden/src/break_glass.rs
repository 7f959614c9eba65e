//! `tracewarden break-glass`: prints a link that signs in a user once. It writes to the application database, so that it works when
//! the identity provider does not, and only for those who can read the service's configuration.

use std::io::{self, Write as _};

use anyhow::Context;
use secrecy::ExposeSecret as _;
use tracewarden_service::AppDb;

use crate::configuration::Configuration;
use crate::serve;

pub fn run(configuration: &Configuration, username: &str) -> anyhow::Result<()> {
    let origin =
        configuration.public_url.clone().unwrap_or_else(|| format!("http://{}", configuration.listen));
    let token = serve::runtime()?.block_on(async {
        // The database URL may contain a password, so the error shows only the database's own message.
        let db = AppDb::open_existing(configuration.database_url.expose_secret()).await?;
        let service = serve::service(configuration, db.clone(), &origin).await?;
        let created = service.account().create_break_glass_link(username).await;
        db.close().await;
        created.map_err(|error| serve::explain("no link was created", &error))
    })?;
    // The token is in the fragment, which browsers send to no server and proxies do not log.
    let token = token.expose_secret();
    let text = format!("{origin}/ui/login#link={token}\n");
    io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")?;
    eprintln!("The link signs in `{username}` once, within ten minutes. Anyone who has it can use it.");
    Ok(())
}
