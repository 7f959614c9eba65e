//! Tests of the web application in a real browser.

pub mod chromium;

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use tracewarden_sample_data::{LARGE_SPANS, SEED, SPANS, Shop};
use tracewarden_testkit::repetitions;

use crate::demo::{self, load};
use crate::stack::identity_provider::IdentityProvider;
use crate::stack::{LocalStore, Service, interrupt};
use crate::{engine, npm, web};

/// Runs the browser tests against an unconfigured service, whose ClickHouse already has traces. With `verify`, only the views are
/// tested, each in all themes and widths, and speed is measured.
pub fn test(binaries: &Path, arguments: &[String], verify: bool) -> Result<()> {
    let chromium = chromium::ensure()?;
    let engine = engine::ensure()?;
    interrupt::install()?;
    let directory = tempfile::Builder::new().prefix("tracewarden-browser-").tempdir();
    let directory = directory.context("cannot create a temporary directory")?;
    let path = directory.path();
    let mut store = LocalStore::start(binaries, &engine, &path.join("store"), path, None)?;
    let shop = Shop::new(SEED, demo::now()?);
    let (hard, traces) = shop.ui_stress_traces();
    let sent = load::send(shop.traces().chain(traces), SPANS + LARGE_SPANS, &store.otlp);
    // If ClickHouse has exited, that error explains a failed request better.
    store.check()?;
    println!("sent {} spans", sent?);
    npm::ensure_packages(npm::MCP_CLIENTS)?;
    let mut provider = IdentityProvider::start(path, &json!({}))?;
    let settings = provider.settings();
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut service = Service::start_unconfigured(binaries, path, &mut store, &settings)?;
    provider.register(&service.base)?;
    println!("the service to test runs at {}", service.base);
    let outcome = web::script(
        "e2e",
        arguments,
        &[
            ("TRACEWARDEN_E2E_URL", service.base.clone()),
            ("TRACEWARDEN_E2E_ADMIN_PASSWORD", service.admin_password.clone()),
            ("TRACEWARDEN_E2E_STORE_URL", store.url.clone()),
            ("TRACEWARDEN_E2E_STORE_PASSWORD", store.password.clone()),
            ("TRACEWARDEN_E2E_PROVIDER_URL", provider.issuer.clone()),
            ("TRACEWARDEN_E2E_PROVIDER_TOKEN", provider.control_token.clone()),
            ("TRACEWARDEN_E2E_TRACE_10K", shop.landmarks().reindex.to_string()),
            ("TRACEWARDEN_E2E_TRACE_100K", hard.large.to_string()),
            ("TRACEWARDEN_E2E_TRACE_HOSTILE", hard.hostile.to_string()),
            ("CHROMIUM", chromium.display().to_string()),
            (repetitions::VERIFY, if verify { "1" } else { "" }.to_owned()),
        ],
    );
    let service = service.check().and_then(|()| service.stop());
    let store = store.check().and_then(|()| store.stop());
    let provider = provider.check().and_then(|()| provider.stop());
    outcome.and(service).and(store).and(provider)
}
