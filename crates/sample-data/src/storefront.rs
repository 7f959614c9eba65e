//! Actions of visitors before a purchase. These traces stay within the storefront team.

use super::builder::{Builder, Exception, Node};
use super::calls::{Request, Statement};
use super::rng::{MILLISECOND, SampleRng};
use super::services::Service::{Accounts, Cart, Catalog, Frontend, Recommendations, Search};
use super::span::{Trace, TraceId};
use super::visitors::Visitor;

const PRODUCT: Statement = Statement {
    system: "postgresql",
    namespace: "catalog",
    operation: "SELECT",
    collection: "products",
    text: "SELECT id, title, price, stock_hint FROM products WHERE tenant_id = $1 AND id = $2",
    median_micros: 1_900,
};
const LISTING: Statement = Statement {
    system: "postgresql",
    namespace: "catalog",
    operation: "SELECT",
    collection: "products",
    text: "SELECT id, title, price FROM products WHERE tenant_id = $1 ORDER BY rank LIMIT $2",
    median_micros: 4_200,
};
const ACCOUNT: Statement = Statement {
    system: "postgresql",
    namespace: "accounts",
    operation: "SELECT",
    collection: "accounts",
    text: "SELECT id, password_hash, locked FROM accounts WHERE tenant_id = $1 AND email = $2",
    median_micros: 1_400,
};
const FIND: Statement = Statement {
    system: "elasticsearch",
    namespace: "search",
    operation: "search",
    collection: "products",
    text: "{\"query\":{\"bool\":{\"filter\":[{\"term\":{\"tenant\":\"?\"}}],\"must\":[{\"match\":{\"title\":\"?\"}}]}}}",
    median_micros: 18_000,
};
const RENDERING_FAILED: Exception = Exception {
    kind: "TypeError",
    message: "Cannot read properties of undefined (reading 'price')",
    frames: &["renderProduct (/app/dist/pages/product.js:118:31)", "render (/app/dist/server.js:74:12)"],
};

/// Kinds of browsing.
#[derive(Clone, Copy)]
pub(super) enum Browsing {
    Home,
    Product,
    Search,
    AddToCart,
    SignIn,
}

pub(super) fn browse(
    rng: &mut SampleRng,
    visitor: &Visitor,
    what: Browsing,
    id: Option<TraceId>,
    at: u64,
) -> Trace {
    let id = id.unwrap_or_else(|| rng.trace_id());
    let mut builder = Builder::with_id(rng, visitor.environment, id);
    match what {
        Browsing::Home => home(&mut builder, visitor, at),
        Browsing::Product => product(&mut builder, visitor, at),
        Browsing::Search => search(&mut builder, visitor, at),
        Browsing::AddToCart => add_to_cart(&mut builder, visitor, at),
        Browsing::SignIn => sign_in(&mut builder, visitor, at),
    }
    builder.finish()
}

fn product_path(builder: &mut Builder<'_>) -> String {
    format!("/products/{}", builder.rng.between(1_000, 9_000))
}

fn home(builder: &mut Builder<'_>, visitor: &Visitor, at: u64) {
    let root =
        builder.visit(Frontend, Request { method: "GET", route: "/", path: "/".to_owned() }, visitor, at);
    let time = builder.pause(at);
    let (call, time) = builder.call(root, Frontend, Catalog, "shop.Catalog/ListFeatured", time);
    builder.identify(call.server, visitor);
    let time = builder.query(call.server, Catalog, &LISTING, time);
    let time = builder.answer(call, "OK", time);
    let time = recommend(builder, root, visitor, time);
    let time = builder.work(root, Frontend, "render home", 6_000, time);
    builder.respond(root, 200, time);
}

fn recommend(builder: &mut Builder<'_>, parent: Node, visitor: &Visitor, at: u64) -> u64 {
    let (call, time) = builder.call(parent, Frontend, Recommendations, "shop.Recommendations/List", at);
    builder.identify(call.server, visitor);
    let hit = builder.rng.percent(85);
    let mut time = builder.cache(call.server, Recommendations, "HGETALL", hit, time);
    if !hit {
        time = builder.work(call.server, Recommendations, "score candidates", 22_000, time);
        time = builder.cache(call.server, Recommendations, "HSET", true, time);
    }
    builder.answer(call, "OK", time)
}

