//! Clients that evaluate policies on their own spans cannot exhaust the CPU.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::support::{caller, model};
use rustix::time::{ClockId, clock_gettime};
use tracewarden_policy::{FieldValue, Span, explain};

/// CPU time of this process: nextest runs each test in a process of its own.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn span(nick: &str, names: Vec<String>) -> Span {
    Span::from([
        ("ServiceName".to_owned(), FieldValue::text("checkout")),
        ("Nick".to_owned(), FieldValue::text(nick)),
        ("Events.Name".to_owned(), FieldValue::texts(names)),
        ("Sampled".to_owned(), FieldValue::Bool(true)),
    ])
}

/// Returns a string of letters without a period.
fn disorder(length: usize) -> String {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { 'x' } else { 'y' }
    };
    (0..length).map(|_| letter()).collect()
}

/// A policy and spans whose number or length grows with the argument.
type Shape = Box<dyn Fn(usize) -> (String, Vec<Span>)>;

/// Requests that grow with a number, each costly in a different way.
fn shapes() -> Vec<(&'static str, Shape)> {
    let large = "(?:[^a]{20}|[ab]{400})$";
    let names = |count: usize| (0..count).map(|number| format!("y{number}")).collect::<Vec<_>>();
    vec![
        (
            "a large pattern on many spans",
            Box::new(move |n| (format!("Nick.matches(\"{large}\")"), vec![span("x", vec![]); n])),
        ),
        (
            "a large pattern on many elements",
            Box::new(move |n| {
                (format!("Events.Name.exists(v, v.matches(\"{large}\"))"), vec![span("", names(n))])
            }),
        ),
        (
            "a large pattern on a long string",
            // The states of the engine have no period, so its cache never helps.
            Box::new(|n| ("Nick.matches(\"x[xy]{200}[zw]\")".to_owned(), vec![span(&disorder(n), vec![])])),
        ),
        (
            "a pattern of Unicode on a long string",
            Box::new(|n| {
                ("Nick.matches(\"é.{25}z\")".to_owned(), vec![span(&"éa\u{1F600}".repeat(n), vec![])])
            }),
        ),
        (
            "many large patterns",
            Box::new(move |n| {
                let one = |at| format!("Nick.matches(\"[ab]{{800}}x{at}\")");
                (
                    (0..n.min(100)).map(one).collect::<Vec<_>>().join(" || "),
                    vec![span("x", vec![]); 1 + n / 100],
                )
            }),
        ),
        (
            "elements in a long string",
            Box::new(move |n| {
                let parts = vec!["Nick.contains(v)"; 20].join(" || ");
                let names = (0..500).map(|at| format!("{}ac", "b".repeat(at % 60))).collect();
                (format!("Events.Name.exists(v, {parts})"), vec![span(&"ab".repeat(n), names)])
            }),
        ),
        (
            "macros within each other",
            Box::new(move |n| {
                let policy = "Events.Name.exists(a, Events.Name.exists(b, a == b && b == \"no\"))";
                (policy.to_owned(), vec![span("", names(n))])
            }),
        ),
        (
            "a deep policy",
            Box::new(move |n| {
                let nested = (0..40).fold("Sampled".to_owned(), |inner, at| match at % 2 {
                    0 => format!("({inner} && Sampled)"),
                    _ => format!("({inner} || !Sampled)"),
                });
                (nested, vec![span("", vec![]); n])
            }),
        ),
        (
            "a long chain",
            Box::new(move |n| {
                let chain = vec!["ServiceName == \"cart\""; 200].join(" || ");
                (chain, vec![span("", vec![]); n])
            }),
        ),
        (
            "errors of long strings",
            Box::new(|n| {
                let bytes = [b"\xff".to_vec(), b"ab".repeat(n)].concat();
                let mut span = span("", Vec::new());
                span.insert("Nick".to_owned(), FieldValue::String(bytes));
                (vec!["Nick < Nick"; 50].join(" && "), vec![span])
            }),
        ),
    ]
}

#[test]
fn accepted_evaluations_take_seconds_at_most() {
    for (name, shape) in shapes() {
        let mut size = 256;
        let mut refused = false;
        while size <= 1 << 23 && !refused {
            let (policy, spans) = shape(size);
            let before = cpu_time();
            let explained = explain(&policy, &model(), &caller(), &spans, &AtomicBool::new(false));
            let took = cpu_time() - before;
            if let Err(diagnostics) = &explained {
                assert_eq!(diagnostics[0].code, "too_large", "{name}: {diagnostics:?}");
                refused = true;
            }
            println!("{name}, {size}: {took:?}{}", if refused { ", refused" } else { "" });
            // Without a limit the largest request of each shape takes minutes.
            assert!(took < Duration::from_secs(6), "{name}, {size}: {took:?}");
            size *= 2;
        }
        assert!(refused, "{name}: never refused");
    }
}

#[test]
fn typical_evaluations_are_accepted() {
    let names: Vec<String> = (0..20).map(|at| format!("exception in handler {at}")).collect();
    let spans = vec![span(&"a stack trace\n".repeat(60), names); 1_000];
    for policy in [
        "ServiceName == \"checkout\" && \"dev\" in user.roles",
        "Nick.matches(\"^v[0-9]+\\\\.[0-9]+$\") || Nick.contains(\"stack\")",
        "Events.Name.exists(v, v.startsWith(\"exception\") && v != \"x\") || Events.Name.all(v, v in user.roles)",
        "Events.Name.exists(v, v.matches(\"handler 1[0-9]$\"))",
    ] {
        let explained = explain(policy, &model(), &caller(), &spans, &AtomicBool::new(false));
        assert!(explained.is_ok(), "{policy}: {explained:?}");
    }
}

#[test]
fn abandoned_evaluations_stop() {
    let policy = vec!["ServiceName == \"cart\""; 200].join(" || ");
    let spans = vec![span("", Vec::new()); 500];
    let cost = |stopped: bool| {
        let before = cpu_time();
        let explained = explain(&policy, &model(), &caller(), &spans, &AtomicBool::new(stopped));
        (explained.is_ok(), cpu_time() - before)
    };
    let (whole, stopped) = (cost(false), cost(true));
    assert!(whole.0 && !stopped.0);
    assert!(stopped.1 * 2 < whole.1, "{stopped:?} {whole:?}");
}
