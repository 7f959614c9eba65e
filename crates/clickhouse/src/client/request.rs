//! A statement as an HTTP request.

use reqwest::RequestBuilder;
use secrecy::ExposeSecret;
use tracewarden_model::Entropy;

use super::pool::Endpoint;
use crate::client::settings::{QueryLimits, REQUIRED_SETTINGS, settings};
use crate::sql::{MAX_FIELD_BYTES, Statement, pieces};
use crate::{ClickHouseConfig, ClickHouseError, Result};

/// Maximum size of a statement and its values. Policies and filters have their own limits, well below.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// Format of answers that are collected: one JSON document, with the rows as arrays and the number of rows after them.
pub(super) const COLLECTED_FORMAT: &str = "JSONCompact";

/// Which settings are sent with a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingsMode {
    /// All settings of this crate that the server knows.
    All(QueryLimits),
    /// Only those without which an answer could be cut ([`REQUIRED_SETTINGS`]), and no limit: for statements that read the profile, and
    /// for the one that lists the server's settings.
    Required,
}

/// A statement and how to send it, for any endpoint.
#[derive(Clone, Copy)]
pub(super) struct QueryRequest<'a> {
    pub(super) statement: &'a Statement,
    pub(super) format: &'a str,
    pub(super) settings: SettingsMode,
    /// Whether the answer may begin only when it is complete. Its head then holds the whole cost.
    pub(super) wait_end_of_query: bool,
}

impl<'a> QueryRequest<'a> {
    /// A request for an answer that is collected.
    pub(super) fn collected(statement: &'a Statement, settings: SettingsMode) -> Self {
        Self { statement, format: COLLECTED_FORMAT, settings, wait_end_of_query: false }
    }

    /// Builds the request to an endpoint. Each has an id of its own: a retry must not have the id of a statement that still
    /// runs.
    pub(super) fn to_http(
        self,
        http: &reqwest::Client,
        config: &ClickHouseConfig,
        entropy: &dyn Entropy,
        endpoint: &Endpoint,
    ) -> Result<RequestBuilder> {
        let id = random_id(entropy)?;
        let mut url = endpoint.url.clone();
        url.query_pairs_mut()
            .append_pair("query_id", &format!("tracewarden-{id}"))
            .append_pair("default_format", self.format);
        if self.wait_end_of_query {
            url.query_pairs_mut().append_pair("wait_end_of_query", "1");
        }
        match self.settings {
            SettingsMode::All(limits) => {
                let all = settings(config, limits, endpoint.capabilities.readonly(), self.statement);
                let known = all.into_iter().filter(|(name, _)| endpoint.capabilities.supports(name));
                url.query_pairs_mut().extend_pairs(known);
            }
            SettingsMode::Required => {
                url.query_pairs_mut().extend_pairs(REQUIRED_SETTINGS);
            }
        }
        // In the body, because values can be long and URLs are logged.
        let boundary = format!("tracewarden-{id}");
        let body = multipart_form(self.statement, &boundary);
        if body.len() > MAX_REQUEST_BYTES {
            return Err(ClickHouseError::failed(format!("the statement is too large: {} bytes", body.len())));
        }
        Ok(http
            .post(url)
            .header("X-ClickHouse-User", &config.user)
            .header("X-ClickHouse-Key", config.password.expose_secret())
            .header("Content-Type", format!("multipart/form-data; boundary={boundary}"))
            .body(body))
    }
}

fn random_id(entropy: &dyn Entropy) -> Result<String> {
    let mut id = [0_u8; 16];
    entropy.fill(&mut id).map_err(|error| ClickHouseError::Internal(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(id)))
}

/// Encodes a statement and its values as a form, the body in one piece. The HTTP client's own forms nest one stream in
/// another for each part, which overflows the stack with a thousand values. The boundary is random, so that no value can
/// contain it.
fn multipart_form(statement: &Statement, boundary: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(statement.text.len() + statement.parameters.len() * 128 + 512);
    let mut part = |name: &str, value: &str| {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\r\n");
    };
    // The server concatenates all parts with this name, in this order.
    for piece in pieces(&statement.text, MAX_FIELD_BYTES) {
        part("query", piece);
    }
    for (at, value) in statement.parameters.iter().enumerate() {
        part(&format!("param_p{at}"), value);
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::connect;

    #[tokio::test]
    async fn statements_and_lists_may_exceed_the_size_of_a_form_field() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let mut statement = Statement::default();
        let values: Vec<String> = (0..20_000).map(|number| format!("it's \\ number {number} é")).collect();
        let list = statement.string_array(&values);
        assert!(statement.parameters.len() > 3);
        let (one, none) = (statement.string(&values[19_999]), statement.string("it's"));
        // Characters of several bytes lie at the positions where the text is cut.
        let padding = "é/".repeat(MAX_FIELD_BYTES);
        statement.push(&format!(
            "SELECT /* {padding} */ length({list}), {one} IN {list}, {none} IN {list}, has({list}, {one}), '{padding}' = '' /* é */"
        ));
        let rows: Vec<(u64, u8, u8, u8, u8)> = store.client.rows(statement).await.unwrap();
        assert_eq!(rows, [(20_000, 1, 0, 1, 0)]);
        let mut statement = Statement::default();
        // Characters whose encodings have different lengths.
        let long = ["é", "'", "\\", "\0\n", "\u{1f600}x"].map(|text| text.repeat(300_000 / text.len()));
        let compared = long.iter().map(|value| {
            let (one, list) = (statement.string(value), statement.string_array(&["a".to_owned(), value.clone()]));
            let (units, rest) = (value.chars().count(), statement.string(&value[..value.len() / 2 / 10 * 10]));
            format!("lengthUTF8({one}) = {units} AND has({list}, {one}) AND startsWith({one}, {rest}) AND {one} IN ({one}, 'b')")
        });
        let compared: Vec<String> = compared.collect();
        statement.push(&format!("SELECT [{}]", compared.join(", ")));
        let rows: Vec<(Vec<u8>,)> = store.client.rows(statement).await.unwrap();
        assert_eq!(rows, [(vec![1; 5],)]);
        let mut statement = Statement::default();
        let (empty, one) = (statement.string_array(&[]), statement.string_array(&["a".to_owned()]));
        statement.push(&format!("SELECT length({empty}), {one}"));
        let rows: Vec<(u64, Vec<String>)> = store.client.rows(statement).await.unwrap();
        assert_eq!(rows, [(0, vec!["a".to_owned()])]);
    }
}
