//! The requester of a block, and its text in reports.

#![forbid(unsafe_code)]

use alloc_core::{ContextId, Scope};

use super::hash;

/// Longer names and labels are cut, at the end of a character.
pub(super) const LONGEST_NAME: usize = 200;

/// The caller that allocates or frees, as the guard knows it at that moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequesterInfo<'a> {
    /// Stands for `name` and `label`, which are read only for a new id: ids are never used again.
    pub(crate) context: Option<ContextId>,
    pub(crate) name: &'a str,
    pub(crate) label: Option<&'a str>,
    pub(crate) scope: Scope,
    /// Bytes of a C bridge's header in front of what its caller sees.
    pub(crate) front: u32,
    /// The command in which it happens; frames end at its frame.
    pub(crate) command: Option<&'a CommandMark>,
}

/// The command that a thread is in, as the function of [`GuardOptions::command`](crate::GuardOptions::command) returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandMark {
    /// Its name, as `vkCreateBuffer`.
    pub name: &'static str,
    /// Its number, counted up over the process.
    pub serial: u64,
    /// An address in the stack frame that issued the command: stacks end there. 0: they do not.
    pub stack: usize,
}

/// A recorded call site, borrowed from the depot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteView<'a> {
    pub(crate) context: Option<ContextId>,
    pub(crate) name: &'a str,
    pub(crate) label: Option<&'a str>,
    pub(crate) scope: Scope,
    pub(crate) front: u32,
    pub(crate) command: Option<&'static str>,
    /// Return addresses, innermost first.
    pub(crate) frames: &'a [usize],
    /// True when `frames` reach the frame of the command, or the thread's first where there is no command.
    pub(crate) whole: bool,
    /// The modules of the frames are among the first so many that were noted.
    pub(crate) modules: u16,
}

/// The beginning of `text` that is kept.
pub(super) fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or("")
}

impl RequesterInfo<'_> {
    /// True if only the scope is known.
    pub(super) fn is_anonymous(&self) -> bool {
        self.context.is_none()
            && self.command.is_none()
            && self.label.is_none()
            && self.front == 0
            && self.name.is_empty()
    }

    /// A hash of all but the stack.
    pub(super) fn hash(&self) -> u64 {
        let start = u64::from(self.front) << 8 | u64::from(self.scope.as_raw());
        let h = hash::mix(1, start);
        let h = match self.context {
            Some(context) => hash::mix(h, context.get()),
            None if self.name.is_empty() && self.label.is_none() => h,
            None => hash::text(hash::text(h, cut(self.name)), self.label.map_or("\0", cut)),
        };
        self.command
            .map_or(h, |command| hash::text(h, command.name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::string::String;

    use super::*;

    #[test]
    fn everything_counts_and_a_context_stands_for_its_names() {
        let who = RequesterInfo {
            context: None,
            name: "a",
            label: None,
            scope: Scope::Object,
            front: 0,
            command: None,
        };
        let [first, second] = ["vkA", "vkB"].map(|name| CommandMark {
            name,
            serial: 1,
            stack: 16,
        });
        let id = ContextId::from_raw;
        let all = [
            who,
            RequesterInfo { name: "b", ..who },
            RequesterInfo {
                label: Some("a"),
                ..who
            },
            RequesterInfo {
                scope: Scope::Cache,
                ..who
            },
            RequesterInfo { front: 16, ..who },
            RequesterInfo {
                command: Some(&first),
                ..who
            },
            RequesterInfo {
                command: Some(&second),
                ..who
            },
            RequesterInfo {
                context: id(1),
                ..who
            },
            RequesterInfo {
                context: id(2),
                ..who
            },
        ];
        let hashes: HashSet<u64> = all.iter().map(|who| who.hash()).collect();
        assert_eq!(hashes.len(), all.len());
        let other = RequesterInfo {
            name: "other",
            ..all[7]
        };
        assert_eq!(other.hash(), all[7].hash(), "the context says it all");
        let later = CommandMark {
            name: "vkA",
            serial: 9,
            stack: 99,
        };
        assert_eq!(
            all[5].hash(),
            RequesterInfo {
                command: Some(&later),
                ..who
            }
            .hash(),
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
