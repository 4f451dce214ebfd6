//! Patterns of names.

#![forbid(unsafe_code)]

/// Whether `text` matches `pattern`, in which `*` stands for any bytes and `?` for one.
#[must_use]
pub fn matches(pattern: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> bool {
    let (mut pattern, mut text) = (pattern.as_ref(), text.as_ref());
    // The pattern behind the last `*`, and the text to compare it with next.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                retry = Some((rest, text));
                pattern = rest;
            }
            (None, None) => return true,
            (Some((wanted, pattern_rest)), Some((byte, text_rest))) if *wanted == b'?' || wanted == byte => {
                (pattern, text) = (pattern_rest, text_rest);
            }
            _ => {
                let Some((behind_star, [_, shorter @ ..])) = retry else {
                    return false;
                };
                retry = Some((behind_star, shorter));
                (pattern, text) = (behind_star, shorter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_byte() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "vkcube", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("vk*", "vkcube", true),
            ("vk*", "xvkcube", false),
            ("*cube", "vkcubecube", true),
            ("*c?be*", "vkcube", true),
            ("v?", "vkc", false),
            ("?", "", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("llvmpipe Mesa 22.3.*", "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", true),
            ("llvmpipe Mesa 22.3.*", "llvmpipe Mesa 22.2.6", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
