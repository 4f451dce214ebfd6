//! What a version of a driver is known to do when a request fails, in a file: what is new and what has gone are both
//! failures.
//!
//! ```text
//! vkCmdDraw  command  64  libvulkan_lvp.so  1  SIGSEGV|ok  # request 1683
//! command    scope    |   module            |  |             for a person
//!                     bytes asked for       |  what came of it: one of these
//!                                           the how-manieth request that is alike in the four
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// What tells one request from another, wherever it stands in a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) command: String,
    pub(super) scope: String,
    pub(super) size: u64,
    pub(super) module: String,
    /// From 1.
    pub(super) occurrence: u32,
}

/// One line: a request and what may come of its refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SweepRow {
    pub(super) identity: Identity,
    /// `ok`, `VK_ERROR_OUT_OF_HOST_MEMORY`, another `VK_ERROR_..(command)`, `wrong(result)`, a signal, `timeout`; with
    /// `+leak(blocks)` where blocks were left, `+unknown_pointers(1)` where the driver freed what is not a block, and
    /// other counts of [`BridgeCounters`](vk_callbacks::bridge::BridgeCounters).
    pub(super) outcomes: Vec<String>,
    /// Its number in the run, for information.
    pub(super) request: u64,
}

impl SweepRow {
    /// Whether `seen`, which has one outcome, is what this row lists.
    pub(super) fn allows(&self, seen: &Self) -> bool {
        self.identity == seen.identity && self.outcomes.contains(&seen.outcomes.concat())
    }
}

/// Whether this is what every driver should do: say that memory ran out, or do without, and leave nothing.
pub(super) fn is_good(outcome: &str) -> bool {
    matches!(outcome, "ok" | "VK_ERROR_OUT_OF_HOST_MEMORY")
}

/// Reads a file of expectations. `Err` names the line.
pub(super) fn parse(text: &str) -> Result<Vec<SweepRow>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| row(line).ok_or_else(|| format!("line {}: {line}", number + 1))).collect()
}

fn row(line: &str) -> Option<SweepRow> {
    let (fields, request) = line.split_once("# request ")?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let [command, scope, size, module, occurrence, outcomes] = fields[..] else {
        return None;
    };
    let identity = Identity {
        command: command.into(),
        scope: scope.into(),
        size: size.parse().ok()?,
        module: module.into(),
        occurrence: occurrence.parse().ok()?,
    };
    Some(SweepRow {
        identity,
        outcomes: outcomes.split('|').map(str::to_owned).collect(),
        request: request.trim().parse().ok()?,
    })
}

/// What differs between the rows of the file and what was seen, a sentence each; `seen` has one outcome a row.
pub(super) fn compare(expected: &[SweepRow], seen: &[SweepRow]) -> Vec<String> {
    let known: BTreeMap<_, _> = expected.iter().map(|row| (&row.identity, row)).collect();
    let met: BTreeMap<_, _> = seen.iter().map(|row| (&row.identity, row)).collect();
    let mut differences = Vec::new();
    for row in seen {
        let outcome = row.outcomes.concat();
        match known.get(&row.identity) {
            Some(listed) if listed.allows(row) => {}
            Some(listed) => differences.push(format!("not as listed ({}), but:\n{row}", listed.outcomes.join("|"))),
            None if is_good(&outcome) => {}
            None => differences.push(format!("not listed:\n{row}")),
        }
    }
    let gone = expected.iter().filter(|row| !met.contains_key(&row.identity));
    differences.extend(gone.map(|row| format!("listed, but the driver makes no such request any more:\n{row}")));
    differences
}

impl fmt::Display for SweepRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { command, scope, size, module, occurrence } = &self.identity;
        let outcomes = self.outcomes.join("|");
        write!(
            f,
            "{command:<32} {scope:<8} {size:>7}  {module:<18} {occurrence:>4}  {outcomes:<47} # request {}",
            self.request
        )
    }
}

/// Shows that a difference would be found; the sweep's silence means something only then.
pub(super) fn every_kind_of_difference_is_found() {
    let line = |outcomes: &str| format!("vkCmdDraw command 64 libvulkan_lvp.so 1 {outcomes} # request 7");
    let rows = |outcomes: &str| parse(&line(outcomes)).expect("a line of the file");
    let count = |expected: &[SweepRow], seen: &[SweepRow]| compare(expected, seen).len();
    assert_eq!(count(&rows("SIGSEGV"), &rows("SIGSEGV")), 0);
    assert_eq!(count(&rows("SIGSEGV|ok"), &rows("ok")), 0);
    assert_eq!(count(&[], &rows("ok")), 0);
    assert_eq!(count(&[], &rows("ok+leak(1)")), 1, "a new row");
    assert_eq!(count(&rows("SIGSEGV"), &rows("SIGABRT")), 1, "another outcome");
    assert_eq!(count(&rows("SIGSEGV"), &rows("ok")), 1, "a row that no longer happens");
    assert_eq!(count(&rows("SIGSEGV"), &[]), 1, "a request that is no longer made");
    assert_eq!(parse(&rows("SIGSEGV|ok")[0].to_string()), Ok(rows("SIGSEGV|ok")), "what is printed can be pasted");
    assert!(parse("# remark\n\nvkCmdDraw command 64").is_err_and(|error| error.starts_with("line 3")));
}
