//! ClickHouse's HTTP protocol in detail.

mod support;

use std::io::Write;

use support::raw::{encode, request};
use support::{Answer, Store};

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
        ("", "SELECT 1 INTO OUTFILE '/tmp/never'", 500, 358),
        ("", "INSERT INTO a FROM INFILE '/etc/passwd' FORMAT CSV", 500, 358),
        ("", "SELECT {p:String}", 400, 456),
        ("default_format=NoSuch", "SELECT 1", 404, 73),
        ("default_format=a%20b", "SELECT 1", 404, 73),
        ("role=nosuch", "SELECT 1", 404, 511),
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
    assert!(!std::path::Path::new("/tmp/never").exists());

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

#[test]
fn settings_hold_for_one_request_and_cannot_smuggle_statements() {
    let store = Store::start();
    let default = store.text("SELECT getSetting('max_threads')");
    assert_eq!(store.post("max_threads=7", "SELECT getSetting('max_threads')").text(), "7\n");
    assert_eq!(store.text("SELECT getSetting('max_threads')"), default);
    store.text("SET max_threads = 9");
    assert_eq!(store.text("SELECT getSetting('max_threads')"), default);

    // Settings in the URL come first, then `readonly` binds the statement's own clause.
    let answer =
        store.post("readonly=1&max_threads=3&max_execution_time=5", "SELECT getSetting('max_threads')");
    assert_eq!((answer.status, answer.text().as_str()), (200, "3\n"), "{}", answer.text());
    for (readonly, statement) in [
        (1, "SELECT 1 SETTINGS max_threads = 2"),
        (1, "SELECT 1 SETTINGS readonly = 0"),
        (2, "SELECT 1 SETTINGS readonly = 0"),
        (1, "SET readonly = 0"),
        (2, "SET readonly = 0"),
        (1, "CREATE TABLE t (a UInt8) ENGINE = Memory"),
        (2, "CREATE TABLE t (a UInt8) ENGINE = Memory"),
        (1, "CREATE TEMPORARY TABLE t (a UInt8)"),
        (1, "INSERT INTO FUNCTION file('/tmp/x.csv', 'CSV', 'a UInt8') VALUES (1)"),
        (1, "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        (1, "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')"),
    ] {
        let answer = store.post(&format!("readonly={readonly}"), statement);
        assert_eq!(
            answer.code(),
            Some(164),
            "readonly={readonly} {statement}: {} {}",
            answer.status,
            answer.text()
        );
    }
    store.text("CREATE TABLE kept (a UInt8) ENGINE = MergeTree ORDER BY a");
    for statement in [
        "INSERT INTO kept VALUES (1)",
        "INSERT INTO kept SELECT 1",
        "DROP TABLE kept",
        "TRUNCATE TABLE kept",
        "ALTER TABLE kept DELETE WHERE 1",
    ] {
        for readonly in [1, 2] {
            assert_eq!(
                store.post(&format!("readonly={readonly}"), statement).code(),
                Some(164),
                "{statement}"
            );
        }
    }
    assert_eq!(store.text("SELECT count() FROM kept"), "0");

    for name in [
        "nosuch",
        "max_threads%20%3D%202%2C%20readonly",
        "a%3B%20DROP%20TABLE%20kept",
        "%60max_threads%60",
        "max_threads%00",
        "--",
        "'",
    ] {
        let answer = store.post(&format!("{name}=1"), "SELECT 1");
        assert_eq!((answer.status, answer.code()), (404, Some(115)), "{name}: {}", answer.text());
    }
    for value in ["1', readonly = '0", "x\\', readonly = 0 --", "'; DROP TABLE kept; --", "\0", "a\nb"] {
        let answer = store.post(
            &format!("log_comment={}&readonly=1", encode(value)),
            "SELECT hex(getSetting('log_comment')), getSetting('readonly')",
        );
        let text = answer.text();
        let expected: String = value.bytes().map(|byte| format!("{byte:02X}")).collect();
        assert!(text.trim_end().ends_with(&format!("{expected}\t1")), "{value:?}: {text}");
        assert_eq!(
            store.post(&format!("max_threads={}", encode(value)), "SELECT 1").status,
            400,
            "{value:?}"
        );
    }
    assert_eq!(store.text("EXISTS TABLE kept"), "1");
    let hostile = store.post(&format!("database={}", encode("`; DROP TABLE kept; --")), "SELECT 1");
    assert_eq!(hostile.code(), Some(81), "{}", hostile.text());
}

#[test]
fn settings_compose_with_the_statements_own_clauses() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS index_granularity = 1024");
    for statement in [
        "SELECT getSetting('max_threads'), getSetting('max_block_size') SETTINGS max_block_size = 11",
        "SELECT getSetting('max_threads'), getSetting('max_block_size') SETTINGS max_block_size = 11 FORMAT TSV",
        "SELECT getSetting('max_threads'), getSetting('max_block_size') FORMAT TSV SETTINGS max_block_size = 11",
    ] {
        assert_eq!(store.post("max_threads=3", statement).text(), "3\t11\n", "{statement}");
    }
    for insert in [
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t SETTINGS async_insert = 0 FORMAT CSV 3\n4\n",
        "INSERT INTO t FORMAT TSV\n5\n6\n",
        "INSERT INTO t SELECT 7 SETTINGS max_threads = 1",
    ] {
        let answer = store.post("max_threads=3&max_insert_block_size=100", insert);
        assert_eq!(answer.status, 200, "{insert}: {}", answer.text());
    }
    assert_eq!(store.text("SELECT count(), sum(a) FROM t"), "7\t28");
    assert!(store.text("SHOW CREATE TABLE t").contains("index_granularity = 1024"));
}

