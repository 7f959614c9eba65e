//! Checks of names, texts and attributes that administrators send.

use std::collections::{BTreeMap, BTreeSet};

use tracewarden_appdb::{ADMIN_ROLE, ReadTx, User};
use tracewarden_model::AttributeValue;
use tracewarden_model::invisible::is_invisible_or_bidi_control;
use tracewarden_model::nearest::nearest;

use crate::core::error::{Result, ServiceError};
use crate::core::field_error::{FieldError, unknown};
use crate::core::username_characters;

const ATTRIBUTES_MAX: usize = 64;
/// Total size of all values: some hundred users are read at a time, with all of their attributes.
const ATTRIBUTES_MAX_BYTES: usize = 256 * 1024;
const ATTRIBUTE_NAME_MAX_CHARS: usize = 128;
const ATTRIBUTE_VALUE_MAX_CHARS: usize = 1_024;
const ATTRIBUTE_LIST_MAX: usize = 1_000;
const USERNAME_MAX_CHARS: usize = 128;
const ROLE_NAME_MAX_BYTES: usize = 64;

pub(crate) fn no_errors(errors: Vec<FieldError>) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(ServiceError::Refused(errors)) }
}

/// Whether both databases can store the text: PostgreSQL does not support U+0000 in texts. With either database, such text is
/// rejected where it would be stored, and a look-up by it finds nothing.
pub(crate) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

/// Returns a name to look up, unless no stored name can equal it.
pub(crate) fn lookup_name<'a>(name: &'a str, what: &'static str) -> Result<&'a str> {
    if is_storable(name) { Ok(name) } else { Err(ServiceError::NotFound { what }) }
}

/// Checks a text of any number of lines.
pub(crate) fn text(text: &str, pointer: &str, chars_max: usize, errors: &mut Vec<FieldError>) {
    let problem = if text.chars().count() > chars_max {
        format!("must have at most {chars_max} characters")
    } else if !is_storable(text) {
        "must not contain U+0000".to_owned()
    } else {
        return;
    };
    errors.push(FieldError::invalid(pointer, problem));
}

/// Checks a short line of text for display.
pub(crate) fn title(text: &str, pointer: &str, chars_max: usize, errors: &mut Vec<FieldError>) {
    let problem = if text.trim().is_empty() {
        "must not be blank".to_owned()
    } else if text.chars().count() > chars_max {
        format!("must have at most {chars_max} characters")
    } else if let Some(hidden) = text.chars().find(|character| is_invisible_or_bidi_control(*character)) {
        format!("must not contain control or invisible characters, such as U+{:04X}", u32::from(hidden))
    } else {
        return;
    };
    errors.push(FieldError::invalid(pointer, problem));
}

/// Checks a user's name: it must be readable, typeable, distinguishable from other names, and usable in a path.
pub(crate) fn username(name: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    title(name, "/username", USERNAME_MAX_CHARS, errors);
    if errors.len() > before {
        return;
    }
    let has_outer_space = name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace);
    // Many clients and proxies remove a lone `.` or `..` from paths, and a slash separates segments.
    let fault = if has_outer_space || name == "." || name == ".." || name.contains(['/', '\\']) {
        Some("must not begin or end with a space, contain a slash, or be `.` or `..`".to_owned())
    } else {
        username_characters::username_fault(name)
    };
    errors.extend(fault.map(|fault| FieldError::invalid("/username", fault)));
}

pub(crate) fn is_role_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    name.len() <= ROLE_NAME_MAX_BYTES
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|byte| plain(byte) || b"._-".contains(&byte))
}

/// Returns the size in bytes of the values of all attributes.
pub(crate) fn attribute_bytes(attributes: &BTreeMap<String, AttributeValue>) -> usize {
    let bytes = |value: &AttributeValue| match value {
        AttributeValue::Bool(_) => 0,
        AttributeValue::String(text) => text.len(),
        AttributeValue::Strings(texts) => texts.iter().map(String::len).fold(0, usize::saturating_add),
    };
    attributes.values().map(bytes).fold(0, usize::saturating_add)
}

