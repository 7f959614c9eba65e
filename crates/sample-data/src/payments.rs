//! Traces of the payments team alone.

use super::builder::{Builder, Exception};
use super::calls::Statement;
use super::rng::SampleRng;
use super::services::Environment;
use super::services::Service::{Ledger, Payments};
use super::span::{Kind, Trace, TraceId};
use super::visitors::Visitor;

pub(super) const PROVIDER: &str = "api.cardworks.example";

pub(super) const RECORD: Statement = Statement {
    system: "postgresql",
    namespace: "ledger",
    operation: "INSERT",
    collection: "entries",
    text: "INSERT INTO entries (tenant_id, payment_id, account, amount_minor, currency) VALUES ($1, $2, $3, $4, $5)",
    median_micros: 3_100,
};
const PAYMENT: Statement = Statement {
    system: "postgresql",
    namespace: "payments",
    operation: "UPDATE",
    collection: "payments",
    text: "UPDATE payments SET state = $2 WHERE provider_reference = $1 RETURNING id, tenant_id",
    median_micros: 2_300,
};
pub(super) const PROVIDER_TIMEOUT: Exception = Exception {
    kind: "java.net.SocketTimeoutException",
    message: "Read timed out after 3000 ms",
    frames: &[
        "java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)",
        "com.shop.payments.provider.CardworksClient.authorize(CardworksClient.java:91)",
        "com.shop.payments.ChargeService.charge(ChargeService.java:57)",
    ],
};

/// The provider reports the progress of a payment.
pub(super) fn webhook(rng: &mut SampleRng, visitor: &Visitor, id: Option<TraceId>, at: u64) -> Trace {
    let id = id.unwrap_or_else(|| rng.trace_id());
    let mut builder = Builder::with_id(rng, visitor.environment, id);
    let root = builder.begin(None, Payments, "POST /webhooks/{provider}", Kind::Server, at);
    builder.set(root, "http.request.method", "POST");
    builder.set(root, "http.route", "/webhooks/{provider}");
    builder.set(root, "url.path", "/webhooks/cardworks");
    builder.set(root, "url.scheme", "https");
    builder.set(root, "client.address", "192.0.2.44");
    builder.set(root, "tenant.id", visitor.tenant.clone());
    let event = builder.rng.one_of("payment.captured", &["payment.settled", "payout.paid", "dispute.opened"]);
    builder.set(root, "app.webhook.event", event);
    let time = builder.work(root, Payments, "verify signature", 400, at);
    let time = builder.query(root, Payments, &PAYMENT, time);
    let (call, time) = builder.call(root, Payments, Ledger, "shop.Ledger/Record", time);
    builder.set(call.server, "tenant.id", visitor.tenant.clone());
    let time = builder.query(call.server, Ledger, &RECORD, time);
    let time = builder.answer(call, "OK", time);
    let status = if builder.rng.once_in(250) { 500 } else { 204 };
    builder.respond(root, status, time);
    builder.finish()
}

/// A refund that a merchant's back office requests.
pub(super) fn refund(rng: &mut SampleRng, visitor: &Visitor, at: u64) -> Trace {
    let mut builder = Builder::new(rng, visitor.environment);
    let root = builder.begin(None, Payments, "shop.Payments/Refund", Kind::Server, at);
    builder.set(root, "rpc.system.name", "grpc");
    builder.set(root, "rpc.method", "shop.Payments/Refund");
    builder.identify(root, visitor);
    let amount = builder.rng.between(500, 30_000) as f64 / 100.0;
    builder.set(root, "app.refund.amount", amount);
    let partial = builder.rng.percent(30);
    builder.set(root, "app.refund.partial", partial);
    let time = builder.query(root, Payments, &PAYMENT, at);
    let provider = builder.request(root, Payments, "POST", PROVIDER, "/v2/refunds", time);
    let time = time + builder.rng.latency(160_000);
    let refused = builder.rng.percent(4);
    builder.respond(provider, if refused { 409 } else { 200 }, time);
    if refused {
        builder.fail(provider, "409", "refund exceeds captured amount");
    }
    let (call, time) = builder.call(root, Payments, Ledger, "shop.Ledger/Record", time);
    builder.set(call.server, "tenant.id", visitor.tenant.clone());
    let time = builder.query(call.server, Ledger, &RECORD, time);
    let time = builder.answer(call, "OK", time);
    let status = if refused { "FAILED_PRECONDITION" } else { "OK" };
    builder.set(root, "rpc.response.status_code", status);
    builder.end(root, time);
    builder.finish()
}

/// Compares the day's entries with the provider's, hour after hour. The trace is longer than the window of most queries.
pub(super) fn settlement(rng: &mut SampleRng, id: TraceId, at: u64, duration: u64) -> Trace {
    const BATCHES: u64 = 48;
    let mut builder = Builder::with_id(rng, Environment::Production, id);
    let root = builder.begin(None, Ledger, "settle day", Kind::Internal, at);
    builder.set(root, "app.job.name", "settlement");
    builder.set(root, "app.job.scheduled", true);
    let step = duration / BATCHES;
    for batch in 0..BATCHES {
        let start = at + batch * step;
        let node = builder.begin(Some(root), Ledger, "settle batch", Kind::Internal, start);
        builder.set(node, "app.job.batch", batch as i64);
        let request = builder.request(node, Ledger, "GET", PROVIDER, "/v2/settlements", start);
        let time = start + builder.rng.latency(240_000);
        builder.respond(request, 200, time);
        builder.query(node, Ledger, &RECORD, time);
        builder.end(node, start + step);
    }
    builder.succeed(root);
    builder.end(root, at + duration);
    builder.finish()
}
