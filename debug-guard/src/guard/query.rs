use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{PointerStatus, Scope};

use super::reporter::{Operation, report_each};
use super::state::GuardState;
use crate::block::{BlockState, GuardFinding, Known};
use crate::call_sites::RequesterInfo;
use crate::report::{BlockInfo, DetectedAt};
use crate::report_kind::ReportKind;

impl GuardState {
    /// `None` if blocks pass and this may be one.
    pub(super) fn known(&self, address: usize) -> Option<Result<Known, GuardFinding>> {
        match self.slots_at(address) {
            Some(slots) => Some(slots.validate_pointer(address)),
            None => Some(self.cookies.as_ref()?.validate_pointer(address)),
        }
    }

    /// Never walks all records.
    ///
    /// # Safety
    /// The free contract of [`free`](Self::free).
    pub(super) unsafe fn known_freed(&self, address: usize) -> Option<Result<Known, GuardFinding>> {
        match self.slots_at(address) {
            Some(slots) => Some(slots.validate_pointer(address)),
            // SAFETY: the free contract.
            None => Some(unsafe { self.cookies.as_ref()?.validate_freed(address) }),
        }
    }

    /// The requested size of the block that begins at `pointer`. Another pointer is reported, and `None`; one that
    /// may be a block which passed is `None` without a report.
    pub fn usable_size(&self, pointer: NonNull<u8>) -> Option<usize> {
        match self.known(pointer.as_ptr().expose_provenance())? {
            Ok(known) => Some(known.size),
            Err(mut finding) => {
                if finding.kind == ReportKind::DoubleFree {
                    finding.kind = ReportKind::UseAfterFree;
                }
                self.with_requester(finding.block.map_or(Scope::Object, |known| known.scope), |requester| {
                    Operation::of_query(self, DetectedAt::Query, requester, self.mark_of_free(requester), false)
                        .report(finding);
                });
                None
            }
        }
    }

