//! The name of the contexts that a plan is about, stored in the plan.

#![forbid(unsafe_code)]

use core::fmt;

/// Maximum bytes of a name.
pub(super) const MAX_LEN: usize = 63;

/// The name of contexts: exactly this, or beginning with it where it ends in `*`. 1 to 63 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContextName {
    length: u8,
    bytes: [u8; MAX_LEN],
}

impl ContextName {
    /// `None` where `name` is empty or too long.
    #[must_use]
    pub const fn new(name: &str) -> Option<Self> {
        let from = name.as_bytes();
        if from.is_empty() || from.len() > MAX_LEN {
            return None;
        }
        let mut bytes = [0; MAX_LEN];
        let (to, _) = bytes.split_at_mut(from.len());
        to.copy_from_slice(from);
        // At most 63.
        Some(Self {
            length: from.len() as u8,
            bytes,
        })
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes
            .get(..usize::from(self.length))
            .and_then(|bytes| core::str::from_utf8(bytes).ok())
            .unwrap_or("")
    }

    /// True if it stands for `name`.
    pub(super) fn is(&self, name: &str) -> bool {
        crate::guard::name_matches(self.as_str(), name)
    }
}

impl fmt::Debug for ContextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for ContextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_come_back() {
        let long = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnop";
        for length in 1..=MAX_LEN {
            let name = ContextName::new(&long[..length]).expect("1 to 63 bytes");
            assert_eq!(name.as_str(), &long[..length]);
        }
        assert_eq!(
            (ContextName::new(""), ContextName::new(&long[..64])),
            (None, None)
        );
    }

    #[test]
    fn a_name_is_exact_or_a_beginning() {
        let is = |pattern, name| ContextName::new(pattern).expect("a name").is(name);
        assert!(
            is("VkBuffer", "VkBuffer")
                && !is("VkBuffer", "VkBufferView")
                && is("VkBuffer*", "VkBufferView")
        );
    }
}
