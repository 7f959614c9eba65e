//! Reports the rights of the ClickHouse user: for an operator who wants to know whether a stolen password could do more than
//! read traces, and whether ClickHouse accepts the settings that the service sends.

mod grants;

pub use grants::{Grant, PrivilegeKind};

use std::sync::Arc;

use tracewarden_model::Binding;

use crate::catalogue::{Catalogue, check_version};
use crate::client::{Client, QueryLimits, READONLY, settings};
use crate::sql::{Statement, quote_table};
use crate::{ClickHouse, ClickHouseError, Result};

/// Report of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointInspection {
    /// Its address, as configured.
    pub endpoint: String,
    /// The user there; an error when the endpoint does not answer or rejects the user.
    pub user: Result<UserInspection>,
}

/// The user of the service, as one endpoint sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserInspection {
    /// The server's version.
    pub version: String,
    /// `readonly` of the user's own profile: `0`, `1` or `2`.
    pub readonly: String,
    /// `compatibility` of that profile: an older version, or empty. It determines the settings that are not sent.
    pub compatibility: String,
    /// Whether the user sees other users' running statements, and the values in them.
    pub sees_statements: bool,
    /// Whether the server accepts the settings that are sent with each statement.
    pub settings: Result<()>,
    /// Whether it accepts the time limit of the statement that compares columns with their maps, which reads the whole table.
    pub comparison_timeout: Result<()>,
    /// Whether the version is supported, and whether the servers of the bound table's cluster keep the settings that are
    /// sent.
    pub server_support: Result<()>,
    /// Limits of statements in the user's profile.
    pub limits: Vec<ProfileLimit>,
    /// Whether names of tables and columns can be read.
    pub catalogue: Result<()>,
    /// Bound tables that cannot be read, each with the reason.
    pub unreadable: Vec<(String, ClickHouseError)>,
    /// Grants of the user, including those of its roles; an error when the server does not report them.
    pub grants: Result<Vec<Grant>>,
}

/// A limit of statements that a profile can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileLimit {
    /// The setting.
    pub name: String,
    /// The highest value that the user can set; `None` when there is no maximum.
    pub maximum: Option<String>,
}

/// Limits that prevent a stolen password from keeping the whole server busy.
const LIMITS: [&str; 2] = ["max_execution_time", "max_memory_usage"];

impl ClickHouse {
    /// Inspects the user's rights at every endpoint, in the configured order, and with a binding also its tables.
    pub async fn inspect(&self, binding: Option<&Binding>) -> Vec<EndpointInspection> {
        let mut endpoints = Vec::new();
        for (url, endpoint) in self.client.endpoints().zip(&self.config.endpoints) {
            let user = inspect_user(self, &self.client.for_endpoint(url), binding).await;
            endpoints.push(EndpointInspection { endpoint: endpoint.clone(), user });
        }
        endpoints
    }

