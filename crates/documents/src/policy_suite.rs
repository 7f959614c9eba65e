//! The tests of a file about policies, with all names resolved.

use std::collections::BTreeSet;
use std::rc::Rc;

use tracewarden_model::nearest::nearest;
use tracewarden_model::{AccessModel, Caller};
use tracewarden_service::suite::{Outcome, Suite, SuitePolicy, Test};
use tracewarden_service::{Diagnostic, Policy, Span, check_expression};

use crate::json::Json;
use crate::json_pointer::escape;
use crate::policy_file::{FileTest, MemberFault, PolicyFile, duplicate_indexes};
use crate::spans::spans;

/// The built-in role, which a file need not define. By itself it grants access to no trace.
const ADMIN_ROLE: &str = "admin";

/// A fault that prevents running the tests.
#[derive(Debug)]
pub enum SuiteFault {
    /// A fault in a member of the file.
    Member(MemberFault),
    /// A policy that is not valid.
    Policy {
        /// JSON Pointer to the policy.
        pointer: String,
        /// Label as in [`SuitePolicy`].
        label: String,
        /// The CEL expression.
        expression: String,
        /// The errors.
        diagnostics: Vec<Diagnostic>,
    },
}

/// Maximum number of users, of traces and of tests in a file, each.
const MAX_ITEMS: usize = 2_000;
/// Maximum number of spans in all traces and tests of a file.
const MAX_SPANS: usize = 20_000;

/// Resolves the policies and tests of a file for an access model.
///
/// # Errors
/// Every fault that prevents running the tests.
pub fn resolve(file: &PolicyFile, model: &AccessModel) -> Result<Suite, Vec<SuiteFault>> {
    let mut reader = Reader { model, faults: Vec::new() };
    reader.check_limits(file);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    let policies: Vec<Rc<SuitePolicy>> = file
        .policies()
        .filter_map(|(pointer, role, policy)| reader.policy(pointer, policy, role).map(Rc::new))
        .collect();
    let tests = reader.tests(file, &policies);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    Ok(Suite { model: model.clone(), policies, tests })
}

struct Reader<'a> {
    model: &'a AccessModel,
    faults: Vec<SuiteFault>,
}

