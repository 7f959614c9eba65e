//! Fake ClickHouse server with configurable answers over HTTP.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

#[derive(Clone, Default)]
pub struct Answers {
    /// `name` and `type` of the columns of `otel.otel_traces`.
    pub columns: Vec<(String, String)>,
    /// Traces that every search finds: id, time of all of its spans in nanoseconds after [`FIRST`], number of spans. Each
    /// span satisfies every predicate.
    pub selected: Vec<(String, i64, u64)>,
    /// Result of a search by id: number of spans, and 1 if access is granted.
    pub found: (u64, u8),
    /// Lines of spans in an answer.
    pub spans: String,
    /// Length of each value of a span that is requested by its id.
    pub given: usize,
    /// Whether the answer with the spans is aborted.
    pub cut: bool,
    /// Statements received so far.
    pub statements: Vec<String>,
    /// ClickHouse version; the oldest supported one when absent.
    pub version: Option<&'static str>,
    /// Gate at which requests for columns wait.
    pub gate: Option<Gate>,
}

/// Some minutes before the initial time of the tests' clock, in nanoseconds.
const FIRST: i64 = 1_795_246_000 * super::SECOND;

/// Holds requests until the test lets them through.
#[derive(Clone)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub fn closed() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until one more request is held.
    pub async fn reached(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    pub fn let_one_through(&self) {
        self.open.add_permits(1);
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }
}

pub struct FakeStore {
    pub address: String,
    pub answers: Arc<Mutex<Answers>>,
}

const COLUMNS: [(&str, &str); 9] = [
    ("Timestamp", "DateTime64(9)"),
    ("TraceId", "String"),
    ("SpanId", "String"),
    ("ParentSpanId", "String"),
    ("ServiceName", "LowCardinality(String)"),
    ("SpanAttributes", "Map(LowCardinality(String), String)"),
    ("Duration", "UInt64"),
    ("Events.Name", "Array(LowCardinality(String))"),
    ("Blob", "Tuple(a String)"),
];

impl FakeStore {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let columns = COLUMNS.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec();
        let answers = Arc::new(Mutex::new(Answers { columns, ..Answers::default() }));
        let shared = Arc::clone(&answers);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, answers }
    }

    pub fn set(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.answers.lock().unwrap());
    }

    /// Returns the number of requests for spans or traces, without those for columns.
    pub fn lookups(&self) -> usize {
        let answers = self.answers.lock().unwrap();
        answers.statements.iter().filter(|statement| !statement.contains("system.")).count()
    }
}

async fn serve(mut stream: TcpStream, answers: Arc<Mutex<Answers>>) {
    let mut request = Vec::new();
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        let Ok(count) = stream.read(&mut buffer).await else { return };
        if count == 0 {
            return;
        }
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_owned))
            .and_then(|length| length.trim().parse::<usize>().ok())
            .unwrap_or_default();
        if body.len() < length {
            continue;
        }
        let gate = answers.lock().unwrap().gate.clone().filter(|_| reads_columns(body));
        if let Some(gate) = gate {
            gate.pass().await;
        }
        let (answer, cut) = answer(head, body, &mut answers.lock().unwrap());
        let promised = answer.len() + usize::from(cut);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {promised}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(answer.as_bytes()).await;
        return;
    }
}

/// Whether a statement reads the columns of tables with their engines.
fn reads_columns(statement: &str) -> bool {
    statement.contains("system.columns") && statement.contains("default_kind, if(")
}

fn answer(head: &str, body: &str, answers: &mut Answers) -> (String, bool) {
    answers.statements.push(body.to_owned());
    let document = |rows: Vec<String>| format!("{{\"data\":[{}],\"rows\":{}}}\n", rows.join(","), rows.len());
    if reads_columns(body) {
        let known = body.contains("otel_traces");
        let columns = answers.columns.iter().filter(|_| known);
        let row = |(name, kind): &(String, String)| {
            let engine = "[\"otel_traces\",\"MergeTree\",\"\"]";
            format!("[\"otel_traces\",{name:?},{kind:?},\"\",\"\",{engine}]")
        };
        (document(columns.map(row).collect()), false)
    } else if body.contains(" FROM system.") {
        // No distributed tables, and no known layout.
        (document(Vec::new()), false)
    } else if head.contains("default_format=JSONEachRow") {
        (answers.spans.clone(), answers.cut)
    } else if body.contains("SELECT `TraceId` AS tw_trace, count() FROM") {
        // One trace by its id, if it exists and access is granted.
        let (spans, open) = answers.found;
        let row = (spans > 0 && open == 1).then(|| format!("[\"t1\",{spans}]"));
        (document(row.into_iter().collect()), false)
    } else if body.contains("LIMIT 4 BY") {
        (document(vec![given(body, answers.given)]), false)
    } else if body.contains("SELECT version()") {
        (document(vec![format!("[{:?}]", answers.version.unwrap_or("25.8.2.1"))]), false)
    } else if body.contains("SELECT 1") {
        (document(vec!["[1]".to_owned()]), false)
    } else {
        (document(search(body, &answers.selected)), false)
    }
}

/// Returns the row of a span of the trace `t1` that is requested by its id.
fn given(statement: &str, bytes: usize) -> String {
    let (columns, _) = statement.trim_start_matches("SELECT ").split_once(" FROM ").unwrap();
    let others = columns.matches(", ").map(|_| format!(",\"{}\"", "x".repeat(bytes)));
    format!("[\"t1\"{}]", others.collect::<String>())
}

/// Returns the rows of a statement of a search.
fn search(statement: &str, selected: &[(String, i64, u64)]) -> Vec<String> {
    if statement.contains("EXPLAIN") {
        // Like a distributed table without a shard on this server.
        return Vec::new();
    }
    if statement.contains(" OR tw_trace IN ") {
        // A pass over what the steps left: they returned everything.
        return Vec::new();
    }
    let row = |(id, time, spans): &(String, i64, u64)| {
        let time = FIRST + time;
        if let Some((columns, _)) = statement.split_once(" AS tw_predicate_bits FROM") {
            // A step or a pass: the newest of the spans that determine the order, the oldest and the newest of all, their number,
            // and the bits of all predicates.
            let bits =
                (0..60).map(|bit| 1_u64 << bit).filter(|bit| columns.contains(&format!(", {bit}, 0)")));
            format!("[{id:?},{time},{time},{time},{spans},{}]", bits.sum::<u64>())
        } else {
            // The grouped pass.
            format!("[{id:?},1,{time},{spans}]")
        }
    };
    selected.iter().map(row).collect()
}
