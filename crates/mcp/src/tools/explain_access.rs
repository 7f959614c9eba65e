//! `svc_explain_access`: the policies that give the caller access, and why the caller can see one trace.
//!
//! For a trace that the caller cannot see, the answer is the same as from every other tool. An explanation would
//! reveal that the trace exists.

use std::collections::BTreeMap;
use std::fmt::Display;

use itertools::Itertools as _;
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracewarden_model::AttributeValue;
use tracewarden_service::{
    ExplainedPolicy, Explanation, OwnAccess, OwnPolicy, PolicyExplanation, PolicyVerdict, Tool,
};

use super::{Context, Definition, pluralize, service_and_name, start_call};
use crate::answer::{Budget, NextCall, Rendered, next_text};
use crate::failure::Failure;
use crate::span_text::{fenced, one_line};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Your access",
    "The access that your roles grant, in words; with trace_id, why you can read that trace.",
    |context| start_call(call, context),
);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// A trace, to explain why you can see it.
    trace_id: Option<String>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// A policy of a role. Any policy that a span satisfies grants access to the trace.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Policy {
    role: String,
    title: String,
    description: Option<String>,
    /// Condition that any span of a trace must satisfy. Absent if it uses fields that you may not search, or cannot
    /// be applied.
    requirement: Option<String>,
}

/// A span that satisfies a policy.
#[derive(Debug, Serialize, JsonSchema)]
struct MatchingSpan {
    span_id: String,
    /// "service: operation".
    span: String,
}

/// A policy that grants access to the trace.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct GrantingPolicy {
    /// Absent for the API key's own policy, which a trace must also satisfy.
    role: Option<String>,
    title: Option<String>,
    /// Number of spans that satisfy it.
    count: u64,
    /// The first of these spans.
    first: Vec<MatchingSpan>,
}

/// Explains why the caller can see a trace.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedTrace {
    trace_id: String,
    spans: u64,
    summary: String,
    granted_by: Vec<GrantingPolicy>,
}

/// The caller.
#[derive(Debug, Serialize, JsonSchema)]
struct User {
    username: String,
    /// Roles; those with a policy are under `policies`.
    roles: Vec<String>,
    role_count: usize,
    /// User attributes that policies can use, shortened.
    attributes: BTreeMap<String, String>,
    attribute_count: usize,
}

/// Constraints of the API key.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct KeyScope {
    /// Condition that a trace must also satisfy.
    must_satisfy: Option<String>,
    /// The only tools that the key allows.
    tools: Option<Vec<String>>,
}

/// The answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    user: User,
    key: Option<KeyScope>,
    trace: Option<ExplainedTrace>,
    /// You can see a trace if any of its spans satisfies any of these.
    policies: Vec<Policy>,
    /// Number of policies here or under `granted_by`.
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

/// Limits of the details: characters, spans, list entries.
#[derive(Debug, Clone, Copy)]
struct DetailLimits {
    name: usize,
    description: usize,
    words: usize,
    spans: usize,
    listed: usize,
}

/// Limits that are tried in this order until a response fits.
const DETAIL_LIMITS: [DetailLimits; 3] = [
    DetailLimits { name: 100, description: 300, words: 2_000, spans: 5, listed: 30 },
    DetailLimits { name: 60, description: 100, words: 400, spans: 2, listed: 8 },
    DetailLimits { name: 30, description: 0, words: 120, spans: 1, listed: 3 },
];

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let Context { service, principal, .. } = context;
    // First, so that a rejected call reads nothing.
    let access = service.traces().own_access(principal).await?;
    let explanation = match &arguments.trace_id {
        Some(trace_id) => Some(service.traces().explain(principal, trace_id, None, None).await?),
        None => None,
    };
    // An explained trace is already recorded as a read.
    if explanation.is_none() {
        service.core().record_tool_call(principal, Tool::ExplainAccess).await?;
    }
    build_result(context, budget, &access, explanation.as_ref())
}

