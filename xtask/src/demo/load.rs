//! Sends the sample traces over OTLP, as instrumented programs do.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use prost::Message as _;
use tracewarden_sample_data::{Batches, SPANS_PER_REQUEST, Trace};

use crate::stack::interrupt;

/// Encoding overlaps with the work of ClickHouse; more senders would only queue.
const SENDERS: usize = 3;

/// Sends traces with about `spans` spans in total. Returns the number of spans sent.
pub fn send(traces: impl Iterator<Item = Trace>, spans: usize, url: &str) -> Result<u64> {
    let bar = ProgressBar::new(spans as u64);
    bar.set_style(ProgressStyle::with_template("sending sample traces {wide_bar} {human_pos} spans")?);
    // The bounded channel limits memory if ClickHouse is slower than the generator.
    let (requests, queue) = sync_channel::<(Vec<u8>, usize)>(SENDERS);
    // Only the workers hold the receiver: if all of them fail, sending fails instead of blocking for ever.
    let queue = Arc::new(Mutex::new(queue));
    let sent = thread::scope(|scope| -> Result<u64> {
        let bar = &bar;
        let worker = |queue: Queue| scope.spawn(move || work(&queue, url, bar));
        let workers: Vec<_> = (0..SENDERS).map(|_| worker(Arc::clone(&queue))).collect();
        drop(queue);
        for batch in Batches::new(traces, SPANS_PER_REQUEST) {
            // A failed worker has closed its receiver; its error is reported below.
            if interrupt::requested() || requests.send((batch.request.encode_to_vec(), batch.spans)).is_err()
            {
                break;
            }
        }
        drop(requests);
        let mut sent = 0;
        for worker in workers {
            sent += worker.join().map_err(|_| anyhow::anyhow!("a sender of sample traces panicked"))??;
        }
        Ok(sent)
    })?;
    bar.finish_and_clear();
    interrupt::check()?;
    Ok(sent)
}

type Queue = Arc<Mutex<Receiver<(Vec<u8>, usize)>>>;

fn work(queue: &Queue, url: &str, bar: &ProgressBar) -> Result<u64> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(60)))
        .http_status_as_error(false)
        .build()
        .into();
    let mut sent = 0;
    loop {
        let next = queue.lock().ok().and_then(|queue| queue.recv().ok());
        let Some((request, spans)) = next else { return Ok(sent) };
        if interrupt::requested() {
            continue;
        }
        let mut answer = agent
            .post(url)
            .header("content-type", "application/x-protobuf")
            .send(&request)
            .context("cannot send sample traces to the local store")?;
        if answer.status() != 200 {
            let error_text = answer.body_mut().read_to_string().unwrap_or_default();
            bail!("the local store refused sample traces ({}): {}", answer.status(), error_text.trim());
        }
        bar.inc(spans as u64);
        sent += spans as u64;
    }
}
