//! `tracewarden model` with a running service, run as from a terminal or in CI.

mod refusals;
mod terminal;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::store::{BLUE, RED, Store, two_teams};
use crate::support::{Client, Service, program};

/// Exit status and output of the command.
#[derive(Debug)]
struct CommandOutput {
    status: i32,
    output: String,
    errors: String,
}

impl CommandOutput {
    /// Returns the output, and checks the exit status.
    #[track_caller]
    fn expect_output(self, status: i32) -> String {
        assert_eq!(self.status, status, "{}\n{}", self.output, self.errors);
        self.output
    }

    /// Returns the standard error, and checks the exit status.
    #[track_caller]
    fn expect_error(self, status: i32) -> String {
        assert_eq!(self.status, status, "{}\n{}", self.output, self.errors);
        self.errors
    }
}

/// A working directory for the command, with one service and one API key.
struct Workspace {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
    key: String,
}

impl Workspace {
    /// Creates it with a new API key of this caller.
    async fn for_caller(service: &Service, owner: &Client) -> Self {
        let created = owner.post("/me/api-keys", json!({"name": "model"})).await.expect(201).body;
        Self::with_key(&service.base, created["token"].as_str().unwrap())
    }

    fn with_key(url: &str, key: &str) -> Self {
        let environment = vec![
            ("TRACEWARDEN_URL".to_owned(), url.to_owned()),
            ("TRACEWARDEN_API_KEY".to_owned(), key.to_owned()),
        ];
        Self { directory: tempfile::tempdir().unwrap(), environment, key: key.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = program();
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.arg("model").args(arguments).current_dir(self.directory.path()).envs(environment);
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A program that rejects its arguments does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let ran = CommandOutput {
            status: output.status.code().unwrap(),
            output: String::from_utf8(output.stdout).unwrap(),
            errors: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(
            !ran.output.contains(&self.key) && !ran.errors.contains(&self.key),
            "the key is shown: {ran:?}"
        );
        ran
    }

    /// Returns the exported access model as JSON.
    fn exported(&self) -> Value {
        serde_json::from_str(&self.run(&["export", "--format", "json"]).expect_output(0)).unwrap()
    }

    /// Writes a file with an access model.
    fn model(&self, name: &str, model: &Value) {
        self.write(name, &serde_json::to_string_pretty(model).unwrap());
    }
}

/// Replaces a text that must occur exactly once.
#[track_caller]
fn replace_once(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "`{from}` in\n{text}");
    text.replace(from, to)
}

/// Whether a caller may read a trace.
async fn fetch_status(caller: &Client, trace: &str) -> bool {
    caller.get(&format!("/traces/{trace}")).await.status == 200
}

#[tokio::test]
async fn a_model_is_exported_edited_planned_applied_and_restored() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    assert!(fetch_status(&ada, BLUE).await && !fetch_status(&ada, RED).await);

    let printed = workspace.run(&["export", "--output", "access.yaml"]).expect_output(0);
    assert!(printed.contains("access.yaml") && printed.contains(&service.base), "{printed}");
    assert_eq!(workspace.run(&["export"]).expect_output(0), workspace.read("access.yaml"));
    workspace.run(&["export", "-o", "access.json"]).expect_output(0);
    let json: Value = serde_json::from_str(&workspace.read("access.json")).unwrap();
    assert_eq!(json["roles"][1]["name"], "blue", "{json:#}");

    for file in ["access.yaml", "access.json"] {
        let same = workspace.run(&["plan", file, "--detailed-exitcode"]).expect_output(0);
        assert!(same.ends_with("\n0 to add, 0 to change, 0 to remove\n"), "{same}");
    }

    let policy = r#"SpanAttributes["team"] == "blue""#;
    let other = r#"SpanAttributes["team"] in ["blue", "red"]"#;
    let mut changed = json.clone();
    assert_eq!(changed["roles"][1]["policies"][0]["expression"], policy);
    changed["roles"][1]["policies"][0]["expression"] = json!(other);
    changed["roles"].as_array_mut().unwrap().push(json!({"name": "support", "policies": [
        {"title": "Billing", "expression": "ServiceName == \"billing\"\n  || ServiceName == \"tax\""}]}));
    workspace.model("changed.json", &changed);
    let planned = workspace.run(&["plan", "changed.json"]).expect_output(0);
    println!("{planned}");
    for part in [
        "\nRoles\n  + support\n      + policies:\n      +   - title: Billing\n      +     expression: |-\n      +       ServiceName == \"billing\"\n",
        &format!(
            "\nPolicies\n  ~ blue / Blue\n      - expression: '{policy}'\n      + expression: '{other}'\n"
        ),
        "\nUsers who would see more or fewer traces\n  traces from ",
        "  ada  +1 -0, 1 as before\n",
        "\n1 to add, 1 to change, 0 to remove\n",
    ] {
        assert!(planned.contains(part), "{part}\nis not in\n{planned}");
    }
    // The administrator's own policies grant access to no trace, so the plan has counts without trace ids.
    assert!(!planned.contains(RED), "{planned}");
    workspace.run(&["plan", "changed.json", "--detailed-exitcode"]).expect_output(3);
    let answer =
        workspace.run(&["plan", "changed.json", "--format", "json", "--seconds", "0"]).expect_output(0);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((answer["changes"].as_array().unwrap().len(), &answer["impact"]), (2, &Value::Null));
    // A plan changes nothing.
    assert_eq!(workspace.exported(), json);
    assert!(!fetch_status(&ada, RED).await);

