//! ClickHouse's HTTP protocol in detail.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::raw::{encode, request};
use crate::support::{Answer, Store};
use tracewarden_testkit::memory;

fn with_headers(store: &Store, headers: &[(&str, &str)], body: &str) -> Answer {
    request(&store.address, "POST", "/", headers, body.as_bytes())
}

#[test]
fn answers_have_clickhouses_headers_and_statuses() {
    let store = Store::start();
    let answer = store.post("query_id=mine&default_format=JSONEachRow", "SELECT 1 AS x");
    assert_eq!((answer.status, answer.text().as_str(), answer.complete), (200, "{\"x\":1}\n", true));
    assert_eq!(answer.header("x-clickhouse-query-id"), Some("mine"));
    assert_eq!(answer.header("x-clickhouse-format"), Some("JSONEachRow"));
    assert_eq!(answer.header("x-clickhouse-timezone"), Some(store.text("SELECT timezone()").as_str()));
    assert!(answer.header("x-clickhouse-server-display-name").is_some());
    let tag = answer.header("x-clickhouse-exception-tag").expect("a tag");
    assert!(tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_lowercase()), "{tag}");
    let summary = answer.header("x-clickhouse-summary").expect("a summary");
    assert!(
        summary.contains("\"read_rows\":\"1\"") && summary.contains("\"result_rows\":\"1\""),
        "{summary}"
    );

    let never_made = store.data.join("never-made");
    let into_file = format!("SELECT 1 INTO OUTFILE '{}'", never_made.display());
    for (parameters, statement, status, code) in [
        ("", "SELECT * FROM nosuch", 404, 60),
        ("", "SELECT * FROM nodb.nosuch", 404, 81),
        ("database=nodb", "SELECT 1", 404, 81),
        ("", "SELEC 1", 400, 62),
        ("", "SELECT 1; SELECT 2", 400, 62),
        ("", "DROP TABLE IF EXISTS a; DROP TABLE IF EXISTS b", 400, 62),
        ("", "exit", 400, 62),
        ("", " Quit ; ", 400, 62),
        ("", "", 400, 62),
        ("", "1 + 1", 400, 62),
        ("", "SELECT nosuch", 404, 47),
        ("", "SELECT throwIf(1)", 500, 395),
        ("", into_file.as_str(), 500, 358),
        ("", "INSERT INTO a FROM INFILE '/etc/passwd' FORMAT CSV", 500, 358),
        ("", "SELECT {p:String}", 500, 456),
        ("default_format=NoSuch", "SELECT 1", 404, 73),
        ("default_format=a%20b", "SELECT 1", 404, 73),
        ("role=r", "SELECT 1", 404, 115),
        ("session_check=1", "SELECT 1", 404, 115),
    ] {
        let answer = store.post(parameters, statement);
        assert_eq!(
            (answer.status, answer.code()),
            (status, Some(code)),
            "{parameters} {statement}: {}",
            answer.text()
        );
        assert!(answer.text().starts_with(&format!("Code: {code}. DB::Exception: ")), "{}", answer.text());
    }
    assert!(!never_made.exists());

    for path in ["/ping", "/"] {
        let answer = request(&store.address, "GET", path, &[], b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "Ok.\n"));
    }
    assert_eq!(request(&store.address, "GET", "/nosuch", &[], b"").status, 404);
    assert_eq!(request(&store.address, "DELETE", "/", &[], b"").status, 501);
}

