//! Purchases: the traces in which all three teams take part.

use super::builder::{Builder, Exception, Node};
use super::calls::{Request, Statement};
use super::logistics::{ORDERS, Order};
use super::payments::{PROVIDER, PROVIDER_TIMEOUT, RECORD};
use super::rng::{SECOND, SampleRng};
use super::services::Service::{Cart, Checkout, Fraud, Frontend, Inventory, Ledger, Payments, Shipping};
use super::span::{Trace, TraceId};
use super::visitors::{Visitor, customer};

const RESERVE: Statement = Statement {
    system: "postgresql",
    namespace: "inventory",
    operation: "UPDATE",
    collection: "stock",
    text: "UPDATE stock SET available = available - $3 WHERE tenant_id = $1 AND sku = $2 AND available >= $3",
    median_micros: 2_900,
};
const ORDER: Statement = Statement {
    system: "postgresql",
    namespace: "checkout",
    operation: "INSERT",
    collection: "orders",
    text: "INSERT INTO orders (tenant_id, customer_id, total_minor, currency) VALUES ($1, $2, $3, $4) RETURNING id",
    median_micros: 3_400,
};
const PAYMENT_UNAVAILABLE: Exception = Exception {
    kind: "*checkout.PaymentUnavailableError",
    message: "payment could not be authorised: deadline exceeded after 3 attempts",
    frames: &["shop/checkout.(*Server).PlaceOrder (/src/checkout/place.go:143)"],
};

/// Result of the provider of card payments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    Authorises,
    Declines,
    /// As during the incident: every attempt times out.
    TimesOut,
}

/// Generates a purchase, and the order if one was placed.
pub(super) fn buy(
    rng: &mut SampleRng,
    visitor: &Visitor,
    provider: Provider,
    id: Option<TraceId>,
    at: u64,
) -> (Trace, Option<Order>) {
    let id = id.unwrap_or_else(|| rng.trace_id());
    let mut builder = Builder::with_id(rng, visitor.environment, id);
    // Only signed-in users can buy.
    let user = visitor.user.clone().unwrap_or_else(|| customer(builder.rng));
    let visitor = &Visitor { user: Some(user), ..visitor.clone() };
    let request = Request { method: "POST", route: "/checkout", path: "/checkout".to_owned() };
    let root = builder.visit(Frontend, request, visitor, at);
    let time = builder.pause(at);
    let (place, time) = builder.call(root, Frontend, Checkout, "shop.Checkout/PlaceOrder", time);
    builder.identify(place.server, visitor);
    let express = describe(&mut builder, place.server);

    let time = read_cart(&mut builder, place.server, visitor, time);
    let (in_stock, time) = reserve(&mut builder, place.server, visitor, time);
    if !in_stock {
        let time = builder.answer(place, "FAILED_PRECONDITION", time);
        builder.respond(root, 409, time);
        return (builder.finish(), None);
    }
    let time = quote(&mut builder, place.server, visitor, time);
    let time = charge(&mut builder, place.server, visitor, provider, time);
    match provider {
        Provider::Authorises => {}
        Provider::Declines => {
            let time = release(&mut builder, place.server, visitor, time);
            let time = builder.answer(place, "FAILED_PRECONDITION", time);
            builder.respond(root, 402, time);
            return (builder.finish(), None);
        }
        Provider::TimesOut => {
            let time = release(&mut builder, place.server, visitor, time);
            builder.exception(place.server, time, &PAYMENT_UNAVAILABLE);
            let time = builder.answer(place, "UNAVAILABLE", time);
            builder.respond(root, 503, time);
            return (builder.finish(), None);
        }
    }
    let time = builder.query(place.server, Checkout, &ORDER, time);
    let (producer, time) = builder.publish(place.server, Checkout, ORDERS, time);
    let time = builder.answer(place, "OK", time);
    builder.succeed(place.server);
    builder.respond(root, 201, time);
    let producer = (builder.trace_id(), builder.span_id(producer));
    let order = Order { producer, visitor: visitor.clone(), express, at: time };
    (builder.finish(), Some(order))
}

/// Sets attributes of every type with the content of the cart.
fn describe(builder: &mut Builder<'_>, node: Node) -> bool {
    let express = builder.rng.percent(25);
    let total = builder.rng.between(900, 45_000) as f64 / 100.0;
    let currency = builder.rng.one_of("EUR", &["EUR", "GBP", "SEK"]);
    let new_flow = builder.rng.one_of("true", &["false"]);
    let first = builder.rng.one_of("books", &["garden", "toys", "kitchen", "audio"]);
    let second = builder.rng.one_of("gifts", &["outdoor", "paper", "tools"]);
    let categories =
        if builder.rng.percent(50) { vec![first.into()] } else { vec![first.into(), second.into()] };
    builder.set(node, "app.order.express", express);
    builder.set(node, "app.order.total", total);
    builder.set(node, "app.order.currency", currency);
    builder.set(node, "app.order.categories", super::attributes::Value::List(categories));
    builder.set(node, "app.feature.new_checkout", new_flow);
    express
}

