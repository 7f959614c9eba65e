//! Discovery describes columns of every type, and marking accepts exactly the described options.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::{Store, binding};

const COLUMNS: &str = "
    `Timestamp` DateTime64(9), `TraceId` String, `SpanId` String, `ParentSpanId` String,
    `Fixed` FixedString(4), `Kind` Enum8('x' = 1), `Id` Nullable(UUID), `Flag` Bool, `Count` UInt64, `Huge` Int256,
    `Day` Date, `Pair` Tuple(a String, b String), `Any` Dynamic, `Either` Variant(String, UInt64), `Maybe` Array(Nullable(String)),
    `Matrix` Array(Array(String)), `Price` Decimal(9, 2),
    `Links` Array(Tuple(`Rel` LowCardinality(String), `n` Array(UInt8))), `Bare` Array(Tuple(String, String)),
    `Text` Map(String, String), `Numbers` Map(LowCardinality(String), Nullable(Float64)), `Lists` Map(String, Array(String)),
    `Deep` Map(String, Map(String, String)), `ByNumber` Map(UInt8, String),
    `Doc` JSON, `Typed` JSON(`a.b` UUID, `n` Int64, `list` Array(JSON), `k` Enum8('x' = 1), SKIP secret),
    `Split` JSON, `Split.x` String
";

async fn bound(store: &Store, admin: &Client) -> Client {
    store
        .run(&format!("CREATE TABLE otel.every ({COLUMNS}) ENGINE = MergeTree ORDER BY Timestamp SETTINGS min_bytes_for_wide_part = 0"))
        .await;
    let mut every = binding();
    every["table"] = json!("every");
    admin.put("/schema/binding", every).await.expect(200);
    admin.with("if-match", "*")
}

fn logical_types(of: &Value) -> Vec<&str> {
    of["logical_types"].as_array().unwrap().iter().map(|logical| logical.as_str().unwrap()).collect()
}

#[tokio::test]
async fn exactly_the_fields_of_discovery_can_be_marked() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let admin = bound(&store, &admin).await;
    let detail = admin.get("/schema/tables/otel/every").await.expect(200).body;
    // Every part of every column, with the logical types that it can be marked with.
    let mut parts: Vec<(Value, Vec<&str>)> = Vec::new();
    for column in detail["columns"].as_array().unwrap() {
        let name = column["name"].as_str().unwrap();
        let keys =
            column["key_logical_types"].as_array().unwrap().iter().map(|logical| logical.as_str().unwrap());
        let keys: Vec<_> = keys.collect();
        // `Split.x` could be a column or a path in `Split`: it is taken for the column, and paths are not offered.
        assert!(name != "Split" || keys.is_empty());
        parts.push((json!({ "name": name }), logical_types(column)));
        parts.push((json!({"map": name, "name": "some.key"}), keys));
        for member in column["members"].as_array().unwrap() {
            parts.push((json!({"map": member["map"], "name": member["name"]}), logical_types(member)));
        }
    }
    let (mut offered, mut refused) = (0, 0);
    for logical in [None, Some("string"), Some("string_array"), Some("boolean"), Some("number")] {
        let (mut marks, mut good, mut bad) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (field, possible)) in parts.iter().enumerate() {
            let resulting_type = logical.or(possible.first().copied()).unwrap_or("string");
            let mut mark = field.clone();
            mark["filterable"] = json!(true);
            mark["policy"] = json!(resulting_type != "number");
            if let Some(logical) = logical {
                mark["type"] = json!(logical);
            }
            if possible.contains(&resulting_type) {
                good.push((mark.clone(), resulting_type));
            } else {
                bad.push(format!("/fields/{at}/"));
            }
            marks.push(mark);
        }
        let answer = admin.put("/schema/fields", json!({"fields": marks})).await.expect(422);
        let errors = answer.body["errors"].as_array().unwrap();
        for (error, pointer) in errors.iter().zip(&bad) {
            assert!(
                error["pointer"].as_str().unwrap().starts_with(pointer),
                "{logical:?}: {error} instead of {pointer}"
            );
            let detail = error["detail"].as_str().unwrap();
            let accepted_reasons = ["type", "declared", "could be a part"];
            assert!(accepted_reasons.iter().any(|word| detail.contains(word)), "{error}");
        }
        assert_eq!(errors.len(), bad.len(), "{logical:?}");
        let marks: Vec<_> = good.iter().map(|(mark, _)| mark).collect();
        let answer = admin.put("/schema/fields", json!({"fields": marks})).await.expect(200);
        for (marked, (mark, resulting_type)) in answer.body["fields"].as_array().unwrap().iter().zip(&good) {
            assert_eq!(marked["type"], *resulting_type, "{mark}");
        }
        offered += good.len();
        refused += bad.len();
    }
    assert!(offered > 40 && refused > 100, "{offered} offered, {refused} refused");
}

