//! Possible policies of the soak's roles, and which of them each written trace satisfies.
//!
//! Each policy is written twice: as the CEL expression for the service, and as a function on the written spans. Expected results
//! come from the functions alone.

use serde_json::{Value, json};
use tracewarden_sample_data::{Environment, SUPPORTED_TENANTS, Service, Span, Team, Trace, tenant};

use super::random::Random;

/// A set of conditions, one bit each: those that some span of a trace satisfies, or those of a user's policies.
pub type Mask = u64;

const TEAMS: [Team; 3] = [Team::Storefront, Team::Payments, Team::Logistics];
/// Tenants in user attributes: some by their rank in traffic, and the two of the sample's support user.
const RANKS: [usize; 6] = [0, 1, 2, 7, 11, 40];
const TENANTS: usize = RANKS.len() + SUPPORTED_TENANTS.len();

type Condition = (&'static str, fn(&Trace, &Span) -> bool);

/// Policies that do not depend on the user, in addition to one for each service.
const LITERALS: [Condition; 7] = [
    (r#"ServiceName == "frontend" && Events.Name.exists(name, name == "exception")"#, |_, span| {
        span.service == Service::Frontend && span.events.iter().any(|event| event.name == "exception")
    }),
    (r#"SpanAttributes["app.order.express"]"#, |_, span| {
        span.attribute("app.order.express").is_some_and(|value| value == "true")
    }),
    (r#""gen_ai.operation.name" in SpanAttributes"#, |_, span| {
        span.attribute("gen_ai.operation.name").is_some()
    }),
    (r#"StatusCode == "Error" && ResourceAttributes["team"] == "payments""#, |_, span| {
        span.status.as_exported() == "Error" && span.service.team() == Team::Payments
    }),
    (r#"SpanAttributes["http.route"].startsWith("/cart")"#, |_, span| {
        span.attribute("http.route").is_some_and(|value| value.starts_with("/cart"))
    }),
    // If a span has no tenant, the comparison is an error, and the policy does not match.
    (
        r#"ResourceAttributes["deployment.environment.name"] == "staging" && SpanAttributes["tenant.id"] != "ember-books""#,
        |trace, span| {
            trace.environment == Environment::Staging
                && span.attribute("tenant.id").is_some_and(|value| value != "ember-books")
        },
    ),
    ("false", |_, _| false),
];

const FIRST_TENANT: usize = TEAMS.len();
const FIRST_SERVICE: usize = FIRST_TENANT + TENANTS;
const FIRST_LITERAL: usize = FIRST_SERVICE + Service::ALL.len();
/// Number of conditions that do not depend on the user: services and [`LITERALS`].
const FIXED_COUNT: usize = Service::ALL.len() + LITERALS.len();

/// User attributes that policies compare with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    team: usize,
    /// One bit per tenant.
    tenants: u8,
}

impl Attributes {
    pub fn any(random: &mut Random) -> Self {
        // A random subset of the tenants, sometimes none.
        let tenants = random.below(256) as u8 & random.below(256) as u8;
        Self { team: random.below(TEAMS.len()), tenants }
    }

    pub fn wire(self) -> Value {
        let team = TEAMS.get(self.team).map(|team| team.name()).unwrap_or_default();
        let tenants: Vec<String> =
            (0..TENANTS).filter(|index| self.tenants >> index & 1 == 1).map(tenant_at).collect();
        json!({"team": team, "tenants": tenants})
    }
}

fn tenant_at(index: usize) -> String {
    match RANKS.get(index) {
        Some(rank) => tenant(*rank),
        None => SUPPORTED_TENANTS.get(index - RANKS.len()).map(|name| (*name).to_owned()).unwrap_or_default(),
    }
}

/// A policy of a role.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    OwnTeam,
    OwnTenants,
    /// Index of a service or of one of [`LITERALS`].
    Fixed(usize),
}

impl Policy {
    pub fn any(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::OwnTeam,
            1 | 2 => Self::OwnTenants,
            _ => Self::Fixed(random.below(FIXED_COUNT)),
        }
    }

    pub fn expression(self) -> String {
        match self {
            Self::OwnTeam => r#"ResourceAttributes["team"] == user.attributes.team"#.to_owned(),
            Self::OwnTenants => r#"SpanAttributes["tenant.id"] in user.attributes.tenants"#.to_owned(),
            Self::Fixed(index) => match Service::ALL.get(index) {
                Some(service) => format!("ServiceName == \"{}\"", service.name()),
                None => {
                    let literal = LITERALS.get(index - Service::ALL.len());
                    literal.map(|(expression, _)| (*expression).to_owned()).unwrap_or_default()
                }
            },
        }
    }

    /// Returns the condition that holds for all users, or an empty mask if the policy depends on the user.
    pub fn fixed_mask(self) -> Mask {
        match self {
            Self::OwnTeam | Self::OwnTenants => 0,
            Self::Fixed(index) => 1 << (FIRST_SERVICE + index),
        }
    }

    /// Returns the conditions of which a span must satisfy at least one, for a user with these attributes.
    pub fn mask(self, attributes: Attributes) -> Mask {
        match self {
            Self::OwnTeam => 1 << attributes.team,
            Self::OwnTenants => Mask::from(attributes.tenants) << FIRST_TENANT,
            Self::Fixed(_) => self.fixed_mask(),
        }
    }
}

