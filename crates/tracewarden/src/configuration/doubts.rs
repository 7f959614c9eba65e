//! Warnings on settings that are valid but probably a mistake. `check-config` prints them, and every start logs them.

use std::time::Duration;

use super::Configuration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// Returns the warnings.
pub fn doubts(configuration: &Configuration) -> Vec<String> {
    let mut doubts = Vec::new();
    let over_https =
        configuration.public_origin.as_deref().is_some_and(|origin| origin.starts_with("https:"));
    if over_https && configuration.trusted_proxies.is_empty() {
        doubts.push(
            "`public_url` is `https`, which a proxy in front of the service must speak, and `trusted_proxies` names none: all \
             clients then have the proxy's address, in the audit log too, and one stranger who guesses passwords slows down \
             everybody; name the proxy's address"
                .to_owned(),
        );
    }
    for everybody in configuration.trusted_proxies.iter().filter(|network| network.prefix_len() == 0) {
        doubts.push(format!(
            "`trusted_proxies` holds `{everybody}`, so that every client can claim any address, and guess passwords from a new one \
             each time; name the proxies alone"
        ));
    }
    if let Some(retention) = configuration.audit_retention.filter(|retention| *retention < DAY) {
        doubts.push(format!(
            "`audit_retention` removes audit records older than {retention:?}; a day is little"
        ));
    }
    if let Some(lifetime) = configuration.session_lifetime.filter(|lifetime| *lifetime < MINUTE) {
        doubts.push(format!("`session_lifetime` ends every session {lifetime:?} after its log-in"));
    }
    if let Some(idle) = configuration.session_idle.filter(|idle| *idle < MINUTE) {
        doubts.push(format!("`session_idle` ends every session that was not used for {idle:?}"));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> Vec<String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        doubts(&Configuration::load(None, environment).unwrap())
    }

    #[track_caller]
    fn check(environment: &[(&str, &str)], expected: &[&str]) {
        let doubts = of(environment);
        assert_eq!(doubts.len(), expected.len(), "{doubts:?}");
        for (doubt, part) in doubts.iter().zip(expected) {
            assert!(doubt.contains(part), "{doubt}");
        }
    }

    #[test]
    fn what_is_usual_is_not_doubted() {
        check(&[], &[]);
        check(
            &[
                ("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com"),
                ("TRACEWARDEN_TRUSTED_PROXIES", "10.0.0.0/8,::1"),
                ("TRACEWARDEN_AUDIT_RETENTION", "1d"),
                ("TRACEWARDEN_SESSION_LIFETIME", "1m"),
                ("TRACEWARDEN_SESSION_IDLE", "60s"),
            ],
            &[],
        );
    }

    #[test]
    fn whose_address_is_whose() {
        let public = ("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com");
        check(&[public], &["`trusted_proxies` names none"]);
        check(
            &[public, ("TRACEWARDEN_TRUSTED_PROXIES", "0.0.0.0/0, ::/0, 10.0.0.1")],
            &["holds `0.0.0.0/0`", "holds `::/0`"],
        );
    }

    #[test]
    fn times_that_are_surely_mistakes() {
        check(
            &[
                ("TRACEWARDEN_AUDIT_RETENTION", "90s"),
                ("TRACEWARDEN_SESSION_LIFETIME", "59s"),
                ("TRACEWARDEN_SESSION_IDLE", "5s"),
            ],
            &["removes audit records older than 90s", "59s after its log-in", "not used for 5s"],
        );
    }
}
