//! A TCP proxy for fault injection: it forwards responses up to the configured fault.

mod replaying;
mod rewriting;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use replaying::RecordedResponses;
pub use rewriting::{BodyEnd, ResponseRewrite, TAG};

/// The fault to inject into responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// After this number of bytes, counted over all connections, all connections are closed.
    CutAfter(u64),
    /// As [`Self::CutAfter`], but health checks pass: the server is healthy, and only its responses are cut off.
    CutResponsesAfter(u64),
    /// As [`Self::CutAfter`], with connections reset instead of closed.
    ResetAfter(u64),
    /// After this number of bytes, counted over all connections, there is one pause of this duration.
    PauseAfter(u64, Duration),
    /// After this number of bytes, counted over all connections, no more bytes are forwarded, and connections stay open.
    SilenceAfter(u64),
    /// Connections are closed as soon as they are accepted.
    Refuse,
    /// Responses are forwarded one byte at a time, with a pause after each.
    Drip(Duration),
    /// Connections are accepted, and no response is sent.
    Silence,
    /// Every request gets this response: head and body.
    Answer(&'static str),
    /// Responses to statements are read completely and then rewritten like this.
    Rewrite(ResponseRewrite),
}

struct State {
    fault: Fault,
    /// Bytes of responses to statements that were forwarded since the fault was set. Health checks are not counted, because they
    /// occur at any time.
    forwarded_bytes: u64,
    /// Whether any of these bytes were held back.
    held_back: bool,
    /// Whether the pause of this fault is over.
    paused: bool,
    /// Bodies of the responses to statements, before rewriting.
    bodies: Vec<Vec<u8>>,
    /// Number of rewritten responses whose body was changed.
    changed: usize,
    /// Number of the current fault. Connections of earlier faults neither forward nor count bytes.
    generation: u64,
    open: Vec<TcpStream>,
}

/// The proxy; dropping it stops it.
pub struct ChaosProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    recorded: Arc<Mutex<RecordedResponses>>,
}

impl ChaosProxy {
    /// Listens on a free port of the loopback interface and forwards to `upstream`.
    ///
    /// # Errors
    /// When no port is available.
    pub fn start(upstream: SocketAddr) -> std::io::Result<Self> {
        Self::start_with(upstream, Arc::default())
    }

