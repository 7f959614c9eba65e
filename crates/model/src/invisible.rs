//! Characters that people do not see, or that change what they see.

use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;

/// Assigned characters of a visible category that are nevertheless drawn as blank: Unicode's `UnicodeData.txt` names them
/// BLANK, NULL or OBJECT REPLACEMENT.
const BLANK_CHARACTERS: [char; 5] = ['\u{2800}', '\u{FFFC}', '\u{13441}', '\u{13442}', '\u{1D159}'];

/// Variation selector that displays the preceding character as an emoji; also used in the titles that users choose. It
/// carries no information except its presence.
const EMOJI_VARIATION_SELECTOR: char = '\u{FE0F}';

/// Whether a character is invisible although it is neither a space nor a control character; includes the characters that set
/// the text direction.
pub fn is_default_ignorable(character: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
        || BLANK_CHARACTERS.contains(&character)
}

/// Whether a character is a control character, is invisible or changes the text direction. Invisible characters include tags
/// and variation selectors, which can hide whole sentences from people but not from models.
pub fn is_invisible_or_bidi_control(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    // Line and paragraph separators; interlinear annotation characters.
    let breaks = matches!(character, '\u{2028}' | '\u{2029}' | '\u{FFF9}'..='\u{FFFB}');
    breaks
        || character.is_control()
        || (character != EMOJI_VARIATION_SELECTOR && is_default_ignorable(character))
}

#[test]
fn rejects_invisible_characters() {
    let hidden = "\0\u{7}\u{85}\u{AD}\u{34F}\u{61C}\u{115F}\u{17B4}\u{180B}\u{180F}\u{200B}\u{200D}\u{2028}\u{2029}\u{202E}\
                  \u{2065}\u{2800}\u{3164}\u{FE00}\u{FE0E}\u{FEFF}\u{FFA0}\u{FFF9}\u{FFFB}\u{1BCA0}\u{1D173}\u{E0041}\u{E0100}";
    hidden.chars().for_each(|character| assert!(is_invisible_or_bidi_control(character), "{character:?}"));
    "a ~é\u{301}אب김😀❤\u{FE0F}"
        .chars()
        .for_each(|character| assert!(!is_invisible_or_bidi_control(character), "{character:?}"));
}
