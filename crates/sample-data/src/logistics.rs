//! Traces of the logistics team alone: its own work, and the processing of placed orders.

use super::builder::{Builder, Exception, Node};
use super::calls::{Request, Statement};
use super::rng::{SECOND, SampleRng};
use super::services::Service::{self, Email, Inventory, Shipping};
use super::span::{Kind, SpanId, Trace, TraceId};
use super::visitors::Visitor;

pub(super) const ORDERS: &str = "orders.placed";

const STOCK: Statement = Statement {
    system: "postgresql",
    namespace: "inventory",
    operation: "UPDATE",
    collection: "stock",
    text: "UPDATE stock SET available = $3, counted_at = now() WHERE tenant_id = $1 AND sku = $2",
    median_micros: 2_600,
};
const SHIPMENT: Statement = Statement {
    system: "postgresql",
    namespace: "shipping",
    operation: "INSERT",
    collection: "shipments",
    text: "INSERT INTO shipments (tenant_id, order_id, carrier, service_level) VALUES ($1, $2, $3, $4) RETURNING id",
    median_micros: 2_800,
};
const TRACKING: Statement = Statement {
    system: "postgresql",
    namespace: "shipping",
    operation: "SELECT",
    collection: "shipments",
    text: "SELECT id, carrier, carrier_reference, state FROM shipments WHERE tracking_code = $1",
    median_micros: 1_500,
};
const MAIL_REFUSED: Exception = Exception {
    kind: "Net::SMTPFatalError",
    message: "550 5.1.1 mailbox unavailable",
    frames: &["app/mailers/order_mailer.rb:41:in `deliver'", "app/consumers/orders.rb:22:in `process'"],
};

/// A warehouse reports its stock counts.
pub(super) fn stock_sync(rng: &mut SampleRng, visitor: &Visitor, id: Option<TraceId>, at: u64) -> Trace {
    let id = id.unwrap_or_else(|| rng.trace_id());
    let mut builder = Builder::with_id(rng, visitor.environment, id);
    let root = builder.begin(None, Inventory, "sync stock", Kind::Internal, at);
    builder.set(root, "app.job.name", "stock-sync");
    builder.set(root, "app.job.scheduled", true);
    builder.set(root, "tenant.id", visitor.tenant.clone());
    let request = builder.request(root, Inventory, "GET", "wms.depot.example", "/counts?changed=true", at);
    let mut time = at + builder.rng.latency(90_000);
    builder.respond(request, 200, time);
    let counted = builder.rng.between(3, 18);
    builder.set(root, "app.stock.changed", counted as i64);
    for _ in 0..counted {
        time = builder.query(root, Inventory, &STOCK, time);
    }
    builder.end(root, time);
    builder.finish()
}

/// A customer tracks a parcel.
pub(super) fn tracking(rng: &mut SampleRng, visitor: &Visitor, at: u64) -> Trace {
    let mut builder = Builder::new(rng, visitor.environment);
    let code = builder.rng.between(100_000_000, 999_999_999);
    let request = Request { method: "GET", route: "/tracking/{code}", path: format!("/tracking/SH{code}") };
    let root = builder.visit(Shipping, request, visitor, at);
    let time = builder.query(root, Shipping, &TRACKING, at);
    let carrier = builder.request(root, Shipping, "GET", "track.parcels.example", "/v1/events", time);
    let late = builder.rng.once_in(120);
    let time = time + if late { 5 * SECOND } else { builder.rng.latency(70_000) };
    builder.respond(carrier, if late { 504 } else { 200 }, time);
    builder.respond(root, if late { 502 } else { 200 }, time);
    builder.finish()
}

/// An order that was placed in another trace.
pub(super) struct Order {
    pub producer: (TraceId, SpanId),
    pub visitor: Visitor,
    pub express: bool,
    pub at: u64,
}

/// Takes the order from the queue and prepares the parcel.
pub(super) fn ship(rng: &mut SampleRng, order: &Order, id: Option<TraceId>) -> Trace {
    let id = id.unwrap_or_else(|| rng.trace_id());
    let (mut builder, root, at) = consume(rng, Shipping, order, id);
    let time = builder.query(root, Shipping, &SHIPMENT, at);
    let (call, time) = builder.call(root, Shipping, Inventory, "shop.Inventory/Commit", time);
    builder.set(call.server, "tenant.id", order.visitor.tenant.clone());
    let time = builder.query(call.server, Inventory, &STOCK, time);
    let time = builder.answer(call, "OK", time);
    let carrier = builder.request(root, Shipping, "POST", "api.parcels.example", "/v1/labels", time);
    let time = time + builder.rng.latency(130_000);
    builder.respond(carrier, 201, time);
    builder.set(root, "app.order.express", order.express);
    builder.end(root, time);
    builder.finish()
}

/// Takes the order from the queue and sends a confirmation to the customer.
pub(super) fn confirm_order(rng: &mut SampleRng, order: &Order) -> Trace {
    let id = rng.trace_id();
    let (mut builder, root, at) = consume(rng, Email, order, id);
    let time = builder.work(root, Email, "render order confirmation", 9_000, at);
    let mail = builder.request(root, Email, "POST", "smtp.mailroom.example", "/messages", time);
    let time = time + builder.rng.latency(85_000);
    if builder.rng.once_in(60) {
        builder.respond(mail, 422, time);
        builder.exception(root, time, &MAIL_REFUSED);
        builder.fail(root, "550", MAIL_REFUSED.message);
    } else {
        builder.respond(mail, 202, time);
    }
    builder.end(root, time);
    builder.finish()
}

/// Begins the trace of a consumer. It is a separate trace that only links to the span that sent the message, so access to one of
/// the two traces does not include the other.
fn consume<'a>(
    rng: &'a mut SampleRng,
    service: Service,
    order: &Order,
    id: TraceId,
) -> (Builder<'a>, Node, u64) {
    let mut builder = Builder::with_id(rng, order.visitor.environment, id);
    let at = order.at + builder.rng.between(SECOND / 20, 2 * SECOND);
    let root = builder.begin(None, service, format!("process {ORDERS}"), Kind::Consumer, at);
    builder.messaging(root, ORDERS, "process", "process");
    builder.set(root, "messaging.consumer.group.name", service.name());
    builder.set(root, "tenant.id", order.visitor.tenant.clone());
    let (trace_id, span_id) = order.producer;
    builder.link(root, trace_id, span_id);
    (builder, root, at)
}
