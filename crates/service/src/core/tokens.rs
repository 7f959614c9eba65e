//! Random ids, session tokens, API keys and generated passwords.

use sha2::{Digest as _, Sha256};
use tracewarden_appdb::TokenDigest;
use tracewarden_model::Entropy;
use tracewarden_model::ambient::EntropyError;

use crate::Secret;

const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Without `i`, `l`, `o`, `0` and `1`, which people confuse when they copy a password by hand.
const READABLE_ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";

/// Prefix of API keys, by which secret scanners find them.
const KEY_PREFIX: &str = "twk_";
/// 43 characters of base62 are 256 bits.
const SECRET_CHARS: usize = 43;
/// Length of the secret in keys of builds before 0.1.0: 178 bits. These keys stay valid.
const EARLIER_KEY_SECRET_CHARS: usize = 30;
const KEY_CHECKSUM_CHARS: usize = 6;
const KEY_HINT_CHARS: usize = KEY_PREFIX.len() + 4;

/// Creates a random id; `kind` shows in logs what it identifies.
pub(crate) fn id(kind: &str, entropy: &dyn Entropy) -> Result<String, EntropyError> {
    Ok(format!("{kind}_{}", random_text(BASE62, 22, entropy)?))
}

pub(crate) fn session_token(entropy: &dyn Entropy) -> Result<Secret, EntropyError> {
    Ok(random_text(BASE62, SECRET_CHARS, entropy)?.into())
}

/// Creates an API key: `twk_`, the secret, and six characters of CRC-32, by which a scanner distinguishes a key from similar
/// text.
pub(crate) fn api_key(entropy: &dyn Entropy) -> Result<Secret, EntropyError> {
    let secret = random_text(BASE62, SECRET_CHARS, entropy)?;
    let checksum = checksum(secret.as_bytes());
    Ok(format!("{KEY_PREFIX}{secret}{checksum}").into())
}

/// Returns the first characters, by which the owner recognises a key.
pub(crate) fn hint(token: &str) -> String {
    token.chars().take(KEY_HINT_CHARS).collect()
}

/// Whether a text can be a [`hint`].
pub(crate) fn is_hint(text: &str) -> bool {
    text.len() == KEY_HINT_CHARS
        && text
            .strip_prefix(KEY_PREFIX)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Whether a text was meant to be an API key: it may be damaged.
pub fn resembles_api_key(text: &str) -> bool {
    text.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric()).starts_with(KEY_PREFIX)
}

/// Whether a text has the form of an API key, including the checksum; other texts need no look-up in the database.
pub(crate) fn is_api_key(text: &str) -> bool {
    let Some(body) = text.strip_prefix(KEY_PREFIX) else { return false };
    body.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && body.len().checked_sub(KEY_CHECKSUM_CHARS).is_some_and(|length| {
            [SECRET_CHARS, EARLIER_KEY_SECRET_CHARS].contains(&length)
                && body
                    .split_at_checked(length)
                    .is_some_and(|(secret, sum)| sum == checksum(secret.as_bytes()))
        })
}

const PASSWORD_GROUPS: usize = 5;
const PASSWORD_GROUP_CHARS: usize = 4;

/// Creates a password of 20 random characters (99 bits) in groups of four.
pub(crate) fn password(entropy: &dyn Entropy) -> Result<Secret, EntropyError> {
    let groups = (0..PASSWORD_GROUPS)
        .map(|_| random_text(READABLE_ALPHABET, PASSWORD_GROUP_CHARS, entropy))
        .collect::<Result<Vec<_>, EntropyError>>()?;
    Ok(groups.join("-").into())
}

/// Whether a text has the form of a generated password. A program that overwrites a file uses it to check that the file
/// contains one.
pub fn is_generated_password(text: &str) -> bool {
    let mut groups = text.split('-');
    groups.clone().count() == PASSWORD_GROUPS
        && groups.all(|group| {
            group.len() == PASSWORD_GROUP_CHARS && group.bytes().all(|byte| READABLE_ALPHABET.contains(&byte))
        })
}

/// Returns the digest under which the database stores a token.
pub(crate) fn digest(token: &str) -> TokenDigest {
    TokenDigest(Sha256::digest(token.as_bytes()).into())
}

fn random_text(alphabet: &[u8], length: usize, entropy: &dyn Entropy) -> Result<String, EntropyError> {
    // Bytes at or above the largest multiple of the alphabet's size are discarded: taking them modulo the size would make the
    // first letters more frequent.
    let fair = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0_u8; 32];
        entropy.fill(&mut bytes)?;
        let letters = bytes
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < fair)
            .filter_map(|byte| alphabet.get(byte % alphabet.len()));
        for letter in letters.take(length - text.len()) {
            text.push(char::from(*letter));
        }
    }
    Ok(text)
}

/// Computes the CRC-32 (IEEE) in six characters of base62.
fn checksum(bytes: &[u8]) -> String {
    let mut rest = crc32fast::hash(bytes);
    let mut letters = [b'0'; KEY_CHECKSUM_CHARS];
    for letter in letters.iter_mut().rev() {
        *letter = BASE62.get((rest % 62) as usize).copied().unwrap_or(b'0');
        rest /= 62;
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    struct CountingEntropy(std::sync::atomic::AtomicU8);

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
            for byte in bytes {
                *byte = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        }
    }

    #[test]
    fn api_keys_have_a_distinct_format() {
        let entropy = CountingEntropy(0.into());
        let key = api_key(&entropy).unwrap();
        let key = key.expose_secret();
        // 62 different characters: 256 bits.
        assert_eq!(key.len(), 4 + 43 + 6);
        assert_eq!(session_token(&entropy).unwrap().expose_secret().len(), 43);
        assert!(is_api_key(key), "{key}");
        assert!(key.starts_with(&hint(key)) && hint(key).len() == 8);
        let swapped = key.replacen("01", "10", 1);
        assert!(swapped != key && !is_api_key(&swapped), "the checksum notices");
        for other in ["", "twk_", &key[..key.len() - 1], &format!("{key}0"), &key.replace("twk_", "TWK_")] {
            assert!(!is_api_key(other), "{other}");
        }
        let earlier = &key[4..4 + EARLIER_KEY_SECRET_CHARS];
        assert!(is_api_key(&format!("twk_{earlier}{}", checksum(earlier.as_bytes()))));
        let shorter = &earlier[1..];
        assert!(!is_api_key(&format!("twk_{shorter}{}", checksum(shorter.as_bytes()))));
        assert_eq!(checksum(b"123456789"), "3jZRME", "0xCBF43926, the check value of CRC-32");
    }

    #[test]
    fn generated_passwords_are_readable() {
        let password = password(&CountingEntropy(0.into())).unwrap();
        let password = password.expose_secret();
        assert_eq!(password.len(), 24);
        assert!(password.bytes().all(|byte| byte == b'-' || READABLE_ALPHABET.contains(&byte)));
        assert!(is_generated_password(password));
        for other in
            ["", "----", "abcd-abcd-abcd-abcd", &password.replace('-', "_"), &password.replace('a', "1")]
        {
            assert!(!is_generated_password(other), "{other}");
        }
    }
}
