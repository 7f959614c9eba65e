//! Computes when the interval of an exhausted ClickHouse quota ends.

use std::time::UNIX_EPOCH;

use tracewarden_model::Timestamp;

/// The server's time, from the headers of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quota<'a> {
    /// `Date`.
    pub(super) date: Option<&'a str>,
    /// `X-ClickHouse-Timezone`: the zone of the times that the server writes.
    pub(super) timezone: Option<&'a str>,
}

/// Offsets of all time zones are multiples of this, in seconds.
const ZONE_STEP: i64 = 15 * 60;

/// Seconds to wait when the end is unknown.
const DEFAULT_WAIT: i64 = 60;

impl Quota<'_> {
    /// QUOTA_EXCEEDED.
    pub(crate) const EXCEEDED: i32 = 201;
    /// How a message contains the code.
    pub(crate) const EXCEEDED_TEXT: &'static str = "Code: 201.";

    /// Returns the seconds until the interval of a quota ends, at least 1, from the message that it is exceeded: `Quota
    /// for user `u` for 3600s has been exceeded: … Interval will end at 2026-11-25 21:40:00. …`. If the server's times
    /// are not in UTC, only the quarter of an hour is certain: then the result is the next moment at which the interval
    /// may end.
    pub(crate) fn seconds_until_reset(self, message: &str) -> u64 {
        let longest = || interval_seconds(message).unwrap_or(DEFAULT_WAIT).min(DEFAULT_WAIT);
        let seconds = self.remaining(message).unwrap_or_else(longest);
        u64::try_from(seconds.max(1)).unwrap_or(1)
    }

    fn remaining(self, message: &str) -> Option<i64> {
        let (_, rest) = message.split_once("Interval will end at ")?;
        let end = rest.get(..19)?;
        let end = Timestamp::parse(&format!("{}Z", end.replace(' ', "T"))).ok()?.as_nanos() / 1_000_000_000;
        let now = httpdate::parse_http_date(self.date?).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let left = end.saturating_sub(i64::try_from(now.as_secs()).ok()?);
        let is_utc = matches!(self.timezone, Some("UTC" | "Etc/UTC" | "GMT" | "Etc/GMT"));
        Some(if is_utc { left } else { left.rem_euclid(ZONE_STEP) })
    }
}

/// Returns the length of the interval in seconds.
fn interval_seconds(message: &str) -> Option<i64> {
    let (_, rest) = message.split_once(" for ").and_then(|(_, rest)| rest.split_once(" for "))?;
    rest.split_once("s has been exceeded")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "Code: 201. DB::Exception: Quota for user `reader` for 60s has been exceeded: read_rows = \
        65409/1000. Interval will end at 2026-11-25 21:40:00. Name of quota template: `q`. (QUOTA_EXCEEDED)";

    #[test]
    fn the_end_of_the_interval_is_in_the_server_s_time() {
        let at = |date, timezone| Quota { date, timezone }.seconds_until_reset(MESSAGE);
        let date = Some("Wed, 25 Nov 2026 21:39:37 GMT");
        assert_eq!(at(date, Some("UTC")), 23);
        assert_eq!(at(Some("Wed, 25 Nov 2026 20:09:37 GMT"), Some("UTC")), 23 + 5_400);
        // Local times: two hours ahead, and five and three quarters.
        assert_eq!(at(Some("Wed, 25 Nov 2026 19:39:37 GMT"), Some("Europe/Athens")), 23);
        assert_eq!(at(Some("Wed, 25 Nov 2026 15:54:37 GMT"), Some("Asia/Kathmandu")), 23);
        assert_eq!(at(date, None), 23);
        assert_eq!(at(Some("Wed, 25 Nov 2026 21:40:00 GMT"), Some("UTC")), 1);
        assert_eq!(at(None, Some("UTC")), 60);
        assert_eq!(at(Some("yesterday"), None), 60);
        assert_eq!(Quota::default().seconds_until_reset(&MESSAGE.replace("60s", "5s")), 5);
        assert_eq!(Quota::default().seconds_until_reset("of another version"), 60);
    }
}
