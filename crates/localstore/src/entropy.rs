//! Random names. This crate is independent of the service, so it may call the operating system directly.

/// Returns sixteen random lower-case letters, for a query id or an exception tag. Data contain a tag only by
/// coincidence. If the operating system has no random bytes, the name is not random and may not be unique.
#[allow(clippy::disallowed_methods)] // The only place in this crate that needs randomness.
pub fn random_name() -> String {
    let mut bytes = [0_u8; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "the operating system gives no random bytes");
    }
    bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}
