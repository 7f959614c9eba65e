//! Initial state of the soak: programs, spans, roles, users and administrators.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread;

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use tracewarden_testkit::postgres::{self, Database};

use super::administrator::{Administrator, role_name};
use super::caller::Caller;
use super::chance::Chance;
use super::disturbances::Machines;
use super::policies::{self, Attributes, Policy};
use super::rights::{Credential, Grant, Rights};
use super::shared::{Place, Shared};
use super::spans::Written;
use super::user::{User, Way};
use crate::stack::api::{Client, text};
use crate::stack::replica::Replica;
use crate::stack::{self, LocalStore, secret, trace_source};
use crate::{debian, demo};

const ADMINISTRATORS: usize = 3;
const ROLES: usize = 12;
/// Outside the ports of demos, because a port must still be free when its replica is restarted.
const FIRST_PORT: u16 = 18_090;

pub struct Ready {
    pub shared: Shared,
    pub machines: Machines,
    pub database: Database,
    pub users: Vec<NewUser>,
    pub administrators: Vec<NewAdministrator>,
}

/// A user with a changed password.
pub struct NewUser {
    index: usize,
    password: String,
}

impl NewUser {
    pub fn with(self, shared: &Shared) -> User<'_> {
        let way = match self.index % 10 {
            0 => Way::Agent,
            1 | 2 => Way::Key,
            _ => Way::Session,
        };
        let caller = Caller::new(shared, self.index as u64);
        User { caller, index: self.index, way, password: self.password, session: None, key: None }
    }
}

/// A signed-in administrator.
pub struct NewAdministrator {
    number: usize,
    cookie: String,
}

impl NewAdministrator {
    pub fn with(self, shared: &Shared) -> Administrator<'_> {
        let own = |count: usize| (0..count).filter(|place| place % ADMINISTRATORS == self.number).collect();
        Administrator {
            caller: Caller::new(shared, 1_000_000 + self.number as u64),
            session: Arc::new(Credential::new(("cookie", self.cookie), String::new(), None)),
            users: own(shared.usernames.len()),
            roles: own(ROLES),
            all_roles: ROLES,
            disabled: Vec::new(),
        }
    }
}

pub fn set_up(binaries: &Path, engine: &Path, directory: &Path, users: usize, seed: u64) -> Result<Ready> {
    let present = || postgres::Programs::find().is_ok();
    debian::ensure("PostgreSQL is not installed", "postgresql", present)?;
    let postgresql = postgres::Server::start().map_err(|error| anyhow!(error))?;
    let database = postgresql.database().map_err(|error| anyhow!(error))?;
    let store = LocalStore::start(binaries, engine, &directory.join("store"), directory, None)?;
    let written = Written::begin(seed, &store.otlp)?;

    let password = secret::password()?;
    let hash = stack::hash_password(binaries, &password)?;
    let url = database.url();
    let settings = [
        ("TRACEWARDEN_DATABASE_URL", url.as_str()),
        ("TRACEWARDEN_CLICKHOUSE_URL", &store.url),
        ("TRACEWARDEN_CLICKHOUSE_USER", "default"),
        ("TRACEWARDEN_CLICKHOUSE_PASSWORD", &store.password),
        ("TRACEWARDEN_ADMIN_PASSWORD_HASH", &hash),
    ];
    let mut replicas = Vec::new();
    for name in ["replica-1", "replica-2"] {
        let own = directory.join(name);
        fs::create_dir_all(&own).with_context(|| format!("cannot create `{}`", own.display()))?;
        replicas.push(Replica::start(binaries, own, FIRST_PORT, &settings)?);
    }
    let places = replicas
        .iter()
        .map(|replica| Place {
            base: replica.base(),
            up: AtomicBool::new(true),
            generation: AtomicU64::new(0),
            process: AtomicU32::new(replica.process()),
        })
        .collect();

    let anonymous = Client::anonymous(&replicas.first().map(Replica::base).unwrap_or_default());
    let (administrator, _) = anonymous.take_account(demo::ADMINISTRATOR, &password)?;
    trace_source::bind(&administrator, "otel", "otel_traces")?;
    trace_source::mark(&administrator, &policies::fields())?;
    let mut chance = Chance::new(seed, u64::MAX);
    let roles: Vec<Vec<Policy>> =
        (0..ROLES).map(|_| vec![Policy::any(&mut chance), Policy::any(&mut chance)]).collect();
    for (role, contents) in roles.iter().enumerate() {
        administrator.call("PUT", &format!("/roles/{}", role_name(role)), Some(&policies::wire(contents)))?;
    }
    let grants: Vec<Grant> = (0..users)
        .map(|_| {
            let count = 1 + chance.below(3);
            let attributes = Attributes::any(&mut chance);
            Grant { roles: chance.some(count, ROLES), attributes, enabled: true }
        })
        .collect();
    let usernames: Vec<String> = (0..users).map(|user| format!("user-{user}")).collect();
    let new_users = accounts(&anonymous, &administrator, &usernames, &grants)?;
    let mut administrators = Vec::new();
    for number in 0..ADMINISTRATORS {
        let name = format!("keeper-{number}");
        let new = json!({"username": name, "roles": ["admin"]});
        let created = administrator.call("POST", "/users", Some(&new))?;
        let (client, _) = anonymous.take_account(&name, text(&created, "/initial_password")?)?;
        let cookie = client.cookie().context("no session")?.to_owned();
        administrators.push(NewAdministrator { number, cookie });
    }
    let shared = Shared::new(seed, places, written, Rights::new(grants, roles), usernames);
    let machines = Machines { replicas, store, postgresql };
    Ok(Ready { shared, machines, database, users: new_users, administrators })
}

/// Creates the accounts. Hashing passwords is slow, so that it uses both cores.
fn accounts(
    anonymous: &Client,
    administrator: &Client,
    usernames: &[String],
    grants: &[Grant],
) -> Result<Vec<NewUser>> {
    let everybody: Vec<(usize, &String, &Grant)> =
        usernames.iter().zip(grants).enumerate().map(|(index, (name, grant))| (index, name, grant)).collect();
    let half = everybody.len().div_ceil(2).max(1);
    let make = |some: &[(usize, &String, &Grant)]| -> Result<Vec<NewUser>> {
        let make = |(index, name, grant): &(usize, &String, &Grant)| {
            let roles: Vec<String> = grant.roles.iter().map(|role| role_name(*role)).collect();
            let attributes = grant.attributes.wire();
            let new = json!({"username": name, "roles": roles, "attributes": attributes});
            let created = administrator.call("POST", "/users", Some(&new))?;
            let (_, password) = anonymous.take_account(name, text(&created, "/initial_password")?)?;
            Ok(NewUser { index: *index, password })
        };
        some.iter().map(make).collect()
    };
    let make = &make;
    thread::scope(|scope| {
        let threads: Vec<_> = everybody.chunks(half).map(|some| scope.spawn(move || make(some))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow!("creating users panicked"))??);
        }
        Ok(all)
    })
}
