#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use vk_callbacks::CheckFinding;

/// Observations of one kind: one owner, one command, one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingRow {
    /// The rule that it is about, such as `V22`; empty where none is.
    pub rule: String,
    /// What kind of observation: `FreedOnForeignThread`; empty where no rule is concerned. A rule can be broken in
    /// several ways.
    #[serde(default)]
    pub kind: String,
    /// [`VIOLATION`](Self::VIOLATION), [`SUSPECT`](Self::SUSPECT) or [`NOTE`](Self::NOTE).
    pub level: String,
    /// What was observed, in one sentence.
    pub sentence: String,
    /// The name of the context whose callbacks were called; empty if unknown.
    pub owner: String,
    /// The command that ran; empty where that is not known.
    pub command: String,
    /// The scope of the request; empty where that is not known.
    pub scope: String,
    /// How often.
    pub count: u64,
    /// Bytes of the blocks concerned, together; 0 where size plays no part.
    pub bytes: u64,
    /// The serial number of the command in which it was first seen, from 1; in a replay the line. 0 where that is not
    /// known.
    pub first_serial: u64,
    /// The number of the thread it was seen on, where it matters and was one alone: the program counts its threads from
    /// 1.
    #[serde(default)]
    pub thread: Option<u64>,
    /// Where it is known of the driver: its cause, which may be empty.
    #[serde(default)]
    pub known: Option<String>,
}

impl From<&CheckFinding<'_>> for FindingRow {
    fn from(found: &CheckFinding<'_>) -> Self {
        let rule = found.rules().iter().map(|number| format!("V{number}")).collect::<Vec<_>>().join("/");
        let said = found.to_string();
        Self {
            sentence: said.strip_prefix(&rule).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&said).to_owned(),
            rule,
            kind: found.kind.name().to_owned(),
            level: found.level().name().to_owned(),
            owner: found.owner_kind.to_owned(),
            command: found.command.to_owned(),
            scope: found.scope.map(|scope| scope.name().to_owned()).unwrap_or_default(),
            count: found.count,
            bytes: found.bytes,
            first_serial: found.first_serial,
            thread: found.on_thread,
            known: None,
        }
    }
}

impl FindingRow {
    /// A rule was broken.
    pub const VIOLATION: &str = "violation";
    /// A rule was broken, if all commands were seen.
    pub const SUSPECT: &str = "suspect";
    /// Legal, but telling.
    pub const NOTE: &str = "note";
    /// All levels, the worst first.
    pub const LEVELS: [&str; 3] = [Self::VIOLATION, Self::SUSPECT, Self::NOTE];

    /// The place of its level among [`LEVELS`](Self::LEVELS); behind them for one that is not known.
    #[must_use]
    pub fn rank(&self) -> usize {
        Self::LEVELS.iter().position(|level| *level == self.level).unwrap_or(Self::LEVELS.len())
    }
}