#[test]
fn inserts_stream_and_broken_ones_leave_nothing() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a");
    // Four times the size of what may be in flight anywhere, in chunks.
    let before = store.memory_kb("VmRSS");
    let mut stream = support::raw::send(
        &store.address,
        "POST",
        &format!("/?query={}", encode("INSERT INTO t FORMAT TSV")),
        &[("Transfer-Encoding", "chunked")],
        b"",
    );
    let filler = "x".repeat(1000);
    let part: String = (0..1000).map(|number| format!("{number}\t{filler}\n")).collect();
    for _ in 0..300 {
        write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("a chunk");
    }
    stream.write_all(b"0\r\n\r\n").expect("the end");
    let answer = support::raw::read(stream);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        answer
            .header("x-clickhouse-summary")
            .is_some_and(|summary| summary.contains("\"written_rows\":\"300000\""))
    );
    assert_eq!(store.text("SELECT count(), sum(length(s)) FROM t"), "300000\t300000000");
    println!("insert of 300 MB: {} MB before, {} MB at most", before / 1024, store.memory_kb("VmHWM") / 1024);

    store.text("TRUNCATE TABLE t");
    let mut stream = support::raw::send(
        &store.address,
        "POST",
        &format!("/?query={}", encode("INSERT INTO t FORMAT TSV")),
        &[("Transfer-Encoding", "chunked")],
        b"",
    );
    write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("a chunk");
    drop(stream);
    store.wait_for(
        "SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'",
        "0",
        std::time::Duration::from_secs(2),
    );
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
    let native = tracewarden_localstore::http::compression::Encoder::new(
        tracewarden_localstore::http::compression::Encoding::Native,
    )
    .and_then(|mut encoder| encoder.push(b"7\n"))
    .expect("blocks");
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
    for (accepted, encoding) in
        [("gzip", "gzip"), ("br, zstd", "zstd"), ("lz4", "lz4"), ("deflate", "deflate")]
    {
        let answer = request(&store.address, "POST", "/", &[("Accept-Encoding", accepted)], query);
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        let decoder = tracewarden_localstore::http::compression::Encoding::named(encoding).expect("known");
        let mut body = Vec::new();
        decoder
            .decode(answer.body.as_slice())
            .and_then(|mut reader| std::io::Read::read_to_end(&mut reader, &mut body))
            .expect("decodes");
        assert!(body == plain, "{encoding}");
    }
    let off =
        request(&store.address, "POST", "/?enable_http_compression=0", &[("Accept-Encoding", "gzip")], query);
    assert!(off.header("content-encoding").is_none() && off.body == plain);
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
fn sessions_keep_their_state_but_not_a_requests_settings() {
    let store = Store::start();
    let session = "session_id=s1";
    assert_eq!(store.post(&format!("{session}&session_check=1"), "SELECT 1").code(), Some(372));
    assert_eq!(store.post(session, "CREATE TEMPORARY TABLE mine AS SELECT 5 AS x").status, 200);
    assert_eq!(store.post(session, "SELECT x FROM mine").text(), "5\n");
    assert_eq!(store.post("session_id=s2", "SELECT x FROM mine").code(), Some(60));
    assert_eq!(store.post("", "SELECT x FROM mine").code(), Some(60));
    store.post(session, "SET max_threads = 3");
    assert_eq!(
        store
            .post(
                &format!("{session}&max_threads=5&readonly=1&database=system"),
                "SELECT getSetting('max_threads'), currentDatabase()"
            )
            .text(),
        "5\tsystem\n"
    );
    assert_eq!(store.post(session, "SELECT getSetting('max_threads'), getSetting('readonly'), currentDatabase(), getSetting('log_comment') = '' OR 1").text(), "3\t0\tdefault\t1\n");
    store.post(session, "USE system");
    assert_eq!(
        store.post(&format!("{session}&database=default"), "SELECT currentDatabase()").text(),
        "default\n"
    );
    assert_eq!(store.post(session, "SELECT currentDatabase()").text(), "system\n");
    assert_eq!(store.post(&format!("{session}&nosuch=1"), "SELECT 1").code(), Some(115));
    assert_eq!(store.post(session, "SELECT x FROM mine").text(), "5\n");
    let busy = support::raw::send(
        &store.address,
        "POST",
        &format!("/?{session}&query_id=busy"),
        &[],
        b"SELECT sleep(1)",
    );
    store.wait_for(
        "SELECT count() FROM system.processes WHERE query_id = 'busy'",
        "1",
        std::time::Duration::from_secs(2),
    );
    assert_eq!(store.post(session, "SELECT 1").code(), Some(373));
    assert_eq!(support::raw::read(busy).status, 200);
    assert_eq!(store.post(&format!("{session}&session_timeout=0"), "SELECT 1").text(), "1\n");
    assert_eq!(store.post(session, "SELECT x FROM mine").code(), Some(60));
}

