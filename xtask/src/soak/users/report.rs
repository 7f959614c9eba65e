//! Formats the final report, as in `docs/internals/soak.md`.

use std::collections::BTreeMap;

use super::records::RecordCounts;
use super::shared::RequestStats;

/// Formats a table of the requests by kind. It sorts their times.
pub fn kinds(kinds: &mut BTreeMap<&'static str, RequestStats>) -> String {
    let mut text = String::from(
        "| what | answered | checked | p50 | p99 | p99 while a program was down | refused then | cut off \
         then |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (name, kind) in kinds {
        kind.without_fault.sort_unstable();
        kind.during_fault.sort_unstable();
        let answered = kind.without_fault.len() + kind.during_fault.len();
        let (median, p99, p99_during_fault) = (
            percentile(&kind.without_fault, 50),
            percentile(&kind.without_fault, 99),
            percentile(&kind.during_fault, 99),
        );
        text.push_str(&format!(
            "| {name} | {} | {} | {median} | {p99} | {p99_during_fault} | {} | {} |\n",
            grouped(answered as u64),
            grouped(kind.checked),
            kind.refused,
            kind.cut_off
        ));
    }
    text
}

/// Formats a table of the audit records by action.
pub fn records(counts: &BTreeMap<String, RecordCounts>) -> String {
    let mut text = String::from(
        "| record | in all | of answers that must leave one | of errors | of requests cut off | requests cut off |\n\
         |---|---|---|---|---|---|\n",
    );
    for (action, count) in counts {
        let RecordCounts { records, answered, refused, cut_off, sent } = count;
        let (records, answered) = (grouped(*records), grouped(*answered));
        text.push_str(&format!("| `{action}` | {records} | {answered} | {refused} | {cut_off} | {sent} |\n"));
    }
    text
}

/// Formats a percentile of sorted microseconds as milliseconds.
fn percentile(sorted: &[u32], percent: usize) -> String {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    match sorted.get(index) {
        None => "-".to_owned(),
        Some(micros) if *micros < 10_000 => format!("{:.1} ms", f64::from(*micros) / 1_000.0),
        Some(micros) => format!("{} ms", grouped(u64::from(*micros / 1_000))),
    }
}

/// Formats 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let times: Vec<u32> = (1..=100).map(|milliseconds| milliseconds * 1_000).collect();
        assert_eq!(percentile(&times, 50), "51 ms");
        assert_eq!(percentile(&times, 99), "100 ms");
        assert_eq!(percentile(&[1_500], 99), "1.5 ms");
        assert_eq!(percentile(&[], 99), "-");
    }
}
