//! Terminal use: colours, the confirmation prompt, and the effect of each answer.

use serde_json::json;

use super::Workspace;
use crate::support::store::{Store, two_teams};
use crate::support::terminal::TerminalProgram;

#[tokio::test]
async fn only_the_shown_plan_is_applied_after_confirmation() {
    let store = Store::start();
    let (service, admin, _) = two_teams(&store).await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    let before = workspace.run(&["export"]).expect_output(0);
    let mut model = workspace.exported();
    model["roles"].as_array_mut().unwrap().push(json!({"name": "support", "policies": [
        {"title": "Billing", "expression": "ServiceName == \"billing\""}]}));
    workspace.model("access.json", &model);

    // Without a terminal there is no prompt, and no request is sent.
    let silent = workspace.run_with(&["apply", "access.json"], "y\n").expect_error(2);
    assert!(silent.contains("use `--yes`"), "{silent}");

    for no in ["n\n", "\n", "nay\n", "\u{4}"] {
        let mut program = TerminalProgram::start(workspace.command(&["apply", "access.json"]));
        program.wait_for("Apply? [y/N] ");
        let (status, shown) = program.answer(no);
        assert_eq!(status, 1, "{shown}");
        assert!(shown.contains("\u{1b}[32m+ support\u{1b}[0m"), "{shown:?}");
        assert!(shown.ends_with("nothing was changed\n"), "{shown}");
        assert_eq!(workspace.run(&["export"]).expect_output(0), before);
    }

    // Another administrator changes the model while the prompt waits.
    let mut program = TerminalProgram::start(workspace.command(&["apply", "access.json"]));
    program.wait_for("Apply? [y/N] ");
    let policies = json!({"policies": [{"title": "Other", "expression": "ServiceName == \"x\""}]});
    admin.put("/roles/other", policies).await.expect(201);
    let (status, shown) = program.answer("y\n");
    assert_eq!(status, 2, "{shown}");
    assert!(shown.contains("the access model has changed in the meantime, so nothing was done"), "{shown}");
    assert_eq!(workspace.exported()["roles"].as_array().unwrap().len(), 3);
    admin.get("/roles/support").await.problem(404, "not_found");

    let mut command = workspace.command(&["apply", "access.json"]);
    command.env("NO_COLOR", "1");
    let mut program = TerminalProgram::start(command);
    program.wait_for("Apply? [y/N] ");
    let (status, shown) = program.answer("yes\n");
    assert_eq!(status, 0, "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(shown.contains("\n  - other\n") && shown.contains("\n  + support\n"), "{shown}");
    assert!(shown.contains("\nApplied; the access model is at version "), "{shown}");
    admin.get("/roles/support").await.expect(200);
    admin.get("/roles/other").await.problem(404, "not_found");
}

#[tokio::test]
async fn exports_are_sanitized_for_the_terminal() {
    let store = Store::start();
    let (service, admin, _) = two_teams(&store).await;
    let workspace = Workspace::for_caller(&service, &admin).await;
    let policies =
        json!({"policies": [{"title": "Odd", "expression": "ServiceName == \"\u{1b}[2J\u{202e}\""}]});
    admin.put("/roles/odd", policies).await.expect(201);
    let program = TerminalProgram::start(workspace.command(&["export"]));
    let (status, shown) = program.answer("");
    assert_eq!(status, 0, "{shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
    // Programs get the text unchanged.
    let expression = workspace.exported()["roles"][2]["policies"][0]["expression"].clone();
    assert_eq!(expression, "ServiceName == \"\u{1b}[2J\u{202e}\"");
}
