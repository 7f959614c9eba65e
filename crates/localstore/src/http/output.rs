//! Transfers a response from the thread that runs the statement to the connection.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::compression::native_blocks;
use crate::engine::Progress;
use crate::error::EngineError;

#[derive(Debug)]
pub enum Frame {
    /// Encoded bytes, with the format of the response and the counters so far.
    Data(Bytes, State),
    End(State),
    /// The statement failed. `tail` is the exception block for a response that has already started.
    Failed {
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
    pub progress: Progress,
}

/// The sending side.
pub struct Output {
    pub frames: mpsc::Sender<Frame>,
    /// Whether the response consists of ClickHouse's own blocks.
    pub compress: bool,
    /// The value of the response's `X-ClickHouse-Exception-Tag`.
    pub tag: String,
    pub engine_version: String,
    pub state: State,
}

impl Output {
    /// Sends a part. Returns false if the client has disconnected.
    pub fn write(&self, data: Vec<u8>) -> bool {
        data.is_empty()
            || self.frames.blocking_send(Frame::Data(self.encoded(data), self.state.clone())).is_ok()
    }

    fn encoded(&self, data: Vec<u8>) -> Bytes {
        Bytes::from(if self.compress { native_blocks(&data) } else { data })
    }

    pub fn finish(self, progress: Progress) {
        let _ = self.frames.blocking_send(Frame::End(State { progress, ..self.state }));
    }

    pub fn fail(self, error: EngineError) {
        let block = exception_block(&self.tag, &exception_text(&error, &self.engine_version));
        let tail = self.encoded(block.into_bytes());
        let _ = self.frames.blocking_send(Frame::Failed { error, tail });
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
