#![forbid(unsafe_code)]

use core::ptr;

use alloc_core::{HostError, HostSource, Scope, TryVec};

use super::super::finding::{CheckFinding, FindingKind};
use super::super::records::{BlockRecord, BlockState, FindingRow, ReportedAs};
use super::super::table::{Cursor, ShardedTable, TableEntry as _};
use super::{CallbackCall, Engine, MAX_ROWS};

impl<'t> Engine<'_, 't> {
    /// Rows that differ in their thread alone are added up.
    pub(crate) fn findings<A: HostSource>(&self, memory: A) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        self.findings_and(None, memory)
    }

    /// Nothing is marked as reported.
    pub(crate) fn findings_at_end<A: HostSource>(&self, memory: A) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        let left = ShardedTable::new(self.memory, false, MAX_ROWS);
        loop {
            let moves = self.blocks.moves();
            // A further try has the room of the one before: memory that moves blocks at each request cannot keep it for
            // ever.
            let forget = |row: &mut FindingRow<'t>| {
                row.finding.count = 0;
                false
            };
            let _ = left.next(&mut Cursor::default(), forget);
            self.left_now(&left)?;
            // If blocks moved meanwhile, some may have been missed.
            if self.blocks.moves() == moves {
                return self.findings_and(Some(&left), memory);
            }
        }
    }

    fn left_now(&self, left: &ShardedTable<'_, FindingRow<'t>>) -> Result<(), HostError> {
        let put = |finding: CheckFinding<'t>| {
            let row = FindingRow::from(finding);
            left.put(row, |there| there.add(&row))
        };
        for owner in self.owners() {
            owner.finding_never_drawn().map_or(Ok(()), put)?;
            let sums = self.first_of_group(owner.group);
            if !sums.is_some_and(|sums| ptr::eq(sums, owner)) {
                continue;
            }
            for scope in Scope::ALL {
                let left = owner.internal_outstanding(scope);
                if left > 0 {
                    let end = CallbackCall::unknown(owner);
                    let finding = end.finding(FindingKind::InternalAtEnd, Some(scope));
                    put(finding.of_size(left))?;
                }
            }
        }
        let mut cursor = Cursor::default();
        let is_left =
            |block: &mut BlockRecord<'t>| block.state != BlockState::Gone && block.reported_as == ReportedAs::Nothing;
        while let Some(block) = self.blocks.next(&mut cursor, is_left) {
            put(self.finding_left(FindingKind::LiveAtEnd, "", &block))?;
        }
        Ok(())
    }

    fn findings_and<A: HostSource>(
        &self,
        left: Option<&ShardedTable<'_, FindingRow<'t>>>,
        memory: A,
    ) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        let mut all = TryVec::<CheckFinding<'t>, A>::new_in(memory);
        // Room first: the memory may call the checker, and rows that come or move meanwhile would be read twice, or not
        // at all.
        loop {
            let left_rows = left.map_or(0, ShardedTable::count);
            all.try_reserve(self.rows.count().saturating_add(left_rows))?;
            let moves = self.rows.moves();
            let collected = self.collect(&self.rows, &mut all) && left.is_none_or(|left| self.collect(left, &mut all));
            if collected && self.rows.moves() == moves {
                break;
            }
            all.clear();
        }
        merge_alike(&mut all);
        let order = |found: &CheckFinding<'t>| {
            let place = (found.kind, found.first_serial, found.owner);
            (place, found.command, found.against)
        };
        all.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
        Ok(all)
    }

    fn collect<A: HostSource>(
        &self,
        rows: &ShardedTable<'_, FindingRow<'t>>,
        all: &mut TryVec<CheckFinding<'t>, A>,
    ) -> bool {
        let mut cursor = Cursor::default();
        while let Some(row) = rows.next(&mut cursor, |row| !row.gone()) {
            let finding = CheckFinding {
                groups_reported: self.groups_reported,
                opened: self.options.opened,
                coverage: self.coverage(),
                ..row.finding
            };
            // Within the reserved room.
            if all.len() == all.capacity() || all.try_push(finding).is_err() {
                return false;
            }
        }
        true
    }
}

fn merge_alike<A: HostSource>(all: &mut TryVec<CheckFinding<'_>, A>) {
    all.sort_unstable_by(|a, b| a.identity().cmp(&b.identity()));
    let mut kept = 0_usize;
    for at in 0..all.len() {
        let Some(found) = all.get(at).copied() else {
            break;
        };
        let last = kept.checked_sub(1).and_then(|last| all.get_mut(last));
        if let Some(last) = last.filter(|last| last.identity() == found.identity()) {
            last.add(&found);
            continue;
        }
        if let Some(place) = all.get_mut(kept) {
            *place = found;
        }
        kept = kept.saturating_add(1);
    }
    all.truncate(kept);
}