#[tokio::test]
async fn refused_fields_get_advice() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let admin = bound(&store, &admin).await;
    let cases = [
        (
            json!({"name": "Text"}),
            "/name",
            "of type Map(String, String): mark its keys, each with `map`: `Text` and the key as `name`",
        ),
        (
            json!({"name": "Doc"}),
            "/name",
            "of type JSON: mark its paths, each with `map`: `Doc` and the path, such as `a.b`, as `name`",
        ),
        (json!({"name": "Links"}), "/name", "mark its members, each as a column, such as `Links.Rel`"),
        (json!({"name": "Links.rel"}), "/name", "column `Links` has no member `rel`; did you mean `Rel`?"),
        (json!({"name": "Links.n"}), "/name", "`Links.n` is of type Array(Array(UInt8))"),
        (
            json!({"map": "Links", "name": "Rel"}),
            "/map",
            "mark its members, each as a column, such as `Links.Rel`",
        ),
        (
            json!({"map": "Kind", "name": "x"}),
            "/map",
            "which has no keys: leave `map` out, with `name`: `Kind`",
        ),
        (json!({"map": "ByNumber", "name": "1"}), "/map", "no field can be made of its keys"),
        (
            json!({"name": "Fixed", "type": "number"}),
            "/type",
            "`Fixed` cannot be number: it is of type FixedString(4), which can be string",
        ),
        (
            json!({"map": "Numbers", "name": "n", "type": "boolean"}),
            "/type",
            "it is of type Nullable(Float64), which can be number",
        ),
        (json!({"map": "Typed", "name": "a.b.c"}), "/name", "`a.b` is declared as UUID"),
        (
            json!({"map": "Typed", "name": "k"}),
            "/name",
            "a declared enumeration may contain a number without a name",
        ),
        (
            json!({"map": "Typed", "name": "n", "type": "string"}),
            "/type",
            "it is of type Int64, which can be number",
        ),
        (json!({"map": "Doc", "name": "a..b"}), "/name", "names joined by dots"),
        (json!({"map": "Doc", "name": "a.:`String`"}), "/name", "has another meaning in ClickHouse"),
        (
            json!({"map": "Split", "name": "y"}),
            "/map",
            "`Split.x` is a column, and could be a part of column `Split`",
        ),
        (
            json!({"map": "Doc", "name": "n", "type": "number", "policy": true}),
            "/policy",
            "is a number, which policies cannot use",
        ),
        (json!({"name": "Day"}), "/name", "column `Day` is of type Date, and no field can be made of that"),
    ];
    for (mut mark, member, expected) in cases {
        mark["filterable"] = json!(true);
        if mark.get("policy").is_none() {
            mark["policy"] = json!(false);
        }
        let answer = admin.put("/schema/fields", json!({"fields": [mark]})).await.expect(422);
        let error = answer.first_error();
        let detail = error["detail"].as_str().unwrap();
        assert!(detail.contains(expected), "{mark}: {detail}");
        assert_eq!(error["pointer"], format!("/fields/0{member}"), "{mark}: {detail}");
    }
}

