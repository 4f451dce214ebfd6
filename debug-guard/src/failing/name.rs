//! Whose requests a plan is about: the name of a context, kept in the plan itself.

#![forbid(unsafe_code)]

use core::fmt;

/// Most bytes of a name.
pub(super) const MOST: usize = 63;

/// The name of contexts: exactly this, or beginning with it where it ends in `*`. 1 to 63 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContextName {
    length: u8,
    bytes: [u8; MOST],
}

impl ContextName {
    /// `None` where `name` is empty or too long.
    #[must_use]
    pub const fn new(name: &str) -> Option<Self> {
        let from = name.as_bytes();
        if from.is_empty() || from.len() > MOST {
            return None;
        }
        let mut bytes = [0; MOST];
        let (to, _) = bytes.split_at_mut(from.len());
        to.copy_from_slice(from);
        // At most 63.
        Some(Self { length: from.len() as u8, bytes })
    }

    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.length)).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    /// True where it stands for `name`.
    pub(super) fn is(&self, name: &str) -> bool {
        crate::guard::named(self.as_str(), name)
    }

    /// Eight words that say all, for atomics.
    pub(super) const fn words(&self) -> [u64; 8] {
        let mut words = [0; 8];
        let mut at = 0;
        while at < 8 {
            let mut word = [0; 8];
            let mut byte = 0;
            while byte < 8 {
                let place = at * 8 + byte;
                #[expect(clippy::indexing_slicing, reason = "below 64 by construction; a const fn knows no other way")]
                {
                    word[byte] = if place == MOST { self.length } else { self.bytes[place] };
                }
                byte += 1;
            }
            #[expect(clippy::indexing_slicing, reason = "as above")]
            {
                words[at] = u64::from_le_bytes(word);
            }
            at += 1;
        }
        words
    }

    /// What [`words`](Self::words) said.
    pub(super) fn from_words(words: [u64; 8]) -> Self {
        let mut all = words.iter().flat_map(|word| word.to_le_bytes());
        let mut bytes = [0; MOST];
        bytes.iter_mut().zip(&mut all).for_each(|(byte, from)| *byte = from);
        Self { length: all.next().unwrap_or(0), bytes }
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
        for length in 1..=MOST {
            let name = ContextName::new(&long[..length]).expect("1 to 63 bytes");
            assert_eq!(name.as_str(), &long[..length]);
            assert_eq!(ContextName::from_words(name.words()), name);
        }
        assert_eq!((ContextName::new(""), ContextName::new(&long[..64])), (None, None));
    }

    #[test]
    fn a_name_is_exact_or_a_beginning() {
        let is = |pattern, name| ContextName::new(pattern).expect("a name").is(name);
        assert!(is("VkBuffer", "VkBuffer") && !is("VkBuffer", "VkBufferView") && is("VkBuffer*", "VkBufferView"));
    }
}
