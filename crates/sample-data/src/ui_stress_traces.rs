//! Traces for tests of user interfaces: a very large one, and one in which every text is an injection attempt or hard to display.

use super::attributes::Value;
use super::builder::{Builder, Node};
use super::reindex::reindex;
use super::rng::{HOUR, MILLISECOND, MINUTE, SampleRng};
use super::services::Environment::Production;
use super::services::Service::{Assistant, Frontend};
use super::span::{Kind, SpanId, Trace, TraceId};
use super::timeline::Timeline;

/// Number of spans in the large trace.
pub const LARGE_SPANS: usize = 100_000;

/// Length of the long values in bytes.
const LONG: usize = 200 << 10;

/// Nesting depth of spans in the hostile trace.
const DEPTH: usize = 60;

/// Texts that are used as names, keys and values. Scripts in them would set `window.hostile`.
const HOSTILE: [&str; 22] = [
    "<script>window.hostile = true</script>",
    "</script><script>window.hostile = true</script>",
    "<img src=x onerror=\"window.hostile = true\">",
    "\"><svg onload=window.hostile=true>",
    "' autofocus onfocus='window.hostile = true",
    "<a href=\"javascript:window.hostile=true\">follow me</a>",
    "javascript:window.hostile=true",
    "JaVaScRiPt:\twindow.hostile=true",
    "data:text/html,<script>window.hostile = true</script>",
    "{{constructor.constructor('window.hostile = true')()}} ${window.hostile = true}",
    "<style>* { display: none }</style>",
    "<iframe src=\"https://example.org/\"></iframe>",
    // Right-to-left overrides and isolates; one of them is never closed.
    "invoice\u{202e}fdp.exe",
    "\u{2066}admin\u{2069} \u{2067}user \u{202b}\u{202a}",
    // Invisible text, or text that is much taller than a line.
    "\u{200b}\u{200d}\u{feff}\u{2060}\u{34f}\u{180b}\u{2800}\u{fe00}\u{1bca0}\u{1d173}\u{e0100}",
    "Z\u{351}\u{36b}\u{343}\u{36a}\u{302}\u{36b}\u{33d}\u{34f}\u{334}\u{319}\u{324}a\u{30b}\u{304}\u{346}",
    "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466} \u{10ffff}",
    "NUL \0, bell \u{7}, escape \u{1b}[31m, delete \u{7f}, next line \u{85}",
    "a\r\nSet-Cookie: session=stolen\r\n\r\n\u{2028}\u{2029}\ttab",
    "../../../etc/passwd?x=%2e%2e%2f&y=1#fragment",
    "__proto__",
    "=HYPERLINK(\"https://example.org/\")",
];

/// The ids of the traces that are hard to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UiStressTraces {
    /// A trace of [`LARGE_SPANS`] spans.
    pub large: TraceId,
    /// A trace with hostile names, keys and values, long ones among them.
    pub hostile: TraceId,
}

impl UiStressTraces {
    pub(super) fn of(seed: u64) -> Self {
        let id = |name| SampleRng::named(seed, name).trace_id();
        Self { large: id("large"), hostile: id("hostile") }
    }
}

pub(super) fn traces(seed: u64, timeline: Timeline) -> impl Iterator<Item = Trace> {
    let ids = UiStressTraces::of(seed);
    let large = move || {
        reindex(&mut SampleRng::named(seed, "large trace"), ids.large, timeline.before(2 * HOUR), LARGE_SPANS)
    };
    let hostile = move || {
        hostile(&mut SampleRng::named(seed, "hostile trace"), ids.hostile, timeline.before(15 * MINUTE))
    };
    std::iter::once_with(large).chain(std::iter::once_with(hostile))
}

fn hostile(rng: &mut SampleRng, id: TraceId, at: u64) -> Trace {
    let mut builder = Builder::with_id(rng, Production, id);
    let [first, ..] = HOSTILE;
    let root = builder.begin(None, Frontend, first, Kind::Server, at);
    let mut time = at;
    for (index, text) in HOSTILE.into_iter().enumerate() {
        time += MILLISECOND;
        let node = builder.begin(Some(root), Frontend, text, Kind::Client, time);
        builder.set(node, text, text);
        builder.set(node, "url.full", text);
        builder.set(node, "http.request.header.list", Value::List(HOSTILE.map(Into::into).to_vec()));
        builder.event(
            node,
            time,
            text,
            vec![(text, Value::from(text)), ("exception.stacktrace", text.into())],
        );
        if index % 2 == 0 {
            builder.fail(node, text, text);
        }
        builder.end(node, time + MILLISECOND);
    }
    let everything = builder.begin(Some(root), Frontend, "every key at once", Kind::Internal, time);
    for text in HOSTILE {
        builder.set(everything, text, text);
    }
    for name in ["constructor", "toString", "hasOwnProperty"] {
        builder.set(everything, name, "a member of every object");
    }
    long(&mut builder, root, time);
    let mut parent = root;
    for depth in 0..DEPTH {
        parent = builder.begin(Some(parent), Assistant, format!("nested {depth}"), Kind::Internal, time);
        builder.end(parent, time + MILLISECOND);
    }
    builder.end(root, time + 2 * MILLISECOND);
    let mut trace = builder.finish();
    // A parent that was never reported.
    if let Some(last) = trace.spans.last_mut() {
        last.parent = Some(SpanId([0xee; 8]));
    }
    trace
}

/// Adds values that are too long for any table cell.
fn long(builder: &mut Builder<'_>, root: Node, at: u64) {
    let node = builder.begin(Some(root), Frontend, "n".repeat(10_000), Kind::Internal, at);
    builder.set(node, "long.word", "x".repeat(LONG));
    builder.set(node, "long.markup", "<b onclick=\"window.hostile = true\">".repeat(LONG / 32));
    builder.set(node, "long.lines", "one of many lines\n".repeat(LONG / 16));
    builder.set(node, "long.json", format!("[{}1]", "[1, {\"a\": \"<script>\"}],\n".repeat(LONG / 20)));
    builder.set(node, "long.nesting", "[".repeat(LONG));
}
