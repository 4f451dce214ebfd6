//! Makes a report of a finding: adds the requester, and the guard that owns the block.

use core::alloc::Layout;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::state::{FENCED, GuardState};
use crate::block::{BlockMark, GuardFinding};
use crate::call_sites::RequesterInfo;
use crate::report::{self, DetectedAt, FreeArgs, ReportContext, Stack};
use crate::report_kind::ReportKind;

/// The operation of a guard that found something.
pub(super) struct Operation<'a> {
    core: &'a GuardState,
    moment: DetectedAt,
    /// The requester, and the mark with its stack; `None` if the finding is not about a block that is being freed.
    by: Option<(&'a RequesterInfo<'a>, BlockMark)>,
    came_back: Option<FreeArgs>,
    as_called: bool,
}

impl<'a> Operation<'a> {
    /// A free.
    pub(super) fn of_free(
        core: &'a GuardState,
        moment: DetectedAt,
        requester: &'a RequesterInfo<'a>,
        mark: BlockMark,
        layout: Layout,
    ) -> Self {
        Self {
            came_back: Some(FreeArgs {
                size: layout.size(),
                align: layout.align(),
                scope: Some(requester.scope),
            }),
            ..Self::of_query(core, moment, requester, mark, false)
        }
    }

    /// A query about a block; `as_called`: by the pointer that a C caller has.
    pub(super) fn of_query(
        core: &'a GuardState,
        moment: DetectedAt,
        requester: &'a RequesterInfo<'a>,
        mark: BlockMark,
        as_called: bool,
    ) -> Self {
        Self {
            by: Some((requester, mark)),
            as_called,
            ..Self::of_check(core, moment)
        }
    }

    /// An eviction of other blocks from quarantine.
    pub(super) fn of_others(core: &'a GuardState) -> Self {
        Self::of_check(core, DetectedAt::Eviction)
    }

    /// A check of all blocks.
    pub(super) fn of_check(core: &'a GuardState, moment: DetectedAt) -> Self {
        Self {
            core,
            moment,
            by: None,
            came_back: None,
            as_called: false,
        }
    }

    /// Reports the finding. May not return.
    #[cold]
    pub(super) fn report(&self, mut finding: GuardFinding) {
        self.core.find_owner(&mut finding);
        // A late write that a free turned up is not the freeing caller's.
        let late = finding.kind == ReportKind::UseAfterFree && self.came_back.is_some();
        let moment = if late {
            DetectedAt::Eviction
        } else {
            self.moment
        };
        let mut case = ReportContext {
            as_called: self.as_called,
            ..ReportContext::new(finding, moment)
        };
        if let Some((requester, mark)) = self.by.filter(|_| !late) {
            case.requester = Some(*requester);
            case.came_back = self.came_back;
            if let Some(site) = self.core.site(mark.site) {
                case.stack = Stack::of(site);
            }
        }
        report::deliver(self.core, &case);
    }
}

impl GuardState {
    /// If another guard claims a foreign pointer, the finding names that guard.
    pub(super) fn find_owner(&self, finding: &mut GuardFinding) {
        if finding.kind != ReportKind::ForeignFree {
            return;
        }
        let claimed = report::query(|guard| {
            let other = (guard.number() != self.number).then_some(guard)?;
            other
                .claims(finding.address)
                .map(|known| (known, other.number()))
        });
        if let Some((known, number)) = claimed {
            *finding = GuardFinding {
                kind: ReportKind::WrongGuard,
                block: Some(known),
                owner: Some(number),
                ..*finding
            };
        }
    }

    /// Counts a block that got a cookie instead of a page. The first one is reported in a line.
    #[cold]
    pub(super) fn report_unguarded(&self) {
        if self.counters.unguarded.fetch_add(1, Relaxed) == 0 && self.laid_out().next().is_some() {
            self.notice(format_args!(
                "what fenced blocks may take of pages, addresses or mappings is used up ({}): further ones get cookies until some are \
                 freed",
                self.back_end
            ));
        }
    }

    /// Reports that no page can be made inaccessible.
    pub(super) fn report_missing(&self) {
        if self.options.may_use(&FENCED) && self.laid_out().next().is_none() {
            self.notice(format_args!(
                "the system lends nothing that makes pages untouchable: blocks get cookies instead"
            ));
        }
    }

    fn notice(&self, text: fmt::Arguments<'_>) {
        self.counters.notices.fetch_add(1, Relaxed);
        report::notice(self, text);
    }
}
