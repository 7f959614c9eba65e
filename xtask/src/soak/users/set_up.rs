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
use super::expected_access::{Credential, ExpectedAccess, UserState};
use super::fault_injection::SoakProcesses;
use super::policies::{self, Attributes, Policy};
use super::random::Random;
use super::shared::{ReplicaState, SharedState};
use super::spans::WrittenSpans;
use super::user::{User, UserKind};
use crate::stack::api::{Client, text};
use crate::stack::replica::Replica;
use crate::stack::{self, LocalStore, secret, trace_source};
use crate::{debian, demo};

const ADMINISTRATORS: usize = 3;
const ROLES: usize = 12;
/// Outside the ports of demos, because a port must still be free when its replica is restarted.
const FIRST_PORT: u16 = 18_090;

pub struct SoakSetup {
    pub shared: SharedState,
    pub processes: SoakProcesses,
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
    pub fn with(self, shared: &SharedState) -> User<'_> {
        let user_kind = match self.index % 10 {
            0 => UserKind::Agent,
            1 | 2 => UserKind::Key,
            _ => UserKind::Session,
        };
        let caller = Caller::new(shared, self.index as u64);
        User { caller, index: self.index, user_kind, password: self.password, session: None, key: None }
    }
}

/// A signed-in administrator.
pub struct NewAdministrator {
    number: usize,
    cookie: String,
}

impl NewAdministrator {
    pub fn with(self, shared: &SharedState) -> Administrator<'_> {
        let own = |count: usize| (0..count).filter(|item| item % ADMINISTRATORS == self.number).collect();
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

pub fn set_up(
    binaries: &Path,
    engine: &Path,
    directory: &Path,
    users: usize,
    seed: u64,
) -> Result<SoakSetup> {
    let present = || postgres::Programs::find().is_ok();
    debian::ensure("PostgreSQL is not installed", "postgresql", present)?;
    let postgresql = postgres::Server::start().map_err(|error| anyhow!(error))?;
    let database = postgresql.database().map_err(|error| anyhow!(error))?;
    let store = LocalStore::start(binaries, engine, &directory.join("store"), directory, None)?;
    let written = WrittenSpans::begin(seed, &store.otlp)?;

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
    let replica_states = replicas
        .iter()
        .map(|replica| ReplicaState {
            base: replica.base(),
            up: AtomicBool::new(true),
            generation: AtomicU64::new(0),
            process: AtomicU32::new(replica.process()),
        })
        .collect();

    let anonymous = Client::anonymous(&replicas.first().map(Replica::base).unwrap_or_default());
    let (administrator, _) = anonymous.activate_account(demo::ADMINISTRATOR, &password)?;
    trace_source::bind(&administrator, "otel", "otel_traces")?;
    trace_source::mark(&administrator, &policies::fields())?;
    let mut random = Random::new(seed, u64::MAX);
    let roles: Vec<Vec<Policy>> =
        (0..ROLES).map(|_| vec![Policy::any(&mut random), Policy::any(&mut random)]).collect();
    for (role, contents) in roles.iter().enumerate() {
        administrator.call("PUT", &format!("/roles/{}", role_name(role)), Some(&policies::wire(contents)))?;
    }
    let user_states: Vec<UserState> = (0..users)
        .map(|_| {
            let count = 1 + random.below(3);
            let attributes = Attributes::any(&mut random);
            UserState { roles: random.some(count, ROLES), attributes, enabled: true }
        })
        .collect();
    let usernames: Vec<String> = (0..users).map(|user| format!("user-{user}")).collect();
    let new_users = accounts(&anonymous, &administrator, &usernames, &user_states)?;
    let mut administrators = Vec::new();
    for number in 0..ADMINISTRATORS {
        let name = format!("keeper-{number}");
        let new = json!({"username": name, "roles": ["admin"]});
        let created = administrator.call("POST", "/users", Some(&new))?;
        let (client, _) = anonymous.activate_account(&name, text(&created, "/initial_password")?)?;
        let cookie = client.cookie().context("no session")?.to_owned();
        administrators.push(NewAdministrator { number, cookie });
    }
    let shared =
        SharedState::new(seed, replica_states, written, ExpectedAccess::new(user_states, roles), usernames);
    let processes = SoakProcesses { replicas, store, postgresql };
    Ok(SoakSetup { shared, processes, database, users: new_users, administrators })
}

/// Creates the accounts. Hashing passwords is slow, so that it uses both cores.
fn accounts(
    anonymous: &Client,
    administrator: &Client,
    usernames: &[String],
    user_states: &[UserState],
) -> Result<Vec<NewUser>> {
    let accounts_to_create: Vec<(usize, &String, &UserState)> = usernames
        .iter()
        .zip(user_states)
        .enumerate()
        .map(|(index, (name, user_state))| (index, name, user_state))
        .collect();
    let chunk_size = accounts_to_create.len().div_ceil(2).max(1);
    let make = |some: &[(usize, &String, &UserState)]| -> Result<Vec<NewUser>> {
        let make = |(index, name, user_state): &(usize, &String, &UserState)| {
            let roles: Vec<String> = user_state.roles.iter().map(|role| role_name(*role)).collect();
            let attributes = user_state.attributes.wire();
            let new = json!({"username": name, "roles": roles, "attributes": attributes});
            let created = administrator.call("POST", "/users", Some(&new))?;
            let (_, password) = anonymous.activate_account(name, text(&created, "/initial_password")?)?;
            Ok(NewUser { index: *index, password })
        };
        some.iter().map(make).collect()
    };
    let make = &make;
    thread::scope(|scope| {
        let threads: Vec<_> =
            accounts_to_create.chunks(chunk_size).map(|some| scope.spawn(move || make(some))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow!("creating users panicked"))??);
        }
        Ok(all)
    })
}
