//! A table, columns, keys, values, attributes and users whose names are fragments of SQL: each is treated as a name and
//! returned byte for byte.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::Store;

const DATABASE: &str = "it's `my` \\ \"db\"; --";
const TABLE: &str = "t`; DROP TABLE x; /* '";
const ID: &str = "Trace`Id\\";
const SPAN: &str = "span'id";
const TIME: &str = "{time:String}";
const PARENT: &str = "parent\"id) OR 1=1 --";
const SERVICE: &str = "%s ? $1 \\' \n FORMAT Null";
/// Policies refer to the map by this name, so it must be an identifier.
const MAP: &str = "Attributes";

/// Used as values, as keys and, where allowed, as names of attributes and users.
const TEXTS: [&str; 15] = [
    "' OR 1=1 --",
    "'; DROP TABLE spans; --",
    "\\' OR '1'='1",
    "\\",
    "` UNION ALL SELECT * FROM system.users --",
    "\") || true || (\"",
    "{query:String}",
    "{{x:Identifier}}",
    "%' OR '%'='%",
    "$1 ?1 :name @name",
    "/* */ -- #",
    "new\nline\tand\rreturn",
    "\u{1f}\u{202e}\u{feff} unseen",
    "ÄÖß 漢字 🦉",
    "Code: 241. DB::Exception: memory (MEMORY_LIMIT_EXCEEDED)",
];

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

async fn ids(client: &Client, condition: Value) -> Value {
    let query = json!({"view": "ids", "filter": {"conditions": [condition]}});
    client.post("/traces/query", query).await.expect(200).body["trace_ids"].clone()
}

