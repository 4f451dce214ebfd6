//! What an engine found, for the reader.

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::ptr;

use alloc_core::{HostError, HostSource, Scope, TryVec};

use super::super::block::{BlockRecord, BlockState, ReportedAs};
use super::super::finding::CheckFinding;
use super::super::kind::FindingKind;
use super::super::row::FindingRow;
use super::super::table::{Cursor, NoRoom, ShardedTable};
use super::{CallerContext, Engine, MAX_ROWS};
use crate::command::OwnerId;
use crate::pinned::SCOPE;

impl<'t> Engine<'_, 't> {
    /// What was found, by rule and time, rows that differ in their thread alone added up.
    pub(crate) fn findings<A: HostSource>(
        &self,
        memory: A,
    ) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        self.findings_and(None, memory)
    }

    /// As [`Engine::findings`], and what would be left if this were the end. Nobody is told that it was told: it is not the end.
    pub(crate) fn findings_at_end<A: HostSource>(
        &self,
        memory: A,
    ) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        loop {
            let left = ShardedTable::new(self.memory, false, MAX_ROWS);
            let layouts = self.blocks.layouts();
            self.left_now(&left)?;
            // Blocks that another thread, or the memory of a row, had moved meanwhile may have been missed.
            if self.blocks.layouts() == layouts {
                return self.findings_and(Some(&left), memory);
            }
        }
    }

    fn left_now(&self, left: &ShardedTable<'_, FindingRow<'t>>) -> Result<(), HostError> {
        let layout = Layout::new::<FindingRow<'t>>();
        let put = |row: FindingRow<'t>| {
            left.put(row, |there| there.add(&row))
                .map_err(|NoRoom| self.memory.refusal(layout, SCOPE))
        };
        for owner in self.owners() {
            Self::row_never_drawn(owner).map_or(Ok(()), put)?;
            let sums = self.first_of_group(owner.group);
            for scope in Scope::ALL {
                let left = owner.internal_outstanding(scope);
                if left > 0 && sums.is_some_and(|sums| ptr::eq(sums, owner)) {
                    let who = CallerContext::UNKNOWN_CALLER;
                    let row = self.row(FindingKind::InternalAtEnd, &who, owner, Some(scope));
                    put(row.of_size(left))?;
                }
            }
        }
        let mut cursor = Cursor::default();
        let is_left = |block: &mut BlockRecord<'t>| {
            block.state() != BlockState::Gone && block.reported_as() == ReportedAs::Nothing
        };
        while let Some(block) = self.blocks.next(&mut cursor, is_left) {
            put(self.row_left(FindingKind::LiveAtEnd, "", &block))?;
        }
        Ok(())
    }

    fn findings_and<A: HostSource>(
        &self,
        left: Option<&ShardedTable<'_, FindingRow<'t>>>,
        memory: A,
    ) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        let mut all = TryVec::<CheckFinding<'t>, A>::new_in(memory);
        // Room first: the memory may call us back, and rows that come or move meanwhile would be told twice, or not at all.
        loop {
            let left_rows = left.map_or(0, ShardedTable::count);
            all.try_reserve(self.rows.count().saturating_add(left_rows))?;
            let layouts = self.rows.layouts();
            let collected = self.collect(&self.rows, &mut all)
                && left.is_none_or(|left| self.collect(left, &mut all));
            if collected && self.rows.layouts() == layouts {
                break;
            }
            all.clear();
        }
        merge_alike(&mut all);
        all.sort_unstable_by(|a, b| {
            let order = |found: &CheckFinding<'t>| (found.kind, found.first_serial, found.owner);
            order(a)
                .cmp(&order(b))
                .then_with(|| (a.command, a.against).cmp(&(b.command, b.against)))
        });
        Ok(all)
    }

    /// False where there is no room for all.
    fn collect<A: HostSource>(
        &self,
        rows: &ShardedTable<'_, FindingRow<'t>>,
        all: &mut TryVec<CheckFinding<'t>, A>,
    ) -> bool {
        let mut cursor = Cursor::default();
        while let Some(row) = rows.next(&mut cursor, |row| row.count > 0) {
            // Within the room that there is: the memory is not asked here.
            if all.len() == all.capacity() || all.try_push(self.found(&row)).is_err() {
                return false;
            }
        }
        true
    }

    /// What was counted at the owners of the row since it was added.
    fn counted_again(&self, row: &FindingRow<'t>) -> u64 {
        if row.kind != FindingKind::NullFree {
            return 0;
        }
        let owners = self.owners.of_number(row.owner.map_or(0, OwnerId::get));
        owners
            .filter(|owner| owner.kind == row.owner_kind)
            .map(|owner| owner.null_frees.counted(row.command))
            .sum()
    }

    fn found(&self, row: &FindingRow<'t>) -> CheckFinding<'t> {
        CheckFinding {
            kind: row.kind,
            owner: row.owner,
            owner_kind: row.owner_kind,
            command: row.command,
            against: row.against,
            scope: row.scope,
            count: row.count.saturating_add(self.counted_again(row)),
            bytes: row.bytes,
            size: row.size,
            first_serial: row.first_serial,
            freed_later: row.freed_later,
            freed_in: row.freed_in,
            during_commands: row.during_commands,
            on_thread: row.on_thread,
            alignments: row.alignments,
            passed: row.passed,
            module: row.module,
            groups_reported: self.groups_reported,
            opened: self.options.opened,
            coverage: self.coverage(),
        }
    }
}

/// Adds up what is alike for the reader, to whom a thread is like another.
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