#[test]
fn only_the_configured_user_gets_in() {
    let store = Store::start_with(&["--user", "u", "--password", "p:q"]);
    let ask = |headers: &[(&str, &str)], parameters: &str| {
        request(&store.address, "POST", &format!("/?{parameters}"), headers, b"SELECT 1")
    };
    for (headers, parameters) in [
        (vec![("X-ClickHouse-User", "u"), ("X-ClickHouse-Key", "p:q")], ""),
        (vec![("Authorization", "Basic dTpwOnE=")], ""),
        (vec![], "user=u&password=p%3Aq"),
    ] {
        assert_eq!(ask(&headers, parameters).text(), "1\n", "{headers:?}");
    }
    for (headers, parameters) in [
        (vec![], ""),
        (vec![("X-ClickHouse-User", "u")], ""),
        (vec![("X-ClickHouse-User", "default")], ""),
        (vec![("Authorization", "Basic dTpwOnE="), ("X-ClickHouse-User", "u")], ""),
        (vec![], "user=u&password=p"),
    ] {
        let answer = ask(&headers, parameters);
        assert_eq!((answer.status, answer.code()), (403, Some(516)), "{headers:?}");
    }
    assert_eq!(request(&store.address, "GET", "/ping", &[], b"").status, 200);
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
    assert_eq!(store.post("", deep).status, 400);
    assert_eq!(store.text("SELECT 1"), "1");
}