    /// `front` bytes of a C bridge's header are in front of `pointer`; a larger header, for a larger alignment, is
    /// known from the block's record.
    pub(super) fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        let address = pointer.as_ptr().expose_provenance();
        self.with_requester(Scope::Object, |requester| {
            // The call of the command function may free the block.
            let Some(found) = self.known(address.wrapping_sub(front)) else {
                return PointerStatus::Unknown;
            };
            let block = match found {
                Ok(known) => Some(known),
                // The block of another guard is unknown here.
                Err(finding) => finding.block.filter(|_| finding.owner.is_none()),
            };
            let meant = block.filter(|known| known.start.wrapping_add(self.front_of(known, front)) == address);
            let finding = match (meant, found) {
                (Some(known), _) if known.state == BlockState::Live => {
                    // Allocated through other callbacks, or through none: then there is no header to read.
                    if self.is_owner(&known, requester) && self.front_of(&known, front) >= front {
                        return PointerStatus::Live;
                    }
                    GuardFinding::new(ReportKind::WrongOwner, Some(known), address)
                }
                (Some(known), _) => GuardFinding::new(ReportKind::DoubleFree, Some(known), address),
                (None, Ok(known)) => GuardFinding::new(ReportKind::InteriorFree, Some(known), address),
                (None, Err(mut finding)) => {
                    // Other guards know the block's own address, not the C caller's.
                    self.find_owner(&mut finding);
                    GuardFinding { address, ..finding }
                }
            };
            Operation::of_query(self, DetectedAt::Free, requester, self.mark_of_free(requester), true).report(finding);
            PointerStatus::Invalid
        })
    }

    /// If nothing was recorded, the size of a bridge's header: `least` bytes, or what the alignment requires.
    fn front_of(&self, known: &Known, least: usize) -> usize {
        self.site(known.allocated.site)
            .and_then(|site| usize::try_from(site.front).ok())
            .unwrap_or_else(|| least.max(known.align))
    }

    fn is_owner(&self, known: &Known, requester: &RequesterInfo<'_>) -> bool {
        self.site(known.allocated.site).is_none_or(|site| site.context == requester.context)
    }

    pub(super) fn for_each_live(&self, each: &mut dyn FnMut(&Known)) {
        let mut live = |known: &Known| {
            if known.state == BlockState::Live {
                each(known);
            }
        };
        self.laid_out().for_each(|slots| slots.for_each(&mut live));
        if let Some(cookies) = &self.cookies {
            cookies.for_each(&mut live);
        }
    }

    /// Calls `each` for every live block, in no order. `each` may allocate and free; blocks that change meanwhile may
    /// be missed.
    pub fn live(&self, each: &mut dyn FnMut(&BlockInfo<'_>)) {
        self.for_each_live(&mut |known| each(&BlockInfo::new(*known, |id| self.site(id))));
    }

    /// Verifies all that the guard wrote around live blocks and into freed ones; reports changes and returns their
    /// number.
    pub fn check_all(&self) -> usize {
        self.verify(DetectedAt::Check)
    }

    pub(super) fn verify(&self, detected_at: DetectedAt) -> usize {
        let doing = Operation::of_check(self, detected_at);
        let mut found: usize = 0;
        let mut tell = |findings: &mut dyn Iterator<Item = GuardFinding>| {
            report_each(&doing, &mut findings.inspect(|_| found += 1));
        };
        self.laid_out().for_each(|slots| {
            slots.check(&mut tell);
        });
        if let Some(cookies) = &self.cookies {
            cookies.check(&mut tell);
        }
        found
    }

    #[cold]
    pub(super) fn check_periodically(&self) {
        let count = self.counters.operations.fetch_add(1, Relaxed).wrapping_add(1);
        if count.is_multiple_of(self.options.check_every) {
            self.check_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::alloc::Layout;
    use std::boxed::Box;

    use alloc_core::{FromGlobalAlloc, HostAllocator};

    use super::*;
    use crate::mode::Mode;
    use crate::report::OnReport;
    use crate::{Guard, GuardOptions};

    /// Under miri this is undefined where a byte in front of such a pointer is read: nothing is there, or another
    /// allocation.
    #[test]
    fn vet_reads_nothing_through_a_pointer_that_it_does_not_know() {
        /// Begins where its allocation does.
        #[repr(align(4096))]
        struct Apart(u8);

        let options = GuardOptions::new(Mode::Cookie).on_report(OnReport::Call(|_| ()));
        let [guard, other] =
            [options, options].map(|options| Guard::new(FromGlobalAlloc::SYSTEM, options).expect("memory"));
        let layout = Layout::new::<[u64; 3]>();
        let [block, strange] = [&guard, &other].map(|guard| guard.allocate(layout, Scope::Object).expect("memory"));
        let apart = Box::new(Apart(7));
        let nowhere = NonNull::without_provenance(core::num::NonZero::new(1 << 20).expect("not 0"));
        for pointer in [nowhere, NonNull::from(&apart.0), strange] {
            assert_eq!(guard.usable_size(pointer), None);
            assert_eq!(guard.validate_pointer(pointer, 0), PointerStatus::Invalid);
            assert_eq!(guard.validate_pointer(pointer, 16), PointerStatus::Invalid);
        }
        assert_eq!(guard.stats().reports, 9, "and each was reported");
        assert_eq!((guard.usable_size(block), guard.validate_pointer(block, 0)), (Some(24), PointerStatus::Live));
        for (guard, block) in [(&guard, block), (&other, strange)] {
            // SAFETY: a live block of this guard.
            unsafe { guard.deallocate(block, layout, Scope::Object) };
        }
        assert_eq!(
            (guard.usable_size(block), guard.validate_pointer(block, 0)),
            (None, PointerStatus::Invalid),
            "it waits in quarantine"
        );
    }
}
