//! Random names: query ids and exception tags. This crate is independent of the service, so it may call the operating
//! system directly.

/// Returns random bytes from the operating system. If it has none, the names are not random and may not be unique.
#[allow(clippy::disallowed_methods)] // The only place in this crate that needs randomness.
fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0_u8; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "the operating system gives no random bytes");
    }
    bytes
}

/// Returns a random UUID (version 4) as text.
pub fn uuid() -> String {
    let mut bytes = random_bytes::<16>();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = hex::encode(bytes);
    let part = |range| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

/// Returns sixteen random lower-case letters, which data contain only by coincidence.
pub fn exception_tag() -> String {
    random_bytes::<16>().iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}
