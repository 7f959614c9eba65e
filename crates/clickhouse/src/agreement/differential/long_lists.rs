//! Macros over lists that are long enough for a look-up in sets.

use tracewarden_model::{AttributeValue, Caller, LogicalType};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{GeneratedPolicy, Generator, texts};

use super::generated_model::MODEL;
use super::lowered_policy::{LoweredPolicy, Verdict, by_reference, by_store};
use super::store::{connect, load};

const SPANS: usize = 30;
/// Number of policies of one statement.
const BATCH: usize = 8;

/// Returns strings that spans have, their parts, and many that no span has.
fn long_list(but: Option<&str>) -> Vec<String> {
    let own = texts().filter(|text| !text.is_empty() && Some(*text) != but).map(str::to_owned);
    own.chain((0..50).map(|number| format!("{}{number}", "x".repeat(number % 7)))).collect()
}

#[tokio::test]
async fn clickhouse_and_reference_agree_on_long_lists() {
    let mut generator = Generator::new(3);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let spans: Vec<_> = (0..SPANS).map(|_| generator.span()).collect();
    load(&local, &spans).await;
    let caller = |list: Vec<String>| Caller {
        username: "a".to_owned(),
        attributes: [("list".to_owned(), AttributeValue::Strings(list))].into(),
        ..Caller::default()
    };
    // One list with the empty string, which is a prefix of every string; and one without one of the common strings.
    let mut with_empty = long_list(None);
    with_empty.push(String::new());
    let callers = [caller(long_list(Some("a"))), caller(with_empty)];
    let mut lowered = Vec::new();
    for field in MODEL.fields.iter().filter(|field| field.policy) {
        let name = &field.field;
        let bodies: Vec<String> = match field.logical {
            LogicalType::String => {
                let call = |function| format!("{name}.{function}(x)");
                vec![call("startsWith"), call("endsWith"), call("contains"), format!("{name} == x")]
            }
            LogicalType::StringArray => vec![
                format!("x in {name}"),
                format!("{name}.exists(e, e.startsWith(x))"),
                format!("{name}.all(e, e != x)"),
            ],
            _ => continue,
        };
        for (at, body) in bodies.into_iter().enumerate() {
            let text = match lowered.len() % 2 {
                0 => format!("user.attributes.list.exists(x, {body})"),
                _ => format!("user.attributes.list.all(x, !({body}))"),
            };
            let caller = callers[at % callers.len()].clone();
            let written = GeneratedPolicy { text: text.clone(), operations: Vec::new(), standalone: false };
            lowered.push(LoweredPolicy::new(written, caller).unwrap_or_else(|| panic!("refused: {text}")));
        }
    }
    let (mut trues, mut falses, mut errors) = (0, 0, 0);
    for batch in lowered.chunks(BATCH) {
        let by_store = by_store(&store, batch, SPANS).await;
        for ((one, store), reference) in batch.iter().zip(by_store).zip(by_reference(batch, &spans)) {
            for (at, (store, reference)) in store.into_iter().zip(reference).enumerate() {
                assert_eq!(store, reference, "{}", one.describe_disagreement(&spans[at], store, reference));
                match reference {
                    Verdict::True => trues += 1,
                    Verdict::False => falses += 1,
                    Verdict::Error => errors += 1,
                }
            }
        }
    }
    println!("{} policies: {trues} true, {falses} false, {errors} errors", lowered.len());
    assert!(trues > 500 && falses > 500 && errors > 200, "{trues} {falses} {errors}");
}