#[test]
fn the_query_may_be_in_the_url_the_body_or_a_form() {
    let store = Store::start();
    let get = |query: &str| request(&store.address, "GET", &format!("/?query={}", encode(query)), &[], b"");
    assert_eq!(get("SELECT 'a+b'").text(), "a+b\n");
    let refused = get("CREATE TABLE t (a UInt8) ENGINE = Memory");
    assert_eq!((refused.status, refused.code()), (500, Some(164)), "{}", refused.text());
    assert_eq!(store.post("query=SELECT", "1").text(), "1\n");
    assert_eq!(store.post("query=SELECT+1", "").text(), "1\n");
    assert_eq!(
        store.post("param_a=x%27y%5C%5C&param_n=7", "SELECT {a:String}, {n:UInt8} + 1 FORMAT TSVRaw").text(),
        "x'y\\\t8\n"
    );
    let form = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT {a:String}\r\n--b\r\n\
                Content-Disposition: form-data; name=\"param_a\"\r\n\r\nin a form\r\n--b--\r\n";
    let answer = with_headers(&store, &[("Content-Type", "multipart/form-data; boundary=b")], form);
    assert_eq!((answer.status, answer.text().as_str()), (200, "in a form\n"));
    // Parts with the same name are concatenated. Each may have at most 128 KiB.
    let parts = |second: &str| {
        let part =
            |text: &str| format!("--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n{text}\r\n");
        let form = format!("{}{}--b--\r\n", part("SELECT 'two par"), part(second));
        with_headers(&store, &[("Content-Type", "multipart/form-data; boundary=b")], &form)
    };
    assert_eq!(parts("ts'").text(), "two parts\n");
    assert_eq!(parts(&format!("ts' /*{}*/", " ".repeat((128 << 10) - 8))).text(), "two parts\n");
    let long = parts(&format!("ts' /*{}*/", " ".repeat((128 << 10) - 7)));
    assert_eq!(long.code(), Some(1000), "{}", long.text());
    let broken =
        with_headers(&store, &[("Content-Type", "multipart/form-data; boundary=b")], "--b\r\nnothing");
    assert_eq!(broken.status, 400);
    let named = with_headers(
        &store,
        &[("X-ClickHouse-Database", "system"), ("X-ClickHouse-Format", "CSV")],
        "SELECT dummy, currentDatabase() FROM one",
    );
    assert_eq!(named.text(), "0,\"system\"\n");
}

/// Begins an insert whose data arrive in chunks.
fn begin_insert(store: &Store, id: &str, statement: &str) -> TcpStream {
    let target = format!("/?query_id={id}&query={}", encode(statement));
    crate::support::raw::send(&store.address, "POST", &target, &[("Transfer-Encoding", "chunked")], b"")
}

/// Sends a part the given number of times and the end, and checks the number of rows written.
fn insert_all(mut stream: TcpStream, part: &str, times: u32, rows: u32) {
    for _ in 0..times {
        write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("a chunk");
    }
    stream.write_all(b"0\r\n\r\n").expect("the end");
    let answer = crate::support::raw::read(stream);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let summary = answer.header("x-clickhouse-summary").unwrap_or_default();
    assert!(summary.contains(&format!("\"written_rows\":\"{rows}\"")), "{summary}");
}

#[test]
fn a_large_insert_holds_the_client_back_and_not_the_memory() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a");
    // Nearly all bytes belong to a member that the engine skips. The blocks that the engine collects before it writes a
    // part have no limit here, and this test does not measure them.
    let filler = "x".repeat(1000);
    let part: String =
        (0..1000).map(|number| format!("{{\"a\":{number},\"skipped\":\"{filler}\"}}\n")).collect();
    let before = memory::resident(store.pid()).unwrap();
    let stream = begin_insert(&store, "large", "INSERT INTO t FORMAT JSONEachRow");
    insert_all(stream, &part, 1_200, 1_200_000);
    let grown = memory::peak(store.pid()).unwrap().saturating_sub(before) >> 20;
    println!("1.2 GB inserted, {grown} MB more than before");
    assert!(grown < 512, "{grown} MB");
    assert_eq!(store.text("SELECT count(), sum(a) FROM t"), "1200000\t599400000");
}

