//! Formats a pattern of ClickHouse's dialect the way users write patterns.

use crate::syntax_errors::invisible_replacement;

/// Characters that stay escaped, so that the text stays on one line and ends where it seems to end.
const ALWAYS_ESCAPED: [char; 1] = ['`'];

/// Removes syntax that only the engines need: escapes of literal characters, groups around a single repeated item, and
/// the flag at the beginning of every pattern. The result parses to the same pattern.
pub(crate) fn readable(re2: &str) -> String {
    let pattern = re2.strip_prefix("(?-s)").unwrap_or(re2);
    let characters: Vec<char> = pattern.chars().collect();
    let mut written = Vec::new();
    let mut groups: Vec<usize> = Vec::new();
    let (mut at, mut in_class) = (0, false);
    while let Some(&character) = characters.get(at) {
        let rest = characters.get(at..).unwrap_or_default();
        let mut length = 1;
        match (character, rest.get(1), in_class) {
            ('\\', Some('x'), _) if rest.get(2) == Some(&'{') => {
                let digits: String = rest.iter().skip(3).take_while(|digit| **digit != '}').collect();
                length = digits.len() + 4;
                written.push(literal(&digits, in_class));
            }
            ('\\', Some(other), _) => {
                length = 2;
                written.push(format!("\\{other}"));
            }
            ('[', Some(':'), true) => {
                length = rest.iter().take_while(|other| **other != ']').count() + 1;
                written.push(rest.iter().take(length).collect());
            }
            ('[', ..) => {
                // A class is one item for a repetition, like a character.
                length = 1 + usize::from(rest.get(1) == Some(&'^'));
                written.push(rest.iter().take(length).collect());
                in_class = true;
            }
            (']', _, true) => {
                in_class = false;
                let start = written.iter().rposition(|part| part == "[" || part == "[^").unwrap_or(0);
                let class: String = written.drain(start..).collect();
                written.push(match class.as_str() {
                    "[0-9" => "\\d".to_owned(),
                    "[^0-9" => "\\D".to_owned(),
                    "[0-9A-Za-z_" => "\\w".to_owned(),
                    "[^0-9A-Za-z_" => "\\W".to_owned(),
                    "[\\t\\n\\x0C\\r " => "\\s".to_owned(),
                    "[^\\t\\n\\x0C\\r " => "\\S".to_owned(),
                    _ => format!("{class}]"),
                });
            }
            ('(', _, false) => {
                length = match rest {
                    ['(', '?', ':', ..] => 3,
                    ['(', '?', ..] => rest.iter().take_while(|other| !matches!(other, ':' | ')')).count() + 1,
                    _ => 1,
                };
                let opening: String = rest.iter().take(length).collect();
                // Flags without a group, such as `(?i)`, need no closing bracket.
                if !opening.ends_with(')') {
                    groups.push(written.len());
                }
                written.push(opening);
            }
            (')', _, false) => {
                let start = groups.pop().unwrap_or(0);
                let repeated = matches!(rest.get(1), Some('*' | '+' | '?' | '{'));
                let plain = written.get(start).is_some_and(|opening| opening == "(?:");
                let is_single_item =
                    written.len() == start + 2 && written.last().is_some_and(|part| is_single_item(part));
                if plain && repeated && is_single_item {
                    written.remove(start);
                } else {
                    let group: String = written.drain(start..).collect();
                    written.push(format!("{group})"));
                }
            }
            (other, ..) => written.push(other.to_string()),
        }
        at += length;
    }
    written.concat()
}

/// Whether a repetition after this part repeats all of it.
fn is_single_item(part: &str) -> bool {
    let mut characters = part.chars();
    match (characters.next(), characters.next()) {
        (Some('[' | '('), _) => true,
        (Some('\\'), Some(other)) => !matches!(other, 'A' | 'z' | 'b'),
        (Some(other), None) => !matches!(other, '^' | '$' | '|' | '*' | '+' | '?'),
        _ => false,
    }
}

fn literal(digits: &str, in_class: bool) -> String {
    let escaped = || format!("\\x{{{digits}}}");
    let Some(character) = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) else {
        return escaped();
    };
    let special = match in_class {
        true => "\\[]^-&~",
        false => "\\.+*?()|[]{}^$",
    };
    match character {
        kept if ALWAYS_ESCAPED.contains(&kept) || invisible_replacement(kept).is_some() => escaped(),
        special_one if special.contains(special_one) => format!("\\{special_one}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn patterns_are_readable_and_equivalent() {
        for (pattern, expected) in [
            ("^v\\d+\\.[\\w-]*$", "^v\\d+\\.[0-9A-Za-z_\\-]*$"),
            ("\\D\\w\\W\\s\\S[0-9]", "\\D\\w\\W\\s\\S\\d"),
            ("[\\sa]", "[\\t\\n\\x0C\\r a]"),
            ("a/b c:d-e", "a/b c:d-e"),
            ("(?i)prod|stage", "(?i)prod|stage"),
            ("(?i:prod)x", "(?i:prod)x"),
            ("^(a|b)+?$", "^(?:a|b)+?$"),
            ("(?:ab){2,3}c{4}d{5,}", "(?:ab){2,3}c{4}d{5,}"),
            ("(?:a+)?", "(?:a+)?"),
            ("((a)b)*", "(?:(?:a)b)*"),
            ("(?s)a.b.", "(?s)a.b."),
            ("é日本😀", "é日本😀"),
            ("\\t`\u{202e}", "\\x{9}\\x{60}\\x{202E}"),
            ("[^\\]^a-c.]", "[^\\]\\^a-c.]"),
            ("[[:alpha:]_]+x", "[[:alpha:]_]+x"),
            ("\\bx\\b", "\\bx\\b"),
            ("(?:\\b)*x", "(?:\\b)*x"),
            ("(?:^)?a", "(?:^)?a"),
            ("\\Aa\\z", "\\Aa\\z"),
            ("\\$\\{p0\\}", "\\$\\{p0\\}"),
            ("", ""),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let written = readable(&parsed.re2);
            assert_eq!(written, expected, "{pattern}");
            let again = Pattern::parse(&written).unwrap();
            let plain = |re2: &str| {
                re2.replace("\\x{5F}", "_").replace("\\x{9}\\x{A}\\x{C}\\x{D}\\x{20}", "\\t\\n\\x0C\\r ")
            };
            assert_eq!(plain(&again.re2), plain(&parsed.re2), "{pattern}");
        }
    }
}
