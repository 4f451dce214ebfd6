//! Patterns of names with stars.

#![forbid(unsafe_code)]

/// Whether `text` matches `pattern`, in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<_> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    // The leftmost match of each part leaves the most text for later parts.
    for part in parts {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("llvmpipe Mesa 22.3.*", "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"),
            ("*", ""),
            ("a*b*c", "abc"),
            ("a*b*c", "a b b c c"),
            ("same", "same"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("llvmpipe Mesa 22.3.*", "llvmpipe Mesa 22.2.6"),
            ("a*a", "a"),
            ("a*b*b", "ab"),
            ("", "x"),
            ("x", ""),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