#[test]
fn inserts_stream_and_broken_ones_leave_nothing() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a");
    // Four times the amount that the buffers can hold, in chunks.
    let filler = "x".repeat(1000);
    let part: String = (0..1000).map(|number| format!("{number}\t{filler}\n")).collect();
    insert_all(begin_insert(&store, "whole", "INSERT INTO t FORMAT TSV"), &part, 300, 300_000);
    assert_eq!(store.text("SELECT count(), sum(length(s)) FROM t"), "300000\t300000000");

    store.text("TRUNCATE TABLE t");
    let mut stream = begin_insert(&store, "broken", "INSERT INTO t FORMAT TSV");
    write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("a chunk");
    let running = "SELECT count() FROM system.processes WHERE query_id = 'broken'";
    // An insert that has not begun would leave no rows either.
    store.wait_for(running, "1", Duration::from_secs(10));
    drop(stream);
    store.wait_for(running, "0", Duration::from_secs(2));
    assert_eq!(store.text("SELECT count() FROM t"), "0");
    let malformed =
        store.post(&format!("query={}", encode("INSERT INTO t FORMAT TSV")), "1\tx\nno number\ty\n");
    assert!(
        malformed.status == 400 && malformed.code().is_some(),
        "{} {}",
        malformed.status,
        malformed.text()
    );
    assert_eq!(store.text("SELECT count() FROM t"), "0");
}

#[test]
fn bodies_are_compressed_as_asked() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a");
    let target = format!("/?query={}", encode("INSERT INTO t FORMAT TSV"));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(b"1\n2\n").expect("gzip");
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(b"3\n4\n").expect("lz4");
    let native = tracewarden_localstore::http::compression::native_blocks(b"7\n");
    for (headers, suffix, body) in [
        (vec![("Content-Encoding", "gzip")], "", gzip.finish().expect("gzip")),
        (vec![("Content-Encoding", "lz4")], "", lz4.finish().expect("lz4")),
        (vec![("Content-Encoding", "zstd")], "", zstd::encode_all(b"5\n6\n".as_slice(), 1).expect("zstd")),
        (vec![], "&decompress=1", native),
    ] {
        let answer = request(&store.address, "POST", &format!("{target}{suffix}"), &headers, &body);
        assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
    }
    assert_eq!(store.text("SELECT sum(a) FROM t"), "28");
    let garbage = request(&store.address, "POST", &target, &[("Content-Encoding", "gzip")], b"not gzip");
    assert_ne!(garbage.status, 200);
    assert_eq!(request(&store.address, "POST", &target, &[("Content-Encoding", "br")], b"x").status, 501);
    assert_eq!(
        request(&store.address, "POST", &format!("{target}&decompress=1"), &[], &[0xff; 64]).status,
        500
    );

    let query = b"SELECT number FROM numbers(100000) FORMAT TSV";
    let plain = request(&store.address, "POST", "/", &[], query).body;
    // Responses have no content encoding.
    let accepting = request(&store.address, "POST", "/", &[("Accept-Encoding", "gzip, zstd, lz4")], query);
    assert!(accepting.header("content-encoding").is_none() && accepting.body == plain);
    let blocks = request(&store.address, "POST", "/?compress=1", &[], query);
    let mut body = Vec::new();
    let decoder = tracewarden_localstore::http::compression::Encoding::Native;
    decoder
        .decode(blocks.body.as_slice())
        .and_then(|mut reader| std::io::Read::read_to_end(&mut reader, &mut body))
        .expect("decodes");
    assert!(body == plain);
}

