//! Framing of a page: rows pass through as ClickHouse delivered them, without being parsed again.
//!
//! A page is complete if and only if the document is closed. If the rows fail, the stream ends with an error. The connection is
//! then closed without the final chunk, so a client cannot take the part for the whole.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use serde::Serialize;

/// Serialises a value. Wire types hold strings, numbers, lists and objects with string keys, which always serialise; on an error,
/// `null` keeps the document well-formed.
pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// How rows are embedded in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Elements of a JSON array.
    JsonArray,
    /// One row per line (NDJSON): an object whose only member has this name.
    Ndjson(&'static str),
}

impl Frame {
    /// Formats rows for the document. `lines` are whole lines; `first` is true if no rows were written before.
    fn rows(self, lines: &[u8], first: bool) -> Bytes {
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        if lines.is_empty() {
            return Bytes::new();
        }
        match self {
            Self::JsonArray => {
                let mut framed = Vec::with_capacity(lines.len() + 1);
                if !first {
                    framed.push(b',');
                }
                framed.extend(lines.iter().map(|&byte| if byte == b'\n' { b',' } else { byte }));
                framed.into()
            }
            Self::Ndjson(member) => {
                let mut framed = Vec::with_capacity(lines.len() + lines.len() / 8 + 64);
                for line in lines.split(|&byte| byte == b'\n') {
                    framed.extend_from_slice(b"{\"");
                    framed.extend_from_slice(member.as_bytes());
                    framed.extend_from_slice(b"\":");
                    framed.extend_from_slice(line);
                    framed.extend_from_slice(b"}\n");
                }
                framed.into()
            }
        }
    }
}

/// Returns a document around a stream of rows: head (omitted if empty), rows, tail. The tail is written only after the last row
/// arrived.
pub(crate) fn framed<E>(
    frame: Frame,
    head: String,
    rows: impl Stream<Item = Result<Bytes, E>> + Unpin,
    tail: impl FnOnce() -> String,
) -> impl Stream<Item = Result<Bytes, E>> {
    let head = (!head.is_empty()).then(|| Ok(Bytes::from(head)));
    let rest = stream::unfold(Some((rows, tail, true)), move |state| async move {
        let (mut rows, tail, first) = state?;
        while let Some(lines) = rows.next().await {
            match lines.map(|lines| frame.rows(&lines, first)) {
                Ok(framed) if framed.is_empty() => {}
                Ok(framed) => return Some((Ok(framed), Some((rows, tail, false)))),
                // No data may follow, least of all the tail.
                Err(error) => return Some((Err(error), None)),
            }
        }
        Some((Ok(tail().into()), None))
    });
    stream::iter(head).chain(rest)
}

#[cfg(test)]
mod tests {
    use futures::executor;

    use super::*;

    fn frame(frame: Frame, chunks: Vec<Result<&'static str, &'static str>>) -> (String, bool) {
        let rows = stream::iter(chunks).map(|chunk| chunk.map(|text| Bytes::from_static(text.as_bytes())));
        let document = framed(frame, "<".to_owned(), rows, || ">".to_owned());
        let items: Vec<_> = executor::block_on(document.collect());
        let broken = items.iter().any(Result::is_err);
        let text =
            items.into_iter().flatten().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect();
        (text, broken)
    }

    #[test]
    fn rows_become_elements_in_any_chunking() {
        for chunks in [vec!["1\n2\n3\n"], vec!["1\n", "", "2\n3\n"], vec!["1\n2\n", "3\n"]] {
            let chunks = chunks.into_iter().map(Ok).collect();
            assert_eq!(frame(Frame::JsonArray, chunks), ("<1,2,3>".to_owned(), false));
        }
        assert_eq!(frame(Frame::JsonArray, vec![]), ("<>".to_owned(), false));
    }

    #[test]
    fn rows_become_lines() {
        let (text, _) = frame(Frame::Ndjson("span"), vec![Ok("1\n2\n"), Ok("3\n")]);
        assert_eq!(text, "<{\"span\":1}\n{\"span\":2}\n{\"span\":3}\n>");
    }

    #[test]
    fn an_aborted_page_is_never_terminated() {
        assert_eq!(frame(Frame::JsonArray, vec![Ok("1\n"), Err("cut"), Ok("2\n")]), ("<1".to_owned(), true));
        assert_eq!(frame(Frame::JsonArray, vec![Err("cut")]), ("<".to_owned(), true));
    }
}
