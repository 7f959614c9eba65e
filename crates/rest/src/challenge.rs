//! Challenges that lead programs without a sufficient access token to the metadata of the resource (RFC 6750, RFC 9728).

use tracewarden_service::Tool;

use crate::code::Code;
use crate::problem::Problem;

/// Where a program that is refused finds the metadata of the resource that it called.
#[derive(Debug, Clone)]
pub(crate) struct Challenge {
    metadata_url: String,
    has_token: bool,
}

impl Challenge {
    pub(crate) fn new(metadata_url: String, has_token: bool) -> Self {
        Self { metadata_url, has_token }
    }

    /// Adds the challenge to a refusal that a token, or one with more scopes, would avoid.
    pub(crate) fn add_to(&self, problem: Problem) -> Problem {
        let needed = problem.needed_scopes().map(<[Tool]>::to_vec);
        let error = match (problem.code(), &needed) {
            (Code::InsufficientScope, Some(_)) => "error=\"insufficient_scope\", ",
            (Code::Unauthenticated, _) if self.has_token => "error=\"invalid_token\", ",
            (Code::Unauthenticated, _) => "",
            _ => return problem,
        };
        let scopes = needed.unwrap_or_else(|| Tool::ALL.to_vec());
        let scope = scopes.into_iter().map(Tool::name).collect::<Vec<_>>().join(" ");
        let metadata = &self.metadata_url;
        problem.with_challenge(&format!("Bearer {error}resource_metadata=\"{metadata}\", scope=\"{scope}\""))
    }
}
