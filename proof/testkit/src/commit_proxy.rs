//! A proxy in front of PostgreSQL that loses connections. It can lose the connection of one transaction at its `COMMIT`: before
//! the `COMMIT` arrives, so that the server rolls back, or before the response arrives, so that the client does not know that the
//! server committed. It can also lose the connection at the n-th message.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::postgres::Database;

/// The message that is lost together with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostMessage {
    /// The `COMMIT`: the server rolls back.
    Commit,
    /// The response to the `COMMIT`: the server has committed.
    Answer,
}

/// The condition for losing a connection.
#[derive(Debug, Default)]
enum LossTrigger {
    #[default]
    Never,
    /// The `COMMIT` of a transaction with this text in its messages.
    Commit(Vec<u8>, LostMessage),
    /// The message after `left` more, counted over all connections. Then one connection is lost, or every connection that sends.
    AfterMessages { left: u64, once: bool },
    /// The first message with this text starts the count of [`Self::AfterMessages`].
    AfterText { text: Vec<u8>, left: u64, once: bool },
    /// Every connection that sends is lost.
    Always,
}

impl LossTrigger {
    /// Decides whether to lose the connection of a message.
    fn check(&mut self, sent: &[u8], transaction: &[u8]) -> Option<LostMessage> {
        match self {
            // The client sends `COMMIT` alone and waits for the response, so it arrives in one piece.
            Self::Commit(text, lost) if contains(sent, COMMIT) && contains(transaction, text) => {
                let lost = *lost;
                *self = Self::Never;
                Some(lost)
            }
            Self::AfterText { text, left, once } if contains(sent, text) => {
                let (left, once) = (*left, *once);
                *self = Self::AfterMessages { left, once };
                self.check(sent, transaction)
            }
            Self::Never | Self::Commit(..) | Self::AfterText { .. } => None,
            Self::AfterMessages { left: 0, once } => {
                *self = if *once { Self::Never } else { Self::Always };
                Some(LostMessage::Commit)
            }
            Self::AfterMessages { left, .. } => {
                *left -= 1;
                None
            }
            Self::Always => Some(LostMessage::Commit),
        }
    }
}

/// `COMMIT` as a simple query: message type, length of the rest, text.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// The proxy; dropping it stops it.
pub struct CommitProxy {
    address: SocketAddr,
    url: String,
    trigger: Arc<Mutex<LossTrigger>>,
}

impl CommitProxy {
    /// Listens on a free port of the loopback interface, for this database.
    ///
    /// # Errors
    /// When no port is available, or the database's URL does not contain `HOST:PORT`.
    pub fn start(database: &Database) -> Result<Self, String> {
        let url = database.url();
        let upstream = url.rsplit_once('@').and_then(|(_, rest)| rest.split_once('/')).map(|(host, _)| host);
        let upstream = upstream.ok_or("the database's address names no host")?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let url = url.replace(upstream, &address.to_string());
        let upstream: SocketAddr = upstream.parse().map_err(|error| format!("`{upstream}`: {error}"))?;
        let trigger = Arc::new(Mutex::new(LossTrigger::default()));
        let shared = Arc::downgrade(&trigger);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(trigger) = shared.upgrade() else { return };
                if let Ok(server) = TcpStream::connect(upstream) {
                    forward(client, server, trigger);
                }
            }
        });
        Ok(Self { address, url, trigger })
    }

    /// Returns the URL to use instead of the database's.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Loses the connection of the next transaction that commits with this text in its messages.
    pub fn lose_commit(&self, text: &str, lost: LostMessage) {
        *lock(&self.trigger) = LossTrigger::Commit(text.as_bytes().to_vec(), lost);
    }

    /// Loses the connection of the `number`-th message from now on, counted from 1, before the message arrives. With `once`, only
    /// that connection is lost; otherwise every connection that sends from then on.
    pub fn lose_message(&self, number: u64, once: bool) {
        *lock(&self.trigger) = LossTrigger::AfterMessages { left: number.saturating_sub(1), once };
    }

    /// As [`Self::lose_message`], counted from the next message with this text, which is the first.
    pub fn lose_message_after(&self, text: &str, number: u64, once: bool) {
        let text = text.as_bytes().to_vec();
        *lock(&self.trigger) = LossTrigger::AfterText { text, left: number.saturating_sub(1), once };
    }

    /// Whether a connection was lost.
    pub fn has_lost(&self) -> bool {
        matches!(*lock(&self.trigger), LossTrigger::Never | LossTrigger::Always)
    }
}

impl Drop for CommitProxy {
    fn drop(&mut self) {
        self.trigger = Arc::default();
        // The listener's thread notices that the proxy was dropped when it accepts the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock(trigger: &Mutex<LossTrigger>) -> MutexGuard<'_, LossTrigger> {
    trigger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn forward(client: TcpStream, server: TcpStream, trigger: Arc<Mutex<LossTrigger>>) {
    let (Ok(from_client), Ok(to_client)) = (client.try_clone(), client.try_clone()) else { return };
    let (Ok(from_server), Ok(to_server)) = (server.try_clone(), server.try_clone()) else { return };
    let silent = Arc::new(AtomicBool::new(false));
    let silenced = Arc::clone(&silent);
    std::thread::spawn(move || {
        forward_statements(from_client, to_server, &trigger, &silent);
        if !silent.load(Ordering::SeqCst) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    });
    std::thread::spawn(move || forward_responses(from_server, to_client, &silenced));
}

fn forward_statements(
    mut client: TcpStream,
    mut server: TcpStream,
    trigger: &Mutex<LossTrigger>,
    silent: &AtomicBool,
) {
    let mut transaction = Vec::new();
    let mut buffer = [0_u8; 16 * 1024];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let sent = buffer.get(..length).unwrap_or_default();
        if contains(sent, b"BEGIN") {
            transaction.clear();
        }
        transaction.extend_from_slice(sent);
        let loss = lock(trigger).check(sent, &transaction);
        match loss {
            Some(LostMessage::Commit) => return,
            Some(LostMessage::Answer) => silent.store(true, Ordering::SeqCst),
            None => {}
        }
        if server.write_all(sent).is_err() || loss.is_some() {
            return;
        }
    }
}

fn forward_responses(mut server: TcpStream, mut client: TcpStream, silent: &AtomicBool) {
    let mut buffer = [0_u8; 16 * 1024];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        // The server responds to a `COMMIT` once it is durable.
        if silent.load(Ordering::SeqCst)
            || client.write_all(buffer.get(..length).unwrap_or_default()).is_err()
        {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
