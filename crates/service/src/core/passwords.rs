//! Password hashes and password strength.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash as Phc, Salt};
use argon2::{Algorithm, Argon2, Params, Version};
use icu_normalizer::ComposingNormalizerBorrowed;
use secrecy::ExposeSecret as _;
use tracewarden_appdb::PasswordHash;
use tracewarden_model::Entropy;

use crate::Secret;
use crate::core::argon2_memory::{Argon2Memory, Argon2MemoryPool};
use crate::core::error::{Cause, Result, ServiceError};
use crate::core::settings::{PasswordCost, Settings};

const SALT_BYTES: usize = 16;
const LENGTH_MIN_CHARS: usize = 12;
const LENGTH_MAX_CHARS: usize = 256;
/// Maximum cost of a hash that is computed. A higher one, wherever it comes from, would use up the memory or the time of the
/// service during verification.
const MAX_COST: PasswordCost = PasswordCost { memory_kib: 1 << 20, iterations: 100, parallelism: 64 };
/// Minimum length of names that passwords must not contain: nearly every password contains an `a`.
const NAME_MIN_CHARS: usize = 3;

/// The most common passwords of at least twelve characters, because shorter ones are rejected anyway, and words of which
/// others are composed; `data/README.md` names the sources.
static COMMON_PASSWORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("../../data/common_passwords.txt").lines().collect());

/// Hashes and verifies off the async threads with bounded concurrency: a burst of sign-ins must not exhaust the memory.
pub(crate) struct Passwords {
    cost: PasswordCost,
    entropy: Arc<dyn Entropy>,
    memories: Argon2MemoryPool,
    /// For each cost among the stored hashes, a hash that no password has. Every verification computes one hash of each of
    /// these costs, so that it takes equally long for an unknown name and for any user, whatever the cost of their hash.
    decoys: RwLock<Vec<(PasswordCost, PasswordHash)>>,
}

impl Passwords {
    pub(crate) fn new(settings: &Settings, entropy: Arc<dyn Entropy>) -> Result<Self> {
        let mut unguessable = [0_u8; 32];
        entropy.fill(&mut unguessable)?;
        let mut memory = Argon2Memory::default();
        let decoy = hash(&hex::encode(unguessable), settings.password, entropy.as_ref(), &mut memory)?;
        let memories = Argon2MemoryPool::new(settings.max_parallel_hashes, memory);
        let decoys = RwLock::new(vec![(settings.password, decoy)]);
        Ok(Self { cost: settings.password, entropy, memories, decoys })
    }

