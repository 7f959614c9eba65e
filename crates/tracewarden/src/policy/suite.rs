//! A file with tests, with every name in it resolved.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use tracewarden_model::nearest::nearest;
use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{Checked, Outcome, Span, check};
use tracewarden_rest::json::Json;
use tracewarden_rest::policy_file::{FilePolicy, FileTest, PolicyFile};

use super::columns::tell_misspelt;
use super::files::{self, Named, Origin, plain};
use super::report::counted;
use super::{Line, Trouble};

/// The role that need not be defined: it is built in, and opens nothing by itself.
const ADMIN_ROLE: &str = "admin";

/// Tests with all that they need.
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) model: AccessModel,
    pub(super) policies: Vec<Rc<Policy>>,
    pub(super) tests: Vec<Test>,
}

/// A policy of a role, or of none.
pub(super) struct Policy {
    role: Option<String>,
    title: String,
    /// How tests and reports call it: `role/title`, or the title of one that no role holds.
    pub(super) label: String,
    pub(super) origin: Origin,
    pub(super) expression: String,
    pub(super) checked: Checked,
}

impl Policy {
    /// Whether a user has it.
    pub(super) fn is_held_by(&self, user: &Caller) -> bool {
        self.role.as_ref().is_some_and(|role| user.roles.contains(role))
    }
}

/// What is expected of a policy on a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    True,
    False,
    Error,
}

impl Expected {
    const ALL: [Self; 3] = [Self::True, Self::False, Self::Error];

    pub(super) fn is(self, outcome: &Outcome) -> bool {
        self == match outcome {
            Outcome::True => Self::True,
            Outcome::False => Self::False,
            Outcome::Error(_) => Self::Error,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Error => "error",
        }
    }
}

/// A test.
pub(super) struct Test {
    pub(super) name: String,
    pub(super) user: Caller,
    pub(super) spans: Vec<Span>,
    pub(super) visible: Option<bool>,
    /// Policies, each with what it is on each span.
    pub(super) outcomes: Vec<(Rc<Policy>, Vec<Expected>)>,
}

impl Suite {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything that keeps its tests from being run.
    pub(super) fn read(path: &Path, given: Option<&AccessModel>) -> Result<Self, Trouble> {
        let (named, file, model) = files::roles(path, given)?;
        let mut reader = Reader { named: &named, model: &model, lines: Vec::new() };
        let policies: Vec<Rc<Policy>> = files::policies(&file)
            .filter_map(|(pointer, role, policy)| reader.policy(&pointer, policy, role))
            .collect();
        let tests = reader.tests(&file, &policies);
        if !reader.lines.is_empty() {
            return Err(Trouble(reader.lines));
        }
        Ok(Self { name: named.name.clone(), model, policies, tests })
    }
}

struct Reader<'a> {
    named: &'a Named,
    model: &'a AccessModel,
    lines: Vec<Line>,
}

