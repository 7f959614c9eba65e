//! Token counts of two common tokenizers.

use tiktoken_rs::{cl100k_base_singleton, o200k_base_singleton};

/// Returns the number of tokens for the newer of the two.
pub fn tokens(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// Returns the larger of the two numbers.
pub fn most_tokens(text: &str) -> usize {
    tokens(text).max(cl100k_base_singleton().encode_ordinary(text).len())
}