    /// Registers the cost of a stored hash. Ignores an unreadable hash; verification reports it.
    pub(crate) fn register_cost(&self, stored: &PasswordHash) -> Result<()> {
        let Ok(cost) = phc_cost(&stored.0) else { return Ok(()) };
        // A poisoned lock is safe to use: each holder only adds an element, which has either happened or not.
        let known = |decoys: &[(PasswordCost, _)]| decoys.iter().any(|(known, _)| *known == cost);
        if known(&self.decoys.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let decoy = decoy(cost, self.entropy.as_ref());
        let decoy = decoy.map_err(|error| ServiceError::failed("password hash", error))?;
        let mut decoys = self.decoys.write().unwrap_or_else(PoisonError::into_inner);
        if !known(&decoys) {
            decoys.push((cost, decoy));
        }
        Ok(())
    }

    /// Hashes the password's normal form.
    pub(crate) async fn hash(&self, password: Secret) -> Result<PasswordHash> {
        let (cost, entropy) = (self.cost, Arc::clone(&self.entropy));
        let work = move |memory: &mut _| hash(password.expose_secret(), cost, entropy.as_ref(), memory);
        self.memories.with_memory(work).await?
    }

    /// Returns one hash of each cost, in the same order for all users, and whether it is the stored one.
    fn hashes_of_each_cost(&self, stored: Option<&PasswordHash>) -> Vec<(PasswordHash, bool)> {
        let cost = stored.and_then(|stored| phc_cost(&stored.0).ok());
        let decoys = self.decoys.read().unwrap_or_else(PoisonError::into_inner);
        let mut hashes: Vec<_> = decoys
            .iter()
            .map(|(of, decoy)| match stored {
                Some(stored) if Some(*of) == cost => (stored.clone(), true),
                _ => (decoy.clone(), false),
            })
            .collect();
        // An unreadable hash has no cost; verification reports it.
        hashes.extend(stored.filter(|_| cost.is_none()).map(|stored| (stored.clone(), true)));
        hashes
    }

    /// Verifies a password against a stored hash: in its normal form, and as typed, as earlier versions and other programs
    /// hash it. Without a stored hash the result is negative and takes equally long: the number of computed hashes depends on
    /// the input and not on stored data.
    pub(crate) async fn verify(
        &self,
        password: Secret,
        stored: Option<&PasswordHash>,
    ) -> Result<PasswordMatch> {
        if let Some(stored) = stored {
            self.register_cost(stored)?;
        }
        let hashes = self.hashes_of_each_cost(stored);
        let work = move |memory: &mut _| {
            let typed = password.expose_secret();
            let normal = normal_form(typed);
            let raw = (normal.expose_secret() != typed).then_some(typed);
            let mut verify = |password: &str, hash: &PasswordHash| {
                let verified = verify(password, hash, memory);
                verified.map_err(|error| ServiceError::failed("stored password hash", error))
            };
            let mut matches = [false; 2];
            for (hash, is_stored) in &hashes {
                matches[0] |= verify(normal.expose_secret(), hash)? && *is_stored;
                if let Some(raw) = raw {
                    matches[1] |= verify(raw, hash)? && *is_stored;
                }
            }
            Ok(match matches {
                [true, _] => PasswordMatch::NormalForm,
                [false, true] => PasswordMatch::AsTyped,
                [false, false] => PasswordMatch::NoMatch,
            })
        };
        self.memories.with_memory(work).await?
    }

    /// Returns a hash of the same password in its normal form and at the configured cost, if the stored one has another form
    /// or a lower cost.
    pub(crate) async fn renew(
        &self,
        password: Secret,
        stored: &PasswordHash,
        verified: PasswordMatch,
    ) -> Result<Option<PasswordHash>> {
        let cost = phc_cost(&stored.0).map_err(ServiceError::internal)?;
        if cost.is_at_least(&self.cost) && verified == PasswordMatch::NormalForm {
            return Ok(None);
        }
        self.hash(password).await.map(Some)
    }
}

/// Result of a password verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PasswordMatch {
    /// The password does not match.
    NoMatch,
    /// The hash matches the password's normal form.
    NormalForm,
    /// The hash matches the password as typed, which is not its normal form.
    AsTyped,
}

impl PasswordMatch {
    pub(crate) fn is_match(self) -> bool {
        self != Self::NoMatch
    }
}

/// Converts a password to Unicode's normal form C: keyboards and systems write the same character in several ways, `ü` as one
/// code point or as two.
pub(crate) fn normal_form(password: &str) -> Secret {
    ComposingNormalizerBorrowed::new_nfc().normalize(password).into_owned().into()
}

fn hash(
    password: &str,
    cost: PasswordCost,
    entropy: &dyn Entropy,
    memory: &mut Argon2Memory,
) -> Result<PasswordHash> {
    if !cost.meets_minimum() {
        return Err(ServiceError::internal("the cost of password hashes is below 19 MiB, 2 passes, 1 lane"));
    }
    let password = normal_form(password);
    let mut salt = [0_u8; SALT_BYTES];
    entropy.fill(&mut salt)?;
    let mut hash = || -> Result<PasswordHash, Cause> {
        let params = parameters(cost)?;
        let mut output = [0_u8; Params::DEFAULT_OUTPUT_LEN];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone()).hash_password_into_with_memory(
            password.expose_secret().as_bytes(),
            &salt,
            &mut output,
            memory.blocks(&params)?,
        )?;
        format_phc(&params, &salt, &output)
    };
    hash().map_err(|error| ServiceError::failed("password hash", error))
}

fn format_phc(params: &Params, salt: &[u8], output: &[u8]) -> Result<PasswordHash, Cause> {
    let phc = Phc {
        algorithm: Algorithm::Argon2id.ident(),
        version: Some(Version::V0x13.into()),
        params: ParamsString::try_from(params)?,
        salt: Some(Salt::new(salt)?),
        hash: Some(Output::new(output)?),
    };
    Ok(PasswordHash(phc.to_string()))
}

