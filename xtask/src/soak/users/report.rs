//! Formats the final report, as in `docs/soak.md`.

use std::collections::BTreeMap;

use super::records::Count;
use super::shared::Kind;

/// Formats a table of the requests by kind. It sorts their times.
pub fn kinds(kinds: &mut BTreeMap<&'static str, Kind>) -> String {
    let mut text = String::from(
        "| what | answered | checked | p50 | p99 | p99 while a program was down | refused then | cut off \
         then |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (name, kind) in kinds {
        kind.calm.sort_unstable();
        kind.disturbed.sort_unstable();
        let answered = kind.calm.len() + kind.disturbed.len();
        let (half, most, away) =
            (percentile(&kind.calm, 50), percentile(&kind.calm, 99), percentile(&kind.disturbed, 99));
        text.push_str(&format!(
            "| {name} | {} | {} | {half} | {most} | {away} | {} | {} |\n",
            grouped(answered as u64),
            grouped(kind.checked),
            kind.refused,
            kind.cut_off
        ));
    }
    text
}

/// Formats a table of the audit records by action.
pub fn records(counts: &BTreeMap<String, Count>) -> String {
    let mut text = String::from(
        "| record | in all | of answers that must leave one | of errors | of requests cut off | requests cut off |\n\
         |---|---|---|---|---|---|\n",
    );
    for (action, count) in counts {
        let Count { records, answered, refused, cut_off, sent } = count;
        let (records, answered) = (grouped(*records), grouped(*answered));
        text.push_str(&format!("| `{action}` | {records} | {answered} | {refused} | {cut_off} | {sent} |\n"));
    }
    text
}

/// Formats a percentile of sorted microseconds as milliseconds.
fn percentile(sorted: &[u32], percent: usize) -> String {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    match sorted.get(place) {
        None => "-".to_owned(),
        Some(micros) if *micros < 10_000 => format!("{:.1} ms", f64::from(*micros) / 1_000.0),
        Some(micros) => format!("{} ms", grouped(u64::from(*micros / 1_000))),
    }
}

/// Formats 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let times: Vec<u32> = (1..=100).map(|milliseconds| milliseconds * 1_000).collect();
        assert_eq!(percentile(&times, 50), "51 ms");
        assert_eq!(percentile(&times, 99), "100 ms");
        assert_eq!(percentile(&[1_500], 99), "1.5 ms");
        assert_eq!(percentile(&[], 99), "-");
    }
}