pub(crate) fn attributes(attributes: &BTreeMap<String, AttributeValue>, errors: &mut Vec<FieldError>) {
    if attribute_bytes(attributes) > ATTRIBUTES_MAX_BYTES {
        let detail = format!("attributes have at most {ATTRIBUTES_MAX_BYTES} bytes together");
        errors.push(FieldError::invalid("/attributes", detail));
    }
    if attributes.len() > ATTRIBUTES_MAX {
        let detail = format!("at most {ATTRIBUTES_MAX} attributes");
        errors.push(FieldError::invalid("/attributes", detail));
    }
    for (name, value) in attributes {
        let pointer = format!("/attributes/{}", pointer_token(name));
        title(name, &pointer, ATTRIBUTE_NAME_MAX_CHARS, errors);
        match value {
            AttributeValue::Bool(_) => {}
            AttributeValue::String(value) => text(value, &pointer, ATTRIBUTE_VALUE_MAX_CHARS, errors),
            AttributeValue::Strings(values) if values.len() > ATTRIBUTE_LIST_MAX => {
                let detail = format!("at most {ATTRIBUTE_LIST_MAX} texts in a list");
                errors.push(FieldError::invalid(pointer, detail));
            }
            AttributeValue::Strings(values) => {
                for (index, value) in values.iter().enumerate() {
                    text(value, &format!("{pointer}/{index}"), ATTRIBUTE_VALUE_MAX_CHARS, errors);
                }
            }
        }
    }
}

/// Returns the existing roles as stored: a role is found without regard to case, because no two differ only by case.
pub(crate) async fn roles(
    tx: &mut ReadTx,
    requested: BTreeSet<String>,
    errors: &mut Vec<FieldError>,
) -> Result<BTreeSet<String>> {
    let names: Vec<&str> = requested.iter().map(String::as_str).filter(|name| is_storable(name)).collect();
    let stored = tx.role_spellings(&names).await?;
    let is_known = |role: &&String| stored.iter().any(|name| name.eq_ignore_ascii_case(role));
    let unknown_roles: Vec<&String> = requested.iter().filter(|role| !is_known(role)).collect();
    if !unknown_roles.is_empty() {
        // Other writers may be waiting: reads names only, and only for a rejected request.
        let all = tx.role_names().await?;
        for role in unknown_roles {
            let suggestions = nearest(role, all.iter().map(String::as_str));
            errors.push(FieldError::new("/roles", "unknown_role", unknown("role", role, &suggestions)));
        }
    }
    Ok(stored)
}

/// Whether `admin` is among roles that are not looked up yet, in any case.
pub(crate) fn includes_admin(roles: &BTreeSet<String>) -> bool {
    roles.iter().any(|role| role.eq_ignore_ascii_case(ADMIN_ROLE))
}

pub(crate) fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

pub(crate) async fn find_user(tx: &mut ReadTx, username: &str) -> Result<User> {
    let username = lookup_name(username, "user")?;
    tx.user_by_name(username).await?.ok_or(ServiceError::NotFound { what: "user" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_names() {
        let long = "a".repeat(64);
        for good in ["a", "0", "A", "Team-Payments", "team-payments", "a.b_c-d", long.as_str()] {
            assert!(is_role_name(good), "{good}");
        }
        let longer = "a".repeat(65);
        for bad in ["", "-a", "Ä", ".a", "a b", "ä", "a/b", longer.as_str(), "a\n"] {
            assert!(!is_role_name(bad), "{bad}");
        }
    }

    #[test]
    fn attributes_have_bounds() {
        let is_fine = |given: BTreeMap<String, AttributeValue>| {
            let mut errors = Vec::new();
            attributes(&given, &mut errors);
            errors.is_empty()
        };
        let named = |count: usize| {
            (0..count).map(|number| (format!("a{number}"), AttributeValue::Bool(true))).collect()
        };
        assert!(is_fine(named(64)) && !is_fine(named(65)));
        let called = |length: usize| BTreeMap::from([("a".repeat(length), AttributeValue::Bool(true))]);
        assert!(is_fine(called(128)) && !is_fine(called(129)));
        let one = |value| BTreeMap::from([("a".to_owned(), value)]);
        let text = |length: usize| "ä".repeat(length);
        let string = |length| one(AttributeValue::String(text(length)));
        assert!(is_fine(string(1_024)) && !is_fine(string(1_025)));
        let list = |count, length| one(AttributeValue::Strings(vec![text(length); count]));
        assert!(is_fine(list(1_000, 1)) && !is_fine(list(1_001, 1)));
        assert!(is_fine(list(2, 1_024)) && !is_fine(list(2, 1_025)));
        assert!(is_fine(list(128, 1_024)) && !is_fine(list(129, 1_024)));
    }

    #[test]
    fn usernames_accept_names_of_people() {
        let check = |name: &str| {
            let mut errors = Vec::new();
            username(name, &mut errors);
            errors.is_empty()
        };
        for good in ["ada", "Ada Lovelace", "o'brien@example.org", "李雷", "'; DROP TABLE users; --"] {
            assert!(check(good), "{good}");
        }
        for bad in [
            "",
            "  ",
            " ada",
            "ada ",
            "a/b",
            "..",
            "a\u{202E}b",
            "a\u{0}b",
            "a\u{AD}da",
            "ade\u{301}",
            &"x".repeat(129),
        ] {
            assert!(!check(bad), "{bad:?}");
        }
    }
}
