//! Records memory, file descriptors and threads of the replicas every minute.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::shared::SharedState;

/// Time until caches are filled and initial allocations are complete.
const WARM_UP: Duration = Duration::from_secs(20 * 60);

/// Maximum ratio of the last samples to the first ones after [`WARM_UP`].
const GROWTH: f64 = 1.1;

/// Number of samples whose median is compared.
const SAMPLES: usize = 8;

/// Resources of a process at one time.
#[derive(Clone, Copy)]
pub struct Sample {
    pub at: Duration,
    pub megabytes: u64,
    pub descriptors: u64,
    pub threads: u64,
}

/// Reads a process's resources from `/proc`. Returns `None` if the process does not exist.
pub fn sample(process: u32, begun: Instant) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64;
    let megabytes = number("VmRSS:")? / 1024;
    Some(Sample { at: begun.elapsed(), megabytes, descriptors, threads: number("Threads:")? })
}

/// Samples of the replica that is never restarted.
#[derive(Default)]
pub struct ResourceMonitor {
    pub first: Vec<Sample>,
}

impl ResourceMonitor {
    /// Samples each replica and returns a description.
    pub fn sample_replicas(&mut self, shared: &SharedState, begun: Instant) -> String {
        let mut states = Vec::new();
        for (index, at) in shared.replica_states.iter().enumerate() {
            let Some(sample) = sample(at.process.load(Ordering::SeqCst), begun) else {
                states.push(format!("replica {}: down", index + 1));
                continue;
            };
            if index == 0 {
                self.first.push(sample);
            }
            let Sample { megabytes, descriptors, threads, .. } = sample;
            states
                .push(format!("replica {}: {megabytes} MB, {descriptors} fd, {threads} threads", index + 1));
        }
        states.join("; ")
    }

    /// Compares the resources of the first replica at the end with those after settling. Returns `None` if it did not run long
    /// enough.
    pub fn compare(&self) -> Option<Comparison> {
        let settled: Vec<Sample> = self.first.iter().filter(|sample| sample.at >= WARM_UP).copied().collect();
        if settled.len() < 2 * SAMPLES {
            return None;
        }
        let (early, late) = (settled.get(..SAMPLES)?, settled.get(settled.len() - SAMPLES..)?);
        let of = |read: fn(&Sample) -> u64| (median(early.iter().map(read)), median(late.iter().map(read)));
        Some(Comparison {
            megabytes: of(|sample| sample.megabytes),
            descriptors: of(|sample| sample.descriptors),
            threads: of(|sample| sample.threads),
        })
    }
}

/// Medians after settling and at the end.
pub struct Comparison {
    pub megabytes: (u64, u64),
    pub descriptors: (u64, u64),
    pub threads: (u64, u64),
}

impl Comparison {
    /// Describes the resources that have grown.
    pub fn growth(&self) -> Vec<String> {
        let all = [("MB", self.megabytes), ("descriptors", self.descriptors), ("threads", self.threads)];
        all.into_iter()
            .filter(|(_, (early, late))| *late as f64 > *early as f64 * GROWTH)
            .map(|(what, (early, late))| format!("{early} {what} became {late}"))
            .collect()
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(minutes: u64, megabytes: impl Fn(u64) -> u64) -> ResourceMonitor {
        let sample = |minute: u64| Sample {
            at: Duration::from_secs(minute * 60),
            megabytes: megabytes(minute),
            descriptors: 40,
            threads: 8,
        };
        ResourceMonitor { first: (0..minutes).map(sample).collect() }
    }

    #[test]
    fn growth_after_the_first_twenty_minutes_is_found_and_growth_before_is_not() {
        let growth = |monitor: ResourceMonitor| monitor.compare().map(|comparison| comparison.growth());
        assert_eq!(growth(monitor(120, |minute| 50 + minute.min(20) * 5)), Some(vec![]));
        let leak = growth(monitor(120, |minute| 50 + minute)).unwrap();
        assert_eq!(leak, ["74 MB became 166"]);
        assert!(growth(monitor(30, |minute| 50 + minute)).is_none());
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let own = sample(std::process::id(), Instant::now()).unwrap();
        assert!(own.megabytes > 0 && own.descriptors > 0 && own.threads > 0);
    }
}
