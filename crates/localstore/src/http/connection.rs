//! Connections that signal when all written bytes have left this process.
//!
//! A late error must abort the connection, but only after the text of the error has been sent. The HTTP library
//! discards its buffer when the body of a response fails. It flushes the socket only when its buffer is empty, so a
//! flush is the signal to wait for.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Signals the flushes of a connection.
#[derive(Debug, Clone, Default)]
pub struct Flushes(watch::Sender<()>);

impl Flushes {
    /// Waits for the next flush.
    pub async fn next(&self) {
        // The sender lives as long as this call.
        let _ = self.0.subscribe().changed().await;
    }
}

/// A listener whose connections signal their flushes.
pub struct WatchedListener(pub TcpListener);

impl Listener for WatchedListener {
    type Io = WatchedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (WatchedStream, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // Responses are written in few pieces, so delaying them only costs the client time.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off Nagle's algorithm");
        }
        (WatchedStream { stream, flushes: Flushes::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, WatchedListener>> for Flushes {
    fn connect_info(stream: IncomingStream<'_, WatchedListener>) -> Self {
        stream.io().flushes.clone()
    }
}

/// A connection that signals its flushes.
pub struct WatchedStream {
    stream: TcpStream,
    flushes: Flushes,
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.flushes.0.send_replace(());
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
