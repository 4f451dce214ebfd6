#![forbid(unsafe_code)]

use debug_guard::BackEnd;

/// Parses the one back end that a command line or setting allows.
///
/// # Errors
/// What is expected instead.
pub fn parse_back_end(text: &str) -> Result<BackEnd, String> {
    // Cookies are the fallback, and cannot be named.
    let all = BackEnd::ALL.iter().copied().filter(|back_end| *back_end != BackEnd::Cookies);
    let named = all.clone().find(|back_end| back_end.name().eq_ignore_ascii_case(text));
    named.ok_or_else(|| format!("expected {}", all.map(BackEnd::name).collect::<Vec<_>>().join(", ")))
}
