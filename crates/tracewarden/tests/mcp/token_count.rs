//! Tokens, as two tokenizers in common use count them.

use tiktoken_rs::{cl100k_base_singleton, o200k_base_singleton};

/// By the newer of the two.
pub fn tokens(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// By whichever needs more.
pub fn most_tokens(text: &str) -> usize {
    tokens(text).max(cl100k_base_singleton().encode_ordinary(text).len())
}
