//! The sentence of a finding: the rules, the culprit if known, the observation, the count.
//!
//! The table of [kinds](super::FindingKind) has the sentences.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

use super::finding::{CheckFinding, write_rules};
use crate::command::BracketCoverage;

impl fmt::Display for CheckFinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rules(self.rules(), f)?;
        f.write_str(": ")?;
        // The application may never have destroyed an object that has memory at the end.
        if !self.culprit().is_empty() {
            write!(f, "{} ", self.culprit())?;
        }
        let mut rest = self.kind.sentence();
        while let Some((before, behind)) = rest.split_once('{') {
            let (word, after) = behind.split_once('}').unwrap_or((behind, ""));
            f.write_str(before)?;
            self.write_word(word, f)?;
            rest = after;
        }
        f.write_str(rest)?;
        if !self.module.is_empty() {
            write!(f, "; called from {}", self.module)?;
        }
        if self.count > 1 {
            write!(f, "; {} times", self.count)?;
        }
        Ok(())
    }
}

impl CheckFinding<'_> {
    fn write_word(&self, word: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (object, other) = (named(self.owner_kind), named(self.against));
        match word {
            "kind" => f.write_str(self.owner_kind),
            "command" => f.write_str(self.command),
            "against" => f.write_str(self.against),
            "object" => f.write_str(object),
            "other" => f.write_str(other),
            "owner" => write!(f, "{object}'s"),
            "other owner" => write!(f, "{other}'s"),
            "bytes" => self.write_bytes(f),
            "during" => after(", in ", self.command, f),
            "in" => after(" in ", self.command, f),
            "taken" => after(", taken in ", self.command, f),
            "taken before" => after(", taken in ", self.against, f),
            "later" => self.write_freed_later(f),
            "between" => f.write_str(match self.coverage {
                BracketCoverage::Complete => ", between commands",
                _ => ", outside of the commands that were seen",
            }),
            "foreign" => f.write_str(match self.coverage {
                BracketCoverage::Complete => ", on a thread that has never issued a command",
                _ => ", on a thread that was not seen to call Vulkan",
            }),
            "though or not for it" if self.against.is_empty() => f.write_str(", which is not for this scope"),
            "though" if self.against.is_empty() => Ok(()),
            "though" | "though or not for it" => {
                write!(f, ", though {other} was given its own")
            }
            "created" => f.write_str(match self.owner_kind {
                "" | "VkInstance" | "VkDevice" => "object",
                kind => kind,
            }),
            "alignment" => match self.alignments {
                Some((made, asked)) => {
                    write!(f, "alignment {asked}, though it was made with {made}")
                }
                None => f.write_str("another alignment than it was made with"),
            },
            "incompatible" if self.groups_reported => f.write_str("which is not compatible"),
            "incompatible" => f.write_str("callbacks of another owner"),
            "not of its group" if self.groups_reported => f.write_str("which is not compatible with that"),
            "not of its group" => f.write_str("of another owner than"),
            // A test shows that no sentence has such a word.
            unknown => write!(f, "{{{unknown}}}"),
        }
    }

    /// `4064 B (scope OBJECT)`; for several blocks `4064 B each`, or `9000 B in all`.
    fn write_bytes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Some(size) => write!(f, "{size} B{}", if self.count > 1 { " each" } else { "" })?,
            None => write!(f, "{} B in all", self.bytes)?,
        }
        match self.scope {
            Some(scope) => write!(f, " (scope {})", upper(scope)),
            None => Ok(()),
        }
    }

    fn write_freed_later(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.freed_later, self.freed_in) {
            (0, _) => f.write_str("; never freed"),
            (all, "") if all == self.count => f.write_str("; freed later, outside of any command"),
            (all, later) if all == self.count => write!(f, "; freed later in {later}"),
            (some, _) => write!(f, "; {some} of them freed later"),
        }
    }
}

fn named(kind: &str) -> &str {
    match kind {
        "" => "somebody",
        "VkDevice" => "the device",
        "VkInstance" => "the instance",
        kind => kind,
    }
}

const fn upper(scope: Scope) -> &'static str {
    match scope {
        Scope::Command => "COMMAND",
        Scope::Object => "OBJECT",
        Scope::Cache => "CACHE",
        Scope::Device => "DEVICE",
        Scope::Instance => "INSTANCE",
    }
}

fn after(text: &str, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if name.is_empty() {
        return Ok(());
    }
    write!(f, "{text}{name}")
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString as _;

    use super::super::FindingKind;
    use super::CheckFinding;

    #[test]
    fn every_word_in_braces_stands_for_something() {
        for kind in FindingKind::ALL {
            let sentence = CheckFinding::one(*kind).to_string();
            assert!(!sentence.contains(['{', '}']), "{sentence}");
        }
    }
}
