//! Parses `SHOW GRANTS`: the rights of a user, and those that a reader of traces does not need.

use crate::schema::{only_name, split_list, split_outside};

/// One line of `SHOW GRANTS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Granted privileges, such as `SELECT` or `CREATE TABLE`, without columns.
    pub privileges: Vec<String>,
    /// The object, as the server writes it: `*.*`, `otel.*`, `otel.otel_traces`, `*`.
    pub object: String,
}

/// What a privilege allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivilegeKind {
    /// Reading tables, as the service does.
    Read,
    /// Reading names and definitions.
    Metadata,
    /// Reaching files and other systems.
    External,
    /// Anything else: changing data, definitions, users or the server.
    Change,
}

impl Grant {
    /// Parses a line. `None` for lines that grant nothing on an object: partial revocations, and roles, whose grants have
    /// lines of their own.
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix("GRANT ")?;
        let (privileges, rest) = split_outside(rest, " ON ")?;
        let (object, _) = split_outside(rest, " TO ")?;
        let names = split_list(privileges).into_iter().filter_map(|item| item.split('(').next());
        let privileges = names.map(|name| name.trim().to_owned()).collect();
        Some(Self { privileges, object: object.trim().to_owned() })
    }

    /// Returns the privileges of this power.
    pub fn privileges_of(&self, kind: PrivilegeKind) -> impl Iterator<Item = &str> {
        self.privileges.iter().map(String::as_str).filter(move |name| privilege_kind(name) == kind)
    }

    /// Returns the database of the object; `None` for all databases.
    pub fn database(&self) -> Option<String> {
        let (database, _) = split_outside(&self.object, ".").unwrap_or((&self.object, ""));
        only_name(database)
    }

    /// Returns the table of the object; `None` for all tables of a database, or those with a common prefix.
    pub fn table(&self) -> Option<String> {
        let (_, table) = split_outside(&self.object, ".")?;
        only_name(table)
    }
}

/// Returns what a privilege allows, by its whole name. Unknown privileges count as dangerous.
fn privilege_kind(privilege: &str) -> PrivilegeKind {
    match privilege {
        "SELECT" => PrivilegeKind::Read,
        // `SHOW` alone stands for these; others with that prefix show users, policies and secrets.
        "CHECK" | "SHOW" | "SHOW DATABASES" | "SHOW TABLES" | "SHOW COLUMNS" | "SHOW DICTIONARIES" => {
            PrivilegeKind::Metadata
        }
        "SOURCES" | "READ" | "WRITE" | "FILE" | "URL" | "REMOTE" | "MONGO" | "REDIS" | "MYSQL"
        | "POSTGRES" | "SQLITE" | "ODBC" | "JDBC" | "HDFS" | "S3" | "HIVE" | "AZURE" | "KAFKA" | "NATS"
        | "RABBITMQ" | "YTSAURUS" | "ARROW FLIGHT" => PrivilegeKind::External,
        _ => PrivilegeKind::Change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn privileges_by_kind(line: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
        let grant = Grant::parse(line).unwrap();
        let privileges_of = |kind| grant.privileges_of(kind).map(str::to_owned).collect();
        (
            privileges_of(PrivilegeKind::Read),
            privileges_of(PrivilegeKind::External),
            privileges_of(PrivilegeKind::Change),
        )
    }

    #[test]
    fn lines_are_read_as_the_server_writes_them() {
        let none = Vec::<String>::new;
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            privileges_by_kind("GRANT SELECT ON otel.otel_traces TO tracewarden"),
            (all(&["SELECT"]), none(), none())
        );
        assert_eq!(
            privileges_by_kind(
                "GRANT SHOW TABLES, SELECT(a, `b ON c`), INSERT(x) ON otel.* TO u WITH GRANT OPTION"
            ),
            (all(&["SELECT"]), none(), all(&["INSERT"]))
        );
        assert_eq!(
            privileges_by_kind("GRANT READ, WRITE ON URL TO u"),
            (none(), all(&["READ", "WRITE"]), none())
        );
        assert_eq!(
            privileges_by_kind("GRANT READ ON S3('https://x/.* TO .*') TO u"),
            (none(), all(&["READ"]), none())
        );
        assert_eq!(privileges_by_kind("GRANT ALL ON *.* TO u"), (none(), none(), all(&["ALL"])));
        let secrets = "SHOW NAMED COLLECTIONS SECRETS";
        assert_eq!(
            privileges_by_kind(&format!("GRANT SHOW TABLES, {secrets} ON * TO u")),
            (none(), none(), all(&[secrets]))
        );
        // Privileges of later versions count as the most dangerous.
        assert_eq!(
            privileges_by_kind("GRANT TIME TRAVEL ON *.* TO u"),
            (none(), none(), all(&["TIME TRAVEL"]))
        );
        assert_eq!(Grant::parse("GRANT reader TO u"), None);
        assert_eq!(Grant::parse("REVOKE SELECT ON system.* FROM u"), None);
    }

    #[test]
    fn the_database_of_a_grant() {
        let database =
            |object: &str| Grant::parse(&format!("GRANT SELECT ON {object} TO u")).unwrap().database();
        assert_eq!(database("*.*"), None);
        assert_eq!(database("ot*.*"), None);
        assert_eq!(database("otel.*").as_deref(), Some("otel"));
        assert_eq!(database("`a.b`.`c TO d`").as_deref(), Some("a.b"));
        let table = |object: &str| Grant::parse(&format!("GRANT SELECT ON {object} TO u")).unwrap().table();
        assert_eq!(table("*.*"), None);
        assert_eq!(table("otel.*"), None);
        assert_eq!(table("otel.otel_*"), None);
        assert_eq!(table("`a.b`.`c TO *`").as_deref(), Some("c TO *"));
    }
}
