//! The users of the demo, their roles, and the policies of the roles.
//!
//! Each policy is written twice: as the CEL expression for the service, and as a function on the generated spans. The check
//! compares the service's responses with the results of the functions.

use serde_json::{Value, json};
use tracewarden_sample_data::{Environment, SUPPORTED_TENANTS, Service, Span, Team, Trace};

/// A policy of a role.
pub struct Policy {
    pub title: &'static str,
    pub expression: &'static str,
    /// Whether a span satisfies the policy.
    pub satisfied: fn(&Trace, &Span) -> bool,
}

/// A role with its policies.
pub struct Role {
    pub name: &'static str,
    pub policies: &'static [Policy],
}

/// A user with at most one role.
pub struct DemoUser {
    pub username: &'static str,
    pub title: &'static str,
    /// Description of what this user sees, and why.
    pub sees: &'static str,
    /// `None` for the administrator, who configures the service and sees no traces.
    pub role: Option<&'static Role>,
    /// User attributes that the role's policies compare with.
    pub attributes: fn() -> Value,
}

impl DemoUser {
    /// Whether this span grants the user access to the trace.
    pub fn is_granted_by(&self, trace: &Trace, span: &Span) -> bool {
        let policies = self.role.map(|role| role.policies).unwrap_or_default();
        policies.iter().any(|policy| (policy.satisfied)(trace, span))
    }
}

pub static PAYMENTS_ON_CALL: Role = Role {
    name: "payments-on-call",
    policies: &[
        Policy {
            title: "Traces with spans of the own team",
            expression: r#"ResourceAttributes["team"] == user.attributes.team"#,
            satisfied: |_, span| span.service.team() == Team::Payments,
        },
        Policy {
            title: "Pages with errors",
            expression: r#"ServiceName == "frontend" && Events.Name.exists(name, name == "exception")"#,
            satisfied: |_, span| {
                span.service == Service::Frontend && span.events.iter().any(|event| event.name == "exception")
            },
        },
        Policy {
            title: "Express orders, from the cart to the parcel",
            expression: r#"SpanAttributes["app.order.express"]"#,
            satisfied: |_, span| span.attribute("app.order.express").is_some_and(|value| value == "true"),
        },
    ],
};

pub static STOREFRONT_PRODUCTION: Role = Role {
    name: "storefront-production",
    policies: &[Policy {
        title: "The storefront's services, in production only",
        expression: r#"ResourceAttributes["team"] == "storefront" && ResourceAttributes["deployment.environment.name"] == "production""#,
        satisfied: |trace, span| {
            span.service.team() == Team::Storefront && trace.environment == Environment::Production
        },
    }],
};

pub static SUPPORT: Role = Role {
    name: "support",
    policies: &[Policy {
        title: "Tenants that the user looks after",
        expression: r#"SpanAttributes["tenant.id"] in user.attributes.tenants"#,
        satisfied: |_, span| {
            span.attribute("tenant.id").is_some_and(|tenant| SUPPORTED_TENANTS.contains(&tenant.as_ref()))
        },
    }],
};

pub static ASSISTANT_QUALITY: Role = Role {
    name: "assistant-quality",
    policies: &[Policy {
        title: "Conversations with a model",
        expression: r#""gen_ai.operation.name" in SpanAttributes"#,
        satisfied: |_, span| span.attribute("gen_ai.operation.name").is_some(),
    }],
};

/// Proposed policy for [`STOREFRONT_PRODUCTION`]. Access to some traces is gained, to some lost, and to some unchanged.
pub static PROPOSAL: Policy = Policy {
    title: "Logistics, in production only",
    expression: r#"ResourceAttributes["team"] == "logistics" && ResourceAttributes["deployment.environment.name"] == "production""#,
    satisfied: |trace, span| {
        span.service.team() == Team::Logistics && trace.environment == Environment::Production
    },
};

pub static ROLES: [&Role; 4] = [&PAYMENTS_ON_CALL, &STOREFRONT_PRODUCTION, &SUPPORT, &ASSISTANT_QUALITY];

pub const ADMINISTRATOR: &str = "admin";
/// The user whose API key the MCP client uses.
pub const AGENT_OWNER: &str = "paula";

