//! Points in time and half-open windows, in nanoseconds since the Unix epoch.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Nanoseconds since the Unix epoch, covering the years 1677 to 2262.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// Reason why a text is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTimestamp {
    /// Not in the form of RFC 3339, or not a valid date and time.
    #[error("not an RFC 3339 time such as `2026-01-31T13:45:00Z`")]
    Format,
    /// The offset from UTC is invalid.
    #[error(
        "not an RFC 3339 time: it ends with `Z`, or with an offset from `-23:59` to `+23:59` such as `+02:00`"
    )]
    Offset,
    /// More precise than a nanosecond.
    #[error("times have at most nine digits after the second, nanoseconds; further digits must be zeros")]
    TooPrecise,
}

impl Timestamp {
    /// Creates a timestamp from nanoseconds since the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Creates a timestamp from microseconds since the epoch, saturating.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The latest timestamp, in the year 2262. Later times are clamped to it.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns microseconds since the epoch, rounded down.
    pub const fn as_micros(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Returns the timestamp `nanos` later, saturating.
    pub const fn saturating_add(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Returns the timestamp `nanos` earlier, saturating.
    pub const fn saturating_sub(self, nanos: i64) -> Self {
        Self(self.0.saturating_sub(nanos))
    }

    /// Parses an RFC 3339 time. Times outside the years 1677 to 2262 are clamped: no span is outside that range.
    ///
    /// # Errors
    /// When the text is not such a time.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        // The library accepts several variants of ISO 8601; the wire format is RFC 3339 only.
        let (clock, offset) = text.split_at_checked(19).ok_or(InvalidTimestamp::Format)?;
        let has_format = clock.bytes().zip(DATE_TIME_FORMAT).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't'),
            other => byte == *other,
        });
        if !has_format {
            return Err(InvalidTimestamp::Format);
        }
        let (fraction, offset) = match offset.strip_prefix('.') {
            None => ("", offset),
            Some(rest) => {
                let end = rest.find(|other: char| !other.is_ascii_digit()).unwrap_or(rest.len());
                rest.split_at_checked(end)
                    .filter(|(digits, _)| !digits.is_empty())
                    .ok_or(InvalidTimestamp::Format)?
            }
        };
        if !is_offset(offset) {
            return Err(InvalidTimestamp::Offset);
        }
        let (fraction, rest) = fraction.split_at_checked(9).unwrap_or((fraction, ""));
        if rest.bytes().any(|digit| digit != b'0') {
            return Err(InvalidTimestamp::TooPrecise);
        }
        let point = if fraction.is_empty() { "" } else { "." };
        let text = &format!("{clock}{point}{fraction}{offset}");
        // The library's range ends a day before that of RFC 3339.
        if let Some(rest) = text.strip_prefix("9999") {
            return Self::parse(&format!("2261{rest}")).map(|_| Self::MAX);
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp::Format)?;
        let nanos = parsed.as_nanosecond().clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        i64::try_from(nanos).map(Self).map_err(|_| InvalidTimestamp::Format)
    }
}

/// Shape of an RFC 3339 date and time up to the fraction.
const DATE_TIME_FORMAT: &[u8] = b"0000-00-00T00:00:00";

/// Whether this is `Z`, or an offset from UTC in hours and minutes.
fn is_offset(text: &str) -> bool {
    let digits = |from: usize, max: u8| {
        let part = text.get(from..from + 2).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        part.and_then(|part| part.parse::<u8>().ok()).is_some_and(|number| number <= max)
    };
    match text.as_bytes() {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', _, _, b':', _, _] => digits(1, 23) && digits(4, 59),
        _ => false,
    }
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 in UTC, with as many fractional digits as needed, at most nine.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(timestamp) => timestamp.fmt(f),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimestampVisitor;
        impl Visitor<'_> for TimestampVisitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TimestampVisitor)
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, with at most nine fractional digits"))
            .examples(["2026-11-21T07:33:26.123456789Z"])
            .into()
    }
}

