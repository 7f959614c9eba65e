//! Fault injection: stops and restarts a replica, PostgreSQL and ClickHouse while the users work.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tracewarden_testkit::postgres::{Server, Stop};

use super::shared::{Shared, lock};
use crate::stack::LocalStore;
use crate::stack::replica::Replica;

/// The programs of the soak.
pub struct Machines {
    /// The first replica is never restarted, because its memory is measured.
    pub replicas: Vec<Replica>,
    pub store: LocalStore,
    pub postgresql: Server,
}

/// Time that a stopped program stays down.
const AWAY: Duration = Duration::from_secs(3);

/// No program is stopped within this time before the end.
const QUIET_END: Duration = Duration::from_secs(20);

struct Due {
    next: Instant,
    every: Duration,
    count: u32,
}

impl Due {
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

impl Machines {
    /// Stops and restarts programs until the soak is over. Returns an error if a program does not come back.
    pub fn disturb(&mut self, shared: &Shared, length: Duration) -> Result<()> {
        let begun = Instant::now();
        let last = begun + length.saturating_sub(QUIET_END);
        let mut replica = Due::new(begun, length, 6, (25, 240));
        let mut postgresql = Due::new(begun, length, 4, (40, 900));
        let mut store = Due::new(begun, length, 3, (55, 1_200));
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

    fn replica(&mut self, shared: &Shared, count: u32) -> Result<()> {
        let place = shared.places.len() - 1;
        let (Some(at), Some(replica)) = (shared.places.get(place), self.replicas.get_mut(place)) else {
            return Ok(());
        };
        let how = if count % 2 == 1 { "replica stopped" } else { "replica killed" };
        shared.disturb(how, || -> Result<()> {
            if count % 2 == 1 {
                // A clean stop: the load balancer sends no more requests, and running ones complete.
                at.up.store(false, Ordering::SeqCst);
                replica.stop().context("stopping a replica")?;
            } else {
                replica.kill();
                at.up.store(false, Ordering::SeqCst);
            }
            shared.sleep(AWAY);
            replica.resume()?;
            at.process.store(replica.process(), Ordering::SeqCst);
            at.generation.fetch_add(1, Ordering::SeqCst);
            at.up.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn postgresql(&mut self, shared: &Shared, count: u32) -> Result<()> {
        let (how, stop) = match count % 2 {
            1 => ("PostgreSQL stopped", Stop::Fast),
            _ => ("PostgreSQL killed", Stop::Immediate),
        };
        shared.disturb(how, || {
            self.postgresql.stop(stop);
            shared.sleep(AWAY);
            self.postgresql.resume().map_err(|error| anyhow!(error))
        })
    }

    fn store(&mut self, shared: &Shared, count: u32) -> Result<()> {
        let how = if count % 2 == 1 { "ClickHouse stopped" } else { "ClickHouse killed" };
        let _writing = lock(&shared.written.writing);
        shared.disturb(how, || -> Result<()> {
            if count % 2 == 1 {
                self.store.stop().context("stopping ClickHouse")?;
            } else {
                self.store.kill();
            }
            shared.sleep(AWAY);
            self.store.resume()
        })
    }
}