fn read_cart(builder: &mut Builder<'_>, parent: Node, visitor: &Visitor, at: u64) -> u64 {
    let (call, time) = builder.call(parent, Checkout, Cart, "shop.Cart/Get", at);
    builder.identify(call.server, visitor);
    let time = builder.cache(call.server, Cart, "HGETALL", true, time);
    builder.answer(call, "OK", time)
}

fn reserve(builder: &mut Builder<'_>, parent: Node, visitor: &Visitor, at: u64) -> (bool, u64) {
    let (call, time) = builder.call(parent, Checkout, Inventory, "shop.Inventory/Reserve", at);
    builder.identify(call.server, visitor);
    let mut time = time;
    for _ in 0..1 + builder.rng.between(0, 3) {
        time = builder.query(call.server, Inventory, &RESERVE, time);
    }
    let in_stock = !builder.rng.once_in(40);
    (in_stock, builder.answer(call, if in_stock { "OK" } else { "FAILED_PRECONDITION" }, time))
}

fn release(builder: &mut Builder<'_>, parent: Node, visitor: &Visitor, at: u64) -> u64 {
    let (call, time) = builder.call(parent, Checkout, Inventory, "shop.Inventory/Release", at);
    builder.identify(call.server, visitor);
    let time = builder.query(call.server, Inventory, &RESERVE, time);
    builder.answer(call, "OK", time)
}

fn quote(builder: &mut Builder<'_>, parent: Node, visitor: &Visitor, at: u64) -> u64 {
    let (call, time) = builder.call(parent, Checkout, Shipping, "shop.Shipping/Quote", at);
    builder.identify(call.server, visitor);
    let time = builder.work(call.server, Shipping, "compute rates", 2_500, time);
    builder.answer(call, "OK", time)
}

fn charge(builder: &mut Builder<'_>, parent: Node, visitor: &Visitor, provider: Provider, at: u64) -> u64 {
    let (call, time) = builder.call(parent, Checkout, Payments, "shop.Payments/Charge", at);
    builder.identify(call.server, visitor);
    let method = builder.rng.one_of("card", &["card", "wallet"]);
    builder.set(call.server, "app.payment.method", method);

    let (fraud, time) = builder.call(call.server, Payments, Fraud, "shop.Fraud/Score", time);
    builder.identify(fraud.server, visitor);
    let score = builder.rng.between(0, 1_000) as f64 / 1_000.0;
    builder.set(fraud.server, "app.fraud.score", score);
    let time = builder.cache(fraud.server, Fraud, "GET", true, time);
    let time = builder.work(fraud.server, Fraud, "evaluate model", 14_000, time);
    let mut time = builder.answer(fraud, "OK", time);

    let attempts = if provider == Provider::TimesOut { 3 } else { 1 };
    for attempt in 0..attempts {
        let request = builder.request(call.server, Payments, "POST", PROVIDER, "/v2/authorizations", time);
        if attempt > 0 {
            builder.set(request, "http.request.resend_count", attempt);
        }
        match provider {
            Provider::Authorises => {
                time += builder.rng.latency(180_000);
                builder.respond(request, 200, time);
            }
            Provider::Declines => {
                time += builder.rng.latency(150_000);
                builder.respond(request, 402, time);
                builder.fail(request, "402", "card declined");
            }
            Provider::TimesOut => {
                time += 3 * SECOND;
                builder.time_out(request, &PROVIDER_TIMEOUT, time);
                // The back-off increases with each attempt.
                time += (attempt as u64 + 1) * builder.rng.latency(120_000);
            }
        }
    }
    match provider {
        Provider::Authorises => {
            let (record, time) = builder.call(call.server, Payments, Ledger, "shop.Ledger/Record", time);
            builder.identify(record.server, visitor);
            let time = builder.query(record.server, Ledger, &RECORD, time);
            let time = builder.answer(record, "OK", time);
            builder.answer(call, "OK", time)
        }
        Provider::Declines => builder.answer(call, "FAILED_PRECONDITION", time),
        Provider::TimesOut => {
            builder.exception(call.server, time, &PROVIDER_TIMEOUT);
            builder.answer(call, "DEADLINE_EXCEEDED", time)
        }
    }
}
