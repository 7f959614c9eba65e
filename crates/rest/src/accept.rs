//! Content negotiation: selects the representation of a route that the caller asked for (RFC 9110, 12.5.1).

use http::{HeaderMap, header};

use crate::code::Code;
use crate::problem::Problem;

/// A representation of a response. Problem details are always allowed and are not negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    /// `application/json`.
    Json,
    /// `application/x-ndjson`.
    Ndjson,
    /// `application/yaml`.
    Yaml,
}

impl Representation {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Yaml => "application/yaml",
        }
    }
}

/// Selects the representation in `offered` that `Accept` prefers: the first one on a tie or if the header is absent.
///
/// # Errors
/// `not_acceptable` when `Accept` names none of them.
pub fn negotiate(headers: &HeaderMap, offered: &[Representation]) -> Result<Representation, Problem> {
    let mut ranges = Vec::new();
    for value in headers.get_all(header::ACCEPT) {
        ranges.extend(value.to_str().unwrap_or_default().split(',').filter_map(range));
    }
    let refusal = || {
        let served: Vec<_> = offered.iter().map(|offer| offer.media_type()).collect();
        Problem::new(Code::NotAcceptable, format!("served here: {}", served.join(", ")))
    };
    if !headers.contains_key(header::ACCEPT) {
        return offered.first().copied().ok_or_else(refusal);
    }
    let mut best: Option<(u16, Representation)> = None;
    for &offer in offered {
        let quality = quality(&ranges, offer.media_type());
        if quality > best.map_or(0, |(best, _)| best) {
            best = Some((quality, offer));
        }
    }
    best.map(|(_, offer)| offer).ok_or_else(refusal)
}

/// A media range and its weight in thousandths.
type Range = (String, u16);

fn range(text: &str) -> Option<Range> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().filter(|media| !media.is_empty())?.to_ascii_lowercase();
    let mut quality = 1_000;
    for parameter in parts {
        if let Some(weight) = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q=")) {
            let weight: f32 = weight.trim().parse().unwrap_or(0.0);
            quality = (weight.clamp(0.0, 1.0) * 1_000.0) as u16;
        }
    }
    Some((media, quality))
}

/// Returns the weight of the most specific range that covers `media`, or 0 if no range does.
fn quality(ranges: &[Range], media: &str) -> u16 {
    let family = media.split_once('/').map(|(family, _)| format!("{family}/*")).unwrap_or_default();
    let quality_of =
        |wanted: &str| ranges.iter().find(|(range, _)| range == wanted).map(|(_, quality)| *quality);
    quality_of(media).or_else(|| quality_of(&family)).or_else(|| quality_of("*/*")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(accept: &[&str], expected: Option<Representation>) {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        let offered = [Representation::Json, Representation::Ndjson];
        assert_eq!(negotiate(&headers, &offered).ok(), expected, "{accept:?}");
    }

    #[test]
    fn the_most_specific_range_decides() {
        use Representation::{Json, Ndjson};
        check(&[], Some(Json));
        check(&["*/*"], Some(Json));
        check(&["application/*"], Some(Json));
        check(&["application/json; charset=utf-8"], Some(Json));
        check(&["application/x-ndjson"], Some(Ndjson));
        check(&["Application/X-NDJSON"], Some(Ndjson));
        check(&["application/json;q=0.5, application/x-ndjson"], Some(Ndjson));
        check(&["application/json;q=0.5", "application/x-ndjson;q=0.4"], Some(Json));
        check(&["text/html, application/xhtml+xml, */*;q=0.8"], Some(Json));
        check(&["application/json;q=0, */*"], Some(Ndjson));
        check(&["text/html"], None);
        check(&["application/problem+json"], None);
        check(&["*/*;q=0"], None);
        check(&[""], None);
        check(&["*/*;q=NaN"], None);
    }
}