fn product(builder: &mut Builder<'_>, visitor: &Visitor, at: u64) {
    let path = product_path(builder);
    let root = builder.visit(Frontend, Request { method: "GET", route: "/products/{id}", path }, visitor, at);
    let time = builder.pause(at);
    let (call, time) = builder.call(root, Frontend, Catalog, "shop.Catalog/GetProduct", time);
    builder.identify(call.server, visitor);
    let hit = builder.rng.percent(70);
    let mut time = builder.cache(call.server, Catalog, "GET", hit, time);
    if !hit {
        time = builder.query(call.server, Catalog, &PRODUCT, time);
        time = builder.cache(call.server, Catalog, "SET", true, time);
    }
    if builder.rng.percent(2) {
        let time = builder.answer(call, "NOT_FOUND", time);
        builder.respond(root, 404, time);
        return;
    }
    let time = builder.answer(call, "OK", time);
    let time = recommend(builder, root, visitor, time);
    let time = builder.work(root, Frontend, "render product", 5_000, time);
    if builder.rng.once_in(150) {
        builder.exception(root, time, &RENDERING_FAILED);
        builder.respond(root, 500, time);
    } else {
        builder.respond(root, 200, time);
    }
}

fn search(builder: &mut Builder<'_>, visitor: &Visitor, at: u64) {
    let words = builder.rng.one_of("lamp", &["hiking boots", "espresso", "board game", "drill", "notebook"]);
    let path = "/search".to_owned();
    let root = builder.visit(Frontend, Request { method: "GET", route: "/search", path }, visitor, at);
    builder.set(root, "url.query", format!("q={}", words.replace(' ', "+")));
    let time = builder.pause(at);
    let (call, time) = builder.call(root, Frontend, Search, "shop.Search/Find", time);
    builder.identify(call.server, visitor);
    let time = builder.query(call.server, Search, &FIND, time);
    let time = builder.work(call.server, Search, "rank results", 3_000, time);
    let found = builder.rng.between(0, 180) as i64;
    builder.set(call.server, "app.search.results", found);
    let time = builder.answer(call, "OK", time);
    let time = builder.work(root, Frontend, "render results", 7_000, time);
    builder.respond(root, 200, time);
}

fn add_to_cart(builder: &mut Builder<'_>, visitor: &Visitor, at: u64) {
    let path = "/cart/items".to_owned();
    let root = builder.visit(Frontend, Request { method: "POST", route: "/cart/items", path }, visitor, at);
    let time = builder.pause(at);
    let (call, time) = builder.call(root, Frontend, Cart, "shop.Cart/AddItem", time);
    builder.identify(call.server, visitor);
    let time = builder.cache(call.server, Cart, "HGETALL", true, time);
    let time = builder.cache(call.server, Cart, "HSET", true, time);
    let size = 1 + builder.rng.between(0, 9) as i64;
    builder.set(call.server, "app.cart.size", size);
    let time = builder.answer(call, "OK", time);
    let time = builder.pause(time);
    builder.respond(root, 201, time);
}

fn sign_in(builder: &mut Builder<'_>, visitor: &Visitor, at: u64) {
    let path = "/session".to_owned();
    let root = builder.visit(Frontend, Request { method: "POST", route: "/session", path }, visitor, at);
    let time = builder.pause(at);
    let (call, time) = builder.call(root, Frontend, Accounts, "shop.Accounts/Authenticate", time);
    builder.identify(call.server, visitor);
    let time = builder.query(call.server, Accounts, &ACCOUNT, time);
    let time = builder.work(call.server, Accounts, "verify password", 60_000, time);
    let right = builder.rng.percent(94);
    let (status, code) = if right { ("OK", 200) } else { ("FAILED_PRECONDITION", 401) };
    let time = builder.answer(call, status, time);
    builder.respond(root, code, time + MILLISECOND);
}
