//! The guard defers findings until the block is freed and counted, because a report may unwind.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, Scope};

use super::state::GuardState;
use crate::block::{BlockMark, FreeRequest, GuardFinding};

/// A block has at most six findings of its own; mostly one other leaves quarantine for it.
const MAX_DEFERRED: usize = 19;

/// The findings of an operation that is not complete yet.
pub(super) struct DeferredReports {
    /// Created with the first finding.
    noted: Option<DeferredReport>,
}

struct DeferredReport {
    list: [Option<(GuardFinding, Subject)>; MAX_DEFERRED],
    /// Findings without room in the list.
    lost: u64,
}

/// The block that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The block that is allocated or freed.
    Own,
    /// A block that was freed before.
    Other,
}

impl DeferredReports {
    pub(super) const fn new() -> Self {
        Self { noted: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.noted.is_none()
    }

    /// Adds a finding; without room it is counted as lost.
    #[cold]
    #[inline(never)]
    pub(super) fn note(&mut self, finding: GuardFinding, whose: Subject) {
        let noted = self.noted.get_or_insert(DeferredReport {
            list: [None; MAX_DEFERRED],
            lost: 0,
        });
        match noted.list.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((finding, whose)),
            None => noted.lost = noted.lost.saturating_add(1),
        }
    }

    /// Reports all findings, in order, once. May unwind.
    ///
    /// By reference: there are some kilobytes of room for findings, which a free without any must not copy.
    #[inline]
    pub(super) fn report_all(
        &mut self,
        core: &GuardState,
        mut tell: impl FnMut(GuardFinding, Subject),
    ) {
        if let Some(DeferredReport { list, lost }) = &mut self.noted {
            core.counters.lost.fetch_add(*lost, Relaxed);
            let mut findings = list.iter_mut().filter_map(Option::take);
            report_each(core, &mut findings, |(finding, whose)| tell(finding, whose));
        }
    }
}

/// Reports the findings in order. If one unwinds, the others are counted as lost: they are repaired and cannot be found again.
pub(super) fn report_each<F>(
    core: &GuardState,
    findings: &mut dyn Iterator<Item = F>,
    mut tell: impl FnMut(F),
) {
    struct Rest<'a, F>(&'a GuardState, &'a mut dyn Iterator<Item = F>);

    impl<F> Drop for Rest<'_, F> {
        fn drop(&mut self) {
            let lost = Iterator::fold(&mut *self.1, 0, |lost: u64, _| lost.saturating_add(1));
            self.0.counters.lost.fetch_add(lost, Relaxed);
        }
    }

    let rest = Rest(core, findings);
    for finding in &mut *rest.1 {
        tell(finding);
    }
}

/// An allocated block that the caller does not have yet. Dropping it, if a report unwinds, frees the block without a report.
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
        // SAFETY: allocated from this core over this memory with this layout and scope, not returned yet.
        unsafe {
            self.core.free_unreported(
                self.memory,
                self.block,
                FreeRequest {
                    layout: self.layout,
                    scope: self.scope,
                    mark: BlockMark::default(),
                    moved_to: None,
                },
                &mut DeferredReports::new(),
            );
        }
    }
}
