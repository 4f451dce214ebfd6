//! Findings of an operation wait until the block is freed and counted, because a report may unwind.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, Scope};

use super::options::FENCED;
use super::state::GuardState;
use crate::block::{BlockMark, FreeRequest, GuardFinding};
use crate::call_sites::RequesterInfo;
use crate::report::{self, DetectedAt, FreeArgs, ReportContext, Stack};
use crate::report_kind::ReportKind;

pub(super) struct Operation<'a> {
    core: &'a GuardState,
    detected_at: DetectedAt,
    /// `None` if the finding is not about a block that is being freed.
    by: Option<(&'a RequesterInfo<'a>, BlockMark)>,
    free_args: Option<FreeArgs>,
    as_called: bool,
}

impl<'a> Operation<'a> {
    pub(super) fn of_free(
        core: &'a GuardState,
        detected_at: DetectedAt,
        requester: &'a RequesterInfo<'a>,
        mark: BlockMark,
        layout: Layout,
    ) -> Self {
        Self {
            free_args: Some(FreeArgs { size: layout.size(), align: layout.align(), scope: Some(requester.scope) }),
            ..Self::of_query(core, detected_at, requester, mark, false)
        }
    }

    /// `as_called`: by the pointer that a C caller has.
    pub(super) fn of_query(
        core: &'a GuardState,
        detected_at: DetectedAt,
        requester: &'a RequesterInfo<'a>,
        mark: BlockMark,
        as_called: bool,
    ) -> Self {
        Self { by: Some((requester, mark)), as_called, ..Self::of_check(core, detected_at) }
    }

    pub(super) fn of_check(core: &'a GuardState, detected_at: DetectedAt) -> Self {
        Self { core, detected_at, by: None, free_args: None, as_called: false }
    }

    /// May not return.
    #[cold]
    pub(super) fn report(&self, mut finding: GuardFinding) {
        self.core.find_owner(&mut finding);
        // A late write that a free turned up is not the freeing caller's.
        let late = finding.kind == ReportKind::UseAfterFree && self.free_args.is_some();
        let detected_at = if late { DetectedAt::Eviction } else { self.detected_at };
        let mut case = ReportContext { as_called: self.as_called, ..ReportContext::new(finding, detected_at) };
        if let Some((requester, mark)) = self.by.filter(|_| !late) {
            case.requester = Some(*requester);
            case.free_args = self.free_args;
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
        let claimed = report::REGISTRY.query(|guard| {
            let other = (guard.number() != self.number).then_some(guard)?;
            other.claims(finding.address).map(|known| (known, other.number()))
        });
        if let Some((known, number)) = claimed {
            *finding =
                GuardFinding { kind: ReportKind::WrongGuard, block: Some(known), owner: Some(number), ..*finding };
        }
    }

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

/// A block has at most six findings of its own; mostly one other leaves quarantine for it.
const MAX_DEFERRED: usize = 19;

pub(super) struct DeferredReports {
    noted: Option<DeferredReport>,
}

struct DeferredReport {
    list: [Option<GuardFinding>; MAX_DEFERRED],
    lost: u64,
}

impl DeferredReports {
    pub(super) const fn new() -> Self {
        Self { noted: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.noted.is_none()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note(&mut self, finding: GuardFinding) {
        let noted = self.noted.get_or_insert(DeferredReport { list: [None; MAX_DEFERRED], lost: 0 });
        match noted.list.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(finding),
            None => noted.lost = noted.lost.saturating_add(1),
        }
    }

    /// May unwind.
    #[cold]
    pub(super) fn report_all(&mut self, operation: &Operation<'_>) {
        if let Some(DeferredReport { list, lost }) = &mut self.noted {
            operation.core.counters.lost.fetch_add(*lost, Relaxed);
            let mut findings = list.iter_mut().filter_map(Option::take);
            report_each(operation, &mut findings);
        }
    }
}

/// If a report unwinds, the other findings are counted as lost: they are repaired and cannot be found again.
pub(super) fn report_each(operation: &Operation<'_>, findings: &mut dyn Iterator<Item = GuardFinding>) {
    struct Rest<'a>(&'a GuardState, &'a mut dyn Iterator<Item = GuardFinding>);

    impl Drop for Rest<'_> {
        fn drop(&mut self) {
            let lost = Iterator::fold(&mut *self.1, 0, |lost: u64, _| lost.saturating_add(1));
            self.0.counters.lost.fetch_add(lost, Relaxed);
        }
    }

    let rest = Rest(operation.core, findings);
    for finding in &mut *rest.1 {
        operation.report(finding);
    }
}

/// Dropping it, if a report unwinds, frees the block, which the caller does not have yet, without a report.
pub(super) struct RollbackGuard<'a, M: HostAllocator> {
    pub(super) core: &'a GuardState,
    pub(super) memory: &'a M,
    pub(super) block: NonNull<u8>,
    pub(super) layout: Layout,
    pub(super) scope: Scope,
}

impl<M: HostAllocator> Drop for RollbackGuard<'_, M> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: allocated from this core over this memory, and not returned yet.
        unsafe {
            self.core.free_unreported(
                self.memory,
                self.block,
                FreeRequest { layout: self.layout, scope: self.scope, mark: BlockMark::default(), moved_to: None },
                &mut DeferredReports::new(),
            );
        }
    }
}
