//! Export, import and restore of random models.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tracewarden_testkit::repetitions::{self, Repetitions};

use super::*;

const MODELS: Repetitions = Repetitions { test: 10, verify: 60 };

fn pick<'a, T>(random: &mut ChaCha8Rng, list: &'a [T]) -> &'a T {
    &list[random.random_range(0..list.len())]
}

/// Returns random text with characters that are special in YAML or JSON.
fn text(random: &mut ChaCha8Rng, parts: usize) -> String {
    const PARTS: &[&str] = &[
        "a",
        "b c",
        "yes",
        "no",
        "null",
        "1_000",
        "0x1",
        "- ",
        ": ",
        "#",
        "'",
        "\"",
        "\\",
        "|",
        ">",
        "&a",
        "*a",
        "!a",
        "%",
        "{",
        "}",
        "[",
        "]",
        ",",
        "~",
        "<<",
        "é",
        "e\u{301}",
        "\u{1f600}",
        "…",
        "=",
        "?",
        "@",
        "`",
    ];
    (0..random.random_range(1..=parts)).map(|_| *pick(random, PARTS)).collect()
}

/// Returns random text that also has line breaks and invisible characters.
fn long_text(random: &mut ChaCha8Rng) -> String {
    const PARTS: &[&str] = &[
        "\n", "\n\n", "  ", "\t", "\r\n", " ", "\u{85}", "\u{2028}", "\u{feff}", "\u{202e}", "\u{7f}",
        "\u{1}",
    ];
    (0..random.random_range(0..8))
        .map(|_| if random.random_bool(0.5) { (*pick(random, PARTS)).to_owned() } else { text(random, 2) })
        .collect()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Returns an expression over marked fields; comments and line breaks must be preserved.
fn expression(random: &mut ChaCha8Rng) -> String {
    let field =
        *pick(random, &["ServiceName", "SpanAttributes[\"team\"]", "SpanAttributes['it''s']", "SpanName"]);
    let field = if field.contains("it") { "SpanAttributes[\"odd key: #1\"]" } else { field };
    let value = text(random, 3);
    let simple = format!("{field} == {}", quoted(&value));
    match random.random_range(0..5) {
        0 => simple,
        1 => format!("{simple} ||\n  // {}\n  {field} != \"x\"\n", value.replace('\n', " ")),
        2 => format!("\n  {simple}\n\n"),
        3 => format!("\t{simple}\t"),
        _ => format!("!({simple}) && user.attributes.team == 'it\\'s'"),
    }
}

fn model(random: &mut ChaCha8Rng) -> Value {
    let mut fields = vec![
        json!({"map": "SpanAttributes", "name": "team"}),
        json!({"map": "SpanAttributes", "name": "odd key: #1", "type": "string"}),
        json!({"name": "ServiceName", "filterable": random.random_bool(0.5), "policy": true}),
        json!({"name": "SpanName", "type": "string"}),
    ];
    if random.random_bool(0.5) {
        fields.push(json!({"name": "Duration", "filterable": true}));
        fields.push(
            json!({"map": "SpanAttributes", "name": text(random, 4), "type": "boolean", "policy": false}),
        );
    }
    // The fields are in random order.
    for at in (1..fields.len()).rev() {
        fields.swap(at, random.random_range(0..=at));
    }
    let mut roles = Vec::new();
    for number in 0..random.random_range(0..6) {
        let policies: Vec<Value> = (0..random.random_range(1..4))
            .map(|_| {
                let mut policy = json!({"expression": expression(random), "title": text(random, 3)});
                if policy["title"].as_str().unwrap().trim().is_empty() {
                    policy["title"] = json!("blank");
                }
                if random.random_bool(0.5) {
                    policy["description"] = json!(long_text(random));
                }
                policy
            })
            .collect();
        roles.push(json!({"policies": policies, "name": format!("{}{number}", pick(random, &["y", "no", "r-", "0."]))}));
    }
    let mut binding = binding();
    if random.random_bool(0.5) {
        binding["display"] = json!({"name": "SpanName", "duration": "Duration"});
    }
    let mut file = json!({"roles": roles, "binding": binding, "fields": fields});
    if random.random_bool(0.7) {
        let spans: Vec<Value> = (0..random.random_range(1..4))
            .map(|_| {
                let key = long_text(random);
                json!({"ServiceName": text(random, 2), "SpanAttributes": {"team": long_text(random)}, key: {
                    "n": f64::from(random.random::<u16>()) / 8.0, "i": random.random::<i64>(), "u": u64::MAX, "z": -0.0, "list": [[], {}, null, [1, [true]]],
                    "s": long_text(random)}})
            })
            .collect();
        file["users"] = json!([{"attributes": {"team": long_text(random), "on": true, "list": ["a", ""]}, "username": long_text(random)}]);
        file["traces"] = json!([{"spans": spans, "name": long_text(random)}]);
        let (user, trace) = (file["users"][0]["username"].clone(), file["traces"][0]["name"].clone());
        // A user without roles sees no trace.
        file["tests"] = json!([
            {"visible": false, "user": user, "trace": trace, "name": long_text(random)},
            {"visible": false, "user": user, "spans": [spans[0]], "name": "other\n"},
        ]);
    }
    file
}

/// For every valid file: exporting and importing gives the same text and the same model, and every version of the history
/// can be restored exactly.
#[tokio::test]
async fn export_import_export_is_exact() {
    let (seed, models) = (repetitions::seed(0x5eed), MODELS.get("TRACEWARDEN_TEST_MODELS"));
    println!("seed {seed}, {models} models");
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await.with("if-match", "*");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut exported = Vec::new();
    for number in 0..models {
        let model = model(&mut random);
        let imported = import(&admin, &model).await;
        assert_eq!(imported.status, 200, "model {number}: {}\n{model:#}", imported.body);
        let (yaml, change) = export_as(&admin, "application/yaml").await;
        let (json, _) = export_as(&admin, "application/json").await;
        for (kind, text) in [("application/yaml", &yaml), ("application/json", &json)] {
            // Import over another model, not only over the same one.
            let other = json!({"binding": null, "fields": [], "roles": []});
            import(&admin, &other).await.expect(200);
            send(&admin, Method::PUT, "/schema/import", kind, text).await.expect(200);
            assert_eq!(export_as(&admin, "application/yaml").await.0, yaml, "model {number}");
            assert_eq!(export_as(&admin, "application/json").await.0, json, "model {number}");
        }
        // Everything that was sent is stored.
        let now: Value = serde_json::from_str(&json).unwrap();
        for (at, field) in model["fields"].as_array().unwrap().iter().enumerate() {
            assert_eq!(now["fields"][at]["name"], field["name"]);
        }
        for role in model["roles"].as_array().unwrap() {
            let stored = now["roles"]
                .as_array()
                .unwrap()
                .iter()
                .find(|stored| stored["name"] == role["name"])
                .unwrap();
            assert_eq!(stored["policies"], role["policies"]);
        }
        for member in ["users", "traces", "tests"] {
            let sent = model[member].as_array().map_or(0, Vec::len);
            assert_eq!(now[member].as_array().map_or(0, Vec::len), sent);
            if member == "traces" && sent > 0 {
                assert_eq!(now["traces"][0]["spans"], model["traces"][0]["spans"]);
            }
        }
        exported.push((change, yaml));
    }
    for _ in 0..models / 2 {
        let (change, yaml) = pick(&mut random, &exported);
        let path = format!("/schema/history/{}/restore", change.trim_matches('"'));
        admin.send(Method::POST, &path, None).await.expect(200);
        assert_eq!(export_as(&admin, "application/yaml").await.0, *yaml);
    }
    println!("{models} models");
}
