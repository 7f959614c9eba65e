//! Landmarks: traces that tests and demos refer to. Each exists in every sample, with an id that depends on the seed only.

use super::assistant::converse;
use super::checkout::{Provider, buy};
use super::logistics::{ship, stock_sync};
use super::payments::{settlement, webhook};
use super::reindex::{REINDEX_SPANS, reindex};
use super::rng::{HOUR, MINUTE, SampleRng};
use super::services::Environment::{self, Production, Staging};
use super::span::{Trace, TraceId};
use super::storefront::{Browsing, browse};
use super::timeline::Timeline;
use super::visitors::{OTHER_TENANT, SUPPORTED_TENANTS, Visitor, visitor_of};

const SETTLEMENT_DURATION: u64 = 95 * MINUTE;

/// The ids of the landmarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landmarks {
    /// A product page in production, of [`OTHER_TENANT`]: storefront only.
    pub storefront: TraceId,
    /// A webhook in production, of [`OTHER_TENANT`]: payments only.
    pub payments: TraceId,
    /// A stock count in production, of [`OTHER_TENANT`]: logistics only.
    pub logistics: TraceId,
    /// A purchase in production, of [`OTHER_TENANT`]: all three teams.
    pub checkout: TraceId,
    /// The fulfilment of the order of [`Landmarks::checkout`], linked with it: logistics only.
    pub fulfilment: TraceId,
    /// A purchase during the incident, of the first of [`SUPPORTED_TENANTS`]: three time-outs, then 503.
    pub incident: TraceId,
    /// A conversation with the assistant in production, of [`OTHER_TENANT`].
    pub agent: TraceId,
    /// A search in staging, of [`OTHER_TENANT`]: storefront only.
    pub staging: TraceId,
    /// A search in production, of the second of [`SUPPORTED_TENANTS`]: storefront only.
    pub supported_tenant: TraceId,
    /// The nightly reindex with [`super::REINDEX_SPANS`] spans, without tenant: storefront only.
    pub reindex: TraceId,
    /// The nightly settlement, longer than an hour, without tenant: payments only.
    pub settlement: TraceId,
    /// The id of a trace that does not exist.
    pub absent: TraceId,
}

impl Landmarks {
    pub(super) fn of(seed: u64) -> Self {
        let id = |name| SampleRng::named(seed, name).trace_id();
        Self {
            storefront: id("storefront"),
            payments: id("payments"),
            logistics: id("logistics"),
            checkout: id("checkout"),
            fulfilment: id("fulfilment"),
            incident: id("incident"),
            agent: id("agent"),
            staging: id("staging"),
            supported_tenant: id("supported tenant"),
            reindex: id("reindex"),
            settlement: id("settlement"),
            absent: id("absent"),
        }
    }

    /// Returns every landmark that exists, with its name.
    pub fn named(&self) -> [(&'static str, TraceId); 11] {
        [
            ("storefront", self.storefront),
            ("payments", self.payments),
            ("logistics", self.logistics),
            ("checkout", self.checkout),
            ("fulfilment", self.fulfilment),
            ("incident", self.incident),
            ("agent", self.agent),
            ("staging", self.staging),
            ("supported tenant", self.supported_tenant),
            ("reindex", self.reindex),
            ("settlement", self.settlement),
        ]
    }
}

type TraceFactory = fn(&mut SampleRng, Landmarks, Timeline) -> Vec<Trace>;

/// Generates the landmarks; the ordinary ones are within the last hour.
pub(super) fn traces(seed: u64, timeline: Timeline) -> impl Iterator<Item = Trace> {
    // Generated one after the other, so that the largest trace is not in memory while the others are sent.
    let factories: [(&str, TraceFactory); 4] = [
        ("small landmarks", small_traces),
        ("purchases", purchases),
        ("nightly reindex", nightly_reindex),
        ("nightly settlement", nightly_settlement),
    ];
    factories
        .into_iter()
        .flat_map(move |(name, make)| make(&mut SampleRng::named(seed, name), Landmarks::of(seed), timeline))
}

fn other_tenant_visitor(rng: &mut SampleRng, environment: Environment) -> Visitor {
    visitor_of(rng, environment, OTHER_TENANT.to_owned())
}

fn small_traces(rng: &mut SampleRng, ids: Landmarks, timeline: Timeline) -> Vec<Trace> {
    let minutes = |minutes: u64| timeline.before(minutes * MINUTE);
    let [_, supported] = SUPPORTED_TENANTS;
    let (visitor, tester) = (other_tenant_visitor(rng, Production), other_tenant_visitor(rng, Staging));
    let customer = visitor_of(rng, Production, supported.to_owned());
    vec![
        browse(rng, &visitor, Browsing::Product, Some(ids.storefront), minutes(45)),
        webhook(rng, &visitor, Some(ids.payments), minutes(40)),
        stock_sync(rng, &visitor, Some(ids.logistics), minutes(35)),
        browse(rng, &tester, Browsing::Search, Some(ids.staging), minutes(30)),
        browse(rng, &customer, Browsing::Search, Some(ids.supported_tenant), minutes(28)),
        converse(rng, &visitor, Some(ids.agent), minutes(25)),
    ]
}

fn purchases(rng: &mut SampleRng, ids: Landmarks, timeline: Timeline) -> Vec<Trace> {
    let visitor = other_tenant_visitor(rng, Production);
    // A purchase may fail because an item is out of stock; the landmark must have an order.
    let (checkout, fulfilment) = loop {
        let at = timeline.before(50 * MINUTE);
        if let (checkout, Some(order)) = buy(rng, &visitor, Provider::Authorises, Some(ids.checkout), at) {
            break (checkout, ship(rng, &order, Some(ids.fulfilment)));
        }
    };
    let [supported, _] = SUPPORTED_TENANTS;
    let customer = visitor_of(rng, Production, supported.to_owned());
    let at = timeline.before(5 * HOUR);
    let incident = loop {
        let (trace, _) = buy(rng, &customer, Provider::TimesOut, Some(ids.incident), at);
        // A short trace was out of stock again: the purchase ended before the payment.
        if trace.spans.len() > 20 {
            break trace;
        }
    };
    vec![checkout, fulfilment, incident]
}

fn nightly_reindex(rng: &mut SampleRng, ids: Landmarks, timeline: Timeline) -> Vec<Trace> {
    // Ten minutes are ample for ten thousand spans.
    let at = timeline.nightly(130, 10 * MINUTE);
    vec![reindex(rng, ids.reindex, at, REINDEX_SPANS)]
}

fn nightly_settlement(rng: &mut SampleRng, ids: Landmarks, timeline: Timeline) -> Vec<Trace> {
    let at = timeline.nightly(180, SETTLEMENT_DURATION);
    vec![settlement(rng, ids.settlement, at, SETTLEMENT_DURATION)]
}