impl Reader<'_> {
    fn fault(&mut self, pointer: &str, message: &str) {
        self.lines.push(Line::Message(self.named.at(pointer, message)));
    }

    /// Says which names are there twice.
    fn unique<'n>(&mut self, list: &str, member: &str, names: impl Iterator<Item = &'n str> + Clone) {
        for index in files::repeated(names.clone()) {
            let name = names.clone().nth(index).unwrap_or_default();
            self.fault(&format!("/{list}/{index}/{member}"), &format!("`{name}` is there twice"));
        }
    }

    fn unknown<'n>(&mut self, pointer: &str, what: &str, name: &str, known: impl Iterator<Item = &'n str>) {
        let hint = nearest(name, known).first().map(|near| format!("; did you mean `{near}`?"));
        self.fault(pointer, &format!("no {what} `{name}`{}", hint.unwrap_or_default()));
    }

    fn policy(&mut self, pointer: &str, policy: &FilePolicy, role: Option<&str>) -> Option<Rc<Policy>> {
        let FilePolicy { title, expression, .. } = policy;
        let label = role.map_or_else(|| title.clone(), |role| format!("{role}/{title}"));
        let origin = self.named.origin(pointer, &format!("policy `{}`", plain(&label)));
        match check(expression, self.model) {
            Ok(checked) => Some(Rc::new(Policy {
                role: role.map(str::to_owned),
                title: title.clone(),
                label,
                origin,
                expression: expression.clone(),
                checked,
            })),
            Err(diagnostics) => {
                let rendered =
                    diagnostics.iter().map(|found| found.render(expression, Some(&origin.at(found.line))));
                self.lines.extend(rendered.map(Line::Rendered));
                None
            }
        }
    }

    fn tests(&mut self, file: &PolicyFile, policies: &[Rc<Policy>]) -> Vec<Test> {
        if file.tests.is_empty() {
            self.fault("", "there are no `tests`");
        }
        self.unique("tests", "name", file.tests.iter().map(|test| test.name.as_str()));
        self.unique("traces", "name", file.traces.iter().map(|trace| trace.name.as_str()));
        let users: Vec<Caller> = file.users.iter().cloned().map(Caller::from).collect();
        self.unique("users", "username", users.iter().map(|user| user.username.as_str()));
        let roles = || file.roles.iter().map(|role| role.name.as_str()).chain([ADMIN_ROLE]);
        for (at, user) in users.iter().enumerate() {
            for role in &user.roles {
                if !roles().any(|known| known == role) {
                    self.unknown(&format!("/users/{at}/roles"), "role", role, roles());
                }
            }
        }
        let mut traces = Vec::with_capacity(file.traces.len());
        for (at, trace) in file.traces.iter().enumerate() {
            self.not_empty(&trace.spans, &format!("/traces/{at}/spans"));
            traces.push((trace.name.as_str(), self.spans(&trace.spans, &format!("/traces/{at}/spans"))));
        }
        let tests = file.tests.iter().enumerate();
        tests
            .filter_map(|(at, test)| self.test(test, &format!("/tests/{at}"), &users, &traces, policies))
            .collect()
    }

    /// On no spans, whatever is expected of each would hold.
    fn not_empty(&mut self, spans: &[Json], pointer: &str) {
        if spans.is_empty() {
            self.fault(pointer, "a trace has at least one span: without one, nothing would be tested");
        }
    }

    fn spans(&mut self, sent: &[Json], pointer: &str) -> Vec<Span> {
        tell_misspelt(self.named, sent, self.model, pointer);
        tracewarden_rest::spans(sent, self.model, pointer).unwrap_or_else(|errors| {
            for error in errors {
                self.fault(&error.pointer, &error.detail);
            }
            Vec::new()
        })
    }

    fn test(
        &mut self,
        test: &FileTest,
        pointer: &str,
        users: &[Caller],
        traces: &[(&str, Vec<Span>)],
        policies: &[Rc<Policy>],
    ) -> Option<Test> {
        let user = users.iter().find(|user| user.username == test.user).cloned();
        if user.is_none() {
            let known = users.iter().map(|user| user.username.as_str());
            self.unknown(&format!("{pointer}/user"), "user", &test.user, known);
        }
        let spans = match (&test.trace, &test.spans) {
            (Some(name), None) => {
                let found = traces.iter().find(|(known, _)| known == name).map(|(_, spans)| spans.clone());
                if found.is_none() {
                    self.unknown(
                        &format!("{pointer}/trace"),
                        "trace",
                        name,
                        traces.iter().map(|(name, _)| *name),
                    );
                }
                found
            }
            (None, Some(sent)) => {
                let pointer = format!("{pointer}/spans");
                self.not_empty(sent, &pointer);
                Some(self.spans(sent, &pointer))
            }
            _ => {
                self.fault(pointer, "a test is about a `trace` or about `spans`");
                None
            }
        };
        if test.visible.is_none() && test.policies.is_none() {
            self.fault(pointer, "a test says what it expects, with `visible` or `policies`");
        }
        let spans = spans?;
        let outcomes = test.policies.as_ref().map_or_else(Vec::new, |wanted| {
            self.outcomes(wanted, &format!("{pointer}/policies"), spans.len(), policies)
        });
        Some(Test { name: test.name.clone(), user: user?, spans, visible: test.visible, outcomes })
    }

    fn outcomes(
        &mut self,
        wanted: &Json,
        pointer: &str,
        spans: usize,
        policies: &[Rc<Policy>],
    ) -> Vec<(Rc<Policy>, Vec<Expected>)> {
        let Json::Object(members) = wanted else {
            self.fault(
                pointer,
                "expected titles of policies, each with `true`, `false`, `error` or a list of these",
            );
            return Vec::new();
        };
        if members.is_empty() {
            self.fault(pointer, "no policy is named: without one, nothing would be tested");
        }
        let mut outcomes = Vec::with_capacity(members.len());
        for (title, wanted) in members {
            let pointer = format!("{pointer}/{}", title.replace('~', "~0").replace('/', "~1"));
            let by = |same: &dyn Fn(&Policy) -> bool| -> Vec<&Rc<Policy>> {
                policies.iter().filter(|policy| same(policy)).collect()
            };
            let mut found = by(&|policy| policy.label == *title);
            if found.is_empty() {
                found = by(&|policy| policy.title == *title);
            }
            let expected = self.expected(wanted, &pointer, spans);
            match (found.as_slice(), expected) {
                ([], _) => {
                    let known =
                        policies.iter().flat_map(|policy| [policy.label.as_str(), policy.title.as_str()]);
                    self.unknown(&pointer, "policy", title, known);
                }
                ([one], Some(expected)) => outcomes.push((Rc::clone(one), expected)),
                ([_], None) => {}
                (several, _) => self.fault(&pointer, &ambiguous(title, several)),
            }
        }
        outcomes
    }

    fn expected(&mut self, wanted: &Json, pointer: &str, spans: usize) -> Option<Vec<Expected>> {
        let one = |json: &Json| match json {
            Json::Bool(true) => Some(Expected::True),
            Json::Bool(false) => Some(Expected::False),
            Json::Text(text) => Expected::ALL.into_iter().find(|known| known.as_str() == text),
            _ => None,
        };
        let expected = match wanted {
            Json::List(list) => list.iter().map(one).collect::<Option<Vec<_>>>(),
            single => one(single).map(|expected| vec![expected; spans]),
        };
        match expected {
            None => self.fault(pointer, "expected `true`, `false`, `error`, or a list of these"),
            Some(expected) if expected.len() == spans => return Some(expected),
            Some(expected) => {
                let (spans, outcomes) = (counted(spans, "span"), counted(expected.len(), "outcome"));
                self.fault(pointer, &format!("the test has {spans}, and here are {outcomes}"));
            }
        }
        None
    }
}

/// Which policies a test may mean, and what can be done.
fn ambiguous(title: &str, policies: &[&Rc<Policy>]) -> String {
    let labels: BTreeSet<&str> = policies.iter().map(|policy| policy.label.as_str()).collect();
    if labels.len() == 1 {
        return format!("several policies are called `{title}`: to test one of them, give it another title");
    }
    let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    format!("several roles have a policy `{title}`: write {}", labels.join(" or "))
}
