//! Fault injection: stops and restarts a replica, PostgreSQL and ClickHouse while the users work.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tracewarden_testkit::postgres::{Server, Stop};

use super::shared::{SharedState, lock};
use crate::stack::LocalStore;
use crate::stack::replica::Replica;

/// The programs of the soak.
pub struct SoakProcesses {
    /// The first replica is never restarted, because its memory is measured.
    pub replicas: Vec<Replica>,
    pub store: LocalStore,
    pub postgresql: Server,
}

/// Time that a stopped program stays down.
const DOWNTIME: Duration = Duration::from_secs(3);

/// No program is stopped within this time before the end.
const FAULT_FREE_END: Duration = Duration::from_secs(20);

struct FaultSchedule {
    next: Instant,
    every: Duration,
    count: u32,
}

impl FaultSchedule {
    /// Schedules several faults in a short soak, and faults as rare as real restarts in a long one.
    fn new(begun: Instant, length: Duration, parts: u32, seconds: (u64, u64)) -> Self {
        let (least, most) = (Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
        let every = (length / parts).clamp(least, most);
        Self { next: begun + every, every, count: 0 }
    }

    fn is_due(&mut self) -> bool {
        let due = Instant::now() >= self.next;
        if due {
            self.next += self.every;
            self.count += 1;
        }
        due
    }
}

impl SoakProcesses {
    /// Stops and restarts programs until the soak is over. Returns an error if a program does not come back.
    pub fn inject_fault(&mut self, shared: &SharedState, length: Duration) -> Result<()> {
        let begun = Instant::now();
        let last = begun + length.saturating_sub(FAULT_FREE_END);
        let mut replica = FaultSchedule::new(begun, length, 6, (25, 240));
        let mut postgresql = FaultSchedule::new(begun, length, 4, (40, 900));
        let mut store = FaultSchedule::new(begun, length, 3, (55, 1_200));
        while !shared.is_over() && Instant::now() < last {
            if replica.is_due() {
                self.replica(shared, replica.count)?;
            }
            if postgresql.is_due() {
                self.postgresql(shared, postgresql.count)?;
            }
            if store.is_due() {
                self.store(shared, store.count)?;
            }
            for replica in &mut self.replicas {
                replica.check()?;
            }
            shared.sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn replica(&mut self, shared: &SharedState, count: u32) -> Result<()> {
        let index = shared.replica_states.len() - 1;
        let (Some(at), Some(replica)) = (shared.replica_states.get(index), self.replicas.get_mut(index))
        else {
            return Ok(());
        };
        let description = if count % 2 == 1 { "replica stopped" } else { "replica killed" };
        shared.inject_fault(description, || -> Result<()> {
            if count % 2 == 1 {
                // A clean stop: the load balancer sends no more requests, and running ones complete.
                at.up.store(false, Ordering::SeqCst);
                replica.stop().context("stopping a replica")?;
            } else {
                replica.kill();
                at.up.store(false, Ordering::SeqCst);
            }
            shared.sleep(DOWNTIME);
            replica.resume()?;
            at.process.store(replica.process(), Ordering::SeqCst);
            at.generation.fetch_add(1, Ordering::SeqCst);
            at.up.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn postgresql(&mut self, shared: &SharedState, count: u32) -> Result<()> {
        let (description, stop) = match count % 2 {
            1 => ("PostgreSQL stopped", Stop::Fast),
            _ => ("PostgreSQL killed", Stop::Immediate),
        };
        shared.inject_fault(description, || {
            self.postgresql.stop(stop);
            shared.sleep(DOWNTIME);
            self.postgresql.resume().map_err(|error| anyhow!(error))
        })
    }

    fn store(&mut self, shared: &SharedState, count: u32) -> Result<()> {
        let description = if count % 2 == 1 { "ClickHouse stopped" } else { "ClickHouse killed" };
        let _writing = lock(&shared.written.writing);
        shared.inject_fault(description, || -> Result<()> {
            if count % 2 == 1 {
                self.store.stop().context("stopping ClickHouse")?;
            } else {
                self.store.kill();
            }
            shared.sleep(DOWNTIME);
            self.store.resume()
        })
    }
}
