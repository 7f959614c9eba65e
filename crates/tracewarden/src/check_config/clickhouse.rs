//! Checks ClickHouse and the service's user in it.

use std::collections::BTreeSet;
use std::fmt::Display;

use tracewarden_clickhouse::{
    ClickHouse, ClickHouseError, EndpointInspection, Grant, PrivilegeKind, UserInspection,
};
use tracewarden_model::Binding;
use url::Url;

use super::application_database::Contents;
use super::finding::{Finding, GUIDE};
use crate::configuration::{Configuration, values};
use crate::{ambient, serve};

/// ClickHouse error codes.
const READONLY: i32 = 164;
const SETTING_CONSTRAINT_VIOLATION: i32 = 452;
const UNKNOWN_SETTING: i32 = 115;
const AUTHENTICATION_ERRORS: [i32; 4] = [192, 193, 194, 516];

/// Tables of the `system` database that the service reads, as [`GUIDE`] lists them.
const CATALOGUE: [&str; 8] = [
    "tables",
    "columns",
    "parts",
    "parts_columns",
    "projection_parts",
    "projections",
    "mutations",
    "data_skipping_indices",
];

/// Maximum number of names in a list; the rest is only counted.
const MAX_LISTED: usize = 8;

/// Adds the findings on every endpoint.
pub(super) async fn check(
    configuration: &Configuration,
    contents: Option<&Contents>,
    findings: &mut Vec<Finding>,
) {
    let binding = contents.and_then(|contents| contents.binding.as_ref());
    let entropy = std::sync::Arc::new(ambient::SystemEntropy);
    let store = match ClickHouse::new(serve::store_config(configuration), entropy) {
        Ok(store) => store,
        Err(error) => {
            findings.push(Finding::error(format!("ClickHouse: {error}")));
            return;
        }
    };
    for endpoint in store.inspect(binding).await {
        let endpoint_check = EndpointCheck { endpoint: &endpoint, configuration, store: &store };
        match &endpoint.user {
            Ok(user) => endpoint_check.user(user, binding, findings),
            Err(error) => findings.push(endpoint_check.user_error(error)),
        }
        findings.extend(endpoint_check.unencrypted());
    }
    match contents {
        Some(_) if binding.is_some() => {}
        Some(_) => findings
            .push(Finding::ok("ClickHouse: no trace source is bound yet, so its tables were not checked")),
        None => findings.push(Finding::warning(
            "ClickHouse: the bound trace source is not known without the application database, so its tables \
             were not checked",
        )),
    }
}

struct EndpointCheck<'a> {
    endpoint: &'a EndpointInspection,
    configuration: &'a Configuration,
    store: &'a ClickHouse,
}

