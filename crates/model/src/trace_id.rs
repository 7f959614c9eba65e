//! Notations of trace ids: logs, headers and tools write the same id in several ways.

/// Maximum length of a trace id. Longer texts name no trace, because cursors and lists of ids must hold them.
pub const TRACE_ID_BYTES_MAX: usize = 256;

/// Number of hexadecimal digits of 128-bit and 64-bit ids.
const WIDTHS: [usize; 2] = [32, 16];

/// Maximum number of digits to which a stored id may be padded with leading zeros. That results in at most 31 further
/// notations in either case, all in one statement.
const PADDED_DIGITS_MAX: usize = 32;

/// Positions of a UUID's hyphens, as numbers of preceding digits.
const UUID_HYPHENS: [usize; 4] = [8, 12, 16, 20];

/// The ids under which the trace named by a text may be stored: the text itself first, then the same number in the
/// notations that tables contain.
///
/// A text is parsed as a hexadecimal number, in upper or lower case, with or without hyphens, with any number of
/// leading zeros up to 32 digits, surrounded by blanks, or within a W3C `traceparent`. Any other text is one id, with
/// and without its blanks. Conditions of filters and policies never use notations; they compare the value as given.
///
/// Notations grant no access: for whichever id is found, policies decide about its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceIdNotations(Vec<String>);

impl TraceIdNotations {
    /// Returns the notations of an id as written by a caller.
    pub fn of(text: &str) -> Self {
        let mut notations = Self(Vec::new());
        notations.add(text.to_owned());
        let trimmed = text.trim();
        notations.add(trimmed.to_owned());
        let id = id_of_traceparent(trimmed).unwrap_or(trimmed);
        let digits = id.replace('-', "").to_ascii_lowercase();
        let number = digits.trim_start_matches('0');
        if number.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return notations;
        }
        let padded: Vec<String> = WIDTHS
            .into_iter()
            .chain([digits.len(), number.len()])
            .chain(number.len()..=PADDED_DIGITS_MAX)
            .filter(|width| (number.len()..=TRACE_ID_BYTES_MAX).contains(width))
            .map(|width| format!("{number:0>width$}"))
            .collect();
        let uuid = padded.first().filter(|digits| digits.len() == WIDTHS[0]).map(|digits| as_uuid(digits));
        // The common widths and the UUID come first: if several such traces exist, the first notation is preferred.
        let (common, others) = padded.split_at_checked(WIDTHS.len() + 2).unwrap_or((&padded, &[]));
        for notation in common.iter().cloned().chain(uuid).chain(others.iter().cloned()) {
            let upper = notation.to_ascii_uppercase();
            notations.add(notation);
            notations.add(upper);
        }
        notations
    }

    /// The id under which the audit log names the trace of a request: as written where tables contain such notations, otherwise
    /// in 32 digits. So the notations of any other spelling contain it, and a search in the log by any of them finds it.
    pub fn recorded(text: &str) -> String {
        let trimmed = text.trim();
        let id = id_of_traceparent(trimmed).unwrap_or(trimmed);
        let digits = id.replace('-', "").to_ascii_lowercase();
        let plain = format!("{:0>width$}", digits.trim_start_matches('0'), width = WIDTHS[0]);
        let notations = Self::of(&plain).0;
        let is_written_otherwise = notations.len() > 1 && !notations.iter().any(|notation| notation == id);
        if is_written_otherwise { plain } else { id.to_owned() }
    }

    /// Returns only the given id, which is known to be in its stored form.
    pub fn exactly(id: &str) -> Self {
        Self(vec![id.to_owned()])
    }

    fn add(&mut self, id: String) {
        if is_trace_id(&id) && !self.0.contains(&id) {
            self.0.push(id);
        }
    }

    /// Returns the ids in order of preference; empty if the text cannot name a trace.
    pub fn ids(&self) -> &[String] {
        &self.0
    }

    /// Returns the position of the best match among found ids: the text itself, otherwise the first in the order of
    /// notations.
    pub fn best<'a>(&self, found: impl IntoIterator<Item = &'a str>) -> Option<usize> {
        let rank = |id: &str| self.0.iter().position(|known| known == id);
        let ranked = found.into_iter().enumerate().filter_map(|(index, id)| Some((rank(id)?, index)));
        ranked.min().map(|(_, index)| index)
    }
}

/// Whether the text can be the id of a trace. Ids of other systems than OpenTelemetry are allowed.
fn is_trace_id(text: &str) -> bool {
    (1..=TRACE_ID_BYTES_MAX).contains(&text.len()) && !text.bytes().all(|byte| byte == b'0')
}

/// Returns the trace id within a `traceparent` of this or a later version, with or without the header's name.
fn id_of_traceparent(text: &str) -> Option<&str> {
    const NAME: &str = "traceparent";
    let value = match text.split_at_checked(NAME.len()) {
        Some((name, rest)) if name.eq_ignore_ascii_case(NAME) => rest.trim_start().strip_prefix(':')?.trim(),
        _ => text,
    };
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let mut parts = value.split('-');
    let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let is_version = hex(version, 2) && !version.eq_ignore_ascii_case("ff");
    let more = version != "00" || parts.next().is_none();
    (is_version && hex(trace, 32) && hex(span, 16) && hex(flags, 2) && more).then_some(trace)
}

