//! The requester of a block. Call sites with the same 64 bits are merged: among a million that happens once in 30
//! million runs.

#![forbid(unsafe_code)]

use alloc_core::{ContextId, Scope};

use crate::fold::fold;
use crate::mode::Stacks;

const LONGEST_NAME: usize = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequesterInfo<'a> {
    /// Stands for `name` and `label`, which are read only for a new id: ids are never used again.
    pub(crate) context: Option<ContextId>,
    pub(crate) name: &'a str,
    pub(crate) label: Option<&'a str>,
    pub(crate) scope: Scope,
    /// Bytes of a C bridge's header in front of its caller's block.
    pub(crate) front: u32,
    pub(crate) command: Option<&'a CommandMark>,
}

/// The command that a thread is in, as the function of [`GuardOptions::command`](crate::GuardOptions::command) returns
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandMark {
    /// Its name, as `vkCreateBuffer`.
    pub name: &'static str,
    /// Its number, counted up over the process.
    pub serial: u64,
    /// An address in the stack frame that issued the command, where stacks end; 0: they do not.
    pub stack: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteView<'a> {
    pub(crate) context: Option<ContextId>,
    pub(crate) name: &'a str,
    pub(crate) label: Option<&'a str>,
    pub(crate) front: u32,
    pub(crate) command: Option<&'static str>,
    /// Innermost first.
    pub(crate) frames: &'a [usize],
    /// True when `frames` reach the frame of the command, or the thread's first where there is no command.
    pub(crate) whole: bool,
    /// The frames' modules are among the first so many that were noted.
    pub(crate) modules: u16,
}

pub(super) fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or("")
}

impl RequesterInfo<'_> {
    /// The scope alone is in the block's record too.
    #[inline]
    pub(super) fn is_anonymous(&self) -> bool {
        self.context.is_none()
            && self.command.is_none()
            && self.label.is_none()
            && self.front == 0
            && self.name.is_empty()
    }

    #[inline]
    pub(super) fn hash(&self, stacks: Stacks) -> u64 {
        let kind = (stacks as u64) << 4 | u64::from(self.scope.as_raw());
        let start = u64::from(self.front) << 8 | kind;
        let h = mix(1, start);
        let h = match self.context {
            Some(context) => mix(h, context.get()),
            None if self.name.is_empty() && self.label.is_none() => h,
            None => text(text(h, cut(self.name)), self.label.map_or("\0", cut)),
        };
        self.command.map_or(h, |command| text(h, command.name))
    }
}

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
const STEP: u64 = 0xa076_1d64_78bd_642f;

#[inline]
pub(super) const fn mix(h: u64, word: u64) -> u64 {
    fold(h ^ FIRST, word ^ SECOND ^ h.rotate_left(32))
}

pub(super) fn text(h: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let whole = words.iter().fold(mix(h, text.len() as u64), |h, word| mix(h, u64::from_le_bytes(*word)));
    let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    mix(whole, rest)
}

/// A sum of independent products, which are computed at once.
pub(super) fn stack(who: u64, frames: &[usize]) -> u64 {
    let (mut sum, mut key) = (0_u64, STEP);
    for frame in frames {
        sum = sum.wrapping_add(fold(*frame as u64 ^ key, SECOND));
        key = key.wrapping_add(STEP);
    }
    mix(who ^ key, sum)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::string::String;

    use super::*;

    #[test]
    fn everything_counts_and_a_context_stands_for_its_names() {
        let who =
            RequesterInfo { context: None, name: "a", label: None, scope: Scope::Object, front: 0, command: None };
        let [first, second] = ["vkA", "vkB"].map(|name| CommandMark { name, serial: 1, stack: 16 });
        let id = ContextId::from_raw;
        let all = [
            who,
            RequesterInfo { name: "b", ..who },
            RequesterInfo { label: Some("a"), ..who },
            RequesterInfo { scope: Scope::Cache, ..who },
            RequesterInfo { front: 16, ..who },
            RequesterInfo { command: Some(&first), ..who },
            RequesterInfo { command: Some(&second), ..who },
            RequesterInfo { context: id(1), ..who },
            RequesterInfo { context: id(2), ..who },
        ];
        let hashes: HashSet<u64> = all.iter().map(|who| who.hash(Stacks::Off)).collect();
        assert_eq!(hashes.len(), all.len());
        let other = RequesterInfo { name: "other", ..all[7] };
        assert_eq!(other.hash(Stacks::Off), all[7].hash(Stacks::Off), "the context says it all");
        let later = CommandMark { name: "vkA", serial: 9, stack: 99 };
        assert_eq!(
            all[5].hash(Stacks::Off),
            RequesterInfo { command: Some(&later), ..who }.hash(Stacks::Off),
            "not which run of the command"
        );
    }

    #[test]
    fn names_are_cut_between_characters() {
        let long = String::from("x") + &"é".repeat(150);
        assert_eq!(cut(&long).len(), 199);
        assert_eq!(cut("short"), "short");
    }
}

#[cfg(test)]
mod hash_tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn order_length_and_every_bit_count() {
        let of = |frames: &[usize]| stack(7, frames);
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[]), of(&[0]));
        assert_ne!(of(&[0]), of(&[0, 0]));
        assert_ne!(stack(1, &[1]), stack(2, &[1]));
        let mut seen = HashSet::new();
        for bit in 0..usize::BITS {
            for place in 0..8 {
                let mut frames = [0x5555_0000_usize; 8];
                frames[place] ^= 1 << bit;
                assert!(seen.insert(of(&frames)), "bit {bit} of frame {place}");
            }
        }
        assert_ne!(text(0, "ab"), text(0, "ab\0"), "the length counts");
        assert_ne!(text(0, "abcdefgh1"), text(0, "abcdefgh2"));
    }
}