/// Returns a random value in the form of a hash of this cost; no hash is computed for it.
fn decoy(cost: PasswordCost, entropy: &dyn Entropy) -> Result<PasswordHash, Cause> {
    let (mut salt, mut output) = ([0_u8; SALT_BYTES], [0_u8; Params::DEFAULT_OUTPUT_LEN]);
    entropy.fill(&mut salt)?;
    entropy.fill(&mut output)?;
    format_phc(&parameters(cost)?, &salt, &output)
}

fn parameters(cost: PasswordCost) -> Result<Params, argon2::Error> {
    Params::new(cost.memory_kib, cost.iterations, cost.parallelism, None)
}

/// Verifies a password against one hash. An unreadable hash is an error, so that the log shows it; it never matches.
fn verify(password: &str, stored: &PasswordHash, memory: &mut Argon2Memory) -> Result<bool, Cause> {
    phc_cost(&stored.0)?;
    let phc = Phc::new(&stored.0)?;
    let (Some(salt), Some(expected)) = (phc.salt, phc.hash) else {
        return Err("the salt or the hash is missing".into());
    };
    let algorithm = Algorithm::try_from(phc.algorithm.as_str())?;
    let version = phc.version.map(Version::try_from).transpose()?;
    let params = Params::try_from(&phc)?;
    let mut output = [0_u8; Output::MAX_LENGTH];
    let output = output.get_mut(..expected.len()).ok_or("it is longer than any supported hash")?;
    Argon2::new(algorithm, version.unwrap_or_default(), params.clone()).hash_password_into_with_memory(
        password.as_bytes(),
        &salt,
        output,
        memory.blocks(&params)?,
    )?;
    // This comparison takes constant time.
    Ok(expected == Output::new(output)?)
}

/// Checks that a configured text is an Argon2id hash of at least the minimum cost.
pub(crate) fn check_phc(text: &str) -> Result<(), String> {
    if phc_cost(text)?.meets_minimum() {
        Ok(())
    } else {
        Err("weaker than 19 MiB, 2 passes, 1 lane".to_owned())
    }
}

pub(crate) fn phc_cost(text: &str) -> Result<PasswordCost, String> {
    let phc = Phc::new(text).map_err(|error| format!("not a PHC string: {error}"))?;
    if Algorithm::try_from(phc.algorithm.as_str()) != Ok(Algorithm::Argon2id) {
        return Err("not an Argon2id hash".to_owned());
    }
    if phc.salt.is_none() || phc.hash.is_none() {
        return Err("the salt or the hash is missing".to_owned());
    }
    let params = Params::try_from(&phc).map_err(|error| error.to_string())?;
    let cost = PasswordCost {
        memory_kib: params.m_cost(),
        iterations: params.t_cost(),
        parallelism: params.p_cost(),
    };
    if MAX_COST.is_at_least(&cost) {
        Ok(cost)
    } else {
        Err("more expensive than 1 GiB, 100 passes, 64 lanes".to_owned())
    }
}

/// Checks a password and returns its hash for the configuration, a PHC string. Blocks its thread: not for async threads.
///
/// # Errors
/// [`ServiceError::Refused`] with `password_rejected`.
pub fn hash_password_phc(
    password: &str,
    username: Option<&str>,
    settings: &Settings,
    entropy: &dyn Entropy,
) -> Result<String> {
    check_strength(password, username.unwrap_or_default(), &settings.service_name, "")?;
    Ok(hash(password, settings.password, entropy, &mut Argon2Memory::default())?.0)
}

/// Checks the strength of a new password: long, not common, without the user's or the service's name. There are no rules for
/// kinds of characters.
pub(crate) fn check_strength(
    password: &str,
    username: &str,
    service_name: &str,
    pointer: &str,
) -> Result<()> {
    let reject = |detail: String| Err(ServiceError::refused(pointer, "password_rejected", detail));
    let password = normal_form(password);
    let password = password.expose_secret();
    let length = password.chars().count();
    if !(LENGTH_MIN_CHARS..=LENGTH_MAX_CHARS).contains(&length) {
        return reject(format!(
            "a password has {LENGTH_MIN_CHARS} to {LENGTH_MAX_CHARS} characters, this one has {length}"
        ));
    }
    // Case is folded, because guessing programs vary it. Similar spellings that remain different in normal form C are not
    // folded: no list of common passwords contains them, and a name in such a spelling is accepted.
    let folded = in_lower_case(password);
    for (what, name) in [("your user name", username), ("the service's name", service_name)] {
        let name = in_lower_case(normal_form(name).expose_secret());
        if name.chars().count() >= NAME_MIN_CHARS && folded.contains(&name) {
            return reject(format!("the password must not contain {what}"));
        }
    }
    if is_common(&folded) {
        return reject("the password is one of the first that an attacker tries".to_owned());
    }
    Ok(())
}

