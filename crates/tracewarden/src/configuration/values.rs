//! Values of settings: durations, sizes, addresses, URLs.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

/// Parses a duration such as `30s`; `unlimited` is `None`.
///
/// # Errors
/// A message for people.
pub fn duration(text: &str) -> Result<Option<Duration>, String> {
    let wrong = || format!("`{text}` is not a duration such as `30s`, `5m`, `12h`, `90d` or `unlimited`");
    if text == "unlimited" {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).ok_or_else(wrong)?;
    let seconds_per_unit: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    // No setting needs more than a century, and a century in nanoseconds fits an `i64`.
    match number.checked_mul(seconds_per_unit) {
        Some(0) => Err(format!("`{text}`: must be longer than zero")),
        Some(seconds) if seconds <= 100 * 366 * 86_400 => Ok(Some(Duration::from_secs(seconds))),
        _ => Err(format!("`{text}`: use `unlimited` for more than a hundred years")),
    }
}

/// Parses a duration other than `unlimited`.
///
/// # Errors
/// A message for people.
pub fn limited_duration(text: &str) -> Result<Duration, String> {
    duration(text)?.ok_or_else(|| "must be a duration such as `30s`, not `unlimited`".to_owned())
}

/// Parses a duration that may be zero.
///
/// # Errors
/// A message for people.
pub fn delay(text: &str) -> Result<Duration, String> {
    if text == "0s" { Ok(Duration::ZERO) } else { limited_duration(text) }
}

/// Parses an address with a port.
///
/// # Errors
/// A message for people.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port, such as `127.0.0.1:8080`"))
}

/// Parses a number of bytes such as `4GiB`.
///
/// # Errors
/// A message for people.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as `512MiB` or `4GiB`");
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let factor: u64 = match text.strip_prefix(digits).ok_or_else(wrong)? {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|size| *size > 0 && *size <= 1 << 60).ok_or_else(wrong)
}

/// Parses a whole number within bounds.
///
/// # Errors
/// A message for people.
pub fn count(text: &str, min: usize, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("`{text}` is not a whole number from {min} to {max}")),
    }
}

/// Parses `true` or `false`.
///
/// # Errors
/// A message for people.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{text}` is neither `true` nor `false`")),
    }
}

/// Parses networks separated by commas; a single address is a network of one.
///
/// # Errors
/// A message for people.
pub fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    items(text)
        .map(|item| {
            item.parse::<IpNet>()
                .or_else(|_| item.parse::<std::net::IpAddr>().map(IpNet::from))
                .map_err(|_| format!("`{item}` is not an address or a network such as `10.0.0.0/8`"))
        })
        .collect()
}

/// Parses host names separated by commas, each with or without a port.
///
/// # Errors
/// A message for people.
pub fn hosts(text: &str) -> Result<Vec<String>, String> {
    let host = |item: &str| {
        let named =
            item.parse::<http::uri::Authority>().is_ok_and(|authority| !authority.as_str().contains('@'));
        if named {
            Ok(item.to_owned())
        } else {
            Err(format!("`{item}` is not a name such as `traces.internal:8080`"))
        }
    };
    items(text).map(host).collect()
}

/// Parses ClickHouse URLs separated by commas.
///
/// # Errors
/// A message for people. It does not repeat the URL, which may contain a password.
pub fn endpoints(text: &str) -> Result<Vec<String>, String> {
    let endpoints: Vec<String> = items(text)
        .map(|item| {
            let url = Url::parse(item).map_err(|error| format!("not a URL: {error}"))?;
            if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
                return Err("must be URLs such as `http://clickhouse:8123`".to_owned());
            }
            if !url.username().is_empty() || url.password().is_some() {
                return Err(
                    "must not contain user and password; set `clickhouse_user` and `clickhouse_password`"
                        .to_owned(),
                );
            }
            if url.query().is_some() || url.fragment().is_some() {
                return Err(
                    "must be URLs without `?` and `#`; the service sends all settings itself".to_owned()
                );
            }
            Ok(item.to_owned())
        })
        .collect::<Result<_, String>>()?;
    if endpoints.is_empty() { Err("must contain at least one URL".to_owned()) } else { Ok(endpoints) }
}

/// Parses the public URL into its origin: scheme, host and port without a trailing slash.
///
/// # Errors
/// A message for people. It does not repeat the URL, which may contain a password.
pub fn origin(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !bare || !url.username().is_empty() || url.password().is_some() {
        return Err("must be only scheme, host and port, such as `https://traces.example.com`".to_owned());
    }
    if url.host().is_none() {
        return Err("must be a URL with a host, such as `https://traces.example.com`".to_owned());
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => {
            return Err(
                "must be `https`, or the session would travel unencrypted; `http` is for loopback names only"
                    .to_owned(),
            );
        }
        _ => return Err("must be `https`, or `http` on a loopback name".to_owned()),
    }
    Ok(url.origin().ascii_serialization())
}

/// Whether the host of a URL is a loopback name or address.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("90d"), Ok(Some(Duration::from_secs(90 * 86_400))));
        assert_eq!(duration("unlimited"), Ok(None));
        for wrong in ["", "s", "0s", "-1s", "1.5h", "10", "1w", "99999999999999999999s", "40000d", "1 h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(limited_duration("unlimited").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("4GiB"), Ok(4 << 30));
        for wrong in ["", "4", "4GB", "0MiB", "99999999999999TiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_public_url_is_an_origin_and_https_unless_loopback() {
        assert_eq!(origin("https://Traces.example.com/").as_deref(), Ok("https://traces.example.com"));
        assert_eq!(origin("https://traces.example.com:443").as_deref(), Ok("https://traces.example.com"));
        assert_eq!(origin("http://localhost:8080").as_deref(), Ok("http://localhost:8080"));
        assert_eq!(origin("http://[::1]:8080").as_deref(), Ok("http://[::1]:8080"));
        for wrong in [
            "http://traces.example.com",
            "http://localhost.example.com",
            "https://traces.example.com/app",
            "https://user:hunter2@traces.example.com",
            "https://user:hunter2@[traces",
            "http://user:hunter2@traces.example.com/?hunter2",
            "ftp://hunter2",
            "hunter2",
        ] {
            let message = origin(wrong).unwrap_err();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn endpoints_contain_no_credentials() {
        assert_eq!(endpoints("http://a:8123, http://b:8123").map(|list| list.len()), Ok(2));
        for wrong in ["", "a:8123", "http://u:hunter2@a:8123", "http://a:8123/?user=x"] {
            let message = endpoints(wrong).unwrap_err();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn a_single_address_is_a_network() {
        assert_eq!(networks("10.0.0.0/8, ::1").map(|list| list.len()), Ok(2));
        assert!(networks("10.0.0.0/33").is_err());
        assert_eq!(networks(""), Ok(Vec::new()));
    }
}