#[test]
fn web_pages_and_foreign_names_are_refused_on_both_ports() {
    let store = Store::start_with(&["--otlp", "127.0.0.1:0"]);
    for (address, path) in [
        (store.address.as_str(), "/ping"),
        (store.address.as_str(), "/?query=SELECT+1"),
        (store.otlp_address(), "/v1/traces"),
    ] {
        for header in [
            ("Origin", "http://localhost"),
            ("Origin", "null"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
            ("Host", "example.com"),
            ("Host", "127.0.0.1.example.com:80"),
            ("Host", ""),
        ] {
            assert_eq!(request(address, "POST", path, &[header], b"").status, 403, "{path} {header:?}");
        }
    }
    assert_eq!(request(&store.address, "GET", "/ping", &[("Host", "localhost:1")], b"").status, 200);
    let preflight =
        request(&store.address, "OPTIONS", "/", &[("Access-Control-Request-Method", "POST")], b"");
    assert!(preflight.status >= 400 && preflight.header("access-control-allow-origin").is_none());
}

#[test]
fn no_input_ends_the_process() {
    let store = Store::start_with(&["--otlp", "127.0.0.1:0"]);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let pieces: [&[u8]; 24] = [
        b"SELECT ",
        b"INSERT INTO t ",
        b"FORMAT ",
        b"VALUES ",
        b"(",
        b")",
        b"'",
        b"`",
        b"\\",
        b"$$",
        b"/*",
        b"*/",
        b"--",
        b"\0",
        b"\xff\xfe",
        b"KILL QUERY WHERE ",
        b"system.processes",
        b" FROM ",
        b";",
        b"{a:String}",
        b"SETTINGS ",
        b"SYNC",
        b"1",
        b"\n",
    ];
    for _ in 0..200 {
        let body: Vec<u8> =
            (0..random() % 12).flat_map(|_| pieces[(random() % 24) as usize].to_vec()).collect();
        let answer = store.post("max_execution_time=1&readonly=1", &body);
        assert!(answer.complete && answer.status >= 200, "{}", String::from_utf8_lossy(&body));
        assert!(!answer.text().contains("thread has ended"), "{}", String::from_utf8_lossy(&body));
        let answer = request(
            store.otlp_address(),
            "POST",
            "/v1/traces",
            &[("Content-Type", "application/x-protobuf")],
            &body,
        );
        assert!(matches!(answer.status, 200 | 400));
    }
    let deep = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    assert!(store.post("", deep).status >= 400);
    assert_eq!(store.text("SELECT 1"), "1");
}

#[test]
fn every_format_is_one_document() {
    let store = Store::start();
    let query = |format: &str| {
        let answer = store.post("", format!("SELECT number AS n FROM numbers(200000) FORMAT {format}"));
        assert!(answer.status == 200 && answer.complete, "{format}: {}", answer.status);
        answer
    };
    assert_eq!(query("CSVWithNames").text().matches("\"n\"").count(), 1);
    assert_eq!(query("RowBinaryWithNamesAndTypes").body.len(), 1 + 2 + 7 + 200_000 * 8);
    let json: serde_json::Value = serde_json::from_slice(&query("JSON").body).expect("JSON");
    assert_eq!(
        (json["rows"].as_u64(), json["data"].as_array().map(Vec::len)),
        (Some(200_000), Some(200_000))
    );
    let parquet = query("Parquet").body;
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    assert_eq!(query("Null").body, b"");
    for statement in [
        "SELECT 1 -- FORMAT JSON",
        "SELECT 1;",
        "(SELECT 1)",
        "SELECT 1 AS format",
        "SELECT format FROM (SELECT 1 AS format)",
        "WITH 1 AS x SELECT x /* end */ ;",
        "SELECT 1 FORMAT TSV SETTINGS max_threads = 1",
        "FROM numbers(1) SELECT number + 1",
        "SELECT 1 UNION DISTINCT SELECT 1",
        // Quotes and comments that the lexer of this crate does not know.
        "SELECT 1 WHERE \u{2018}'\u{2019} != 'FORMAT x'",
        "SELECT 1 WHERE '' != \u{2018}' FORMAT TSV\u{2019}",
        "SELECT 1 WHERE '\u{2018}' != '' FORMAT TSV",
        "SELECT 1 WHERE '' != \u{2018} FORMAT TSV SETTINGS \u{2019}",
    ] {
        assert_eq!(store.text(statement), "1", "{statement}");
    }
    assert_eq!(store.text("SHOW DATABASES LIKE 'sys%'"), "system");
}
