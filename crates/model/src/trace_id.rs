//! The notations in which a trace id is written: logs, headers and tools write one id in several.

/// Longest trace id. What is longer belongs to no trace: cursors and lists of ids have to hold them.
pub const TRACE_ID_BYTES_MAX: usize = 256;

/// Hexadecimal digits of an id of 128 bits, and of 64.
const WIDTHS: [usize; 2] = [32, 16];

/// An id may be stored with any number of leading zeros up to this many digits. That is at most 31 further notations in
/// either case, all in one statement.
const PADDED_DIGITS_MAX: usize = 32;

/// Hyphens of a UUID stand behind so many digits.
const UUID_HYPHENS: [usize; 4] = [8, 12, 16, 20];

/// The ids under which a trace that is named by a text can be stored: the text itself first, then the same number in the
/// notations that tables hold.
///
/// A text is read as a hexadecimal number, in upper or lower case, with or without hyphens, with any number of leading zeros
/// up to 32 digits, with blanks around it, or within a W3C `traceparent`. Any other text is one id, with and without its
/// blanks. Conditions of filters and policies never use this: there a value is compared as it is.
///
/// It grants nothing: whichever of the ids is found, policies decide about its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceIdNotations(Vec<String>);

impl TraceIdNotations {
    /// The notations of an id, as a caller writes it.
    pub fn of(text: &str) -> Self {
        let mut notations = Self(Vec::new());
        notations.add(text.to_owned());
        let trimmed = text.trim();
        notations.add(trimmed.to_owned());
        let id = of_traceparent(trimmed).unwrap_or(trimmed);
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
        // The common widths and the UUID first: of several such traces, the first notation is preferred.
        let (common, others) = padded.split_at_checked(WIDTHS.len() + 2).unwrap_or((&padded, &[]));
        for notation in common.iter().cloned().chain(uuid).chain(others.iter().cloned()) {
            let upper = notation.to_ascii_uppercase();
            notations.add(notation);
            notations.add(upper);
        }
        notations
    }

    /// An id that is known to be written as it is stored.
    pub fn exactly(id: &str) -> Self {
        Self(vec![id.to_owned()])
    }

    fn add(&mut self, id: String) {
        if is_trace_id(&id) && !self.0.contains(&id) {
            self.0.push(id);
        }
    }

    /// The ids, the one that is preferred first; none where the text cannot name a trace.
    pub fn ids(&self) -> &[String] {
        &self.0
    }

    /// Of found ids the place of the one that is meant: the text itself, or else the first in the order of notations.
    pub fn best<'a>(&self, found: impl IntoIterator<Item = &'a str>) -> Option<usize> {
        let rank = |id: &str| self.0.iter().position(|known| known == id);
        let ranked = found.into_iter().enumerate().filter_map(|(place, id)| Some((rank(id)?, place)));
        ranked.min().map(|(_, place)| place)
    }
}

/// Whether text may be the id of a trace at all; ids of other systems than OpenTelemetry are welcome.
fn is_trace_id(text: &str) -> bool {
    (1..=TRACE_ID_BYTES_MAX).contains(&text.len()) && !text.bytes().all(|byte| byte == b'0')
}

/// The trace id within a `traceparent`, of this version or a later one, with or without the header's name.
fn of_traceparent(text: &str) -> Option<&str> {
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
    for (place, digit) in digits.chars().enumerate() {
        if UUID_HYPHENS.contains(&place) {
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

    /// An id in every notation that it is asked in.
    fn written(number: u128) -> Vec<String> {
        let plain = format!("{number:032x}");
        let uuid = as_uuid(&plain);
        let mut written = vec![
            format!("{number:x}"),
            format!("{number:016x}"),
            format!("{number:048x}"),
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

    /// An id in every notation that tables hold.
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
        fn every_notation_finds_every_other(number: u128, other: u128, zeros in 0..128_u32) {
            let number = (number >> zeros).max(1);
            for asked in written(number) {
                let notations = TraceIdNotations::of(&asked);
                prop_assert_eq!(notations.ids().first(), Some(&asked), "the text itself comes first");
                prop_assert!(notations.ids().len() <= 72, "{:?}", notations);
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
    fn leading_zeros_do_not_matter() {
        for (stored, bare) in [("000abc", "abc"), ("00000abcdef012345678", "abcdef012345678"), ("7", "7")] {
            for width in bare.len()..=40 {
                let asked = format!("{bare:0>width$}");
                assert!(finds(&asked, stored), "{asked} does not find {stored}");
                assert!(finds(&asked.to_uppercase(), stored), "{asked} in upper case does not find {stored}");
            }
        }
        // As many as the request has are one more notation, also beyond 32 digits.
        assert!(finds(&format!("{:0>40}", "ABC"), &format!("{:0>40}", "abc")));
    }

    #[test]
    fn ids_of_other_systems_stand_for_themselves() {
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
        // They stand for themselves, and not for a trace whose id is zero.
        for text in [&*blanks, "-", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(TraceIdNotations::of(text).ids(), [text]);
        }
        // What is too long for an id may still hold one.
        assert!(finds(&format!("{}7", "0".repeat(300)), "7"));
        assert!(finds(&format!("{}7{}", " ".repeat(300), " ".repeat(300)), "7"));
    }

    #[test]
    fn a_traceparent_is_no_longer_id() {
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
    fn the_text_itself_is_preferred() {
        let notations = TraceIdNotations::of("AB");
        let lower = "000000000000000000000000000000ab";
        assert_eq!(notations.best([lower, "AB"]), Some(1));
        assert_eq!(notations.best(["ab", lower]), Some(1));
        assert_eq!(notations.best(["other"]), None);
    }
}
