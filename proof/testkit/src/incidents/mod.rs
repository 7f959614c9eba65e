//! An hour of traces of a random system in which one operation of one service fails for one tenant, for tests of finding the
//! cause.
//!
//! All names in the system, and the fields that an administrator marked, depend on the seed, so a search cannot rely on known
//! names. The same seed and the same moment give the same spans.

mod names;
mod rows;
mod system;
#[cfg(test)]
mod tests;

use rand::{RngExt, SeedableRng, seq::IndexedRandom, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use rows::Writer;
use system::System;

/// In nanoseconds.
const MINUTE: u64 = 60_000_000_000;
/// Number of requests in the hour that do not fail.
const HEALTHY_REQUESTS: usize = 220;
/// Environments: the incident is in the first; the traces of the second must not be visible.
pub const ENVIRONMENTS: [&str; 2] = ["production", "staging"];

/// The traces of the hour, and the incident in it.
pub struct Incident {
    /// Rows of the exporter's table, each a JSON object.
    pub rows: Vec<Value>,
    /// Fields in the format of `PUT /schema/fields`: ten to fifteen, as a sensible administrator marks them.
    pub fields: Vec<Value>,
    /// A policy that grants access to the first of [`ENVIRONMENTS`].
    pub policy: String,
    /// The expected result of the search.
    pub cause: Cause,
    /// Number of failed requests in the first environment.
    pub failed: usize,
    /// Number of all requests in the first environment.
    pub requests: usize,
}

/// The cause of the failed requests.
#[derive(Debug, Clone)]
pub struct Cause {
    /// Tenant whose requests fail.
    pub tenant: String,
    /// Service that fails.
    pub service: String,
    /// Operation that fails.
    pub operation: String,
    /// Type of the exception.
    pub kind: String,
    /// Unique message of the exception.
    pub message: String,
    /// Trace and span id of each span that is the origin of a failure.
    pub spans: Vec<(String, String)>,
}

/// The fault to write into the traces.
struct Fault {
    operation: usize,
    /// Whether the operation's database statement fails, rather than the operation itself.
    in_statement: bool,
    kind: String,
    message: String,
    /// Whether the status reports the failure, and whether an event does.
    reported_by: (bool, bool),
    /// Number of attempts of the caller, including the first.
    attempts: usize,
}

impl Incident {
    /// Generates the hour before the given moment, in nanoseconds since 1970.
    pub fn new(seed: u64, now_unix_nanos: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let system = System::new(random);
        let tenants = names::tenants(random);
        let fault = fault(random, &system);
        let tenant = tenants.choose(random).cloned().unwrap_or_default();
        let mut writer = Writer::new(ChaCha8Rng::seed_from_u64(random.random()), &system);

        let minute = |minutes: u64| now_unix_nanos.saturating_sub(minutes * MINUTE);
        let hour = minute(59)..minute(1);
        let begin = random.random_range(8..50);
        let incident = minute(begin)..minute(begin.saturating_sub(random.random_range(5..25)).max(2));
        for _ in 0..HEALTHY_REQUESTS {
            let at = random.random_range(hour.clone());
            let (requesting_tenant, entry) = (tenants.choose(random), system.entries().choose(random));
            let (Some(requesting_tenant), Some(entry)) = (requesting_tenant, entry) else { continue };
            // Requests that would fail are generated below.
            let skipped = *requesting_tenant == tenant
                && incident.contains(&at)
                && system.reaches(*entry, fault.operation);
            if !skipped {
                writer.request(*entry, requesting_tenant, ENVIRONMENTS[0], at, None);
            }
        }
        let affected: Vec<usize> = system
            .entries()
            .iter()
            .copied()
            .filter(|entry| system.reaches(*entry, fault.operation))
            .collect();
        let failed = random.random_range(8..24);
        for _ in 0..failed {
            let at = random.random_range(incident.clone());
            if let Some(entry) = affected.choose(random) {
                writer.request(*entry, &tenant, ENVIRONMENTS[0], at, Some(&fault));
            }
        }
        let requests = writer.requests;
        let spans = std::mem::take(&mut writer.failed);
        // A different fault occurs more often in the environment that must not be visible.
        let other = self::fault(random, &system);
        for _ in 0..failed * 2 {
            let at = random.random_range(hour.clone());
            if let (Some(requesting_tenant), Some(entry)) =
                (tenants.choose(random), system.entries().choose(random))
            {
                writer.request(*entry, requesting_tenant, ENVIRONMENTS[1], at, Some(&other));
            }
        }
        let service_and_operation = system.service_and_operation(fault.operation);
        let cause = Cause {
            tenant,
            service: service_and_operation.0.to_owned(),
            operation: service_and_operation.1.to_owned(),
            kind: fault.kind,
            message: fault.message,
            spans,
        };
        let fields = fields(random, &system);
        let policy = format!("ResourceAttributes[\"{}\"] == \"{}\"", system.environment_key, ENVIRONMENTS[0]);
        Self { rows: writer.rows, fields, policy, cause, failed, requests }
    }
}

fn fault(random: &mut ChaCha8Rng, system: &System) -> Fault {
    let operation = system.inner_operations().choose(random).copied().unwrap_or(0);
    let (kind, message) = names::failure(random);
    let reported_by = *[(true, false), (false, true), (true, true)].choose(random).unwrap_or(&(true, true));
    Fault {
        operation,
        in_statement: random.random_bool(0.5) && system.has_statement(operation),
        kind,
        message,
        reported_by,
        attempts: random.random_range(1..4),
    }
}

fn fields(random: &mut ChaCha8Rng, system: &System) -> Vec<Value> {
    let column = |name: &str| json!({"name": name, "filterable": true, "policy": true});
    let key = |map: &str, name: &str| json!({"map": map, "name": name, "filterable": true, "policy": true});
    let mut fields = vec![
        column("StatusCode"),
        column("ServiceName"),
        column("SpanName"),
        key("SpanAttributes", &system.tenant_key),
        key("ResourceAttributes", &system.environment_key),
        json!({"name": "Duration", "type": "number", "filterable": true, "policy": false}),
    ];
    let mut others = vec![
        column("SpanKind"),
        column("Events.Name"),
        key("SpanAttributes", "http.route"),
        key("SpanAttributes", "http.request.method"),
        json!({"map": "SpanAttributes", "name": "http.response.status_code", "type": "number", "filterable": true,
            "policy": false}),
        key("SpanAttributes", "db.system.name"),
        key("SpanAttributes", "rpc.method"),
        key("ResourceAttributes", "service.version"),
        key("ResourceAttributes", "cloud.region"),
        key("ResourceAttributes", "k8s.namespace.name"),
    ];
    others.shuffle(random);
    others.truncate(random.random_range(4..=9));
    fields.append(&mut others);
    fields.shuffle(random);
    fields
}
