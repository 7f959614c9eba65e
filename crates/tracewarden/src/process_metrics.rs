//! Process metrics from the operating system, under their standard Prometheus names.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tracewarden_model::Timestamp;

/// Collector that asks the system at each scrape. Values from `/proc`, which other systems lack, are left out there.
#[derive(Debug)]
pub struct ProcessMetrics {
    /// When the process started.
    pub started: Timestamp,
}

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
        if let Some(max_files) = getrlimit(Resource::Nofile).current {
            write("process_max_fds", "Maximum number of open file descriptors", &ConstGauge::new(max_files))?;
        }
        let metric = ConstCounter::new(processor_time());
        write("process_cpu_seconds", "Processor time of the process, in seconds", &metric)?;
        let metric = ConstGauge::new(self.started.as_nanos() as f64 / 1e9);
        write("process_start_time_seconds", "Start time of the process, in seconds since 1970", &metric)
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

/// Returns the processor time in seconds.
fn processor_time() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn reads_process_metrics() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        let before = open_files().unwrap();
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(open_files().unwrap() > before - 3);
        drop(file);
        assert!((0.0..3_600.0).contains(&processor_time()), "{}", processor_time());
        let (mut registry, mut text) = (Registry::default(), String::new());
        let started = Timestamp::from_nanos(1_800_000_000_500_000_000);
        registry.register_collector(Box::new(ProcessMetrics { started }));
        encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        assert_eq!(value("process_start_time_seconds "), 1_800_000_000.5);
        assert!(value("process_max_fds ") > before as f64 && value("process_open_fds ") > 0.0);
        assert!(value("process_resident_memory_bytes ") > 1e6 && value("process_cpu_seconds_total ") >= 0.0);
    }
}
