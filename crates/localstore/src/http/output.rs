//! Transfers a response from the thread that runs the statement to the connection.

use std::io::{self, Read, Seek, SeekFrom, Write};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::compression::{Encoder, Encoding};
use crate::engine::Progress;
use crate::error::EngineError;

/// With `wait_end_of_query`, maximum bytes of a response in memory; more are written to a temporary file.
const SPOOL_MEMORY_BYTES: usize = 32 << 20;
const SPOOL_PART_BYTES: usize = 1 << 20;

/// A part of a response.
#[derive(Debug)]
pub enum Frame {
    /// Encoded bytes, with the format of the response and the counters so far.
    Data(Bytes, State),
    /// The response is complete.
    End(State),
    /// The statement failed. `tail` is the exception block for a response that has already started.
    Failed {
        /// The error.
        error: EngineError,
        /// The exception block, encoded so that it can follow the data.
        tail: Bytes,
    },
}

/// Response properties that the headers contain.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The output format, if the statement or the request names one.
    pub format: Option<String>,
    /// The counters.
    pub progress: Progress,
}

/// The sending side.
pub struct Output {
    frames: mpsc::Sender<Frame>,
    encoding: Encoding,
    encoder: Option<Encoder>,
    spool: Option<tempfile::SpooledTempFile>,
    tag: String,
    engine_version: String,
    state: State,
    write_error: Option<EngineError>,
}

impl Output {
    /// `tag` is the value of the response's `X-ClickHouse-Exception-Tag`, and `engine_version` the engine's version.
    pub fn new(
        frames: mpsc::Sender<Frame>,
        encoding: Encoding,
        wait: bool,
        tag: String,
        engine_version: String,
    ) -> io::Result<Self> {
        let spool = wait.then(|| tempfile::SpooledTempFile::new(SPOOL_MEMORY_BYTES));
        Ok(Self {
            frames,
            encoding,
            encoder: Some(Encoder::new(encoding)?),
            spool,
            tag,
            engine_version,
            state: State::default(),
            write_error: None,
        })
    }

    /// Sets the format for `X-ClickHouse-Format`.
    pub fn set_format(&mut self, format: Option<String>) {
        self.state.format = format;
    }

    /// Sets the counters for `X-ClickHouse-Summary`.
    pub fn set_progress(&mut self, progress: Progress) {
        self.state.progress = progress;
    }

    /// Sends a part. Returns false if writing failed or the client has disconnected.
    pub fn write(&mut self, data: &[u8]) -> bool {
        if data.is_empty() {
            return true;
        }
        let encoded = match self.encoder.as_mut().map(|encoder| encoder.push(data)) {
            Some(Ok(encoded)) => encoded,
            Some(Err(error)) => return self.abort(&error),
            None => return false,
        };
        self.send(Bytes::from(encoded))
    }

    /// As [`Self::write`], without a copy if the response is not encoded.
    pub fn write_owned(&mut self, data: Vec<u8>) -> bool {
        if self.encoding == Encoding::Identity {
            return self.send(Bytes::from(data));
        }
        self.write(&data)
    }

    fn send(&mut self, bytes: Bytes) -> bool {
        if bytes.is_empty() {
            return true;
        }
        match &mut self.spool {
            Some(spool) => match spool.write_all(&bytes) {
                Ok(()) => true,
                Err(error) => self.abort(&error),
            },
            None => self.frames.blocking_send(Frame::Data(bytes, self.state.clone())).is_ok(),
        }
    }

    fn abort(&mut self, error: &io::Error) -> bool {
        self.write_error = Some(EngineError::local(format_args!("cannot write the answer: {error}")));
        false
    }

    /// Ends the response.
    pub fn finish(mut self, progress: Progress) {
        if let Some(error) = self.write_error.take() {
            return self.fail(error);
        }
        self.state.progress = progress;
        let end = match self.encoder.take().map(Encoder::finish) {
            Some(Ok(end)) => end,
            Some(Err(error)) => {
                return self.fail(EngineError::local(format_args!("cannot write the answer: {error}")));
            }
            None => Vec::new(),
        };
        if !self.send(Bytes::from(end)) {
            return;
        }
        if let Some(mut spool) = self.spool.take() {
            let sent = spool.seek(SeekFrom::Start(0)).and_then(|_| self.send_spooled(&mut spool));
            if let Err(error) = sent {
                return self.fail(EngineError::local(format_args!("cannot read the answer back: {error}")));
            }
        }
        let _ = self.frames.blocking_send(Frame::End(self.state));
    }

    fn send_spooled(&self, spool: &mut tempfile::SpooledTempFile) -> io::Result<()> {
        loop {
            let mut part = Vec::with_capacity(SPOOL_PART_BYTES);
            spool.take(SPOOL_PART_BYTES as u64).read_to_end(&mut part)?;
            if part.is_empty()
                || self.frames.blocking_send(Frame::Data(Bytes::from(part), self.state.clone())).is_err()
            {
                return Ok(());
            }
        }
    }

    /// Ends the response with an error.
    pub fn fail(mut self, error: EngineError) {
        let error = self.write_error.take().unwrap_or(error);
        let block = exception_block(&self.tag, &exception_text(&error, &self.engine_version));
        let tail =
            self.encoder.as_mut().and_then(|encoder| encoder.push(block.as_bytes()).ok()).unwrap_or_default();
        let _ = self.frames.blocking_send(Frame::Failed { error, tail: Bytes::from(tail) });
    }
}

/// Returns the text of an error as ClickHouse sends it, with the version and a line break.
pub fn exception_text(error: &EngineError, engine_version: &str) -> String {
    format!("{} (version {engine_version} (embedded engine))\n", error.message.replace(['\0', '\r'], " "))
}

/// Returns the block that follows the data of a response that fails after it has started (since ClickHouse 25.11). The
/// length includes the line break of the message.
pub fn exception_block(tag: &str, text: &str) -> String {
    format!("\r\n__exception__\r\n{tag}\r\n{text}{} {tag}\r\n__exception__\r\n", text.len())
}