pub static DEMO_USERS: [DemoUser; 5] = [
    DemoUser {
        username: "paula",
        title: "payments, on call",
        sees: "traces in which a payments service takes part, broken pages, express orders",
        role: Some(&PAYMENTS_ON_CALL),
        attributes: || json!({"team": "payments"}),
    },
    DemoUser {
        username: "stefan",
        title: "storefront engineer",
        sees: "traces of storefront services, but nothing from staging",
        role: Some(&STOREFRONT_PRODUCTION),
        attributes: || json!({"team": "storefront"}),
    },
    DemoUser {
        username: "sam",
        title: "support",
        sees: "traces of the two tenants listed in his attributes, of any service",
        role: Some(&SUPPORT),
        attributes: || json!({"tenants": SUPPORTED_TENANTS}),
    },
    DemoUser {
        username: "mira",
        title: "machine learning",
        sees: "conversations with the shopping assistant, prompts included, and nothing else",
        role: Some(&ASSISTANT_QUALITY),
        attributes: || json!({}),
    },
    DemoUser {
        username: ADMINISTRATOR,
        title: "administrator",
        sees: "configuration, users and the audit log, but no traces: administration grants none",
        role: None,
        attributes: || json!({}),
    },
];

/// Returns tests for the access model, with the users above and traces that are small enough to read.
pub fn tests() -> Value {
    let users: Vec<Value> = DEMO_USERS
        .iter()
        .filter_map(|demo_user| {
            let role = demo_user.role?.name;
            Some(json!({"username": demo_user.username, "roles": [role], "attributes": (demo_user.attributes)()}))
        })
        .collect();
    let [tenant, _] = SUPPORTED_TENANTS;
    let resource =
        |team: &str, environment: &str| json!({"team": team, "deployment.environment.name": environment});
    let traces = json!([
        {"name": "checkout in production", "spans": [
            {"ServiceName": "frontend", "ResourceAttributes": resource("storefront", "production"),
                "SpanAttributes": {"tenant.id": tenant}, "Events.Name": []},
            {"ServiceName": "payment", "ResourceAttributes": resource("payments", "production"),
                "SpanAttributes": {}, "Events.Name": []}]},
        {"name": "page with an error in staging", "spans": [
            {"ServiceName": "frontend", "ResourceAttributes": resource("storefront", "staging"),
                "SpanAttributes": {"tenant.id": "another-tenant"}, "Events.Name": ["exception"]}]},
    ]);
    let test = |name: &str, user: &str, trace: &str, visible: bool| json!({"name": name, "user": user, "trace": trace, "visible": visible});
    let (checkout, page) = ("checkout in production", "page with an error in staging");
    let tests = json!([
        test("payments sees traces with its spans", "paula", checkout, true),
        test("payments sees pages with errors", "paula", page, true),
        test("the storefront sees its production", "stefan", checkout, true),
        test("the storefront does not see staging", "stefan", page, false),
        test("support sees its tenants", "sam", checkout, true),
        test("support does not see other tenants", "sam", page, false),
        test("machine learning does not see checkouts", "mira", checkout, false),
    ]);
    json!({"users": users, "traces": traces, "tests": tests})
}

/// Returns the field definitions: what users may search by, and what policies may read.
pub fn fields() -> Value {
    let column = |name: &str, kind: &str, policy: bool| json!({"name": name, "type": kind, "filterable": true, "policy": policy});
    let key = |map: &str, name: &str, kind: &str, policy: bool| json!({"map": map, "name": name, "type": kind, "filterable": true, "policy": policy});
    json!([
        column("TraceId", "string", false),
        column("Timestamp", "number", false),
        column("ServiceName", "string", true),
        column("SpanName", "string", true),
        column("SpanKind", "string", true),
        column("StatusCode", "string", true),
        column("Duration", "number", false),
        column("Events.Name", "string_array", true),
        key("ResourceAttributes", "team", "string", true),
        key("ResourceAttributes", "deployment.environment.name", "string", true),
        key("SpanAttributes", "tenant.id", "string", true),
        key("SpanAttributes", "user.id", "string", true),
        key("SpanAttributes", "http.route", "string", true),
        key("SpanAttributes", "http.response.status_code", "number", false),
        key("SpanAttributes", "app.order.express", "boolean", true),
        key("SpanAttributes", "app.order.categories", "string_array", true),
        key("SpanAttributes", "gen_ai.operation.name", "string", true),
        key("SpanAttributes", "gen_ai.request.model", "string", true),
    ])
}
