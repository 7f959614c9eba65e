//! Authentication: one user with one password, sent in one of ClickHouse's three ways.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use subtle::ConstantTimeEq;

use super::request::Parameter;
use crate::error::{EngineError, code};

pub struct Credentials {
    pub user: String,
    pub password: String,
}

impl Credentials {
    /// Checks the credentials of a request, which are in headers, basic authentication or URL parameters, but only in
    /// one of them.
    pub fn check(&self, headers: &HeaderMap, parameters: &[Parameter]) -> Result<(), EngineError> {
        let header = |name: &str| headers.get(name).map(axum::http::HeaderValue::as_bytes);
        let parameter = |name: &str| {
            parameters.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value.as_slice())
        };
        let authorization = headers.get(header::AUTHORIZATION).map(|value| {
            basic_credentials(value.as_bytes())
                .ok_or_else(|| failed("the `Authorization` header is not basic authentication"))
        });
        let basic = authorization.transpose()?;
        let ways = [
            (header("x-clickhouse-user"), header("x-clickhouse-key")),
            (parameter("user"), parameter("password")),
            basic.as_ref().map(|(user, password)| (user.as_slice(), password.as_slice())).unzip(),
        ];
        let mut given = ways.into_iter().filter(|(user, password)| user.is_some() || password.is_some());
        let (user, password) = given.next().unwrap_or_default();
        if given.next().is_some() {
            return Err(failed(
                "Invalid authentication: it is not allowed to use several ways of authentication simultaneously",
            ));
        }
        let user = user.filter(|user| !user.is_empty()).unwrap_or(b"default");
        let same_user = user.ct_eq(self.user.as_bytes());
        let same_password = password.unwrap_or_default().ct_eq(self.password.as_bytes());
        if bool::from(same_user & same_password) {
            return Ok(());
        }
        let user: String =
            String::from_utf8_lossy(user).chars().take(64).flat_map(char::escape_default).collect();
        Err(failed(format_args!(
            "{user}: Authentication failed: password is incorrect, or there is no user with such name"
        )))
    }
}

fn failed(text: impl std::fmt::Display) -> EngineError {
    EngineError::new(code::AUTHENTICATION_FAILED, text)
}

fn basic_credentials(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some((decoded.get(..colon)?.to_vec(), decoded.get(colon + 1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&'static str, &str)], parameters: &[(&str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let parameters: Vec<Parameter> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Credentials { user: "u".into(), password: "p:q".into() }.check(&headers, &parameters).is_ok()
    }

    #[test]
    fn three_ways_but_only_one_at_a_time() {
        let basic = ("authorization", "Basic dTpwOnE=");
        assert!(check(&[("x-clickhouse-user", "u"), ("x-clickhouse-key", "p:q")], &[]));
        assert!(check(&[basic], &[]));
        assert!(check(&[], &[("user", "u"), ("password", "p:q")]));
        assert!(!check(&[basic, ("x-clickhouse-user", "u")], &[]));
        assert!(!check(&[basic], &[("user", "u")]));
        assert!(!check(&[], &[]));
        assert!(!check(&[("authorization", "Bearer x")], &[]));
        assert!(!check(&[("authorization", "Basic !")], &[]));
        assert!(!check(&[("x-clickhouse-user", "u"), ("x-clickhouse-key", "p:r")], &[]));
    }
}