impl EndpointCheck<'_> {
    fn ok(&self, text: impl Display) -> Finding {
        Finding::ok(format!("ClickHouse {}: {text}", self.endpoint.endpoint))
    }

    fn warning(&self, text: impl Display) -> Finding {
        Finding::warning(format!("ClickHouse {}: {text}", self.endpoint.endpoint))
    }

    fn error(&self, text: impl Display) -> Finding {
        Finding::error(format!("ClickHouse {}: {text}", self.endpoint.endpoint))
    }

    fn unencrypted(&self) -> Option<Finding> {
        let url = Url::parse(&self.endpoint.endpoint).ok()?;
        (url.scheme() == "http" && !values::is_loopback(&url)).then(|| {
            self.warning("spans and the password travel unencrypted: use `https` in `clickhouse_url`")
        })
    }

    fn user_error(&self, error: &ClickHouseError) -> Finding {
        let name = &self.configuration.clickhouse_user;
        match error {
            ClickHouseError::Unavailable { .. } | ClickHouseError::Timeout(_) => self
                .warning(format_args!("does not answer, so the user was not checked: {}", truncated(error))),
            ClickHouseError::Exception { code: Some(code), .. } if AUTHENTICATION_ERRORS.contains(code) => {
                self.error(format_args!(
                    "rejects the sign-in of `{name}`: correct `clickhouse_user` and `clickhouse_password`, \
                     or create the user ({GUIDE})"
                ))
            }
            _ => self.settings_error(error),
        }
    }

    /// Describes an error of a statement with the settings that the service sends with each statement.
    fn settings_error(&self, error: &ClickHouseError) -> Finding {
        let name = &self.configuration.clickhouse_user;
        let code = if let ClickHouseError::Exception { code, .. } = error { *code } else { None };
        match code {
            Some(READONLY) => self.error(format_args!(
                "the profile of `{name}` rejects the settings that the service sends with each statement, as \
                 `readonly = 1` does: set `readonly = 2`, or remove `readonly` and grant only `SELECT` ({GUIDE})"
            )),
            Some(SETTING_CONSTRAINT_VIOLATION) => self.error(format_args!(
                "the profile of `{name}` has a constraint that rejects a setting that the service sends with each \
                 statement: raise it, or lower `query_timeout`, `answer_timeout` or `query_memory`: {}",
                truncated(error)
            )),
            Some(UNKNOWN_SETTING) => self.error(format_args!(
                "does not know a setting that the service sends with each statement; the server may be too \
                 old: {}",
                truncated(error)
            )),
            _ => self.error(truncated(error)),
        }
    }

    fn user(&self, user: &UserInspection, binding: Option<&Binding>, findings: &mut Vec<Finding>) {
        let name = &self.configuration.clickhouse_user;
        findings.push(self.ok(format_args!("version {}, accepts `{name}`", user.version)));
        findings.push(match &user.settings {
            Ok(()) => self.ok("accepts the settings that the service sends with each statement"),
            Err(error) => self.settings_error(error),
        });
        if let (
            Ok(()),
            Err(error @ ClickHouseError::Exception { code: Some(SETTING_CONSTRAINT_VIOLATION), .. }),
        ) = (&user.settings, &user.comparison_timeout)
        {
            findings.push(self.warning(format_args!(
                "key columns cannot be adopted: the profile of `{name}` rejects the time limit of a \
                 comparison, which is ten times `query_timeout`; raise the `MAX` of `max_execution_time` to \
                 that ({GUIDE}): {}",
                truncated(error)
            )));
        }
        // If the server rejects the settings, every statement fails, and that finding has been reported already.
        let all_settings_rejected =
            matches!(user.settings, Err(ClickHouseError::Exception { code: Some(_), .. }));
        match &user.server_support {
            Ok(()) => {}
            Err(ClickHouseError::Unusable(message)) => findings.push(self.error(message)),
            Err(_) if all_settings_rejected => {}
            Err(error) => findings.push(self.error(format_args!(
                "the servers of the bound table's cluster cannot be queried: {}",
                truncated(error)
            ))),
        }
        if let Err(error) = user.catalogue.as_ref()
            && !all_settings_rejected
        {
            findings.push(self.error(format_args!(
                "`{name}` cannot read `system.tables` and `system.columns`: grant `SELECT` on them ({GUIDE}): {}",
                truncated(error)
            )));
        }
        if !user.compatibility.is_empty() {
            findings.push(self.warning(format_args!(
                "for `{name}`, `compatibility` is {}: answers depend on current defaults, and the service \
                 sends only some of these settings itself; set it to '' in the profile, or remove it from \
                 the default profile ({GUIDE})",
                user.compatibility
            )));
        }
        for (table, error) in user.unreadable.iter().filter(|_| !all_settings_rejected) {
            findings.push(self.error(format_args!(
                "`{name}` cannot read the bound table `{table}`: grant `SELECT` on it ({GUIDE}): {}",
                truncated(error)
            )));
        }
        match &user.grants {
            Ok(grants) => self.grants(user, grants, binding, findings),
            Err(error) => findings.push(
                self.warning(format_args!("does not show the grants of `{name}`: {}", truncated(error))),
            ),
        }
        for limit in &user.limits {
            findings.push(match &limit.maximum {
                Some(maximum) => {
                    self.ok(format_args!("`{}` is limited to {maximum} for `{name}`", limit.name))
                }
                None => self.warning(format_args!(
                    "only the service limits `{}` (it sends {}): a client with the password of `{name}` can \
                     use the whole server; set a value in the profile, and a constraint with a `MIN` above \
                     0, because 0 means no limit ({GUIDE})",
                    limit.name,
                    self.store.sent_setting(&limit.name).unwrap_or_default()
                )),
            });
        }
    }

    fn grants(
        &self,
        user: &UserInspection,
        grants: &[Grant],
        binding: Option<&Binding>,
        findings: &mut Vec<Finding>,
    ) {
        let name = &self.configuration.clickhouse_user;
        let all = |kind| list(grants.iter().flat_map(|grant| grant.privileges_of(kind)));
        let is_readonly = matches!(user.readonly.as_str(), "1" | "2");
        findings.push(match (all(PrivilegeKind::Change), is_readonly) {
            (None, _) => self.ok(format_args!("`{name}` can change nothing")),
            (Some(list), true) => self.warning(format_args!(
                "only `readonly` in the profile of `{name}` prevents the use of its other grants: {list}; \
                 revoke these ({GUIDE})"
            )),
            (Some(list), false) => self.warning(format_args!(
                "`{name}` may do more than read: {list}; use a user with `SELECT` alone ({GUIDE})"
            )),
        });
        // Without the privilege to create temporary tables, the user can reach only the servers of configured clusters.
        let is_cluster_access = |grant: &Grant, name: &str| {
            all(PrivilegeKind::Change).is_none()
                && (name == "REMOTE" || (name == "READ" && grant.object == "REMOTE"))
        };
        let external_access = grants.iter().flat_map(|grant| {
            grant.privileges_of(PrivilegeKind::External).filter(move |name| !is_cluster_access(grant, name))
        });
        if let Some(list) = list(external_access) {
            findings.push(self.warning(format_args!(
                "`{name}` can reach files and other systems: {list}; revoke these ({GUIDE})"
            )));
        }
        if user.sees_statements {
            findings.push(self.warning(format_args!(
                "`{name}` sees the queries of other users, with the values in them (`system.processes`, \
                 `system.query_log`): the server grants this to all users unless \
                 `select_from_system_db_requires_grant` is on; turn it on, or revoke the grant ({GUIDE})"
            )));
        }
        let reads =
            || grants.iter().filter(|grant| grant.privileges_of(PrivilegeKind::Read).next().is_some());
        let expected = |grant: &Grant| match (grant.database().as_deref(), grant.table().as_deref()) {
            // Table names and column types, which every user can read anyway.
            (Some("information_schema" | "INFORMATION_SCHEMA"), _) => true,
            // Other system tables contain all users' queries and the users themselves.
            (Some("system"), table) => table.is_some_and(|table| CATALOGUE.contains(&table)),
            (Some(database), Some(_)) => binding.is_none_or(|binding| binding.database == database),
            // Until a table is bound, an administrator needs to list the tables that exist.
            (Some(_), None) => binding.is_none(),
            (None, _) => false,
        };
        let excess = list(reads().filter(|grant| !expected(grant)).map(|grant| grant.object.as_str()));
        findings.push(match excess {
            None => self.ok(format_args!(
                "`{name}` reads {}",
                list(reads().map(|grant| grant.object.as_str())).unwrap_or_else(|| "nothing".to_owned())
            )),
            Some(list) => self.warning(format_args!(
                "`{name}` reads more than the trace source: {list}; grant `SELECT` on its tables alone ({GUIDE})"
            )),
        });
    }
}

/// Returns the distinct names as a list, or `None` if there are none.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: BTreeSet<&str> = names.collect();
    let shown: Vec<&str> = names.iter().take(MAX_LISTED).copied().collect();
    match (shown.is_empty(), names.len().saturating_sub(MAX_LISTED)) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

/// Returns the beginning of a message.
fn truncated(error: &ClickHouseError) -> String {
    const MAX_CHARS: usize = 240;
    let text = error.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
