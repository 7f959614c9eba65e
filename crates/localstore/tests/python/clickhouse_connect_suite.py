"""The official Python client against the store. Usage: clickhouse_connect_suite.py URL USER PASSWORD"""

import datetime
import sys
import time
from urllib.parse import urlparse

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

address, user, password = urlparse(sys.argv[1]), sys.argv[2], sys.argv[3]


def connect(**options):
    options = {"username": user, "password": password, **options}
    return clickhouse_connect.get_client(host=address.hostname, port=address.port, **options)


def fails(expected, call, kind=DatabaseError):
    try:
        call()
    except kind as error:
        assert expected in str(error), str(error)
        return error
    raise AssertionError(f"no error {expected}")


def suite(**options):
    client = connect(**options)
    assert client.server_version.startswith("26."), client.server_version
    assert client.ping()

    assert client.query("SELECT number, toString(number) FROM numbers(3)").result_rows == [(0, "0"), (1, "1"), (2, "2")]
    text = "it's \t \\ ü\n{x} \U0001f600"
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1)
    row = client.query(
        "SELECT {text:String}, {number:Int64}, {moment:DateTime}, {list:Array(String)}, {none:Nullable(String)}",
        parameters={"text": text, "number": -7, "moment": moment, "list": ["a'", "b"], "none": None},
    ).first_row
    assert row == (text, -7, moment, ["a'", "b"], None), row
    assert client.query("SELECT %s, %s", parameters=[text, 3]).first_row == (text, 3)

    client.command("CREATE OR REPLACE TABLE suite (id UInt64, name String, at DateTime64(9), tags Map(LowCardinality(String), String), size Nullable(Float64)) ENGINE = MergeTree ORDER BY id")
    rows = [[number, f"name {number} {text}", moment, {"k": f"v{number}"}, None if number % 2 else number / 3] for number in range(20_000)]
    summary = client.insert("suite", rows, column_names=["id", "name", "at", "tags", "size"])
    assert summary.written_rows == len(rows), summary.summary
    assert client.query("SELECT count(), sum(id) FROM suite").first_row == (20_000, 199_990_000)
    found = client.query("SELECT * FROM suite WHERE id = 2").first_row
    assert found[1] == f"name 2 {text}" and found[3] == {"k": "v2"} and found[4] == 2 / 3, found
    client.raw_insert("suite", column_names=["id", "name"], insert_block=b"900001,csv\n900002,csv\n", fmt="CSV")
    assert client.command("SELECT count() FROM suite WHERE name = 'csv'") == 2
    assert client.command("INSERT INTO suite (id, name) VALUES (900003, 'values')") is not None
    assert client.command("SELECT count() FROM suite") == 20_003

    with client.query_rows_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(row[0] for row in stream) == 299_999 * 150_000
    with client.query_row_block_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(len(block) for block in stream) == 300_000
    assert client.raw_query("SELECT 1 AS x", fmt="JSONEachRow") == b'{"x":1}\n'
    assert b"".join(client.raw_stream("SELECT number FROM numbers(2)", fmt="TSV")) == b"0\n1\n"
    assert client.query("SELECT * FROM suite LIMIT 0").column_names[0] == "id"
    assert client.query("DESCRIBE TABLE suite").result_rows[0][:2] == ("id", "UInt64")
    assert client.query("EXPLAIN ESTIMATE SELECT * FROM suite").column_names[0] == "database"

    error = fails("UNKNOWN_TABLE", lambda: client.query("SELECT * FROM nosuch"))
    assert error.code == 60, error.code
    fails("SYNTAX_ERROR", lambda: client.command("SELEC 1"))
    fails("READONLY", lambda: client.command("CREATE TABLE no (a UInt8) ENGINE = Memory", settings={"readonly": 1}))
    fails("TIMEOUT_EXCEEDED", lambda: client.query("SELECT sum(cityHash64(number)) FROM numbers(1000000000000)", settings={"max_execution_time": 1}))

    def late():
        with client.query_rows_stream("SELECT number, throwIf(number = 3000000, 'late') FROM numbers(10000000)") as stream:
            for _ in stream:
                pass

    fails("late", late, StreamFailureError)

    threads = client.query("SELECT toUInt64(getSetting('max_threads'))", settings={"max_threads": 5}).first_row
    assert threads == (5,), threads
    assert client.query("SELECT toUInt64(getSetting('max_threads'))").first_row != (5,)
    assert client.query("SELECT currentDatabase()").first_row == ("default",)
    identified = client.query("SELECT 1", settings={"query_id": "named-by-the-client"})
    assert identified.query_id == "named-by-the-client", identified.query_id

    start = time.monotonic()
    for _ in range(50):
        client.query("SELECT 1")
    print(f"{options}: {(time.monotonic() - start) * 20:.1f} ms for SELECT 1")
    client.close()


suite()
suite(compress="lz4")
suite(compress="zstd", autogenerate_session_id=False)
suite(compress="gzip")
suite(compress=False, form_encode_query_params=True)
assert connect(database="system").query("SELECT currentDatabase()").first_row == ("system",)
fails("AUTHENTICATION_FAILED", lambda: connect(password="wrong"))