fn build_result(
    context: &Context<'_>,
    budget: Budget,
    access: &OwnAccess,
    explanation: Option<&Explanation>,
) -> Result<CallToolResult, Failure> {
    let granting: Vec<&ExplainedPolicy> = explanation
        .into_iter()
        .flat_map(|explanation| &explanation.policies)
        .filter(|policy| policy.explained.outcome == PolicyVerdict::Satisfied)
        .collect();
    let policies: Vec<(&str, &OwnPolicy)> = access
        .roles
        .iter()
        .flat_map(|role| role.policies.iter().map(|policy| (role.name.as_str(), policy)))
        .collect();
    let total = granting.len() + policies.len();
    let render = |count: usize, limits: DetailLimits| {
        let next = match explanation {
            Some(explanation) => {
                let arguments = json!({ "trace_id": explanation.trace_id });
                NextCall::new("read the trace", Tool::GetTrace, arguments)
            }
            None => NextCall::new("see which fields conditions can name", Tool::FilterSchema, json!({})),
        };
        // Matching policies of the requested trace come first.
        let granting = granting.get(..count.min(granting.len())).unwrap_or_default();
        let others = policies.iter().take(count - granting.len());
        let answer = Answer {
            user: user(access, limits),
            key: key(access, limits),
            trace: explanation.map(|explanation| explained(explanation, granting, limits)),
            policies: others.map(|(role, policy)| shown(role, policy, limits)).collect(),
            returned: count,
            total,
            truncated: count < total,
            next: context.next_calls([next], budget, count < total),
        };
        Rendered::new(text(&answer), &answer)
    };
    budget.fit_with_levels(&DETAIL_LIMITS, total, render)
}

fn user(access: &OwnAccess, limits: DetailLimits) -> User {
    let user = &access.user;
    let short = |name: &String| one_line(name, limits.name);
    let attributes = user.attributes.iter().take(limits.listed);
    User {
        username: one_line(&user.username, 100),
        roles: user.roles.iter().take(limits.listed).map(short).collect(),
        role_count: user.roles.len(),
        attributes: attributes.map(|(name, value)| (short(name), attribute(value, limits))).collect(),
        attribute_count: user.attributes.len(),
    }
}

/// Formats a user attribute: a text or a list of texts, set by an administrator.
fn attribute(value: &AttributeValue, limits: DetailLimits) -> String {
    match value {
        AttributeValue::String(text) => one_line(text, limits.name),
        AttributeValue::Bool(value) => value.to_string(),
        AttributeValue::Strings(list) => {
            listed(list.iter().take(limits.listed).map(|text| one_line(text, limits.name)), list.len())
        }
    }
}

fn key(access: &OwnAccess, limits: DetailLimits) -> Option<KeyScope> {
    let words = |words: &Option<String>| one_line(words.as_deref().unwrap_or(UNDESCRIBED), limits.words);
    let must_satisfy = access.key_constraint.as_ref().map(words);
    let key_scope = KeyScope { must_satisfy, tools: access.tools.clone() };
    (key_scope.must_satisfy.is_some() || key_scope.tools.is_some()).then_some(key_scope)
}

fn shown(role: &str, policy: &OwnPolicy, limits: DetailLimits) -> Policy {
    let description = policy.description.as_deref().filter(|text| limits.description > 0 && !text.is_empty());
    Policy {
        role: one_line(role, limits.name),
        title: one_line(&policy.title, limits.name),
        description: description.map(|text| one_line(text, limits.description)),
        requirement: policy.requirement.as_deref().map(|words| one_line(words, limits.words)),
    }
}

fn explained(
    explanation: &Explanation,
    granting: &[&ExplainedPolicy],
    limits: DetailLimits,
) -> ExplainedTrace {
    let of_roles = granting.iter().map(|policy| (Some(*policy), &policy.explained));
    let of_key = explanation.key_constraint.iter().map(|key_constraint| (None, key_constraint));
    let granted_by =
        of_roles.chain(of_key).map(|(policy, explained)| granting_policy(policy, explained, limits));
    ExplainedTrace {
        trace_id: one_line(&explanation.trace_id, 256),
        spans: explanation.spans,
        summary: one_line(&explanation.summary, 600),
        granted_by: granted_by.collect(),
    }
}