/// Whether the text can name an attribute. Names contain no invisible characters; among these texts, only control
/// characters matter.
fn can_name_attribute(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// Whether the text can name a user. A user name is also used in paths and must not split them.
fn can_name_user(text: &str) -> bool {
    can_name_attribute(text) && !text.contains(['/', '\\'])
}

/// Names of an attribute with this text, and of one with a list that contains it.
fn attributes(text: &str) -> [String; 2] {
    let name = if can_name_attribute(text) { text } else { "text" };
    [name.to_owned(), format!("{name}s")]
}

fn literal(text: &str) -> String {
    json!(text).to_string()
}

/// Checks that the reader lists only the trace of this text, can fetch it, and gets an explanation.
async fn reads_only(reader: &Client, at: usize, text: &str) {
    let trace = format!("{:032x}", at + 1);
    let found = reader.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
    assert_eq!(found["trace_ids"], json!([trace]), "{text:?}");
    let whole = reader.get(&format!("/traces/{trace}")).await.expect(200).body;
    let span = &whole["spans"][0];
    assert_eq!((&span[SERVICE], &span[MAP][text]), (&json!(text), &json!(text)));
    assert_eq!(whole["schema"]["table"], TABLE);
    let why = reader.get(&format!("/traces/{trace}/explain")).await.expect(200).body;
    assert!(why.to_string().contains(&literal(text)), "{text:?}: {why}");
}

/// Creates users with the texts as names and a policy that grants each user access to the trace of that name. An
/// administrator previews them, since signing in so many users takes long.
async fn users_of_these_names(admin: &Client) {
    let allowed: Vec<&str> = TEXTS.into_iter().filter(|text| can_name_user(text)).collect();
    assert_eq!(allowed.len(), 10, "{allowed:?}");
    let policies = allowed.iter().enumerate().map(|(at, text)| {
        let expression = format!("{MAP}[{}] == user.username", literal(text));
        json!({"title": format!("Named {at}"), "expression": expression})
    });
    let policies: Vec<Value> = policies.collect();
    admin.put("/roles/named", json!({ "policies": policies })).await.expect(201);
    for (at, text) in TEXTS.into_iter().enumerate() {
        let created = admin.post("/users", json!({"username": text, "roles": ["named"]})).await;
        if !can_name_user(text) {
            created.problem(422, "invalid_value");
            continue;
        }
        created.expect(201);
        let began = admin.put("/me/preview", json!({"username": text})).await.expect(200).body;
        assert_eq!(began["preview"]["username"], text, "{began}");
        reads_only(admin, at, text).await;
    }
    admin.delete("/me/preview").await.expect(204);
}

/// Inserts a trace per text, with one span that has the text in a column, as a key and as a value.
async fn fill(store: &Store) -> String {
    let table = format!("{}.{}", identifier(DATABASE), identifier(TABLE));
    let [id, span, time, parent, service] = [ID, SPAN, TIME, PARENT, SERVICE].map(identifier);
    store.run(&format!("CREATE DATABASE {}", identifier(DATABASE))).await;
    store
        .run(&format!(
            "CREATE TABLE {table} ({time} DateTime64(9), {id} String, {span} String, {parent} String, {service} String, \
             {MAP} Map(String, String)) ENGINE = MergeTree ORDER BY {time}"
        ))
        .await;
    let now = store.ask("SELECT toString(now64(9) - 60)").await;
    let rows: Vec<String> = (0..TEXTS.len())
        .map(|at| {
            let (text, trace) = (TEXTS[at], format!("{:032x}", at + 1));
            json!({TIME: now.trim(), ID: trace, SPAN: "1", PARENT: "", SERVICE: text, MAP: {text: text}})
                .to_string()
        })
        .collect();
    store.run(&format!("INSERT INTO {table} FORMAT JSONEachRow\n{}", rows.join("\n"))).await;
    table
}

#[tokio::test]
async fn names_and_values_are_never_sql() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let table = fill(&store).await;

    let tag = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let binding = json!({"database": DATABASE, "table": TABLE, "trace_id": ID, "span_id": SPAN, "timestamp": TIME,
        "parent_span_id": PARENT, "display": {"service": SERVICE}});
    let bound = admin.with("if-match", &tag).put("/schema/binding", binding).await.expect(200);
    let version = bound.headers["etag"].to_str().unwrap();
    let mut marks = vec![json!({"name": SERVICE, "filterable": true, "policy": false})];
    marks.extend(TEXTS.map(|text| json!({"map": MAP, "name": text, "filterable": true, "policy": true})));
    admin.with("if-match", version).put("/schema/fields", json!({ "fields": marks })).await.expect(200);

    // Per text, a user whose policy names the key and value, and a user whose policy compares with attributes.
    for (at, text) in TEXTS.into_iter().enumerate() {
        let (role, key) = (format!("role{at}"), literal(text));
        // Titles must not contain invisible characters.
        let title: String = "t ".chars().chain(text.chars().filter(char::is_ascii_graphic)).collect();
        let policy = |expression: String| json!({"policies": [{"title": title, "expression": expression}]});
        admin.put(&format!("/roles/{role}"), policy(format!("{MAP}[{key}] == {key}"))).await.expect(201);
        let [one, several] = attributes(text).map(|name| literal(&name));
        let by_attribute =
            format!("{MAP}[{key}] == user.attributes[{one}] && {MAP}[{key}] in user.attributes[{several}]");
        admin.put(&format!("/roles/{role}a"), policy(by_attribute)).await.expect(201);
    }
    let (ada, bob) = (service.user(&admin, "ada", &[]).await, service.user(&admin, "bob", &[]).await);
    let all: Vec<String> = (0..TEXTS.len()).map(|at| format!("role{at}")).collect();
    for (at, text) in TEXTS.into_iter().enumerate() {
        admin.patch("/users/ada", json!({"roles": [all[at]]})).await.expect(200);
        if !can_name_attribute(text) {
            let refused = admin.patch("/users/bob", json!({"attributes": {text: "x"}})).await;
            refused.problem(422, "invalid_value");
        }
        let [one, several] = attributes(text);
        let own = json!({"roles": [format!("role{at}a")], "attributes": {one: text, several: [text]}});
        let changed = admin.patch("/users/bob", own.clone()).await.expect(200).body;
        assert_eq!(changed["attributes"], own["attributes"]);
        for reader in [&ada, &bob] {
            reads_only(reader, at, text).await;
        }
    }
    users_of_these_names(&admin).await;

    // This user holds all roles and has access to everything, so only the condition limits the results.
    admin.patch("/users/ada", json!({ "roles": all })).await.expect(200);
    for (at, text) in TEXTS.into_iter().enumerate() {
        let only = json!([format!("{:032x}", at + 1)]);
        for condition in [
            json!({"name": SERVICE, "op": "eq", "value": text}),
            json!({"name": SERVICE, "op": "in", "values": [text, "'"]}),
            json!({"map": MAP, "name": text, "op": "eq", "value": text}),
            json!({"map": MAP, "name": text, "op": "exists"}),
        ] {
            assert_eq!(ids(&ada, condition.clone()).await, only, "{condition}");
        }
        let expected_matches = TEXTS.iter().filter(|other| other.starts_with(text)).count();
        let found = ids(&ada, json!({"name": SERVICE, "op": "prefix", "value": text})).await;
        assert_eq!(found.as_array().unwrap().len(), expected_matches, "{text:?}: {found}");
        let schema = ada.get("/filter/schema").await.expect(200).body;
        let fields = schema["fields"].as_array().unwrap();
        let field = fields.iter().find(|field| field["map"] == MAP && field["name"] == text).unwrap();
        let pairs = [("ref", field["ref"].as_str().unwrap()), ("prefix", text)];
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let values = ada.get(&format!("/filter/values?{query}")).await.expect(200).body;
        assert!(values.to_string().contains(&literal(text)), "{text:?}: {values}");
    }
    let summary = json!({"view": "summary", "limit": 100});
    let summaries = ada.post("/traces/query", summary).await.expect(200).body;
    assert_eq!(summaries["traces"].as_array().unwrap().len(), TEXTS.len(), "{summaries}");

    // The table is unchanged.
    assert_eq!(store.ask(&format!("SELECT count() FROM {table}")).await.trim(), TEXTS.len().to_string());
}