/// Returns a role's policies in the API's format.
pub fn wire(policies: &[Policy]) -> Value {
    let policies: Vec<Value> = policies
        .iter()
        .enumerate()
        .map(|(index, policy)| json!({"title": format!("Policy {index}"), "expression": policy.expression()}))
        .collect();
    json!({ "policies": policies })
}

/// Returns the conditions that some span of the trace satisfies.
pub fn satisfied(trace: &Trace) -> Mask {
    let tenants: Vec<String> = (0..TENANTS).map(tenant_at).collect();
    let mut mask = 0;
    for span in &trace.spans {
        let mut set_bit = |index: usize, holds: bool| mask |= Mask::from(holds) << index;
        for (index, team) in TEAMS.iter().enumerate() {
            set_bit(index, span.service.team() == *team);
        }
        let own = span.attribute("tenant.id");
        for (index, tenant) in tenants.iter().enumerate() {
            set_bit(FIRST_TENANT + index, own.as_deref() == Some(tenant.as_str()));
        }
        for (index, service) in Service::ALL.iter().enumerate() {
            set_bit(FIRST_SERVICE + index, span.service == *service);
        }
        for (index, (_, holds)) in LITERALS.iter().enumerate() {
            set_bit(FIRST_LITERAL + index, holds(trace, span));
        }
    }
    mask
}

/// Whether a trace that satisfies these conditions has a span of the service.
pub fn has_service(mask: Mask, service: usize) -> bool {
    mask >> (FIRST_SERVICE + service) & 1 == 1
}

/// Returns the definitions of the fields that users search by and that the policies above read.
pub fn fields() -> Value {
    let column =
        |name: &str, kind: &str| json!({"name": name, "type": kind, "filterable": true, "policy": true});
    let key = |map: &str, name: &str, kind: &str| json!({"map": map, "name": name, "type": kind, "filterable": true, "policy": true});
    json!([
        column("ServiceName", "string"),
        column("StatusCode", "string"),
        column("Events.Name", "string_array"),
        key("ResourceAttributes", "team", "string"),
        key("ResourceAttributes", "deployment.environment.name", "string"),
        key("SpanAttributes", "tenant.id", "string"),
        key("SpanAttributes", "http.route", "string"),
        key("SpanAttributes", "app.order.express", "boolean"),
        key("SpanAttributes", "gen_ai.operation.name", "string"),
    ])
}

#[cfg(test)]
mod tests {
    use tracewarden_sample_data::{SEED, Shop};

    use super::*;

    #[test]
    fn every_condition_is_satisfied_by_some_traces_and_not_by_others() {
        let shop = Shop::new(SEED, 1_900_000_000_000_000_000).with_spans(60_000);
        let masks: Vec<Mask> = shop.traces().map(|trace| satisfied(&trace)).collect();
        // The last literal is `false`.
        for index in 0..FIRST_LITERAL + LITERALS.len() - 1 {
            let holds = masks.iter().filter(|mask| **mask >> index & 1 == 1).count();
            assert!(holds > 0 && holds < masks.len(), "{index}: {holds} of {}", masks.len());
        }
        let never = Policy::Fixed(FIXED_COUNT - 1);
        assert_eq!(never.expression(), "false");
        let attributes = Attributes { team: 0, tenants: 0 };
        assert!(masks.iter().all(|mask| mask & never.mask(attributes) == 0));
    }

    #[test]
    fn attributes_choose_what_own_means() {
        let attributes = Attributes { team: 1, tenants: 0b1000_0001 };
        assert_eq!(
            attributes.wire(),
            json!({"team": "payments", "tenants": [tenant(0), SUPPORTED_TENANTS[1]]})
        );
        assert_eq!(Policy::OwnTeam.mask(attributes), 0b10);
        assert_eq!(Policy::OwnTenants.mask(attributes), 0b1000_0001 << 3);
    }
}
