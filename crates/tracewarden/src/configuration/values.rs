//! Values of settings: durations, sizes, addresses, URLs. Errors are messages for people.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use secrecy::{SecretBox, SecretString};
use tracewarden_service::{AdminSettings, AppDb, EncryptionKey, PasswordLogin};
use url::{Host, Url};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Accepts any text.
pub fn any<T: for<'a> From<&'a str>>(text: &str) -> Result<T, String> {
    Ok(text.into())
}

/// Parses a number with one of these units, `30s` for example, and multiplies it by the value of its unit.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let number = |unit: &str| text.strip_suffix(unit)?.parse::<u64>().ok();
    units.iter().find_map(|(unit, factor)| Some(number(unit)?.saturating_mul(*factor)))
}

/// Parses a duration such as `30s`; `unlimited` is `None`.
pub fn duration(text: &str) -> Result<Option<Duration>, String> {
    if text == "unlimited" {
        return Ok(None);
    }
    match quantity(text, &[("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)]) {
        None => Err(format!("`{text}` is not a duration such as `30s`, `5m`, `12h`, `90d` or `unlimited`")),
        Some(0) => Err(format!("`{text}`: must be longer than zero")),
        // No setting needs more than a century, and a century in nanoseconds fits an `i64`.
        Some(seconds) if seconds <= 100 * 366 * 86_400 => Ok(Some(Duration::from_secs(seconds))),
        Some(_) => Err(format!("`{text}`: use `unlimited` for more than a hundred years")),
    }
}

/// Parses a duration other than `unlimited`.
pub fn limited_duration(text: &str) -> Result<Duration, String> {
    duration(text)?.ok_or_else(|| "must be a duration such as `30s`, not `unlimited`".to_owned())
}

/// Parses an encryption key. The message does not repeat it.
pub fn encryption_key(text: &str) -> Result<EncryptionKey, String> {
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    let bytes: [u8; 32] =
        bytes.ok_or("must be 32 bytes in base64, as `openssl rand -base64 32` prints them")?;
    Ok(Arc::new(SecretBox::new(Box::new(bytes))))
}

/// Parses a duration that may be zero.
pub fn delay(text: &str) -> Result<Duration, String> {
    if text == "0s" { Ok(Duration::ZERO) } else { limited_duration(text) }
}

/// Parses an address with a port.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port, such as `127.0.0.1:8080`"))
}

/// Parses a number of bytes such as `4GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    quantity(text, &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)])
        .filter(|size| *size > 0 && *size <= 1 << 60)
        .ok_or_else(|| format!("`{text}` is not a size such as `512MiB` or `4GiB`"))
}

/// Parses a whole number within bounds.
pub fn number<T: FromStr + PartialOrd + Display>(text: &str, min: T, max: T) -> Result<T, String> {
    match text.parse() {
        Ok(number) if (&min..=&max).contains(&&number) => Ok(number),
        _ => Err(format!("`{text}` is not a whole number from {min} to {max}")),
    }
}

/// Parses a value, or a word for none.
pub fn unless<T>(
    word: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text == word {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|error| format!("{error}, or `{word}`"))
}

/// Parses one of two words.
pub fn either<T>(text: &str, [one, other]: [(&str, T); 2]) -> Result<T, String> {
    match text {
        _ if text == one.0 => Ok(one.1),
        _ if text == other.0 => Ok(other.1),
        _ => Err(format!("`{text}` is neither `{}` nor `{}`", one.0, other.0)),
    }
}

/// Parses who may sign in with a password.
pub fn password_login(text: &str) -> Result<PasswordLogin, String> {
    match text {
        "everyone" => Ok(PasswordLogin::Everyone),
        "administrators" => Ok(PasswordLogin::Administrators),
        "off" => Ok(PasswordLogin::Off),
        _ => Err(format!("`{text}` is neither `everyone` nor `administrators` nor `off`")),
    }
}

/// Parses networks separated by commas; a single address is a network of one.
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
pub fn hosts(text: &str) -> Result<Vec<String>, String> {
    let host = |item: &str| match item.parse::<http::uri::Authority>() {
        Ok(authority) if !authority.as_str().contains('@') => Ok(item.to_owned()),
        _ => Err(format!("`{item}` is not a name such as `traces.internal:8080`")),
    };
    items(text).map(host).collect()
}

/// Parses ClickHouse URLs separated by commas.
/// Errors do not repeat them, because they may contain a password.
pub fn endpoints(text: &str) -> Result<Vec<String>, String> {
    let endpoints: Vec<String> = items(text)
        .map(|item| {
            let url = Url::parse(item).map_err(|error| format!("not a URL: {error}"))?;
            let fault = if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
                "must be URLs such as `http://clickhouse:8123`"
            } else if !url.username().is_empty() || url.password().is_some() {
                "must not contain user and password; set `clickhouse_user` and `clickhouse_password`"
            } else if url.query().is_some() || url.fragment().is_some() {
                "must be URLs without `?` and `#`; the service sends all settings itself"
            } else {
                return Ok(item.to_owned());
            };
            Err(fault.to_owned())
        })
        .collect::<Result<_, String>>()?;
    if endpoints.is_empty() { Err("must contain at least one URL".to_owned()) } else { Ok(endpoints) }
}

/// Parses the public URL into its origin: scheme, host and port without a trailing slash.
/// Errors do not repeat them, because they may contain a password.
pub fn origin(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let fault = match url.scheme() {
        _ if !bare || !url.username().is_empty() || url.password().is_some() => {
            "must be only scheme, host and port, such as `https://traces.example.com`"
        }
        _ if url.host().is_none() => "must be a URL with a host, such as `https://traces.example.com`",
        "http" if !is_loopback(&url) => {
            "must be `https`, or the session would travel unencrypted; `http` is for loopback names only"
        }
        "http" | "https" => return Ok(url.origin().ascii_serialization()),
        _ => "must be `https`, or `http` on a loopback name",
    };
    Err(fault.to_owned())
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

/// Checks the URL with the library that connects, so that every accepted URL can be used to connect. Its messages do not
/// show the URL, which may contain a password.
pub fn database_url(text: &str) -> Result<SecretString, String> {
    AppDb::check_url(text).map(|()| text.into()).map_err(|error| error.to_string())
}

/// Checks the name of the first administrator.
pub fn admin_username(text: &str) -> Result<String, String> {
    AdminSettings::check_username(text).map(|()| text.to_owned())
}

/// Checks the password hash of the first administrator.
pub fn password_hash(text: &str) -> Result<SecretString, String> {
    AdminSettings::check_password_hash(text)
        .map(|()| text.into())
        .map_err(|reason| format!("must be a hash from `tracewarden hash-password`: {reason}"))
}

/// Checks log directives.
pub fn log_directives(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // The library would take a bare word for the name of a target: a misspelt level would silence the log.
    let unknown = text.split(',').map(str::trim).find(|directive| {
        !directive.contains('=') && !LEVELS.iter().any(|level| directive.eq_ignore_ascii_case(level))
    });
    if let Some(word) = unknown {
        return Err(format!("`{word}` is neither a level ({}) nor `part=level`", LEVELS.join(", ")));
    }
    match text.parse::<tracing_subscriber::filter::Targets>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("`{text}`: {error}")),
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
