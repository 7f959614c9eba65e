//! Fuzz tests of cursors, tokens, hashes and names with arbitrary text.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fuzzing::{parts, target, texts, within_time_limit};
use secrecy::ExposeSecret as _;
use tracewarden_model::Entropy;
use tracewarden_model::ambient::EntropyError;
use tracewarden_model::invisible::is_invisible_or_bidi_control;

use crate::core::{
    CursorKey, check_phc, check_strength, decode, encode, normal_form, phc_cost, tokens, validate,
};

/// Entropy that the fuzzer chooses, repeated cyclically.
struct FuzzedEntropy(Mutex<(Vec<u8>, usize)>);

impl FuzzedEntropy {
    fn new(bytes: &[u8]) -> Self {
        // Code that discards biased bytes must eventually find a usable one.
        Self(Mutex::new(([bytes, b"0123456789"].concat(), 0)))
    }
}

impl Entropy for FuzzedEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        let mut state = self.0.lock().unwrap();
        for byte in bytes {
            let at = state.1 % state.0.len();
            *byte = state.0[at];
            state.1 += 1;
        }
        Ok(())
    }
}

#[test]
fn cursors() {
    let key = || CursorKey::new(&[7; 32]).unwrap();
    // A valid cursor, which the fuzzer mutates.
    let plain =
        [&[2][..], &[2; 64], &1_i64.to_be_bytes(), &2_i64.to_be_bytes(), &[1], &5_i64.to_be_bytes(), b"4bf9"]
            .concat();
    let sealed = key().seal(&decode(&plain).unwrap(), &FuzzedEntropy::new(b"nonce")).unwrap();
    let known = sealed.clone();
    let check = move |input: &[u8]| {
        // Decrypted content, which only holders of the key can create.
        if let Some(cursor) = within_time_limit(|| decode(input)) {
            assert_eq!(encode(&cursor), input);
            assert!(cursor.window.from() < cursor.window.to());
            let text = key().seal(&cursor, &FuzzedEntropy::new(input)).unwrap();
            // Trace ids are bounded where they are read; longer ones never get into valid cursors.
            if text.len() <= 4_096 {
                assert_eq!(key().open(&text).unwrap(), cursor);
            }
        }
        // A cursor that was not encrypted with the key is rejected.
        let text = &*String::from_utf8_lossy(input);
        if let Ok(cursor) = within_time_limit(|| key().open(text)) {
            assert_eq!((text, encode(&cursor)), (&*known, plain.clone()));
        }
    };
    let mut seeds = vec![decode_base64(&sealed), sealed.clone().into_bytes()];
    seeds.extend(texts(["AAAA", "="]));
    seeds.push(
        [&[1][..], &[0; 96], &0_i64.to_be_bytes(), &i64::MAX.to_be_bytes(), &[0], &[0xff; 8], "é".as_bytes()]
            .concat(),
    );
    target!(seeds, &check);
}

fn decode_base64(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

#[test]
fn keys() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if within_time_limit(|| tokens::is_api_key(text)) {
            assert!([40, 53].contains(&text.len()) && text.is_ascii() && text.starts_with("twk_"), "{text}");
        }
        if within_time_limit(|| tokens::is_generated_password(text)) {
            assert!(text.len() == 24 && !text.contains(['i', 'l', 'o', '0', '1']), "{text}");
        }
        assert!(tokens::hint(text).chars().count() <= 8);
        let entropy = FuzzedEntropy::new(input);
        let key = tokens::api_key(&entropy).unwrap();
        let key = key.expose_secret();
        assert!(tokens::is_api_key(key), "{key}");
        // A changed character at any position makes the key invalid.
        let (at, other) = (input.len() % key.len(), char::from(b"abcABC019_"[input.len() % 10]));
        let changed: String =
            key.chars().enumerate().map(|(place, known)| if place == at { other } else { known }).collect();
        assert_eq!(tokens::is_api_key(&changed), changed == *key, "{changed}");
        assert!(tokens::is_generated_password(tokens::password(&entropy).unwrap().expose_secret()));
    };
    let seeds =
        texts(["twk_000000000000000000000000000000abcdef", "abcd-efgh-jkmn-pqrs-tuvw", "\u{ff}\0\u{1}"]);
    target!(seeds, check, 300);
}

/// Hashes from the configuration: accepted ones have a cost that can be computed.
#[test]
fn hashes() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Ok(cost) = within_time_limit(|| phc_cost(text)) {
            assert!(
                cost.memory_kib <= 1 << 20 && cost.iterations <= 100 && cost.parallelism <= 64,
                "{cost:?}"
            );
            assert_eq!(check_phc(text).is_ok(), cost.meets_minimum());
        } else {
            assert!(check_phc(text).is_err());
        }
    };
    let hash =
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2E$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let seeds = texts([
        hash.to_owned(),
        hash.replace("19456", "4294967295"),
        hash.replace("t=2", "t=4294967295"),
        hash.replace("p=1", "p=16777215"),
        hash.replace("argon2id", "argon2i"),
        hash.replace("v=19$", ""),
        "$argon2id$".to_owned(),
    ]);
    target!(seeds, check);
}

#[test]
fn names() {
    let check = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let text = &*text;
        let mut errors = Vec::new();
        within_time_limit(|| validate::username(text, &mut errors));
        if errors.is_empty() {
            assert_eq!(text.trim(), text);
            assert!(
                (1..=128).contains(&text.chars().count()) && !text.contains(['/', '\\', '\0']),
                "{text:?}"
            );
            assert!(
                text != "." && text != ".." && !text.chars().any(is_invisible_or_bidi_control),
                "{text:?}"
            );
            assert!(text.chars().all(|character| character == ' ' || !character.is_whitespace()), "{text:?}");
        }
        let mut errors = Vec::new();
        within_time_limit(|| validate::title(text, "/title", 100, &mut errors));
        assert!(
            !errors.is_empty()
                || (!text.trim().is_empty() && !text.chars().any(is_invisible_or_bidi_control)),
            "{text:?}"
        );
        if within_time_limit(|| validate::is_role_name(text)) {
            assert!(
                (1..=64).contains(&text.len()) && text.is_ascii() && !text.contains(char::is_whitespace),
                "{text}"
            );
            // The name can be used in a URL without escaping.
            assert!(
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)),
                "{text}"
            );
        }
        let [password, name] = parts::<2>(input).map(|part| String::from_utf8_lossy(part).into_owned());
        if within_time_limit(|| check_strength(&password, &name, "tracewarden", "")).is_ok() {
            // Checked in the normal form, as the comparison does; it may have fewer characters.
            let [password, name] = [&password, &name].map(|text| normal_form(text));
            let (password, name) = (password.expose_secret(), name.expose_secret());
            assert!((12..=256).contains(&password.chars().count()), "{password:?}");
            assert!(name.chars().count() < 3 || !password.contains(name), "{password:?}");
            let first = password.chars().next();
            assert!(password.chars().any(|character| Some(character) != first), "{password:?}");
        }
    };
    let seeds = texts([
        "ada lovelace",
        "größe",
        "e\u{301}",
        "payments.on-call_2",
        "a\u{200b}b",
        "\u{2800}",
        "correct horse battery staple\0horse",
        "passwordpassword1!\0ada",
        "\u{1f468}\u{200d}\u{1f469}",
        // More code points than characters.
        &format!("{}a1!x\0Ada", "e\u{301}b".repeat(120)),
        "ΟΔΟΣ 7 correct horse\0ΟΔΟΣ",
    ]);
    target!(seeds, check);
}
