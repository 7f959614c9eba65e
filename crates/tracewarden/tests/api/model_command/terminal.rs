//! On a terminal: colours, the question, and what is done on each answer.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::Place;
use crate::support::store::{Store, two_teams};

/// A program on a terminal.
struct OnTerminal {
    child: Child,
    terminal: File,
    shown: String,
}

impl OnTerminal {
    fn start(mut command: std::process::Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let end = || -> OwnedFd { open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap() };
        command.stdin(Stdio::from(end())).stdout(Stdio::from(end())).stderr(Stdio::from(end()));
        let child = command.env("TERM", "xterm").spawn().unwrap();
        Self { child, terminal: File::from(terminal), shown: String::new() }
    }

    /// Reads until this is shown.
    fn wait_for(&mut self, wanted: &str) {
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        while !self.shown.contains(wanted) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.shown);
            match self.terminal.read(&mut bytes) {
                Ok(0) => panic!("ended: {}", self.shown),
                Ok(read) => self.shown.push_str(&String::from_utf8_lossy(&bytes[..read])),
                // The other end is closed.
                Err(error) => panic!("{error}: {}", self.shown),
            }
        }
    }

    /// Types this, waits for the end, and gives the status and all that was shown.
    fn answer(mut self, text: &str) -> (i32, String) {
        self.terminal.write_all(text.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        loop {
            match self.terminal.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => self.shown.push_str(&String::from_utf8_lossy(&bytes[..read])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // How the terminal of a program that has ended is closed.
                Err(_) => break,
            }
        }
        (self.child.wait().unwrap().code().unwrap(), self.shown.replace("\r\n", "\n"))
    }
}

#[tokio::test]
async fn what_was_shown_is_applied_on_a_yes_and_nothing_else() {
    let store = Store::start();
    let (service, admin, _) = two_teams(&store).await;
    let place = Place::of(&service, &admin).await;
    let before = place.run(&["export"]).ended(0);
    let mut model = place.exported();
    model["roles"].as_array_mut().unwrap().push(json!({"name": "support", "policies": [
        {"title": "Billing", "expression": "ServiceName == \"billing\""}]}));
    place.model("access.json", &model);

    // Without a terminal nobody is asked, and nothing is sent.
    let silent = place.run_with(&["apply", "access.json"], "y\n").failed(2);
    assert!(silent.contains("give `--yes`"), "{silent}");

    for no in ["n\n", "\n", "nay\n", "\u{4}"] {
        let mut program = OnTerminal::start(place.command(&["apply", "access.json"]));
        program.wait_for("Apply? [y/N] ");
        let (status, shown) = program.answer(no);
        assert_eq!(status, 1, "{shown}");
        assert!(shown.contains("\u{1b}[32m+ support\u{1b}[0m"), "{shown:?}");
        assert!(shown.ends_with("nothing was changed\n"), "{shown}");
        assert_eq!(place.run(&["export"]).ended(0), before);
    }

    // Somebody changes the model while the question stands.
    let mut program = OnTerminal::start(place.command(&["apply", "access.json"]));
    program.wait_for("Apply? [y/N] ");
    let policies = json!({"policies": [{"title": "Other", "expression": "ServiceName == \"x\""}]});
    admin.put("/roles/other", policies).await.expect(201);
    let (status, shown) = program.answer("y\n");
    assert_eq!(status, 2, "{shown}");
    assert!(shown.contains("somebody changed the access model meanwhile, and nothing was done"), "{shown}");
    assert_eq!(place.exported()["roles"].as_array().unwrap().len(), 3);
    admin.get("/roles/support").await.problem(404, "not_found");

    let mut command = place.command(&["apply", "access.json"]);
    command.env("NO_COLOR", "1");
    let mut program = OnTerminal::start(command);
    program.wait_for("Apply? [y/N] ");
    let (status, shown) = program.answer("yes\n");
    assert_eq!(status, 0, "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(shown.contains("\n  - other\n") && shown.contains("\n  + support\n"), "{shown}");
    assert!(shown.contains("\nApplied as change "), "{shown}");
    admin.get("/roles/support").await.expect(200);
    admin.get("/roles/other").await.problem(404, "not_found");
}

#[tokio::test]
async fn an_export_cannot_lead_the_terminal_astray() {
    let store = Store::start();
    let (service, admin, _) = two_teams(&store).await;
    let place = Place::of(&service, &admin).await;
    let policies =
        json!({"policies": [{"title": "Odd", "expression": "ServiceName == \"\u{1b}[2J\u{202e}\""}]});
    admin.put("/roles/odd", policies).await.expect(201);
    let program = OnTerminal::start(place.command(&["export"]));
    let (status, shown) = program.answer("");
    assert_eq!(status, 0, "{shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
    // Programs get it as it is.
    let expression = place.exported()["roles"][2]["policies"][0]["expression"].clone();
    assert_eq!(expression, "ServiceName == \"\u{1b}[2J\u{202e}\"");
}
