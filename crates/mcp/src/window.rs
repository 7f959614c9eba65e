//! The time window of a call.

use schemars::JsonSchema;
use serde::Serialize;
use tracewarden_model::{Timestamp, Window};

use crate::failure::Failure;

/// Returns the start and end of the window in these arguments, if given. Each tool declares them itself: serde cannot
/// reject unknown arguments if a shared struct is flattened.
///
/// # Errors
/// If an argument is invalid, with an example of a valid one.
pub(crate) fn bounds(
    from: Option<&str>,
    to: Option<&str>,
    last: Option<&str>,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Option<Timestamp>), Failure> {
    // Whole seconds are precise enough, and take half the tokens of nanoseconds. Rounded up, so that the current
    // second is included.
    let now = whole_seconds(now);
    let Some(last) = last else {
        return Ok((time("from", from, now)?, time("to", to, now)?.or(Some(now))));
    };
    if from.is_some() || to.is_some() {
        return Err(Failure::argument("last", "give either `last`, or `from` and `to`"));
    }
    let nanos = parse_duration(last).ok_or_else(|| {
        let detail = format!(
            "`{last}` is not a duration: write a whole number and a unit of s, m, h, d or w, such as \
             \"15m\", \"6h\" or \"7d\""
        );
        Failure::argument("last", detail)
    })?;
    Ok((Some(now.saturating_sub(nanos)), Some(now)))
}

fn time(argument: &str, text: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else { return Ok(None) };
    Timestamp::parse(text).map(Some).map_err(|error| {
        let detail = format!(
            "`{text}`: {error}; write it like \"{}\" (that is now), or use `last`, such as \"1h\"",
            crate::numbers::time_text(now)
        );
        Failure::argument(argument, detail)
    })
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    const SECOND: i64 = 1_000_000_000;
    let over = time.as_nanos().rem_euclid(SECOND);
    if over == 0 { time } else { time.saturating_add(SECOND - over) }
}

/// Parses a duration to nanoseconds, at least one second.
fn parse_duration(text: &str) -> Option<i64> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let count: i64 = text.strip_suffix(unit)?.trim().parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    count.checked_mul(seconds)?.checked_mul(1_000_000_000).filter(|nanos| *nanos > 0)
}

pub(crate) fn window_text(window: Window) -> WindowText {
    WindowText { from: window.from().to_string(), to: window.to().to_string() }
}

/// The time window of the response.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct WindowText {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// Time range around the window in which spans were read to match traces.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SearchedAround {
    from: String,
    to: String,
    /// Shorter form for the text, which takes fewer tokens.
    #[serde(skip)]
    pub(crate) words: String,
}

/// Returns the time range in which spans were read to match traces; `None` if it is unbounded.
pub(crate) fn searched_around(
    window: Window,
    found: Option<(Timestamp, Timestamp)>,
) -> Option<SearchedAround> {
    let (from, to) = found?;
    let before = window.from().as_nanos().checked_sub(from.as_nanos());
    let after = to.as_nanos().checked_sub(window.to().as_nanos());
    let margin = before.filter(|_| before == after).and_then(whole_units);
    let words = match margin {
        Some(margin) => format!("no trace index: spans up to {margin} around that were read\n"),
        None => format!("no trace index: spans from {from} to {to} were read\n"),
    };
    Some(SearchedAround { from: from.to_string(), to: to.to_string(), words })
}

/// Formats a duration in the largest unit that gives a whole number; `None` if there is none.
fn whole_units(nanos: i64) -> Option<String> {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(i64, &str); 4] =
        [(86_400 * SECOND, "d"), (3_600 * SECOND, "h"), (60 * SECOND, "min"), (SECOND, "s")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| nanos > 0 && nanos % unit == 0)?;
    Some(format!("{}{name}", nanos / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn bounds(
        from: Option<&str>,
        to: Option<&str>,
        last: Option<&str>,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), Failure> {
        super::bounds(from, to, last, Timestamp::from_nanos(100 * HOUR))
    }

    #[test]
    fn relative_windows_end_now() {
        let check = |last: &str, hours: i64| {
            let (from, to) = bounds(None, None, Some(last)).unwrap();
            assert_eq!(from, Some(Timestamp::from_nanos((100 - hours) * HOUR)), "{last}");
            assert_eq!(to, Some(Timestamp::from_nanos(100 * HOUR)));
        };
        check("60m", 1);
        check("3600s", 1);
        check(" 2 h ", 2);
        check("1d", 24);
        check("1w", 168);
        let (from, to) = bounds(Some("2026-11-22T08:00:00Z"), None, None).unwrap();
        let now = Some(Timestamp::from_nanos(100 * HOUR));
        assert_eq!((from.unwrap().to_string().as_str(), to), ("2026-11-22T08:00:00Z", now));
        assert_eq!(bounds(None, None, None).unwrap(), (None, now));
        let later = Timestamp::from_nanos(100 * HOUR + 1);
        assert_eq!(whole_seconds(later), Timestamp::from_nanos(100 * HOUR + 1_000_000_000));
    }

    #[test]
    fn the_range_that_was_read_is_described_exactly() {
        let at = |nanos: i64| Timestamp::from_nanos(nanos);
        let window = Window::new(at(10 * HOUR), at(12 * HOUR)).unwrap();
        let words = |from: i64, to: i64| {
            let searched_around = searched_around(window, Some((at(from), at(to)))).unwrap();
            searched_around.words.replace("no trace index: spans ", "").replace(" were read\n", "")
        };
        assert_eq!(words(9 * HOUR, 13 * HOUR), "up to 1h around that");
        assert_eq!(words(10 * HOUR - HOUR / 40, 12 * HOUR + HOUR / 40), "up to 90s around that");
        for (from, to) in [(9 * HOUR, 14 * HOUR), (10 * HOUR - 1, 12 * HOUR + 1)] {
            assert_eq!(words(from, to), format!("from {} to {}", at(from), at(to)));
        }
        assert!(searched_around(window, None).is_none());
    }

    #[test]
    fn errors_show_a_valid_window() {
        for wrong in ["", "h", "15", "-1h", "0m", "1.5h", "15 minutes", "9999999999999999d", "ä"] {
            let text = bounds(None, None, Some(wrong)).unwrap_err().text();
            assert!(text.contains("`last`") || text.contains("last:"), "{text}");
            assert!(text.contains("\"15m\""), "{text}");
        }
        let text = bounds(Some("yesterday"), None, None).unwrap_err().text();
        assert!(text.contains("from: ") && text.contains("1970-01-05T04:00:00Z"), "{text}");
        let text = bounds(Some("2026-11-22T08:00:00Z"), None, Some("1h")).unwrap_err().text();
        assert!(text.contains("either `last`, or `from` and `to`"), "{text}");
    }
}
