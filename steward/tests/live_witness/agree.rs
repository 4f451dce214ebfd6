//! What a report says, and what the witness in front of the callbacks saw.

use std::collections::BTreeSet;

use vk_report::report::{ByScope, ContextRow, Phase};

use crate::around::{Record, SeenBlocks};
use crate::watch::PhaseSeen;

/// Which bytes a report is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AgreedBytes {
    /// As the host gave them: a live run.
    Charged,
    /// As the driver asked: a replay.
    Asked,
}

impl AgreedBytes {
    fn taken(self, seen: SeenBlocks) -> u64 {
        if self == Self::Charged { seen.charged } else { seen.asked }
    }

    fn live(self, seen: SeenBlocks) -> u64 {
        if self == Self::Charged { seen.live_charged } else { seen.live_asked }
    }

    fn peak(self, (asked, charged): (u64, u64)) -> u64 {
        if self == Self::Charged { charged } else { asked }
    }
}

/// Every number of every phase.
pub(super) fn phases(said: &[Phase], seen: &[PhaseSeen], bytes: AgreedBytes) {
    let names: Vec<_> = said.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, seen.iter().map(|phase| phase.name).collect::<Vec<_>>());
    for (said, PhaseSeen { name, commands, before, after }) in said.iter().zip(seen) {
        let by_scope = |number: &dyn Fn(&Record, i32) -> u64| ByScope::of(|scope| number(after, scope.as_raw() as i32));
        let of = |record: &Record, scope: i32| record.sum(|_, s| s == scope);
        let expected = [
            by_scope(&|after, scope| of(after, scope).blocks - of(before, scope).blocks),
            by_scope(&|after, scope| of(after, scope).frees - of(before, scope).frees),
            by_scope(&|after, scope| bytes.taken(of(after, scope)) - bytes.taken(of(before, scope))),
            by_scope(&|after, scope| bytes.live(of(after, scope))),
            by_scope(&|after, scope| of(after, scope).live_blocks),
        ];
        let Phase { blocks_by_scope, freed_by_scope, bytes_by_scope, live_by_scope, live_blocks_by_scope, .. } = *said;
        let own = [blocks_by_scope, freed_by_scope, bytes_by_scope, live_by_scope, live_blocks_by_scope];
        assert_eq!(own, expected, "{bytes:?}, phase {name}: taken, freed, bytes, live bytes, live blocks by scope");
        let sums = [said.blocks, said.freed, said.bytes, said.live_bytes, said.live_blocks];
        assert_eq!(sums, expected.map(|by_scope| by_scope.sum()), "{bytes:?}, phase {name}");
        assert_eq!(said.commands, *commands, "phase {name}");
        assert_eq!(
            (said.peak_bytes, said.peak_slack),
            (bytes.peak(after.phase_peak), 0),
            "{bytes:?}, phase {name}: peak"
        );
    }
}

/// Totals and peak of every kind, the sums of the groups, and the peak of all. A kind without a row had no block.
pub(super) fn contexts(said: &[ContextRow], peak: u64, seen: &Record, bytes: AgreedBytes) {
    let (mut blocks, mut taken) = (0, 0);
    let mut rows = 0;
    let kinds: BTreeSet<_> = seen.seen.keys().map(|(kind, _)| *kind).collect();
    for kind in kinds {
        let none = ContextRow::default();
        let row = said.iter().find(|row| row.name == kind);
        let row = row.unwrap_or(&none);
        rows += usize::from(row.total_blocks > 0);
        let sum = seen.sum(|k, _| k == kind);
        assert_eq!((row.total_blocks, row.total_bytes), (sum.blocks, bytes.taken(sum)), "{bytes:?}, {kind}");
        assert_eq!(row.peak_slack, 0, "{kind}");
        if bytes == AgreedBytes::Charged {
            let peak = seen.kind_peaks.get(kind).copied().unwrap_or(0);
            assert_eq!(row.peak_bytes, peak, "{kind}: peak");
        }
        blocks += sum.blocks;
        taken += bytes.taken(sum);
    }
    let with_blocks = said.iter().filter(|row| !row.group && row.total_blocks > 0);
    assert_eq!(rows, with_blocks.count(), "a kind that nobody knows");
    let first = said.first().expect("there is a row for all");
    assert_eq!((first.total_blocks, first.total_bytes), (blocks, taken), "{bytes:?}, all together");
    assert_eq!(peak, bytes.peak(seen.peak), "{bytes:?}: peak of all");
}
