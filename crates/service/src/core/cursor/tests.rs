use tracewarden_model::ambient::EntropyError;
use tracewarden_model::{Decimal, FieldRef, Scalar};

use super::*;

struct FixedEntropy;

impl Entropy for FixedEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        bytes.fill(7);
        Ok(())
    }
}

fn cursor() -> Cursor {
    Cursor {
        fingerprint: Fingerprint { filter: [1; 32], query: [2; 32] },
        window: Window::new(Timestamp::from_nanos(-5), Timestamp::from_nanos(9)).unwrap(),
        position: Position { tier: 1, key: i64::MIN, trace_id: "ab\"ü".to_owned() },
    }
}

fn key() -> CursorKey {
    CursorKey::new(&[9; 32]).unwrap()
}

fn condition(name: &str, value: Scalar) -> RawCondition {
    RawCondition {
        field: FieldRef::column(name),
        field_member: "name",
        op: "eq".to_owned(),
        value: Some(value),
        values: None,
    }
}

#[test]
fn only_sealed_cursors_are_accepted() {
    let text = key().seal(&cursor(), &FixedEntropy).unwrap();
    assert_eq!(key().open(&text).unwrap(), cursor());
    let other_key = CursorKey::new(&[8; 32]).unwrap();
    assert_eq!(other_key.open(&text).unwrap_err().code(), "invalid_cursor");
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(changed == text || key().open(&changed).is_err(), "byte {at}");
    }
    for other in ["", "A", "!!!", &text[..text.len() - 4], &"A".repeat(5_000)] {
        assert_eq!(key().open(other).unwrap_err().code(), "invalid_cursor");
    }
}

#[test]
fn another_filter_is_reported_as_a_mismatch() {
    let fingerprint = cursor().fingerprint;
    assert!(cursor().check(&fingerprint).is_ok());
    let other = |change: fn(&mut Fingerprint)| {
        let mut fingerprint = fingerprint;
        change(&mut fingerprint);
        cursor().check(&fingerprint).unwrap_err().code()
    };
    assert_eq!(other(|fingerprint| fingerprint.filter = [0; 32]), "cursor_filter_mismatch");
    assert_eq!(other(|fingerprint| fingerprint.query = [0; 32]), "invalid_cursor");
}

#[test]
fn equivalent_filters_have_the_same_digest() {
    let text = |text: &str| Scalar::String(text.to_owned());
    let number = |text: &str| Scalar::Number(Decimal::parse(text).unwrap());
    let digest = |conditions: &[RawCondition]| filter_digest(&Filter::of(conditions.to_vec()));
    let (a, b) = (condition("a", text("x")), condition("b", number("1")));
    let same = digest(&[a.clone(), b.clone()]);
    assert_eq!(digest(&[b.clone(), a.clone()]), same, "order");
    for one in ["1.0", "10e-1", "0.1E1"] {
        assert_eq!(digest(&[a.clone(), condition("b", number(one))]), same, "1 and {one}");
    }
    let by_ref = RawCondition { field_member: "ref", ..a.clone() };
    assert_eq!(digest(&[by_ref, b.clone()]), same, "ref and name");
    let filter = |conditions: &[&RawCondition], groups: &[&[&RawCondition]], none: &[&RawCondition]| {
        let list = |sent: &[&RawCondition]| sent.iter().map(|sent| (*sent).clone()).collect::<Vec<_>>();
        let same_span = groups.iter().map(|group| list(group)).collect();
        filter_digest(&Filter { conditions: list(conditions), same_span, none: list(none) })
    };
    let parts = filter(&[], &[&[&a, &b], &[&b]], &[&a, &b]);
    assert_eq!(filter(&[], &[&[&b], &[&b, &a]], &[&b, &a]), parts, "order of groups and of exclusions");
    let mut different = vec![
        digest(&[]),
        digest(std::slice::from_ref(&a)),
        digest(&[a.clone(), a.clone()]),
        digest(&[condition("a", text("y"))]),
        digest(&[condition("a", Scalar::Bool(true))]),
        digest(&[condition("a", text("true"))]),
        digest(&[condition("a", number("1"))]),
        digest(&[condition("a", text("1"))]),
        digest(&[condition("a", number("1.0000000000000000001"))]),
        digest(&[condition("a", number("18446744073709551615"))]),
        digest(&[condition("a", number("18446744073709551616"))]),
        digest(&[RawCondition { field: FieldRef::key("m", "a"), ..a.clone() }]),
        digest(&[RawCondition { op: "ne".to_owned(), ..a.clone() }]),
        digest(&[RawCondition { value: None, values: Some(vec![text("x")]), ..a.clone() }]),
        digest(&[RawCondition { value: None, values: Some(vec![]), ..a.clone() }]),
        digest(&[RawCondition { value: None, ..a.clone() }]),
        same,
        parts,
        filter(&[], &[&[&a, &b]], &[]),
        filter(&[], &[&[&a], &[&b]], &[]),
        filter(&[], &[], &[&a, &b]),
        filter(&[&a], &[], &[&b]),
    ];
    let count = different.len();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), count);
}