fn granting_policy(
    policy: Option<&ExplainedPolicy>,
    explained: &PolicyExplanation,
    limits: DetailLimits,
) -> GrantingPolicy {
    let first = explained.spans.iter().take(limits.spans).map(|span| MatchingSpan {
        span_id: one_line(&span.span_id, 64),
        span: service_and_name(span.service.as_deref(), span.name.as_deref(), limits.name),
    });
    GrantingPolicy {
        role: policy.map(|policy| one_line(&policy.role, limits.name)),
        title: policy.map(|policy| one_line(&policy.title, limits.name)),
        count: explained.satisfied_by.unwrap_or_default(),
        first: first.collect(),
    }
}

/// Replacement for a condition that must not be shown.
const UNDESCRIBED: &str = "a condition on fields that you may not search, or one that cannot be applied";

fn text(answer: &Answer) -> String {
    let User { username, roles, role_count, attributes, attribute_count } = &answer.user;
    let mut text = format!("you are {username}");
    text += &match role_count {
        0 => ", without a role\n".to_owned(),
        1 => format!("; role: {}\n", listed(roles.iter(), 1)),
        count => format!("; {count} roles: {}\n", listed(roles.iter(), *count)),
    };
    if *attribute_count > 0 {
        let attributes = attributes.iter().map(|(name, value)| format!("{name} = {value}"));
        text += &format!("attributes: {}\n", listed(attributes, *attribute_count));
    }
    if let Some(KeyScope { must_satisfy, tools }) = &answer.key {
        text.extend(must_satisfy.iter().map(|words| {
            format!("your key grants access only to traces in which a span also satisfies: {words}\n")
        }));
        text.extend(
            tools.iter().map(|tools| format!("your key is limited to these tools: {}\n", tools.join(", "))),
        );
    }
    if let Some(ExplainedTrace { trace_id, spans, summary, granted_by }) = &answer.trace {
        text += &format!("trace {trace_id}, {}: {summary}\n", pluralize(*spans, "span"));
        if !granted_by.is_empty() {
            text += "access granted by:\n";
        }
        text += &fenced(granted_by.iter().map(GrantingPolicy::line));
    }
    if answer.total == 0 {
        text += "No policy applies to you, so you can read no trace; an administrator assigns roles.\n";
    } else if !answer.policies.is_empty() {
        text += "you can read a trace when any of its spans satisfies any of these:\n";
    }
    for Policy { role, title, description, requirement } in &answer.policies {
        let words = requirement.as_deref().unwrap_or(UNDESCRIBED);
        let description = description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        text += &format!("- {role} / {title}: {words}{description}\n");
    }
    if answer.truncated {
        text += &format!("{} of {} policies shown\n", answer.returned, answer.total);
    }
    text + &next_text(&answer.next)
}

/// Joins the texts, and adds how many are left out of `total`.
fn listed(shown: impl ExactSizeIterator<Item: Display>, total: usize) -> String {
    let more = more(total as u64, shown.len());
    shown.format(", ").to_string() + &more
}

fn more(total: u64, shown: usize) -> String {
    match total.saturating_sub(shown as u64) {
        0 => String::new(),
        more => format!(" … and {more} more"),
    }
}

impl GrantingPolicy {
    fn line(&self) -> String {
        let whose = match (&self.role, &self.title) {
            (Some(role), Some(title)) => format!("{role} / {title}"),
            _ => "the policy of your key".to_owned(),
        };
        let first = self.first.iter().map(|span| format!("[{}] {}", span.span_id, span.span)).join("; ");
        format!("{whose}, {}: {first}{}", pluralize(self.count, "span"), more(self.count, self.first.len()))
    }
}