    fn start_with(upstream: SocketAddr, recorded: Arc<Mutex<RecordedResponses>>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State {
            fault: Fault::None,
            forwarded_bytes: 0,
            held_back: false,
            paused: false,
            bodies: Vec::new(),
            changed: 0,
            generation: 0,
            open: Vec::new(),
        }));
        let shared = Arc::downgrade(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(state) = shared.upgrade() else { return };
                let fault = lock(&state).fault;
                match fault {
                    Fault::Refuse => continue,
                    Fault::Answer(text) => {
                        std::thread::spawn(move || respond(client, text));
                        continue;
                    }
                    _ => {}
                }
                if let Ok(server) = TcpStream::connect(upstream) {
                    forward(client, server, &state);
                }
            }
        });
        Ok(Self { address, state, recorded })
    }

    /// Starts a proxy that also repeats the first response to a statement whenever the statement is sent again.
    ///
    /// # Errors
    /// When no port is available.
    pub fn replaying(upstream: SocketAddr) -> std::io::Result<Self> {
        let recorded = Arc::default();
        let relay = replaying::start(upstream, Arc::clone(&recorded))?;
        Self::start_with(relay, recorded)
    }

    /// Returns the number of statements that got a repeated response.
    pub fn repeated(&self) -> usize {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).repeated
    }

    /// Returns the URL to use instead of the upstream's.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the fault for all later connections, and closes the open ones.
    pub fn set(&self, fault: Fault) {
        let mut state = lock(&self.state);
        state.fault = fault;
        state.forwarded_bytes = 0;
        state.held_back = false;
        state.paused = false;
        state.bodies.clear();
        state.changed = 0;
        state.generation += 1;
        state.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Returns the number of bytes of responses to statements that were forwarded since the fault was set. Health checks are not
    /// counted.
    pub fn forwarded_bytes(&self) -> u64 {
        lock(&self.state).forwarded_bytes
    }

    /// Whether the fault held back any bytes of a response to a statement.
    pub fn has_held_back(&self) -> bool {
        lock(&self.state).held_back
    }

    /// Returns the bodies of the responses to statements since [`Fault::Rewrite`] was set, as ClickHouse sent them.
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        lock(&self.state).bodies.clone()
    }

    /// Returns the number of these bodies that were changed.
    pub fn changed(&self) -> usize {
        lock(&self.state).changed
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.set(Fault::Refuse);
        // The listener's thread notices that the proxy was dropped when it accepts the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forward(client: TcpStream, server: TcpStream, state: &Arc<Mutex<State>>) {
    let (Ok(mut requests), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let generation = {
        let mut state = lock(state);
        state.open.extend([client.try_clone(), server.try_clone()].into_iter().flatten());
        state.generation
    };
    // A response is complete before the next request is sent.
    let health_check = Arc::new(AtomicBool::new(false));
    let is_ping = Arc::clone(&health_check);
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 16 * 1024];
        while let Ok(length @ 1..) = requests.read(&mut buffer) {
            let part = buffer.get(..length).unwrap_or_default();
            is_ping.store(
                part.starts_with(b"GET ") && part.windows(6).any(|part| part == b"/ping "),
                Ordering::SeqCst,
            );
            if to_server.write_all(part).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        let connection_end = forward_responses(
            server.try_clone().ok(),
            client.try_clone().ok(),
            &state,
            generation,
            &health_check,
        );
        match connection_end {
            ConnectionEnd::Closed => drop(client.shutdown(Shutdown::Both)),
            ConnectionEnd::Reset => reset(&client, &state),
        }
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// How a connection to a client ends.
enum ConnectionEnd {
    Closed,
    Reset,
}

/// Makes the last holder of the connection reset it, and makes the other holders close it.
fn reset(client: &TcpStream, state: &Mutex<State>) {
    let peer = client.peer_addr().ok();
    let _ = socket2::SockRef::from(client).set_linger(Some(Duration::ZERO));
    lock(state).open.retain(|open| open.peer_addr().ok() != peer);
    let _ = client.shutdown(Shutdown::Read);
}

/// Sends the response once no more bytes of the request arrive: closing a connection with unread bytes would discard the
/// response.
fn respond(mut client: TcpStream, text: &str) {
    const QUIET: Duration = Duration::from_millis(30);
    if client.set_read_timeout(Some(Duration::from_secs(5))).is_err() {
        return;
    }
    let mut buffer = [0_u8; 16 * 1024];
    while let Ok(1..) = client.read(&mut buffer) {
        if client.set_read_timeout(Some(QUIET)).is_err() {
            return;
        }
    }
    let _ = client.write_all(text.as_bytes());
    let _ = client.shutdown(Shutdown::Write);
    // Until the client disconnects.
    let _ = client.set_read_timeout(Some(Duration::from_secs(5)));
    while let Ok(1..) = client.read(&mut buffer) {}
}

fn forward_responses(
    server: Option<TcpStream>,
    client: Option<TcpStream>,
    state: &Mutex<State>,
    generation: u64,
    health_check: &AtomicBool,
) -> ConnectionEnd {
    let (Some(mut server), Some(mut client)) = (server, client) else { return ConnectionEnd::Closed };
    // The fault does not change during the connection: setting another one closes it.
    let fault = lock(state).fault;
    let limit = match fault {
        Fault::CutAfter(limit)
        | Fault::CutResponsesAfter(limit)
        | Fault::ResetAfter(limit)
        | Fault::SilenceAfter(limit) => limit,
        Fault::Silence => 0,
        Fault::Rewrite(rewriting) => {
            rewriting::forward_responses(server, client, state, generation, health_check, rewriting);
            return ConnectionEnd::Closed;
        }
        _ => u64::MAX,
    };
    let mut buffer = [0_u8; 16 * 1024];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        let up_to = |limit: u64, forwarded_bytes: u64| {
            length.min(usize::try_from(limit.saturating_sub(forwarded_bytes)).unwrap_or(length))
        };
        let (allowed, before_pause) = {
            let mut state = lock(state);
            if state.generation != generation {
                return ConnectionEnd::Closed;
            }
            let is_health_check = health_check.load(Ordering::SeqCst);
            let exempt = is_health_check && matches!(fault, Fault::CutResponsesAfter(_));
            let forwarded_bytes = state.forwarded_bytes;
            let allowed = if exempt { length } else { up_to(limit, forwarded_bytes) };
            let mut before_pause = length;
            if !is_health_check {
                state.forwarded_bytes += allowed as u64;
                state.held_back |= allowed < length;
                if let Fault::PauseAfter(at, _) = fault
                    && !state.paused
                {
                    before_pause = up_to(at, forwarded_bytes);
                    state.paused = before_pause < length;
                }
            }
            (allowed, before_pause)
        };
        let part = buffer.get(..allowed).unwrap_or_default();
        let sent = match fault {
            Fault::Drip(pause) => part.iter().try_for_each(|byte| {
                std::thread::sleep(pause);
                client.write_all(std::slice::from_ref(byte))
            }),
            Fault::PauseAfter(_, pause) if before_pause < length => {
                let (before, after) = part.split_at(before_pause);
                client.write_all(before).and_then(|()| {
                    std::thread::sleep(pause);
                    client.write_all(after)
                })
            }
            _ => client.write_all(part),
        };
        // Both ends stay open, so that neither notices the fault.
        if matches!(fault, Fault::Silence | Fault::SilenceAfter(_)) {
            continue;
        }
        if sent.is_err() || allowed < length {
            return if matches!(fault, Fault::ResetAfter(_)) {
                ConnectionEnd::Reset
            } else {
                ConnectionEnd::Closed
            };
        }
    }
    ConnectionEnd::Closed
}
