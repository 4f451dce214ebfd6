//! ```text
//!   neither rules nor records, not sampled -> the allocator behind
//!   else: requester -> rules -> off --------------------------> the allocator behind, or Cookies (header only)  \
//!                               cookie -----------------------> Cookies                                          +-> counted
//!                               fence, strict, sampled --> Slots; none left: Cookies, and reported (sampled: as off)  /
//! ```

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::policy::PolicyChoice;
use super::reporter::{DeferredReports, Operation, RollbackGuard};
use super::state::GuardState;
use super::stats::Count;
use crate::block::{BlockMark, BlockRequest};
use crate::call_sites::RequesterInfo;
use crate::mode::{Mode, Placement, Stacks};
use crate::report::DetectedAt;
use crate::slots::{SlotRefused, Slots};

impl GuardState {
    /// Not inlined: the sampler tells call sites apart by the calls that lead here.
    #[inline(never)]
    pub(super) fn allocate<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        let is_sampled = self.is_sampled(layout.size());
        let request = BlockRequest { layout, scope, zeroed };
        if self.cookies.is_none() && !is_sampled {
            return self.pass_through(memory, request);
        }
        let block =
            self.with_requester(scope, |requester| self.allocate_for(memory, request, is_sampled, requester))?;
        if self.options.check_every != 0 {
            let rollback = RollbackGuard { core: self, memory, block, layout, scope };
            self.check_periodically();
            core::mem::forget(rollback);
        }
        Ok(block)
    }

    #[inline(always)]
    pub(super) fn allocate_for<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        is_sampled: bool,
        requester: &RequesterInfo<'_>,
    ) -> Result<NonNull<u8>, AllocError> {
        let size = request.layout.size();
        let choice = self.options.apply_rules(requester.scope, requester.name, size);
        let mark = |stacks| self.mark_of_allocation(memory, requester, stacks);
        match choice.mode {
            Mode::Cookie => self.allocate_cookie(memory, request, mark(choice.stacks), choice.stacks),
            Mode::Fence => self.allocate_page(memory, request, &self.fence, choice, mark(choice.stacks)),
            Mode::Strict => self.allocate_page(memory, request, &self.strict, choice, mark(choice.stacks)),
            Mode::Sampled if is_sampled => match self.reserve_sample() {
                Some(reservation) => {
                    let mark_in_full = mark(choice.stacks);
                    let block = self.allocate_slot(memory, request, &self.pool, choice, mark_in_full);
                    match block {
                        Err(SlotRefused::Exhausted) => self.allocate_unguarded(memory, request, mark),
                        Err(SlotRefused::NoMemory) => Err(AllocError),
                        Ok(block) => {
                            reservation.keep();
                            Ok(block)
                        }
                    }
                }
                None => self.allocate_unguarded(memory, request, mark),
            },
            Mode::Off | Mode::Sampled => self.allocate_unguarded(memory, request, mark),
        }
    }

    /// The block gets a header if the guard records blocks, so that a free can tell them apart.
    fn allocate_unguarded<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        mark: impl Fn(Stacks) -> BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let Some(cookies) = &self.cookies else {
            return self.pass_through(memory, request);
        };
        let mark = mark(Stacks::Off);
        let block = cookies.allocate(memory, request, true, mark)?;
        self.count_allocation(Count::OffAllocated, request, mark, Stacks::Off);
        Ok(block)
    }

    fn pass_through<M: HostAllocator>(&self, memory: &M, request: BlockRequest) -> Result<NonNull<u8>, AllocError> {
        let BlockRequest { layout, scope, .. } = request;
        let block =
            if request.zeroed { memory.allocate_zeroed(layout, scope) } else { memory.allocate(layout, scope) }?;
        self.tally.add(Count::OffAllocated, layout.size());
        Ok(block)
    }

    #[inline(always)]
    fn allocate_cookie<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        mark: BlockMark,
        stacks: Stacks,
    ) -> Result<NonNull<u8>, AllocError> {
        // Always there: the options name a mode that is neither off nor sampled.
        let cookies = self.cookies.as_ref().ok_or(AllocError)?;
        let block = cookies.allocate(memory, request, false, mark)?;
        self.count_allocation(Count::CookieAllocated, request, mark, stacks);
        Ok(block)
    }

    /// Without room, or without a back end, the block gets a cookie.
    fn allocate_page<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        slots: &Option<Slots>,
        choice: PolicyChoice,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        match self.allocate_slot(memory, request, slots, choice, mark) {
            Err(SlotRefused::Exhausted) => {
                let block = self.allocate_cookie(memory, request, mark, choice.stacks)?;
                self.report_unguarded();
                Ok(block)
            }
            Err(SlotRefused::NoMemory) => Err(AllocError),
            Ok(block) => Ok(block),
        }
    }

    fn allocate_slot<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        slots: &Option<Slots>,
        choice: PolicyChoice,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let slots = slots.as_ref().ok_or(SlotRefused::Exhausted)?;
        let right = match choice.placement {
            Placement::Right => true,
            Placement::Left => false,
            Placement::Alternate => mark.serial.is_multiple_of(2),
        };
        let mut later = DeferredReports::new();
        let block = slots.allocate(memory, request, right, mark, &mut |finding| later.note(finding));
        if block.is_ok() {
            self.count_allocation(Count::FencedAllocated, request, mark, choice.stacks);
        }
        if !later.is_empty() {
            self.report_late(later, memory, block.ok(), request);
        }
        block
    }

    #[cold]
    fn report_late<M: HostAllocator>(
        &self,
        mut later: DeferredReports,
        memory: &M,
        block: Option<NonNull<u8>>,
        request: BlockRequest,
    ) {
        let rollback = block.map(|block| RollbackGuard {
            core: self,
            memory,
            block,
            layout: request.layout,
            scope: request.scope,
        });
        later.report_all(&Operation::of_check(self, DetectedAt::Eviction));
        core::mem::forget(rollback);
    }

    #[inline(always)]
    fn count_allocation(&self, count: Count, request: BlockRequest, mark: BlockMark, stacks: Stacks) {
        let size = request.layout.size();
        self.tally.add(count, size);
        if stacks != Stacks::Off {
            self.tally.add(Count::Stacks, usize::from(mark.site.is_whole()));
        }
    }
}
