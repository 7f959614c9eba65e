//! Process metrics from the operating system, under their standard Prometheus names.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Collector that reads `/proc` at each scrape. Values that cannot be read, as on other systems, are left out.
#[derive(Debug)]
pub struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut write = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(bytes) = resident_bytes() {
            let metric = ConstGauge::new(bytes);
            write("process_resident_memory_bytes", "Resident memory of the process, in bytes", &metric)?;
        }
        if let Some(open) = open_files() {
            write("process_open_fds", "Open file descriptors", &ConstGauge::new(open))?;
        }
        if let Some(max_files) = max_open_files() {
            write("process_max_fds", "Maximum number of open file descriptors", &ConstGauge::new(max_files))?;
        }
        if let Some((seconds, started)) = times() {
            let metric = ConstCounter::new(seconds);
            write("process_cpu_seconds", "Processor time of the process, in seconds", &metric)?;
            let metric = ConstGauge::new(started);
            write("process_start_time_seconds", "Start time of the process, in seconds since 1970", &metric)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kibibytes.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()?.checked_mul(1_024)
}

fn open_files() -> Option<i64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    // One of the descriptors belongs to the directory being read.
    i64::try_from(entries.saturating_sub(1)).ok()
}

fn max_open_files() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the processor time in seconds, and the start time as a Unix time.
fn times() -> Option<(f64, f64)> {
    // Positions in `/proc/self/stat` after the process name, which may contain any text and ends with the last parenthesis.
    const USER: usize = 11;
    const SYSTEM: usize = 12;
    const STARTED: usize = 19;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok().map(f64::from);
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok().map(f64::from)?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
    let started = boot.trim().parse::<u32>().ok().map(f64::from)? + ticks(STARTED)? / per_second;
    Some(((ticks(USER)? + ticks(SYSTEM)?) / per_second, started))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "compared with the clock itself")]
    fn reads_process_metrics() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        let before = open_files().unwrap();
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(open_files().unwrap() > before - 3 && max_open_files().unwrap() > before);
        drop(file);
        let (seconds, started) = times().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((0.0..3_600.0).contains(&seconds), "{seconds}");
        assert!((now - 3_600.0..now + 2.0).contains(&started), "{started} {now}");
    }
}