    /// Returns the value that is sent for a setting.
    pub fn sent_setting(&self, name: &str) -> Option<String> {
        // Those of the statements with the longest time limit.
        let limits = QueryLimits::from_config(&self.config).for_streaming(&self.config);
        let settings = settings(&self.config, limits, READONLY, &Statement::default());
        settings.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

async fn inspect_user(
    store: &ClickHouse,
    client: &Client,
    binding: Option<&Binding>,
) -> Result<UserInspection> {
    // Only without the settings of this crate: with `readonly` sent, every user looks harmless.
    let version: Vec<(String,)> = client.rows_of_profile("SELECT version()").await?;
    let names: Vec<String> = LIMITS.iter().map(|name| format!("'{name}'")).collect();
    let statement = format!(
        "SELECT groupArray((name, value, toString(min), toString(max), toUInt8(readonly))) FROM \
         (SELECT * FROM system.settings WHERE name IN ('readonly', 'compatibility', {}) ORDER BY name)",
        names.join(", ")
    );
    type Row = (String, String, Option<String>, Option<String>, u8);
    let rows: Vec<(Vec<Row>,)> = client.rows_of_profile(&statement).await?;
    let rows: Vec<Row> = rows.into_iter().flat_map(|(rows,)| rows).collect();
    let value =
        |wanted: &str| rows.iter().find(|(name, ..)| name == wanted).map(|(_, value, ..)| value.clone());
    let (readonly, compatibility) = (value("readonly"), value("compatibility"));
    let limits = rows
        .into_iter()
        .filter(|(name, ..)| LIMITS.contains(&name.as_str()))
        .map(|(name, value, min, max, fixed)| {
            let maximum = highest(value, min.as_deref(), max, fixed == 1);
            ProfileLimit { name, maximum }
        })
        .collect();

    let mut unreadable = Vec::new();
    if let Some(Binding { database, table, trace_index, .. }) = binding {
        for name in std::iter::once(table).chain(trace_index) {
            let statement = format!("SELECT 1 FROM {} LIMIT 0", quote_table(database, name));
            if let Err(error) = check(client, &statement).await {
                unreadable.push((format!("{database}.{name}"), error));
            }
        }
    }
    let names = "SELECT 1 FROM system.tables, system.columns LIMIT 0";
    let statements = "SELECT 1 FROM system.processes LIMIT 0";
    // Without the cached results of another endpoint.
    let verified = Arc::default();
    let catalogue = Catalogue { client: client.clone(), verified, ..store.catalogue() };
    let version = version.into_iter().next().map(|(version,)| version).unwrap_or_default();
    let server_support = match check_version("the server", &version) {
        Ok(()) => Box::pin(catalogue.verify_bound(binding)).await,
        old => old,
    };
    Ok(UserInspection {
        version,
        server_support,
        readonly: readonly.unwrap_or_default(),
        compatibility: compatibility.unwrap_or_default(),
        sees_statements: check(client, statements).await.is_ok(),
        settings: check_settings(client).await,
        comparison_timeout: check(&catalogue.comparison_client(), "SELECT 1").await,
        limits,
        catalogue: check(client, names).await,
        unreadable,
        grants: grants(client).await,
    })
}

/// Returns the highest value of a limit that a user can have: the profile's own, which constraints do not bind, or the
/// maximum that the user may set. `None` if either may be 0, which means no limit and is below every maximum.
fn highest(own: String, min: Option<&str>, max: Option<String>, fixed: bool) -> Option<String> {
    let limit = |text: &str| text.parse::<f64>().ok().filter(|limit| *limit > 0.0);
    let own_limit = limit(&own)?;
    if fixed {
        return Some(own);
    }
    limit(min?)?;
    let max = max?;
    Some(if limit(&max)? < own_limit { own } else { max })
}

/// Checks the settings of statements whose rows are collected, and those of streamed ones, which may take longer.
async fn check_settings(client: &Client) -> Result<()> {
    check(client, "SELECT 1").await?;
    client.send(Statement::new("SELECT 1"), "JSONEachRow").await.map(drop)
}

/// Checks that ClickHouse answers a statement.
async fn check(client: &Client, statement: &str) -> Result<()> {
    client.rows::<(u8,)>(Statement::new(statement)).await.map(drop)
}

async fn grants(client: &Client) -> Result<Vec<Grant>> {
    // `FINAL` adds the grants of roles.
    let lines: Vec<(String,)> = client.rows_of_profile("SHOW GRANTS FINAL").await?;
    Ok(lines.iter().filter_map(|(line,)| Grant::parse(line)).collect())
}

#[cfg(test)]
mod tests {
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::ClickHouseConfig;
    use crate::agreement::connect;
    use crate::inspect::grants::PrivilegeKind;

    /// Returns a `users.xml` with this profile and these grants.
    fn users(profile: &str, grants: &[&str]) -> String {
        let grants: String = grants.iter().map(|grant| format!("<query>GRANT {grant}</query>")).collect();
        format!(
            "<clickhouse><profiles><default/><limited>{profile}</limited></profiles><quotas><default/></quotas>\
             <users><default><password/><networks><ip>::/0</ip></networks><profile>limited</profile>\
             <quota>default</quota><grants>{grants}</grants></default></users></clickhouse>"
        )
    }

    fn binding() -> Binding {
        Binding {
            database: "otel".to_owned(),
            table: "otel_traces".to_owned(),
            trace_id: "TraceId".to_owned(),
            span_id: "SpanId".to_owned(),
            timestamp: "Timestamp".to_owned(),
            parent_span_id: "ParentSpanId".to_owned(),
            trace_index: Some("otel_traces_trace_id_ts".to_owned()),
            display: tracewarden_model::Display::default(),
            ..Binding::default()
        }
    }

    const READS: [&str; 2] = ["SELECT ON otel.otel_traces", "SELECT ON otel.otel_traces_trace_id_ts"];
    const LIMITED: &str = "<max_execution_time>60</max_execution_time><max_memory_usage>4000000000</max_memory_usage>\
        <constraints><max_execution_time><min>1</min><max>600</max></max_execution_time>\
        <max_memory_usage><min>1</min><max>4000000000</max></max_memory_usage></constraints>";

    async fn inspect(local: &LocalStore) -> Result<UserInspection> {
        let mut inspection = connect(local).inspect(Some(&binding())).await;
        assert_eq!(inspection.len(), 1);
        inspection.remove(0).user
    }

    fn all(grants: &[Grant], kind: PrivilegeKind) -> Vec<&str> {
        grants.iter().flat_map(|grant| grant.privileges_of(kind)).collect()
    }

    #[test]
    fn limits_that_can_be_0_are_not_limits() {
        let highest = |own: &str, min, max: Option<&str>, fixed| {
            super::highest(own.to_owned(), min, max.map(str::to_owned), fixed).unwrap_or_default()
        };
        assert_eq!(highest("60", Some("1"), Some("600"), false), "600");
        assert_eq!(highest("60", None, None, true), "60");
        assert_eq!(
            highest("900", Some("1"), Some("600"), false),
            "900",
            "a profile may have more than it lets users set"
        );
        assert_eq!(highest("60", Some("0.5"), Some("600"), false), "600");
        for (own, min, max, fixed) in [
            ("60", None, Some("600"), false),
            ("60", Some("0"), Some("600"), false),
            ("60", Some("1"), None, false),
            ("60", Some("1"), Some("0"), false),
            ("0", Some("1"), Some("600"), false),
            ("0", None, None, true),
        ] {
            assert_eq!(highest(own, min, max, fixed), "", "{own} {min:?} {max:?} {fixed}");
        }
    }

    #[tokio::test]
    async fn powerful_and_limited_users_are_distinguished() {
        let local = LocalStore::start().unwrap();
        let user = inspect(&local).await.unwrap();
        assert!(!user.version.is_empty());
        assert_eq!((user.readonly.as_str(), &user.settings, &user.catalogue), ("0", &Ok(()), &Ok(())));
        assert_eq!(user.unreadable, []);
        assert!(user.limits.iter().all(|limit| limit.maximum.is_none()), "{:?}", user.limits);
        let grants = user.grants.unwrap();
        assert!(all(&grants, PrivilegeKind::Change).contains(&"INSERT"), "{grants:?}");
        assert!(all(&grants, PrivilegeKind::External).contains(&"URL"), "{grants:?}");
        assert!(grants.iter().any(|grant| grant.database().is_none()));

        // As the documentation advises. Reading works, although the profile forbids the `readonly` that is sent first.
        let local = local.restart_as(&users(&format!("<readonly>2</readonly>{LIMITED}"), &READS)).unwrap();
        let user = inspect(&local).await.unwrap();
        assert_eq!((user.readonly.as_str(), &user.settings, &user.catalogue), ("2", &Ok(()), &Ok(())));
        assert_eq!(user.comparison_timeout, Ok(()));
        assert_eq!(user.unreadable, []);
        assert!(user.sees_statements, "which this engine grants to all users");
        let maximum: Vec<_> = user.limits.iter().map(|limit| limit.maximum.as_deref()).collect();
        assert_eq!(maximum, [Some("600"), Some("4000000000")]);
        let grants = user.grants.unwrap();
        assert_eq!(
            (all(&grants, PrivilegeKind::Change), all(&grants, PrivilegeKind::External)),
            (vec![], vec![])
        );
        assert!(grants.iter().all(|grant| grant.database().as_deref() == Some("otel")), "{grants:?}");
        // The check above also passes for an empty list.
        let mut read: Vec<&str> = grants
            .iter()
            .filter(|grant| grant.privileges_of(PrivilegeKind::Read).next().is_some())
            .map(|grant| grant.object.as_str())
            .collect();
        read.sort_unstable();
        assert_eq!(read, READS.map(|grant| grant.trim_start_matches("SELECT ON ")));
        let store = connect(&local);
        // Ten times the limit of a statement, which is above the profile's limit.
        let mut slow = connect(&local);
        slow.config = Arc::new(ClickHouseConfig {
            max_execution_time_seconds: 61,
            ..ClickHouseConfig::clone(&slow.config)
        });
        let user = slow.inspect(None).await.remove(0).user.unwrap();
        assert_eq!(user.settings, Ok(()));
        assert!(
            matches!(user.comparison_timeout, Err(ClickHouseError::Exception { code: Some(452), .. })),
            "{user:?}"
        );
        let unlimited = "SELECT 1 SETTINGS max_execution_time = 0";
        let refused = store.client.rows_of_profile::<(u8,)>(unlimited).await;
        assert!(matches!(refused, Err(ClickHouseError::Exception { code: Some(452), .. })), "{refused:?}");
        assert_eq!(store.catalogue().check_binding(&binding()).await.unwrap(), Vec::<String>::new());
        assert_eq!(store.catalogue().tables().await.unwrap().len(), 2);

        // A maximum without a minimum lets every user turn the limit off.
        let local = local.restart_as(&users(&LIMITED.replace("<min>1</min>", ""), &READS)).unwrap();
        let user = inspect(&local).await.unwrap();
        assert!(user.limits.iter().all(|limit| limit.maximum.is_none()), "{:?}", user.limits);
        connect(&local).client.rows_of_profile::<(u8,)>(unlimited).await.unwrap();

        let local =
            local.restart_as(&users("<compatibility>25.8</compatibility>", &["SELECT ON other.*", READS[1]]));
        let local = local.unwrap();
        let user = inspect(&local).await.unwrap();
        assert_eq!(user.compatibility, "25.8");
        let [(table, ClickHouseError::Exception { code: Some(497), .. })] = user.unreadable.as_slice() else {
            panic!("{:?}", user.unreadable);
        };
        assert_eq!(table, "otel.otel_traces");

        let profile = "<constraints><max_execution_time><max>9</max></max_execution_time></constraints>";
        let local = local.restart_as(&users(profile, &READS)).unwrap();
        let user = inspect(&local).await.unwrap();
        assert!(matches!(user.settings, Err(ClickHouseError::Exception { code: Some(452), .. })), "{user:?}");

        // Refuses every setting. The local engine cannot even begin a statement then.
        let local = local.restart_as(&users("<readonly>1</readonly>", &READS)).unwrap();
        let refused = match inspect(&local).await {
            Ok(user) => user.settings,
            Err(error) => Err(error),
        };
        assert!(matches!(refused, Err(ClickHouseError::Exception { code: Some(164), .. })), "{refused:?}");
    }
}
