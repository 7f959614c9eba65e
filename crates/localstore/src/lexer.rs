//! Lexer for ClickHouse's tokens, as far as needed to distinguish statements. The engine's parser is authoritative:
//! this lexer decides only how a statement is passed on, not whether it may run.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword, identifier or number.
    Word,
    /// A quoted identifier or a string, heredocs included.
    Quoted,
    /// Any other single byte.
    Punctuation(u8),
}

/// A token with its position in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    /// Whether this is the keyword, in any case.
    pub fn is(&self, text: &[u8], keyword: &str) -> bool {
        self.kind == Kind::Word
            && text
                .get(self.start..self.end)
                .is_some_and(|word| word.eq_ignore_ascii_case(keyword.as_bytes()))
    }

    /// Whether this is one of the keywords, in any case.
    pub fn is_any(&self, text: &[u8], keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(text, keyword))
    }

    /// Returns the text of a word or of a quoted identifier without escapes.
    pub fn name<'a>(&self, text: &'a [u8]) -> Option<&'a str> {
        let (start, end) = match self.kind {
            Kind::Word => (self.start, self.end),
            Kind::Quoted => (self.start.checked_add(1)?, self.end.checked_sub(1)?),
            Kind::Punctuation(_) => return None,
        };
        std::str::from_utf8(text.get(start..end)?).ok()
    }
}

/// Iterates over the tokens of a text and skips blanks and comments. An unclosed quote or comment extends to the end.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at.checked_add(ahead)?).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Advances past the next occurrence of `needle`, or to the end.
    fn skip_past(&mut self, needle: &[u8]) {
        let found = self.rest().windows(needle.len().max(1)).position(|window| window == needle);
        self.at = found.map_or(self.text.len(), |offset| self.at + offset + needle.len());
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(byte), _) if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
                (Some(b'-'), Some(b'-')) | (Some(b'#'), Some(b' ' | b'!')) => self.skip_past(b"\n"),
                (Some(b'/'), Some(b'*')) => {
                    self.at += 2;
                    self.skip_past(b"*/");
                }
                _ => return,
            }
        }
    }

    /// Advances past a quoted token; a backslash or a doubled quote does not end it.
    fn skip_quoted(&mut self, quote: u8) {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            if byte == b'\\' {
                self.at += 1;
            } else if byte == quote {
                if self.peek(0) != Some(quote) {
                    return;
                }
                self.at += 1;
            }
        }
        self.at = self.text.len();
    }

    /// Returns the opening tag of a heredoc at this position: `$$` or `$name$`.
    fn heredoc_tag(&self) -> Option<&'a [u8]> {
        let rest = self.rest();
        let length = rest.iter().skip(1).position(|byte| *byte == b'$')?;
        let tag = rest.get(..length + 2)?;
        tag.get(1..=length)?.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').then_some(tag)
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.skip_blanks_and_comments();
        let start = self.at;
        let first = self.peek(0)?;
        let kind = match first {
            b'\'' | b'"' | b'`' => {
                self.skip_quoted(first);
                Kind::Quoted
            }
            b'$' if self.heredoc_tag().is_some() => {
                let tag = self.heredoc_tag().unwrap_or_default();
                self.at += tag.len();
                self.skip_past(tag);
                Kind::Quoted
            }
            byte if is_word_byte(byte) => {
                while self.peek(0).is_some_and(is_word_byte) {
                    self.at += 1;
                }
                Kind::Word
            }
            byte => {
                self.at += 1;
                Kind::Punctuation(byte)
            }
        };
        self.at = self.at.min(self.text.len());
        Some(Token { kind, start, end: self.at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        Lexer::new(text.as_bytes()).map(|token| &text[token.start..token.end]).collect()
    }

    #[test]
    fn splits_words_strings_and_comments() {
        assert_eq!(
            texts("SELECT 'a''b\\'c' -- x\n, `d` /* ; */ FROM t1"),
            ["SELECT", "'a''b\\'c'", ",", "`d`", "FROM", "t1"]
        );
        assert_eq!(texts("select $x$ ' ; $x$ , $$;$$"), ["select", "$x$ ' ; $x$", ",", "$$;$$"]);
    }

    #[test]
    fn never_runs_past_the_end() {
        for text in ["'", "'\\", "`a", "/*", "--", "$a$", "$", "", "\u{e9}", "'a''"] {
            assert!(
                Lexer::new(text.as_bytes()).all(|token| token.start < token.end && token.end <= text.len()),
                "{text}"
            );
        }
    }
}
