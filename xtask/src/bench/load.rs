//! HTTP load generator: sends requests over keep-alive connections, as fast as responses arrive or at a fixed rate. It uses
//! blocking threads, because on a two-core machine the client must cost less than the server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Maximum wait for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request that is sent repeatedly, and its expected status.
#[derive(Clone)]
pub struct RequestSpec {
    pub address: SocketAddr,
    pub path: &'static str,
    /// Header lines, each with its line end.
    pub headers: String,
    pub status: u16,
}

/// Returns the cores that this process may use, in order.
pub fn cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot determine the usable cores")?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Restricts the calling thread and the threads that it starts later to these cores.
pub fn pin_to_cores(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    sched_setaffinity(None, &set).context("cannot choose the core")
}

/// Returns the number of responses within this time when each of `connections` sends its next request as soon as the last one is
/// answered.
pub fn count(request_spec: &RequestSpec, connections: usize, core: usize, time: Duration) -> Result<u64> {
    let begun = Instant::now();
    let counts = on_threads(connections, |_| {
        pin_to_cores(&[core])?;
        let mut connection = Connection::open(request_spec)?;
        let mut count = 0_u64;
        while begun.elapsed() < time {
            connection.ask()?;
            count += 1;
        }
        Ok(count)
    })?;
    Ok(counts.iter().sum())
}

/// Returns the response times in ascending order when requests are sent at `rate` per second in total, independent of earlier
/// responses. A request that had to wait for its connection is measured from its scheduled time.
pub fn times(
    request_spec: &RequestSpec,
    connections: usize,
    core: usize,
    rate: f64,
    time: Duration,
) -> Result<Vec<Duration>> {
    let gap = Duration::from_secs_f64(connections as f64 / rate);
    let each = (time.as_secs_f64() / gap.as_secs_f64()) as u32;
    let begun = Instant::now() + Duration::from_millis(50);
    let times = on_threads(connections, |index| {
        pin_to_cores(&[core])?;
        let mut connection = Connection::open(request_spec)?;
        let first = begun + gap.mul_f64(index as f64 / connections as f64);
        let mut times = Vec::with_capacity(each as usize);
        for number in 0..each {
            let scheduled = first + gap * number;
            thread::sleep(scheduled.saturating_duration_since(Instant::now()));
            connection.ask()?;
            times.push(scheduled.elapsed());
        }
        Ok(times)
    })?;
    let mut times = times.concat();
    times.sort_unstable();
    Ok(times)
}

fn on_threads<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || work(index))).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")));
        ended.collect()
    })
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    status: u16,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(request_spec: &RequestSpec) -> Result<Self> {
        let stream = TcpStream::connect(request_spec.address).context("cannot connect to the service")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\n{}\r\n",
            request_spec.path, request_spec.address, request_spec.headers
        );
        Ok(Self {
            stream,
            request: request.into_bytes(),
            status: request_spec.status,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Sends the request and reads the whole response.
    fn ask(&mut self) -> Result<()> {
        self.stream.write_all(&self.request)?;
        let mut received = 0;
        loop {
            let free_buffer = self.buffer.get_mut(received..).unwrap_or_default();
            let read = self.stream.read(free_buffer).context("no answer in time")?;
            ensure!(read > 0, "the connection ended before the answer did, or the answer is large");
            received += read;
            let answer = self.buffer.get(..received).unwrap_or_default();
            let Some((status, whole)) = head(answer)? else { continue };
            ensure!(status == self.status, "answered with {status} instead of {}", self.status);
            if received >= whole {
                ensure!(received == whole, "received more than one answer");
                return Ok(());
            }
        }
    }
}

/// Returns the status of a response and its length in bytes including the head, or `None` while the head is incomplete.
fn head(answer: &[u8]) -> Result<Option<(u16, usize)>> {
    let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(answer.get(..end).unwrap_or_default())?;
    let status =
        head.split(' ').nth(1).and_then(|text| text.parse().ok()).context("the answer is not HTTP")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let length = length.context("the answer does not contain its length")??;
    Ok(Some((status, end + 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_at_its_content_length() {
        let text = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(head(text).unwrap(), Some((401, text.len())));
        assert_eq!(head(&text[..40]).unwrap(), None);
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