fn as_uuid(digits: &str) -> String {
    let mut uuid = String::with_capacity(digits.len() + UUID_HYPHENS.len());
    for (index, digit) in digits.chars().enumerate() {
        if UUID_HYPHENS.contains(&index) {
            uuid.push('-');
        }
        uuid.push(digit);
    }
    uuid
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finds(asked: &str, stored: &str) -> bool {
        TraceIdNotations::of(asked).ids().iter().any(|id| id == stored)
    }

    /// Returns an id in every notation that callers use.
    fn written(number: u128) -> Vec<String> {
        let plain = format!("{number:032x}");
        let uuid = as_uuid(&plain);
        let mut written = vec![
            format!("{number:x}"),
            format!("{number:016x}"),
            format!("{number:048x}"),
            format!("{number:040x}").replace('a', "A"),
            format!("{number:x}").replace("3", "3-").replace('b', "B"),
            format!("00-{plain}-b7ad6b7169203331-01"),
            format!("01-{plain}-b7ad6b7169203331-01-of-a-later-version"),
            format!("traceparent: 00-{plain}-b7ad6b7169203331-00"),
            uuid,
            plain,
        ];
        written.extend(written.clone().iter().map(|text| text.to_uppercase()));
        written.extend(written.clone().iter().map(|text| format!(" \t{text}\u{a0}\n")));
        written
    }

    /// Returns an id in every notation that tables contain.
    fn stored(number: u128) -> Vec<String> {
        let plain = format!("{number:032x}");
        let mut stored = vec![as_uuid(&plain), plain];
        let bare = format!("{number:x}");
        stored.extend((bare.len()..=32).map(|width| format!("{bare:0>width$}")));
        stored.extend(stored.clone().iter().map(|text| text.to_uppercase()));
        stored
    }

    proptest! {
        #[test]
        fn all_notations_of_an_id_find_each_other(number: u128, other: u128, zeros in 0..128_u32) {
            let number = (number >> zeros).max(1);
            for asked in written(number) {
                let notations = TraceIdNotations::of(&asked);
                prop_assert_eq!(notations.ids().first(), Some(&asked), "the text itself comes first");
                prop_assert!(notations.ids().len() <= 72, "{:?}", notations);
                let recorded = TraceIdNotations::recorded(&asked);
                for other in written(number) {
                    prop_assert!(TraceIdNotations::of(&other).ids().contains(&recorded), "{:?} of {:?}", recorded, other);
                }
                for stored in stored(number) {
                    prop_assert!(notations.ids().contains(&stored), "{:?} does not find {:?}", asked, stored);
                }
                if other != number {
                    prop_assert!(!stored(other).iter().any(|stored| notations.ids().contains(stored)));
                }
            }
        }
    }

    #[test]
    fn ids_are_recorded_as_written_where_tables_contain_such() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        for text in [id, &id.to_uppercase(), &id[1..], &as_uuid(id), "order-7", "00", "-", &"f".repeat(40)] {
            assert_eq!(TraceIdNotations::recorded(text), text);
        }
        for text in [
            format!("0000{id}"),
            format!(" {id}\n"),
            format!("00-{id}-b7ad6b7169203331-01"),
            id.replace("6", "6-"),
        ] {
            assert_eq!(TraceIdNotations::recorded(&text), id, "{text}");
        }
        assert_eq!(TraceIdNotations::recorded(" order-7 "), "order-7");
        assert_eq!(TraceIdNotations::recorded("AB-1"), "00000000000000000000000000000ab1");
        assert_eq!(
            TraceIdNotations::recorded(&format!("0{}-A", "f".repeat(40))),
            format!("{}a", "f".repeat(40))
        );
    }

    #[test]
    fn leading_zeros_do_not_matter() {
        for (stored, bare) in [("000abc", "abc"), ("00000abcdef012345678", "abcdef012345678"), ("7", "7")] {
            for width in bare.len()..=40 {
                let asked = format!("{bare:0>width$}");
                assert!(finds(&asked, stored), "{asked} does not find {stored}");
                assert!(finds(&asked.to_uppercase(), stored), "{asked} in upper case does not find {stored}");
            }
        }
        // The number of zeros in the request is one more notation, also beyond 32 digits.
        assert!(finds(&format!("{:0>40}", "ABC"), &format!("{:0>40}", "abc")));
    }

    #[test]
    fn ids_of_other_systems_are_unchanged() {
        for id in ["order-7", "Trace_1", "x", "é", "00-xyz-b7ad6b7169203331-01", "a b"] {
            assert_eq!(TraceIdNotations::of(id).ids(), [id]);
        }
        assert_eq!(TraceIdNotations::of(" order-7 ").ids(), [" order-7 ", "order-7"]);
    }

    #[test]
    fn names_no_trace() {
        let zeros = "0".repeat(32);
        let blanks = format!(" {zeros} ");
        for text in ["", "0", &zeros, &"g".repeat(300), &"0".repeat(300)] {
            assert_eq!(TraceIdNotations::of(text).ids(), [""; 0]);
        }
        // Each is only its own notation, and does not match a trace whose id is zero.
        for text in [&*blanks, "-", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(TraceIdNotations::of(text).ids(), [text]);
        }
        // A text longer than the maximum may still contain an id.
        assert!(finds(&format!("{}7", "0".repeat(300)), "7"));
        assert!(finds(&format!("{}7{}", " ".repeat(300), " ".repeat(300)), "7"));
    }

    #[test]
    fn malformed_traceparents_find_no_trace() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        for wrong in [
            format!("ff-{id}-b7ad6b7169203331-01"),
            format!("00-{id}-b7ad6b7169203331-01-more"),
            format!("00-{id}-b7ad6b7169203331"),
            format!("traceparent 00-{id}-b7ad6b7169203331-01"),
        ] {
            assert!(!finds(&wrong, id), "{wrong}");
        }
    }

    #[test]
    fn the_exact_text_is_preferred() {
        let notations = TraceIdNotations::of("AB");
        let lower = "000000000000000000000000000000ab";
        assert_eq!(notations.best([lower, "AB"]), Some(1));
        assert_eq!(notations.best(["ab", lower]), Some(1));
        assert_eq!(notations.best(["other"]), None);
    }
}
