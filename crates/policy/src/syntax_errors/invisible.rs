//! Characters that are invisible, look like a space or change the text direction.

use tracewarden_model::invisible::is_invisible_or_bidi_control;

/// Replaces invisible characters and characters that change the text direction by CEL escapes, so that suggestions can
/// still be pasted. Characters of ordinary scripts stay as they are.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            other if invisible_replacement(other).is_none() => shown.push(other),
            other if u32::from(other) <= 0xffff => shown.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => shown.push_str(&format!("\\U{:08x}", u32::from(other))),
        }
    }
    shown
}

/// For a character that is invisible or looks like a space, returns the text that it looks like.
pub(crate) fn invisible_replacement(character: char) -> Option<&'static str> {
    match character {
        '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200a}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{3000}'
        | '\u{2800}' => Some(" "),
        // Line breaks that only some programs recognise.
        '\u{b}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(" "),
        other if is_invisible_or_bidi_control(other) => Some(""),
        _ => None,
    }
}

#[test]
fn no_invisible_character_stays() {
    for hidden in ('\0'..=char::MAX).filter(|character| is_invisible_or_bidi_control(*character)) {
        assert!(escape_invisible(&format!("a{hidden}b")).is_ascii(), "{hidden:?}");
    }
    for shown in ["é", "김", "❤\u{fe0f}", "\u{600}"] {
        assert_eq!(escape_invisible(shown), shown);
    }
}
