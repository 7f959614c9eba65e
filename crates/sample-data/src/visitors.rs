//! Users of the shop: tenants (merchants that sell through it) and their customers.

use super::rng::{SampleRng, cumulative};
use super::services::Environment;

const KINDS: [&str; 20] = [
    "amber", "birch", "cedar", "coral", "delta", "ember", "fjord", "grove", "hazel", "indigo", "jasper",
    "kestrel", "lumen", "maple", "north", "olive", "pearl", "quartz", "river", "slate",
];
const TRADES: [&str; 15] = [
    "books", "cycles", "garden", "toys", "outdoor", "audio", "kitchen", "optics", "tools", "fabrics",
    "games", "shoes", "coffee", "lights", "paper",
];

/// Number of tenants.
pub const TENANTS: usize = KINDS.len() * TRADES.len();

/// The two tenants that the sample's support user is responsible for: one with much traffic, one with little.
pub const SUPPORTED_TENANTS: [&str; 2] = ["ember-books", "slate-toys"];

/// The tenant of the landmarks that support users may not see.
pub const OTHER_TENANT: &str = "amber-books";

/// Customers are numbered from 10,000.
const CUSTOMERS: u64 = 20_000;

/// Returns the id of the tenant with a rank; rank 0 has the most traffic.
pub fn tenant(rank: usize) -> String {
    let kind = KINDS.get(rank % KINDS.len()).copied().unwrap_or_default();
    let trade = TRADES.get(rank / KINDS.len() % TRADES.len()).copied().unwrap_or_default();
    format!("{kind}-{trade}")
}

/// The caller of a request.
#[derive(Clone)]
pub(super) struct Visitor {
    pub environment: Environment,
    pub tenant: String,
    /// `None` for a visitor who has not signed in.
    pub user: Option<String>,
    pub address: String,
    pub browser: &'static str,
}

/// All callers.
pub(super) struct Visitors {
    tenants: Vec<u64>,
}

impl Visitors {
    pub fn new() -> Self {
        // A Zipf distribution with a shifted rank: the first tenant has about a tenth of the traffic, the last one in 3,000
        // requests.
        Self { tenants: cumulative((0..TENANTS as u64).map(|rank| 1_000_000 / (rank + 2))) }
    }

    pub fn visitor(&self, rng: &mut SampleRng, environment: Environment) -> Visitor {
        let tenant = tenant(rng.weighted(&self.tenants));
        visitor_of(rng, environment, tenant)
    }
}

pub(super) fn visitor_of(rng: &mut SampleRng, environment: Environment, tenant: String) -> Visitor {
    let user = rng.percent(60).then(|| customer(rng));
    // 198.51.100.0/24 and 203.0.113.0/24 are reserved for documentation.
    let network = rng.one_of("198.51.100", &["203.0.113"]);
    let address = format!("{network}.{}", rng.between(1, 255));
    let browser = rng.one_of(
        "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
        &[
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
            "shop-app/8.3 (Android 16)",
        ],
    );
    Visitor { environment, tenant, user, address, browser }
}

pub(super) fn customer(rng: &mut SampleRng) -> String {
    format!("u-{}", 10_000 + rng.between(0, CUSTOMERS))
}