impl ToSchema for Timestamp {
    fn name() -> Cow<'static, str> {
        "Time".into()
    }
}

/// A half-open window `[from, to)` on span timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    from: Timestamp,
    to: Timestamp,
}

/// `from` is not before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`from` must be before `to`")]
pub struct InvalidWindow;

impl Window {
    /// Length of the window if `from` is absent: 24 hours before `to`.
    pub const DEFAULT_NANOS: i64 = 24 * 3_600 * 1_000_000_000;

    /// Creates a window that contains at least one instant.
    ///
    /// # Errors
    /// When `from` is not before `to`.
    pub fn new(from: Timestamp, to: Timestamp) -> Result<Self, InvalidWindow> {
        if from < to { Ok(Self { from, to }) } else { Err(InvalidWindow) }
    }

    /// Returns the first instant inside the window.
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// Returns the first instant after the window.
    pub fn to(&self) -> Timestamp {
        self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_and_nothing_else() {
        let time = Timestamp::parse("2026-11-21T07:33:26.123456789Z").unwrap();
        assert_eq!(time.as_nanos(), 1_795_246_406_123_456_789);
        assert_eq!(time.to_string(), "2026-11-21T07:33:26.123456789Z");
        assert_eq!(Timestamp::parse("2026-11-21T08:33:26.123456789+01:00").unwrap(), time);
        use InvalidTimestamp::{Format, Offset, TooPrecise};
        for (wrong, why) in [
            ("", Format),
            ("now", Format),
            ("2026-11-21", Format),
            ("2026-11-21 07:33:26Z", Format),
            ("2026-11-21T07:33Z", Format),
            ("20261121T073326Z", Format),
            ("2026-13-01T00:00:00Z", Format),
            ("2026-02-29T00:00:00Z", Format),
            ("9999-02-30T00:00:00Z", Format),
            ("2026-11-21T24:00:00Z", Format),
            ("2026-11-21T07:33:26.Z", Format),
            ("2026-11-21T07:33:26,5Z", Offset),
            ("2026-11-21T07:33:2\u{e9}Z", Format),
            ("2026-11-21T07:33:26", Offset),
            ("2026-11-21T07:33:26Z[UTC]", Offset),
            ("2026-11-21T07:33:26+0200", Offset),
            ("2026-11-21T07:33:26+02", Offset),
            ("2026-11-21T07:33:26+02:0", Offset),
            ("2026-11-21T07:33:26+02:00:00", Offset),
            ("2026-11-21T07:33:26+24:00", Offset),
            ("2026-11-21T07:33:26-25:00", Offset),
            ("2026-11-21T07:33:26+02:60", Offset),
            ("2026-11-21T07:33:26.5+2:00", Offset),
            ("2026-11-21T07:33:26ZZ", Offset),
            ("2026-11-21T07:33:26.1234567891Z", TooPrecise),
            ("2026-11-21T07:33:26.000000000000001+02:00", TooPrecise),
        ] {
            assert_eq!(Timestamp::parse(wrong), Err(why), "{wrong}");
        }
        for same in [
            "2026-11-21T07:33:26.123456789000z",
            "2026-11-21t07:33:26.12345678900000000000000000000Z",
            "2026-11-21T07:33:26.123456789-00:00",
            "2026-11-22T07:32:26.123456789+23:59",
            "2026-11-20T07:34:26.123456789-23:59",
        ] {
            assert_eq!(Timestamp::parse(same), Ok(time), "{same}");
        }
    }

    #[test]
    fn out_of_range_times_are_clamped() {
        assert_eq!(Timestamp::parse("9999-12-31T23:59:59Z").unwrap().as_nanos(), i64::MAX);
        assert_eq!(Timestamp::parse("0001-01-01T00:00:00Z").unwrap().as_nanos(), i64::MIN);
    }

    #[test]
    fn an_empty_window_is_refused() {
        let at = Timestamp::from_nanos(5);
        assert_eq!(Window::new(at, at), Err(InvalidWindow));
        assert!(Window::new(at, at.saturating_add(1)).is_ok());
    }
}