#[tokio::test]
async fn discovery_finds_keys_and_paths_with_their_types() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    bound(&store, &admin).await;
    let rows = [
        json!({"TraceId": "a", "Text": {"team": "blue"}, "Numbers": {"n": 1.5}, "Lists": {"l": ["x"]}, "ByNumber": {"1": "x"},
            "Doc": {"team": "blue", "deep": {"n": 1, "flag": true}, "mixed": "text", "tags": ["x", "y"], "list": [{"x": 1}], ".odd": "dot", "a`b": "tick"},
            "Typed": {"a": {"b": "61f0c404-5cb3-11e7-907b-a6006ad3dba0"}, "n": 3, "free": "text", "secret": "hidden", "k": "x"}}),
        json!({"TraceId": "b", "Text": {"team": "red", "other": ""}, "Numbers": {"n": "nan", "none": null},
            "Doc": {"team": "red", "mixed": 5, "deep": {"n": 2}}, "Typed": {"k": "x"}}),
    ];
    let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    store.run(&format!("INSERT INTO otel.every FORMAT JSONEachRow\n{}", rows.join("\n"))).await;
    store
        .run(
            "INSERT INTO otel.every (TraceId, Text, Lists, Typed) SELECT 'odd', map(unhex('FF'), unhex('FF00'), repeat('k', 5000), 'long', 'team', repeat('é', 200)), \
             map('l', [unhex('FF'), '\\'']), '{}'",
        )
        .await;
    let detail = admin.get("/schema/tables/otel/every").await.expect(200).body;
    let map = |name: &str| detail["maps"].as_array().unwrap().iter().find(|map| map["map"] == name).unwrap();
    let key = |column: &str, key: &str| {
        let keys = map(column)["keys"].as_array().unwrap();
        keys.iter()
            .find(|known| known["name"] == key)
            .unwrap_or_else(|| panic!("{column}: {key}: {keys:?}"))
            .clone()
    };
    assert!(
        detail["maps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|map| map["stopped_early"] == false && map["sampled_rows"] == 3),
        "{detail}"
    );
    assert!(
        detail["maps"].as_array().unwrap().iter().all(|map| map["map"] != "ByNumber" && map["map"] != "Deep")
    );
    let team = key("Text", "team");
    assert_eq!((&team["rows"], &team["types"]), (&json!(3), &json!(["String"])));
    assert!(team["examples"].as_array().unwrap().contains(&json!("é".repeat(80))), "{team}");
    // Parts that cannot be marked are not offered.
    assert_eq!(map("Text")["keys"].as_array().unwrap().len(), 2, "{}", map("Text"));
    assert_eq!(key("Numbers", "n")["logical_types"], json!(["number"]));
    assert!(key("Numbers", "n")["examples"].as_array().unwrap().contains(&json!("nan")));
    assert_eq!(key("Lists", "l")["types"], json!(["Array(String)"]));

    let team = key("Doc", "team");
    assert_eq!(
        (&team["rows"], &team["types"], &team["examples"]),
        (&json!(2), &json!(["String"]), &json!(["blue", "red"]))
    );
    assert_eq!(logical_types(&key("Doc", "deep.n"))[0], "number");
    assert_eq!(logical_types(&key("Doc", "deep.flag"))[0], "boolean");
    assert_eq!(logical_types(&key("Doc", "tags"))[0], "string_array");
    assert_eq!(key("Doc", "mixed")["types"], json!(["Int64", "String"]));
    assert_eq!(key("Doc", "a`b")["examples"], json!(["tick"]));
    assert_eq!(logical_types(&key("Doc", ".odd")), Vec::<&str>::new());
    let free = key("Typed", "free");
    assert_eq!((&free["rows"], &free["examples"]), (&json!(1), &json!(["text"])));
    assert_eq!(key("Typed", "a.b")["logical_types"], json!(["string"]));
    assert!(map("Typed")["keys"].as_array().unwrap().iter().all(|key| key["name"] != "secret"));

    let column = |name: &str| {
        detail["columns"].as_array().unwrap().iter().find(|column| column["name"] == name).unwrap()
    };
    assert_eq!(
        column("Links")["members"][0],
        json!({"map": "", "name": "Links.Rel", "type": "Array(LowCardinality(String))", "logical_types": ["string_array"]})
    );
    assert_eq!(
        column("Typed")["members"][0],
        json!({"map": "Typed", "name": "a.b", "type": "UUID", "logical_types": ["string"]})
    );
    assert_eq!(column("Doc")["key_logical_types"], json!(["string", "number", "boolean", "string_array"]));

    let audit = admin.get("/audit?action=schema.discover").await.expect(200).body;
    assert_eq!(audit["records"][0]["target"], "otel.every");
    // Without samples, discovery uses types only and no data from rows.
    let service = store.service_with(&[("TRACEWARDEN_DISCOVERY_SAMPLES", "false")]);
    let blind = service.admin().await.get("/schema/tables/otel/every").await.expect(200);
    assert_eq!((&blind.body["maps"], &blind.body["columns"]), (&json!([]), &detail["columns"]));
    assert!(!String::from_utf8_lossy(&blind.bytes).contains("blue"));
}
