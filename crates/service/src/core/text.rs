//! Text from clients that is logged, recorded or shown.

use tracewarden_model::invisible::is_invisible_or_bidi_control;

const TEXT_MAX_CHARS: usize = 256;

/// Sanitises text from a client: limits its length and removes characters that could forge lines or reverse the text
/// direction.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars().filter(|character| !is_invisible_or_bidi_control(*character)).take(TEXT_MAX_CHARS).collect()
}
