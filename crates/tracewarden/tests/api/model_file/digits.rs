//! Numbers in the tests of a model file keep all their digits.

use super::*;

const NUMBERS: [(&str, &str); 7] = [
    ("Duration", "18446744073709551616"),
    ("cost", "12345678901234.5678"),
    ("Time", "1700010800.901161215"),
    ("zero", "-0"),
    ("whole", "5.0"),
    ("large", "1e400"),
    ("small", "1.50E-7"),
];

fn yaml_of(numbers: &[(&str, &str)]) -> String {
    let members: String =
        numbers.iter().map(|(name, number)| format!("          {name}: {number}\n")).collect();
    format!(
        "binding: null\nfields: []\nroles:\n  - name: admin\n    policies: []\nusers:\n  - username: ada\n    roles: []\n\
         traces:\n  - name: t\n    spans:\n      - {}tests:\n  - name: sees nothing\n    user: ada\n    trace: t\n    visible: false\n",
        members.trim_start().replace("          ", "        ")
    )
}

#[tokio::test]
async fn numbers_keep_all_digits() {
    let service = Service::start();
    let admin = service.admin().await;
    let long = "7".repeat(400);
    let mut numbers = NUMBERS.to_vec();
    numbers.push(("long", &long));
    let yaml = yaml_of(&numbers);
    for (kind, path) in [("application/yaml", "/schema/plan"), ("application/yaml", "/schema/import")] {
        let method = if path == "/schema/plan" { Method::POST } else { Method::PUT };
        let admin = admin.with("if-match", "*");
        let answer = send(&admin, method, path, kind, &yaml).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let (json, tag) = export_as(&admin, "application/json").await;
    let (exported, _) = export_as(&admin, "application/yaml").await;
    let version = tag.trim_matches('"').to_owned();
    let path = format!("/schema/history/{version}");
    let history = admin.request(Method::GET, &path).send().await.unwrap().text().await.unwrap();
    for (name, number) in &numbers {
        assert!(exported.contains(&format!("{name}: {number}\n")), "{name}: {exported}");
        assert!(json.contains(&format!("\"{name}\": {number}")), "{name}: {json}");
        assert!(history.contains(&format!("\"{name}\":{number}")), "{name}: {history}");
    }
    // Importing the exported text changes nothing, and exporting it again gives the same text.
    for (kind, text) in [("application/json", &json), ("application/yaml", &exported)] {
        let answer =
            send(&admin.with("if-match", "*"), Method::PUT, "/schema/import", kind, text).await.expect(200);
        assert_eq!(answer.body["changes"], serde_json::json!([]), "{kind}");
        assert_eq!(export_as(&admin, kind).await.0, *text);
    }
}
