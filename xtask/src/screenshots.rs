//! `cargo xtask screenshots`: takes screenshots of the web application with the demo's data.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::json;

use crate::browser::chromium;
use crate::demo::{ADMINISTRATOR, Demo, Options};
use crate::stack::interrupt;
use crate::{web, workspace};

/// Directory of the screenshots.
const DIRECTORY: &str = "docs/screenshots";

pub fn run(views: &[String]) -> Result<()> {
    let chromium = chromium::ensure()?;
    interrupt::install()?;
    let mut demo = Demo::start(&Options::default())?;
    let logins: BTreeMap<&str, &str> = demo
        .accounts
        .all
        .iter()
        .map(|account| (account.demo_user.username, account.password.as_str()))
        .collect();
    let traces: BTreeMap<&str, String> = demo.landmarks().collect();
    let environment = [
        ("TRACEWARDEN_URL", demo.stack.base.clone()),
        ("TRACEWARDEN_ADMIN_PASSWORD", demo.accounts.of(ADMINISTRATOR)?.password.clone()),
        ("TRACEWARDEN_DEMO_LOGINS", json!(logins).to_string()),
        ("TRACEWARDEN_DEMO_TRACES", json!(traces).to_string()),
        ("TRACEWARDEN_SCREENSHOTS", workspace::root().join(DIRECTORY).display().to_string()),
        ("CHROMIUM", chromium.display().to_string()),
    ];
    let taken = web::script("screenshots", views, &environment);
    demo.stack.check().and(taken).and(demo.stack.stop())
}