/// Converts each character by itself, so that a part of a text remains a part of it in lower case: `str::to_lowercase`
/// converts a sigma at the end of a word in another way.
fn in_lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Whether a password is listed, repeats a short piece, or is a listed entry followed by digits and marks.
fn is_common(folded: &str) -> bool {
    let listed = |text: &str| COMMON_PASSWORDS.contains(text);
    let stem = folded.trim_end_matches(|character: char| !character.is_alphabetic());
    if listed(folded) || (stem.chars().count() >= 8 && listed(stem)) {
        return true;
    }
    let characters: Vec<char> = folded.chars().collect();
    (1..=characters.len() / 2).any(|period| {
        period <= 6 && characters.iter().zip(characters.iter().skip(period)).all(|(a, b)| a == b)
    })
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordHasher as _;

    use super::*;

    fn verdict(password: &str) -> bool {
        check_strength(password, "Marvin", "tracewarden", "/new_password").is_ok()
    }

    #[test]
    fn password_length_is_in_characters_without_composition_rules() {
        let long: String = "zqü xk! 7v".chars().cycle().take(257).collect();
        let longest: String = long.chars().take(256).collect();
        for good in ["nothing much here", "🦉🦉🦊🦊🦝🦝🐻🐼🐨🐯🦁🐮", &longest, "zqjxkvwypbgh"]
        {
            assert!(verdict(good), "{good}");
        }
        for bad in ["", "short", "elevenchars", &long] {
            assert!(!verdict(bad), "{bad}");
        }
    }

    #[test]
    fn easily_guessed_passwords_are_refused() {
        for bad in [
            "password1234",
            "Password12345!",
            "qwertyuiop12",
            "administrator",
            "aaaaaaaaaaaaaaa",
            "abcabcabcabc",
            "123412341234",
            "123456789012",
            "i am marvin, hi",
            "TraceWarden-2026",
            "correcthorsebatterystaple",
        ] {
            assert!(!verdict(bad), "{bad}");
        }
    }

    #[test]
    fn common_passwords_are_refused_also_when_extended() {
        let mut long = 0;
        for common in include_str!("../../tests/most_common_passwords.txt").lines() {
            long += usize::from(common.len() >= LENGTH_MIN_CHARS);
            assert!(!verdict(common), "{common}");
            assert!(!verdict(&common.to_uppercase()), "{common}");
            if common.len() >= 8 && common.ends_with(|last: char| last.is_alphabetic()) {
                assert!(!verdict(&format!("{common}2026!")), "{common}");
            }
        }
        assert!(long >= 5, "{long} of them are refused by the list alone");
        assert!(
            COMMON_PASSWORDS.len() > 3_000
                && COMMON_PASSWORDS.iter().all(|entry| *entry == entry.to_lowercase())
        );
        let long = COMMON_PASSWORDS.iter().filter(|entry| entry.chars().count() >= LENGTH_MIN_CHARS).count();
        assert!(long > 1_700, "{long}");
    }

    #[test]
    fn hashes_equal_those_of_the_library_in_any_memory() {
        struct FixedEntropy;
        impl Entropy for FixedEntropy {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
                bytes.fill(7);
                Ok(())
            }
        }
        let floor = PasswordCost::MINIMUM;
        let dearer = PasswordCost { memory_kib: floor.memory_kib + 4_096, iterations: 3, parallelism: 2 };
        let mut memory = Argon2Memory::default();
        // Low cost after high cost, so that memory with leftover data, also beyond its end, is reused.
        for cost in [floor, dearer, floor, dearer] {
            let computed = hash("one", cost, &FixedEntropy, &mut memory).unwrap();
            let params = Params::new(cost.memory_kib, cost.iterations, cost.parallelism, None).unwrap();
            let library = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            assert_eq!(
                computed.0,
                library.hash_password_with_salt(b"one", &[7; SALT_BYTES]).unwrap().to_string()
            );
            assert!(verify("one", &computed, &mut memory).unwrap());
            assert!(!verify("two", &computed, &mut memory).unwrap());
        }
        let over_max_cost = "$argon2id$v=19$m=4294967295,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA";
        for unreadable in [
            "",
            "$argon2id$v=19$m=19456,t=2,p=1",
            "$md5$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$AAAA",
            over_max_cost,
        ] {
            assert!(check_phc(unreadable).is_err(), "{unreadable}");
            assert!(
                verify("one", &PasswordHash(unreadable.to_owned()), &mut memory).is_err(),
                "{unreadable}"
            );
        }
    }

    #[tokio::test]
    async fn every_verification_computes_a_hash_of_each_cost() {
        struct CountingEntropy(std::sync::atomic::AtomicU8);
        impl Entropy for CountingEntropy {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
                bytes.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
                Ok(())
            }
        }
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy(std::sync::atomic::AtomicU8::new(0)));
        let passwords = Passwords::new(&Settings::default(), Arc::clone(&entropy)).unwrap();
        let cheap = PasswordCost { memory_kib: 8_192, iterations: 1, parallelism: 1 };
        let dear = PasswordCost { iterations: 4, ..PasswordCost::MINIMUM };
        let costs = |stored: Option<&PasswordHash>| -> Vec<(PasswordCost, bool)> {
            let hashes = passwords.hashes_of_each_cost(stored);
            hashes.iter().map(|(hash, is_stored)| (phc_cost(&hash.0).unwrap(), *is_stored)).collect()
        };
        assert_eq!(costs(None), [(PasswordCost::MINIMUM, false)]);
        let right = passwords.hash("right".to_owned().into()).await.unwrap();
        let [cheap_hash, dear_hash] = [cheap, dear].map(|cost| decoy(cost, entropy.as_ref()).unwrap());
        // The first verification registers costs that were not registered before.
        for stored in [&cheap_hash, &dear_hash] {
            assert_eq!(
                passwords.verify("right".to_owned().into(), Some(stored)).await.unwrap(),
                PasswordMatch::NoMatch
            );
        }
        passwords.register_cost(&PasswordHash("unreadable".to_owned())).unwrap();
        let all = |stored: Option<&PasswordHash>, at: Option<usize>| {
            let all = [PasswordCost::MINIMUM, cheap, dear].into_iter().enumerate();
            let expected: Vec<_> = all.map(|(place, cost)| (cost, Some(place) == at)).collect();
            assert_eq!(costs(stored), expected);
        };
        all(None, None);
        for (place, stored) in [&right, &cheap_hash, &dear_hash].into_iter().enumerate() {
            all(Some(stored), Some(place));
        }
        for (stored, verified) in [(Some(&right), PasswordMatch::NormalForm), (None, PasswordMatch::NoMatch)]
        {
            assert_eq!(passwords.verify("right".to_owned().into(), stored).await.unwrap(), verified);
            assert_eq!(
                passwords.verify("wrong".to_owned().into(), stored).await.unwrap(),
                PasswordMatch::NoMatch
            );
        }
        let unreadable = PasswordHash("unreadable".to_owned());
        assert!(passwords.verify("right".to_owned().into(), Some(&unreadable)).await.is_err());
        // A hash that cannot be computed, placed last, shows that all hashes are computed: verification reaches it whether or
        // not an earlier hash matched.
        let another = PasswordCost { iterations: 5, ..PasswordCost::MINIMUM };
        passwords.decoys.write().unwrap().push((another, unreadable));
        for stored in [Some(&right), Some(&dear_hash), None] {
            assert!(passwords.verify("right".to_owned().into(), stored).await.is_err());
        }
    }

    #[test]
    fn only_strong_argon2id_hashes_are_configured() {
        let strong = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$\
                      hvdPN9gs5h4Ve5VDnkHyWWzCfFcUMYEYjJKpWUFdHV8";
        assert_eq!(check_phc(strong), Ok(()));
        for weak in [
            "hunter2",
            &strong.replace("argon2id", "argon2i"),
            &strong.replace("m=19456", "m=1024"),
            &strong.replace("t=2", "t=1"),
            "$argon2id$v=19$m=19456,t=2,p=1",
        ] {
            assert!(check_phc(weak).is_err(), "{weak}");
        }
    }
}
