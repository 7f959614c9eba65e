//! Formats durations and times for agents.

use std::fmt::{self, Display, Formatter};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tracewarden_model::Timestamp;

// A duration in nanoseconds: milliseconds in JSON, the largest unit in text. A doc comment would be in each schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema)]
pub(crate) struct Nanos(#[schemars(with = "f64")] pub(crate) i64);

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        milliseconds(self.0).serialize(serializer)
    }
}

impl Display for Nanos {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&duration_text(self.0))
    }
}

/// Converts to milliseconds, rounded to microseconds.
fn milliseconds(nanos: i64) -> f64 {
    (nanos as f64 / 1_000.0).round() / 1_000.0
}

/// Formats a duration in the largest unit that gives at least 1, with three digits.
fn duration_text(nanos: i64) -> String {
    const UNITS: [(f64, &str); 5] = [(3_600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    if nanos == 0 {
        return "0".to_owned();
    }
    let nanos = nanos as f64;
    let unit = UNITS.into_iter().find(|(unit, _)| nanos >= *unit);
    unit.map_or_else(|| format!("{nanos}ns"), |(unit, name)| format!("{}{name}", digits(nanos / unit)))
}

fn digits(value: f64) -> String {
    if value >= 100.0 {
        return format!("{value:.0}");
    }
    let decimals = if value >= 10.0 { 1 } else { 2 };
    format!("{value:.decimals$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the ratio of a part to the whole, rounded to four decimal places.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0 }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{}%", digits(share * 100.0))
}

/// Formats a time in milliseconds, which is precise enough to find a trace.
pub(crate) fn time_text(time: Timestamp) -> String {
    const MILLISECOND: i64 = 1_000_000;
    let over = time.as_nanos().rem_euclid(MILLISECOND);
    time.saturating_sub(over).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let check = |nanos: i64, text: &str| assert_eq!(duration_text(nanos), text);
        check(0, "0");
        check(999, "999ns");
        check(1_500, "1.5µs");
        check(12_345_678, "12.3ms");
        check(100_000_000, "100ms");
        check(1_234_000_000, "1.23s");
        check(90_000_000_000, "1.5min");
        check(7_200_000_000_000, "2h");
        assert_eq!((milliseconds(1_234_567), milliseconds(1)), (1.235, 0.0));
        assert_eq!((share(1, 3), share(1, 0), percent(share(1, 3)).as_str()), (0.3333, 0.0, "33.3%"));
        assert_eq!(
            time_text(Timestamp::parse("2026-11-22T08:00:00.123456789Z").unwrap()),
            "2026-11-22T08:00:00.123Z"
        );
    }
}
