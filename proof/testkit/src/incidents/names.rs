//! Random names and failure messages.

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

const THINGS: [&str; 28] = [
    "account",
    "address",
    "asset",
    "basket",
    "billing",
    "booking",
    "campaign",
    "claim",
    "contract",
    "coupon",
    "delivery",
    "device",
    "document",
    "fleet",
    "invoice",
    "ledger",
    "loyalty",
    "meter",
    "notification",
    "offer",
    "passport",
    "pricing",
    "quote",
    "rating",
    "schedule",
    "shipment",
    "ticket",
    "voucher",
];
const GATEWAYS: [&str; 8] = ["web", "mobile", "partner", "public", "edge", "portal", "kiosk", "agent"];
const ENDINGS: [&str; 6] = ["", "-service", "-api", "svc", "-worker", "-core"];
const VERBS: [&str; 12] = [
    "Get", "List", "Create", "Reserve", "Confirm", "Cancel", "Validate", "Resolve", "Apply", "Estimate",
    "Sync", "Publish",
];
const SYLLABLES: [&str; 16] = [
    "bel", "cor", "dan", "fen", "gal", "hol", "kir", "lum", "mar", "nor", "pel", "quin", "ros", "sel", "tor",
    "ves",
];
/// Exception types in the languages of the services, with their messages. `%` is a number, `@` an id.
const FAILURES: [(&str, &str); 12] = [
    (
        "java.sql.SQLTransientConnectionException",
        "pool-@ - Connection is not available, request timed out after %ms",
    ),
    ("psycopg2.errors.LockNotAvailable", "canceling statement due to lock timeout on relation @"),
    ("System.NullReferenceException", "Object reference not set to an instance of an object: plan @"),
    ("redis.exceptions.ReadOnlyError", "You can't write against a read only replica (shard @)"),
    ("TypeError", "Cannot read properties of undefined (reading 'rate_@')"),
    ("javax.net.ssl.SSLHandshakeException", "PKIX path validation failed: certificate @ expired % days ago"),
    ("context.DeadlineExceeded", "upstream @ did not answer within %ms"),
    ("KeyError", "'region_@'"),
    ("com.acme.quota.QuotaExceededException", "tenant quota @ exhausted: % of % units used"),
    ("io.grpc.StatusRuntimeException", "RESOURCE_EXHAUSTED: message of % bytes larger than max for stream @"),
    ("ActiveRecord::StatementInvalid", "PG::UndefinedColumn: column @ does not exist"),
    ("std::io::Error", "No space left on device (os error 28) while writing segment @"),
];

/// Returns different names of services; those that receive external requests come first.
pub(super) fn services(random: &mut ChaCha8Rng, entries: usize, others: usize) -> Vec<String> {
    let mut names: Vec<String> =
        GATEWAYS.sample(random, entries).map(|name| format!("{name}-gateway")).collect();
    let ending = ENDINGS.choose(random).copied().unwrap_or_default();
    names.extend(THINGS.sample(random, others).map(|name| format!("{name}{ending}")));
    names
}

pub(super) fn operation(random: &mut ChaCha8Rng) -> (String, String) {
    let one =
        |random: &mut ChaCha8Rng, names: &[&'static str]| names.choose(random).copied().unwrap_or_default();
    (one(random, &VERBS).to_owned(), one(random, &THINGS).to_owned())
}

pub(super) fn tenants(random: &mut ChaCha8Rng) -> Vec<String> {
    let count = random.random_range(8..40);
    (0..count)
        .map(|number| {
            let syllables: Vec<&str> = SYLLABLES.sample(random, 2).copied().collect();
            format!("{}-{number}", syllables.concat())
        })
        .collect()
}

/// Returns an exception type and a unique message.
pub(super) fn failure(random: &mut ChaCha8Rng) -> (String, String) {
    let (kind, pattern) = FAILURES.choose(random).copied().unwrap_or_default();
    let mut message = String::new();
    for character in pattern.chars() {
        match character {
            '%' => message.push_str(&random.random_range(10..90_000).to_string()),
            '@' => message.push_str(&format!("{:08x}", random.random::<u32>())),
            other => message.push(other),
        }
    }
    (kind.to_owned(), message)
}

pub(super) fn one_of(random: &mut ChaCha8Rng, names: &[&str]) -> String {
    names.choose(random).copied().unwrap_or_default().to_owned()
}
