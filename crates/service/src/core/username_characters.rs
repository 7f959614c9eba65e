//! Characters permitted in user names, so that no two users have names that look the same because of an invisible difference.
//! Similar letters of different scripts are not compared.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointMapDataBorrowed;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use tracewarden_model::invisible::is_default_ignorable;

pub(crate) fn username_fault(name: &str) -> Option<String> {
    let categories = CodePointMapDataBorrowed::<GeneralCategory>::new();
    let mut before = ' ';
    for character in name.chars() {
        let category = categories.get(character);
        let code = u32::from(character);
        if !is_visible(character, category) {
            return Some(format!("must not contain U+{code:04X}, which is invisible or looks like a space"));
        }
        if GeneralCategoryGroup::Mark.contains(category) && before == ' ' {
            return Some(format!(
                "must not contain U+{code:04X} without a character before it to combine with"
            ));
        }
        before = character;
    }
    let composed = ComposingNormalizerBorrowed::new_nfc().is_normalized(name);
    (!composed).then(|| "must be in Unicode's normal form C, in which `é` is one character".to_owned())
}

/// Whether a character is visible, or is the space.
fn is_visible(character: char, category: GeneralCategory) -> bool {
    // Separators are the other spaces; `Other` is control, format, private and unassigned.
    let unseen = GeneralCategoryGroup::Separator.union(GeneralCategoryGroup::Other).contains(category);
    character == ' ' || !(unseen || is_default_ignorable(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_people_are_accepted() {
        for good in [
            "ada",
            "Ada Lovelace",
            "o'brien@example.org",
            "李雷",
            "Zoë",
            "Ἀριστοτέλης",
            "अमित",
            "ก้อง",
            "محمد",
            "שָׁלוֹם",
            "Nguyễn Thị Minh Khai",
            "Đặng",
            "김철수",
            "İpek",
            "ada 🦉",
            "x\u{0323}\u{0301}",
        ] {
            let good = ComposingNormalizerBorrowed::new_nfc().normalize(good);
            assert_eq!(username_fault(&good), None, "{good}");
        }
    }

    #[test]
    fn invisible_characters_are_refused_and_named() {
        for unseen in [
            '\u{AD}',
            '\u{34F}',
            '\u{61C}',
            '\u{115F}',
            '\u{1160}',
            '\u{17B4}',
            '\u{180B}',
            '\u{180E}',
            '\u{200B}',
            '\u{200D}',
            '\u{202E}',
            '\u{2028}',
            '\u{2065}',
            '\u{2800}',
            '\u{3164}',
            '\u{FE00}',
            '\u{FE0F}',
            '\u{FEFF}',
            '\u{FFA0}',
            '\u{FFF9}',
            '\u{FFFC}',
            '\u{1BCA0}',
            '\u{1D159}',
            '\u{E0041}',
            '\u{E0100}',
            '\u{A0}',
            '\u{2003}',
            '\u{3000}',
            '\u{E000}',
            '\u{378}',
            '\u{7}',
        ] {
            for name in [format!("ad{unseen}a"), format!("ada{unseen}"), unseen.to_string()] {
                let username_fault = username_fault(&name).unwrap();
                let code = format!("U+{:04X}", u32::from(unseen));
                assert!(username_fault.contains(&code), "{username_fault}");
            }
        }
    }

    #[test]
    fn combining_marks_need_a_base_character() {
        for alone in ["\u{301}", "\u{301}ada", "ada \u{301}", "\u{20DD}"] {
            assert!(username_fault(alone).unwrap().contains("to combine with"), "{alone:?}");
        }
    }

    #[test]
    fn names_must_be_in_normal_form_c() {
        assert_eq!(username_fault("Zo\u{EB}"), None);
        for other in ["Zoe\u{308}", "\u{212B}sa", "\u{1112}\u{1161}\u{11AB}"] {
            assert!(username_fault(other).unwrap().contains("normal form C"), "{other:?}");
        }
    }
}