    let applied = workspace.run(&["apply", "changed.json", "--yes"]).expect_output(0);
    println!("{applied}");
    let change = answer["version"].as_u64().unwrap();
    assert!(
        applied.contains(&format!("\nApplied; the access model is at version {}.", change + 1)),
        "{applied}"
    );
    assert!(fetch_status(&ada, RED).await);
    assert_eq!(workspace.exported()["roles"], changed["roles"]);
    workspace.run(&["plan", "changed.json", "--detailed-exitcode"]).expect_output(0);
    // A model that is already current is not applied again.
    assert!(!workspace.run(&["apply", "changed.json", "--yes"]).expect_output(0).contains("Applied"));

    let history = workspace.run(&["history"]).expect_output(0);
    println!("{history}");
    let newest: Vec<&str> = history.lines().take(3).collect();
    assert!(
        newest[0].contains(&format!("{} ", change + 1)) && newest[0].contains("admin  model.import"),
        "{history}"
    );
    assert!(newest[1..].iter().any(|line| line.contains("`blue`")), "{history}");
    assert!(newest[1..].iter().any(|line| line.contains("`support`")), "{history}");
    let one = workspace.run(&["history", &(change + 1).to_string()]).expect_output(0);
    println!("{one}");
    assert!(one.contains(&format!("      + expression: '{other}'\n")), "{one}");
    let two = workspace.run(&["history", "--limit", "2"]).expect_output(0);
    assert!(two.ends_with("older changes: --limit 4\n"), "{two}");
    let listed: Value = serde_json::from_str(
        &workspace.run(&["history", "--limit", "1000", "--format", "json"]).expect_output(0),
    )
    .unwrap();
    let numbers: Vec<u64> = listed["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["version"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=change + 1).rev().collect::<Vec<_>>());

    let restored = workspace.run(&["restore", &change.to_string(), "--yes"]).expect_output(0);
    println!("{restored}");
    assert!(
        restored.contains("\n  - support\n")
            && restored.contains(&format!("      + expression: '{policy}'\n")),
        "{restored}"
    );
    assert!(restored.contains("\n0 to add, 1 to change, 1 to remove\n"), "{restored}");
    assert!(
        restored.contains(&format!("\nApplied; the access model is at version {}.", change + 2)),
        "{restored}"
    );
    assert!(!fetch_status(&ada, RED).await);
    assert_eq!(workspace.run(&["export"]).expect_output(0), workspace.read("access.yaml"));
}

#[tokio::test]
async fn a_file_with_failing_tests_is_not_applied() {
    let store = Store::start();
    let (service, admin, _) = two_teams(&store).await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    let mut model = workspace.exported();
    model["users"] = json!([{"username": "ada", "roles": ["blue"]}]);
    model["traces"] = json!([{"name": "red", "spans": [{"SpanAttributes": {"team": "red"}}]}]);
    model["tests"] = json!([{"name": "others' traces are\u{1b}[2J hidden", "user": "ada", "trace": "red", "visible": false}]);
    workspace.model("access.json", &model);
    let passed = workspace.run(&["plan", "access.json"]).expect_output(0);
    assert!(passed.contains("\nTests\n  1 test passed, 0 failed\n"), "{passed}");
    workspace.run(&["apply", "access.json", "--yes"]).expect_output(0);
    workspace.run(&["test", "access.json"]).expect_output(0);

    let current_model = workspace.run(&["export"]).expect_output(0);
    model["roles"][1]["policies"][0]["expression"] = json!("\"team\" in SpanAttributes");
    workspace.model("wide.json", &model);
    let planned = workspace.run(&["plan", "wide.json", "--detailed-exitcode"]).expect_output(1);
    println!("{planned}");
    assert!(planned.contains("  FAIL others' traces are\u{fffd}[2J hidden\n"), "{planned}");
    assert!(planned.contains("  0 tests passed, 1 failed\n"), "{planned}");
    let refused = workspace.run(&["apply", "wide.json", "--yes"]);
    assert!(refused.output.contains("FAIL"), "{refused:?}");
    let refused = refused.expect_error(1);
    assert_eq!(refused, "tracewarden: tests in the file fail, so nothing was changed\n");
    let tested = workspace.run(&["test", "wide.json"]).expect_output(1);
    assert!(tested.contains("0 tests passed, 1 failed"), "{tested}");
    assert_eq!(workspace.run(&["export"]).expect_output(0), current_model);
}

#[tokio::test]
async fn errors_in_a_file_are_shown_at_their_position() {
    let store = Store::start();
    let (service, admin, _) = two_teams(&store).await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    let current_model = workspace.run(&["export"]).expect_output(0);
    let expression = "SpanAttributes[\"team\"] == \"blue\"";
    let line = current_model.lines().find(|line| line.contains("expression")).unwrap();
    assert!(line.contains(expression) || line.contains("team"), "{line}");
    let indentation = line.split("expression").next().unwrap().replace('-', " ");
    let wrong = replace_once(
        &current_model,
        line,
        &line.replace(
            line.split_once("expression: ").unwrap().1,
            &format!("|-\n{indentation}  ServiceName == \"shop\"\n{indentation}    && SpanAttributes[\"taem\"] == \"blue\""),
        ),
    );
    workspace.write("wrong.yaml", &wrong);
    let at = wrong.lines().position(|line| line.contains("taem")).unwrap() + 1;
    for command in [vec!["plan", "wrong.yaml"], vec!["apply", "wrong.yaml", "--yes"]] {
        let refused = workspace.run(&command).expect_error(1);
        println!("{refused}");
        assert!(refused.contains("error[policy_invalid]: "), "{refused}");
        assert!(
            refused.contains(&format!("--> wrong.yaml:{at}, role `blue`, policy `Blue`:2:")),
            "{refused}"
        );
        assert!(refused.contains("^^^^"), "{refused}");
    }
    // A file that is not a valid document is detected without the service.
    workspace.write("broken.yaml", "roles:\n  - name: &x blue\n");
    let broken = workspace.run(&["plan", "broken.yaml", "--url", "http://127.0.0.1:9"]).expect_error(1);
    assert!(broken.starts_with("tracewarden: broken.yaml:2:11: anchors are not supported"), "{broken}");
    workspace.write("misspelt.yaml", &replace_once(&current_model, "\nroles:", "\nrolls:"));
    let misspelt = workspace.run(&["plan", "misspelt.yaml"]).expect_error(1);
    assert!(misspelt.contains("misspelt.yaml") && misspelt.contains("did you mean `roles`?"), "{misspelt}");
    assert_eq!(workspace.run(&["export"]).expect_output(0), current_model);
    // Warnings do not reject the file, and also point at the position in it.
    let doubtful = replace_once(
        &current_model,
        line,
        &line
            .replace(line.split_once("expression: ").unwrap().1, "'!(SpanAttributes[\"team\"] == \"blue\")'"),
    );
    let planned = workspace.run_with(&["plan", "-"], &doubtful).expect_output(0);
    println!("{planned}");
    assert!(planned.contains("warning[negated_absent_key]: "), "{planned}");
    let at = doubtful.lines().position(|line| line.contains("'!(")).unwrap() + 1;
    assert!(
        planned.contains(&format!("--> standard input:{at}, role `blue`, policy `Blue`:1:")),
        "{planned}"
    );
}

#[tokio::test]
async fn users_who_lose_a_role_are_named_before() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    let mut model = workspace.exported();
    model["roles"].as_array_mut().unwrap().retain(|role| role["name"] != "blue");
    workspace.model("without.json", &model);
    let planned = workspace.run(&["plan", "without.json"]).expect_output(0);
    println!("{planned}");
    assert!(planned.contains("\nUsers who lose a role\n  - blue  1 user: ada\n"), "{planned}");
    assert!(planned.contains("  ada  +0 -1, 0 as before\n"), "{planned}");
    workspace.run(&["apply", "without.json", "--yes", "--seconds", "0"]).expect_output(0);
    assert!(!fetch_status(&ada, BLUE).await);
    // A restored role has no members until it is assigned again.
    let history: Value =
        serde_json::from_str(&workspace.run(&["history", "--format", "json"]).expect_output(0)).unwrap();
    let before = history["changes"][1]["version"].to_string();
    let restored = workspace.run(&["restore", &before, "--yes"]).expect_output(0);
    println!("{restored}");
    assert!(restored.contains("\nnote: "), "{restored}");
    assert!(!fetch_status(&ada, BLUE).await);
}

/// Returns the path of a file of the documentation.
fn documentation(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn the_example_of_the_documentation_passes_its_tests() {
    let path = documentation("examples/policies.yaml");
    let workspace = Workspace::with_key("http://127.0.0.1:9", "twk_unknown");
    let tested = workspace.run(&["test", path.to_str().unwrap()]).expect_output(0);
    assert!(tested.ends_with("5 tests passed, 0 failed\n"), "{tested}");
}