impl Reader<'_> {
    fn fault(&mut self, pointer: &str, message: &str) {
        self.faults.push(SuiteFault::Member(MemberFault::new(pointer, message)));
    }

    /// Limits the size of a file, because the service reads such files too and must bound their memory and time.
    fn check_limits(&mut self, file: &PolicyFile) {
        let lists = [("users", file.users.len()), ("traces", file.traces.len()), ("tests", file.tests.len())];
        for (list, found) in lists {
            if found > MAX_ITEMS {
                let message = format!("at most {MAX_ITEMS} {list}, and there are {found}");
                self.fault(&format!("/{list}"), &message);
            }
        }
        let traces = file.traces.iter().map(|trace| trace.spans.len()).enumerate();
        let tests = file.tests.iter().map(|test| test.spans.as_ref().map_or(0, Vec::len)).enumerate();
        let counts = traces.map(|count| ("traces", count)).chain(tests.map(|count| ("tests", count)));
        let found: usize = counts.clone().map(|(_, (_, spans))| spans).sum();
        let mut passed = 0;
        for (list, (at, spans)) in counts {
            passed += spans;
            if passed > MAX_SPANS {
                let message = format!("at most {MAX_SPANS} spans in all, and there are {found}");
                return self.fault(&format!("/{list}/{at}/spans"), &message);
            }
        }
    }

    /// Reports duplicate names.
    fn check_unique<'n>(&mut self, list: &str, member: &str, names: impl Iterator<Item = &'n str> + Clone) {
        for index in duplicate_indexes(names.clone()) {
            let name = names.clone().nth(index).unwrap_or_default();
            self.fault(&format!("/{list}/{index}/{member}"), &format!("`{name}` appears twice"));
        }
    }

    fn report_unknown<'n>(
        &mut self,
        pointer: &str,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let hint = nearest(name, known).first().map(|near| format!("; did you mean `{near}`?"));
        self.fault(pointer, &format!("no {what} `{name}`{}", hint.unwrap_or_default()));
    }

    fn policy(&mut self, pointer: String, policy: &Policy, role: Option<&str>) -> Option<SuitePolicy> {
        let Policy { title, expression, .. } = policy;
        let label = role.map_or_else(|| title.clone(), |role| format!("{role}/{title}"));
        let expression = expression.clone();
        match check_expression(&expression, self.model) {
            Ok(checked) => {
                let (role, title) = (role.map(str::to_owned), title.clone());
                Some(SuitePolicy { role, title, label, pointer, expression, checked })
            }
            Err(diagnostics) => {
                self.faults.push(SuiteFault::Policy { pointer, label, expression, diagnostics });
                None
            }
        }
    }

    fn tests(&mut self, file: &PolicyFile, policies: &[Rc<SuitePolicy>]) -> Vec<Test> {
        if file.tests.is_empty() {
            self.fault("", "there are no `tests`");
        }
        self.check_unique("tests", "name", file.tests.iter().map(|test| test.name.as_str()));
        self.check_unique("traces", "name", file.traces.iter().map(|trace| trace.name.as_str()));
        let mut users: Vec<Caller> = file.users.iter().cloned().map(Caller::from).collect();
        self.check_unique("users", "username", users.iter().map(|user| user.username.as_str()));
        let roles = || file.roles.iter().map(|role| role.name.as_str()).chain([ADMIN_ROLE]);
        for (at, user) in users.iter_mut().enumerate() {
            // Role names are case-insensitive, as in the assignment of a role.
            let stored = |role: &String| roles().find(|known| known.eq_ignore_ascii_case(role));
            for role in user.roles.iter().filter(|role| stored(role).is_none()) {
                self.report_unknown(&format!("/users/{at}/roles"), "role", role, roles());
            }
            user.roles = user.roles.iter().filter_map(stored).map(str::to_owned).collect();
        }
        let mut traces = Vec::with_capacity(file.traces.len());
        for (at, trace) in file.traces.iter().enumerate() {
            let spans = self.spans(&trace.spans, &format!("/traces/{at}/spans"));
            traces.push((trace.name.as_str(), Rc::new(spans)));
        }
        let tests = file.tests.iter().enumerate();
        tests
            .filter_map(|(at, test)| self.test(test, &format!("/tests/{at}"), &users, &traces, policies))
            .collect()
    }

    /// Parses the spans of a trace. Rejects an empty trace: every expectation about each span of it would hold.
    fn spans(&mut self, sent: &[Json], pointer: &str) -> Vec<Span> {
        if sent.is_empty() {
            self.fault(pointer, "a trace needs at least one span, or nothing would be tested");
        }
        spans(sent, self.model, pointer).unwrap_or_else(|errors| {
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
        traces: &[(&str, Rc<Vec<Span>>)],
        policies: &[Rc<SuitePolicy>],
    ) -> Option<Test> {
        let user = users.iter().find(|user| user.username == test.user).cloned();
        if user.is_none() {
            let known = users.iter().map(|user| user.username.as_str());
            self.report_unknown(&format!("{pointer}/user"), "user", &test.user, known);
        }
        let spans = match (&test.trace, &test.spans) {
            (Some(name), None) => {
                let found = traces.iter().find(|(known, _)| known == name).map(|(_, spans)| Rc::clone(spans));
                if found.is_none() {
                    let known = traces.iter().map(|(name, _)| *name);
                    self.report_unknown(&format!("{pointer}/trace"), "trace", name, known);
                }
                found
            }
            (None, Some(sent)) => Some(Rc::new(self.spans(sent, &format!("{pointer}/spans")))),
            _ => {
                self.fault(pointer, "a test needs a `trace` or `spans`");
                None
            }
        };
        if test.visible.is_none() && test.policies.is_none() {
            self.fault(pointer, "a test needs an expectation: `visible` or `policies`");
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
        policies: &[Rc<SuitePolicy>],
    ) -> Vec<(Rc<SuitePolicy>, Vec<Outcome>)> {
        let Json::Object(members) = wanted else {
            let message =
                "expected titles of policies, each with `true`, `false`, `error` or a list of these";
            self.fault(pointer, message);
            return Vec::new();
        };
        if members.is_empty() {
            self.fault(pointer, "no policy is listed, so nothing would be tested");
        }
        let mut outcomes = Vec::with_capacity(members.len());
        for (title, wanted) in members {
            let pointer = format!("{pointer}/{}", escape(title));
            let mut found: Vec<_> = policies.iter().filter(|policy| policy.label == *title).collect();
            if found.is_empty() {
                found = policies.iter().filter(|policy| policy.title == *title).collect();
            }
            let expected = self.expected(wanted, &pointer, spans);
            match (found.as_slice(), expected) {
                ([], _) => {
                    let known =
                        policies.iter().flat_map(|policy| [policy.label.as_str(), policy.title.as_str()]);
                    self.report_unknown(&pointer, "policy", title, known);
                }
                ([one], Some(expected)) => outcomes.push((Rc::clone(one), expected)),
                ([_], None) => {}
                (several, _) => self.fault(&pointer, &ambiguous(title, several)),
            }
        }
        outcomes
    }

    fn expected(&mut self, wanted: &Json, pointer: &str, spans: usize) -> Option<Vec<Outcome>> {
        let one = |json: &Json| match json {
            Json::Bool(true) => Some(Outcome::True),
            Json::Bool(false) => Some(Outcome::False),
            Json::Text(text) => text.parse().ok(),
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
                let (spans, outcomes) =
                    (pluralize(spans as u64, "span"), pluralize(expected.len() as u64, "outcome"));
                self.fault(pointer, &format!("the test has {spans}, but this list has {outcomes}"));
            }
        }
        None
    }
}

/// Returns the message for an ambiguous policy title, with a suggestion.
fn ambiguous(title: &str, policies: &[&Rc<SuitePolicy>]) -> String {
    let labels: BTreeSet<&str> = policies.iter().map(|policy| policy.label.as_str()).collect();
    if labels.len() == 1 {
        return format!("several policies are called `{title}`: to test one of them, give it another title");
    }
    let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    format!("several roles have a policy `{title}`: write {}", labels.join(" or "))
}

/// Formats a count with its noun: "1 span", "2 spans".
pub fn pluralize(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::document::Document;

    /// Returns the faults of a file with this number of users, of traces with one span, and of tests, and with `spans` more spans
    /// in the first test.
    fn faults(users: usize, traces: usize, tests: usize, spans: usize) -> Vec<(String, String)> {
        let many = |count: usize, one: &dyn Fn(usize) -> Value| (0..count).map(one).collect::<Vec<_>>();
        let first = json!({"name": "first", "user": "u0", "spans": vec![json!({}); spans], "visible": false});
        let other = |at: usize| {
            if at == 0 {
                return first.clone();
            }
            json!({"name": format!("test {at}"), "user": "u0", "trace": "t0", "visible": false})
        };
        let file = json!({
            "users": many(users, &|at| json!({"username": format!("u{at}")})),
            "traces": many(traces, &|at| json!({"name": format!("t{at}"), "spans": [{}]})),
            "tests": many(tests, &other),
        });
        let file: PolicyFile = Document::read(&file.to_string()).unwrap().parse().unwrap();
        let pointer_and_message = |fault| match fault {
            SuiteFault::Member(MemberFault { pointer, message }) => (pointer, message),
            SuiteFault::Policy { .. } => panic!("{fault:?}"),
        };
        match resolve(&file, &AccessModel::default()) {
            Ok(suite) => {
                assert_eq!(suite.tests.len(), tests);
                Vec::new()
            }
            Err(faults) => faults.into_iter().map(pointer_and_message).collect(),
        }
    }

    #[test]
    fn users_traces_tests_and_spans_of_a_file_are_limited() {
        assert_eq!(faults(MAX_ITEMS, MAX_ITEMS, MAX_ITEMS, MAX_SPANS - MAX_ITEMS), []);
        let one = |pointer: &str, message: &str| vec![(pointer.to_owned(), message.to_owned())];
        assert_eq!(faults(2_001, 1, 2, 1), one("/users", "at most 2000 users, and there are 2001"));
        assert_eq!(faults(1, 2_001, 2, 1), one("/traces", "at most 2000 traces, and there are 2001"));
        assert_eq!(faults(1, 1, 2_001, 1), one("/tests", "at most 2000 tests, and there are 2001"));
        let spans = "at most 20000 spans in all, and there are 20001";
        assert_eq!(faults(1, 1, 2, 20_000), one("/tests/0/spans", spans));
        assert_eq!(faults(2_001, 2_001, 2_001, 20_000).len(), 4, "all errors are reported");
    }
}
