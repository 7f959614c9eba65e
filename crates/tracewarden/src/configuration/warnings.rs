//! Warnings on settings that are valid but probably a mistake. `check-config` prints them, and every start logs them.

use std::time::Duration;

use super::Configuration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

pub fn warnings(configuration: &Configuration) -> Vec<String> {
    let mut warnings = Vec::new();
    let over_https = configuration.public_url.as_deref().is_some_and(|origin| origin.starts_with("https:"));
    if over_https && configuration.trusted_proxies.is_empty() {
        warnings.push(
            "`public_url` is `https`, so a proxy in front of the service must terminate TLS, but \
             `trusted_proxies` is empty: all clients then have the proxy's address, also in the audit log, \
             and one client that guesses passwords slows down the sign-in of all users; set it to the \
             proxy's address"
                .to_owned(),
        );
    }
    for network in configuration.trusted_proxies.iter().filter(|network| network.prefix_len() == 0) {
        warnings.push(format!(
            "`trusted_proxies` contains `{network}`, so every client can claim any address, and a new one \
             for each password that it guesses; list only the proxies"
        ));
    }
    if let Some(retention) = configuration.audit_retention.filter(|retention| *retention < DAY) {
        warnings.push(format!(
            "`audit_retention` removes audit records older than {retention:?}; keep them for at least a day"
        ));
    }
    if let Some(lifetime) = configuration.session_lifetime.filter(|lifetime| *lifetime < MINUTE) {
        warnings.push(format!("`session_lifetime` ends every session {lifetime:?} after its sign-in"));
    }
    if let Some(idle) = configuration.session_idle.filter(|idle| *idle < MINUTE) {
        warnings.push(format!("`session_idle` ends every session that was not used for {idle:?}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_for(environment: &[(&str, &str)]) -> Vec<String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        warnings(&Configuration::load(None, environment).unwrap())
    }

    #[track_caller]
    fn check(environment: &[(&str, &str)], expected: &[&str]) {
        let warnings = warnings_for(environment);
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, part) in warnings.iter().zip(expected) {
            assert!(warning.contains(part), "{warning}");
        }
    }

    #[test]
    fn accepts_usual_settings() {
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
    fn warns_about_trusted_proxies() {
        let public = ("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com");
        check(&[public], &["`trusted_proxies` is empty"]);
        check(
            &[public, ("TRACEWARDEN_TRUSTED_PROXIES", "0.0.0.0/0, ::/0, 10.0.0.1")],
            &["contains `0.0.0.0/0`", "contains `::/0`"],
        );
    }

    #[test]
    fn warns_about_implausible_durations() {
        check(
            &[
                ("TRACEWARDEN_AUDIT_RETENTION", "90s"),
                ("TRACEWARDEN_SESSION_LIFETIME", "59s"),
                ("TRACEWARDEN_SESSION_IDLE", "5s"),
            ],
            &["removes audit records older than 90s", "59s after its sign-in", "not used for 5s"],
        );
    }
}
