//! Ordinary traffic: the visitors' activities, minute by minute.

use std::collections::VecDeque;

use super::assistant::converse;
use super::checkout::{Provider, buy};
use super::logistics::{confirm_order, ship, stock_sync, tracking};
use super::payments::{refund, webhook};
use super::rng::{MINUTE, SampleRng, cumulative};
use super::services::Environment;
use super::span::Trace;
use super::storefront::{Browsing, browse};
use super::timeline::{MINUTES, Timeline};
use super::visitors::{Visitor, Visitors};

#[derive(Clone, Copy)]
enum Activity {
    Browse(Browsing),
    Buy,
    Webhook,
    Refund,
    Track,
    CountStock,
    AskAssistant,
}

/// Activities with their weights. Most traces belong to one team only; a purchase belongs to all three.
const ACTIVITIES: [(Activity, u64); 11] = [
    (Activity::Browse(Browsing::Home), 14),
    (Activity::Browse(Browsing::Product), 28),
    (Activity::Browse(Browsing::Search), 14),
    (Activity::Browse(Browsing::AddToCart), 9),
    (Activity::Browse(Browsing::SignIn), 4),
    (Activity::Buy, 7),
    (Activity::Webhook, 8),
    (Activity::Refund, 2),
    (Activity::Track, 7),
    (Activity::CountStock, 5),
    (Activity::AskAssistant, 2),
];

const STAGING_PERCENT: u64 = 12;

pub(super) struct Traffic {
    rng: SampleRng,
    visitors: Visitors,
    activities: Vec<u64>,
    timeline: Timeline,
    /// Number of spans that must exist at the end of each minute.
    quota: Vec<u64>,
    minute: usize,
    spans: u64,
    /// Generated traces to be returned next. A purchase gives additional traces for its processing.
    ready: VecDeque<Trace>,
}

impl Traffic {
    pub fn new(seed: u64, timeline: Timeline, spans: usize) -> Self {
        let weights = cumulative((0..MINUTES).map(|minute| timeline.weight(minute)));
        let total = weights.last().copied().unwrap_or(1);
        let quota = weights.iter().map(|weight| (weight * spans as u64).div_ceil(total)).collect();
        Self {
            rng: SampleRng::named(seed, "traffic"),
            visitors: Visitors::new(),
            activities: cumulative(ACTIVITIES.iter().map(|(_, weight)| *weight)),
            timeline,
            quota,
            minute: 0,
            spans: 0,
            ready: VecDeque::new(),
        }
    }

    fn generate_activity(&mut self) {
        let at = self.timeline.minute(self.minute as u64) + self.rng.between(0, MINUTE);
        let environment =
            if self.rng.percent(STAGING_PERCENT) { Environment::Staging } else { Environment::Production };
        let visitor = self.visitors.visitor(&mut self.rng, environment);
        let activity_index = self.rng.weighted(&self.activities);
        let activity = ACTIVITIES.get(activity_index).map_or(Activity::Buy, |(activity, _)| *activity);
        let rng = &mut self.rng;
        match activity {
            Activity::Browse(what) => self.ready.push_back(browse(rng, &visitor, what, None, at)),
            Activity::Webhook => self.ready.push_back(webhook(rng, &visitor, None, at)),
            Activity::Refund => self.ready.push_back(refund(rng, &visitor, at)),
            Activity::Track => self.ready.push_back(tracking(rng, &visitor, at)),
            Activity::CountStock => self.ready.push_back(stock_sync(rng, &visitor, None, at)),
            Activity::AskAssistant => self.ready.push_back(converse(rng, &visitor, None, at)),
            Activity::Buy => self.purchase(&visitor, at),
        }
    }

    /// Generates a purchase. Visitors whose payment fails because of the incident try again, some of them several times.
    fn purchase(&mut self, visitor: &Visitor, mut at: u64) {
        for _ in 0..5 {
            let provider = self.provider(visitor.environment, at);
            let (trace, order) = buy(&mut self.rng, visitor, provider, None, at);
            self.ready.push_back(trace);
            if let Some(order) = order {
                self.ready.push_back(ship(&mut self.rng, &order, None));
                self.ready.push_back(confirm_order(&mut self.rng, &order));
            }
            if provider != Provider::TimesOut || self.rng.percent(15) {
                return;
            }
            at += self.rng.between(MINUTE / 4, MINUTE);
        }
    }

    fn provider(&mut self, environment: Environment, at: u64) -> Provider {
        let (from, to) = self.timeline.incident();
        if environment == Environment::Production && (from..to).contains(&at) && self.rng.percent(85) {
            Provider::TimesOut
        } else if self.rng.percent(4) {
            Provider::Declines
        } else {
            Provider::Authorises
        }
    }
}

impl Iterator for Traffic {
    type Item = Trace;

    fn next(&mut self) -> Option<Trace> {
        loop {
            if let Some(trace) = self.ready.pop_front() {
                self.spans += trace.spans.len() as u64;
                return Some(trace);
            }
            while self.spans >= *self.quota.get(self.minute)? {
                self.minute += 1;
            }
            self.generate_activity();
        }
    }
}
