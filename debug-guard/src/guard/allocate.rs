//! Allocation: the shortcuts of guards that need little, then one function for each [`Policy`].
//!
//! ```text
//!   Shortcut -> policy -> Unguarded -> the allocator behind, or Cookies (header only)  \
//!                         Cookie ----> Cookies                                          +-> counted
//!                         Page ------> Slots; none left: Cookies, and reported          |
//!                         Sampled ---> Slots; none left: as Unguarded                  /
//! ```

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::deferred_reports::{DeferredReports, RollbackGuard, Subject};
use super::policy::{PagePolicy, Policy, PoolReservation};
use super::reporter::Operation;
use super::serial;
use super::state::{GuardState, Shortcut};
use super::tally::Count;
use crate::block::{BlockMark, BlockRequest};
use crate::call_sites::RequesterInfo;
use crate::mode::{Placement, Stacks};
use crate::slots::SlotRefused;

impl GuardState {
    /// Allocates a block; `layout` may have size 0.
    #[inline]
    pub(super) fn allocate<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        // Comparisons, the cheapest guard first: a jump table costs guards that pass some nanoseconds.
        if self.shortcut == Shortcut::Passing {
            return self.pass_through(memory, layout, scope, zeroed);
        }
        if self.shortcut == Shortcut::Sampling {
            return self.allocate_sampling(memory, layout, scope, zeroed);
        }
        if self.shortcut == Shortcut::PlainCookies
            && let Some(block) = self.allocate_recycled(layout, scope, zeroed)
        {
            return Ok(block);
        }
        self.allocate_guarded(memory, layout, scope, zeroed)
    }

    /// Most blocks of these guards pass, and their requester need not be known. Not inlined: the calls that lead here tell call sites apart.
    #[inline(never)]
    fn allocate_sampling<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        if self.is_sampled(layout.size()) {
            self.allocate_guarded(memory, layout, scope, zeroed)
        } else {
            self.pass_through(memory, layout, scope, zeroed)
        }
    }

    /// A block that left quarantine, where that is all there is to do.
    #[inline(never)]
    fn allocate_recycled(&self, layout: Layout, scope: Scope, zeroed: bool) -> Option<NonNull<u8>> {
        let cookies = self.cookies.as_ref()?;
        let site = self.anonymous_site(Stacks::Off, scope)?;
        let request = BlockRequest {
            layout,
            scope,
            zeroed,
        };
        let recycled = cookies.recycled_for(request)?;
        let mark = BlockMark::at_site(site, serial::next());
        // SAFETY: found for this request just now.
        let block = unsafe { cookies.recycle(recycled, request, mark) };
        self.tally.add(Count::CookieAllocated, layout.size());
        Some(block)
    }

    /// As [`allocate`](Self::allocate) without a shortcut. Not inlined, so that the shortcuts stay small.
    #[inline(never)]
    fn allocate_guarded<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        // Without rules and a known requester, policy and mark need no lookup.
        let anonymous = self
            .fixed
            .and_then(|choice| Some((choice, self.anonymous_site(choice.stacks, scope)?)));
        let block = match anonymous {
            Some((choice, site)) => {
                let mark = BlockMark::at_site(site, serial::next());
                let request = BlockRequest {
                    layout,
                    scope,
                    zeroed,
                };
                self.allocate_by(memory, request, self.guarding_policy(choice), |_| mark)?
            }
            None => self.with_requester(scope, |requester| {
                self.allocate_for(memory, layout, zeroed, requester)
            })?,
        };
        if self.options.check_every != 0 {
            let rollback = RollbackGuard {
                core: self,
                memory,
                block,
                layout,
                scope,
            };
            self.check_periodically();
            core::mem::forget(rollback);
        }
        Ok(block)
    }

    #[inline(never)]
    pub(super) fn allocate_for<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        zeroed: bool,
        requester: &RequesterInfo<'_>,
    ) -> Result<NonNull<u8>, AllocError> {
        let policy = self.select_policy(memory, layout.size(), requester);
        let request = BlockRequest {
            layout,
            scope: requester.scope,
            zeroed,
        };
        self.allocate_by(memory, request, policy, |stacks| {
            self.mark(memory, requester, stacks)
        })
    }

    /// `mark` records the requester, with the stack that the policy asks for.
    #[inline(always)]
    fn allocate_by<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        policy: Policy<'_>,
        mark: impl Fn(Stacks) -> BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        match policy {
            Policy::Unguarded => self.allocate_unguarded(memory, request, mark),
            Policy::Cookie { stacks } => {
                self.allocate_cookie(memory, request, mark(stacks), stacks)
            }
            Policy::Page { page, stacks } => {
                let mark = mark(stacks);
                match self.allocate_page(memory, request, page, mark, stacks, None) {
                    Err(SlotRefused::Exhausted) => {
                        self.allocate_without_page(memory, request, mark, stacks)
                    }
                    Err(SlotRefused::NoMemory) => Err(AllocError),
                    Ok(block) => Ok(block),
                }
            }
            Policy::Sampled {
                page,
                stacks,
                reservation,
            } => {
                let reservation = Some(reservation);
                match self.allocate_page(memory, request, page, mark(stacks), stacks, reservation) {
                    Err(SlotRefused::Exhausted) => self.allocate_unguarded(memory, request, mark),
                    Err(SlotRefused::NoMemory) => Err(AllocError),
                    Ok(block) => Ok(block),
                }
            }
        }
    }

    #[inline]
    fn allocate_unguarded<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        mark: impl Fn(Stacks) -> BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let Some(cookies) = &self.cookies else {
            return self.pass_through(memory, request.layout, request.scope, request.zeroed);
        };
        let mark = mark(Stacks::Off);
        let block = cookies.allocate(memory, request, true, mark)?;
        self.count_allocation(
            Count::OffAllocated,
            request.layout.size(),
            mark,
            Stacks::Off,
        );
        Ok(block)
    }

    /// From the allocator behind, untouched.
    #[inline]
    fn pass_through<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        let block = if zeroed {
            memory.allocate_zeroed(layout, scope)
        } else {
            memory.allocate(layout, scope)
        }?;
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
        self.count_allocation(Count::CookieAllocated, request.layout.size(), mark, stacks);
        Ok(block)
    }

    /// With a cookie, since no page is left.
    #[cold]
    #[inline(never)]
    fn allocate_without_page<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        mark: BlockMark,
        stacks: Stacks,
    ) -> Result<NonNull<u8>, AllocError> {
        let block = self.allocate_cookie(memory, request, mark, stacks)?;
        self.report_unguarded();
        Ok(block)
    }

    /// The block keeps `reservation`.
    #[inline(always)]
    fn allocate_page<M: HostAllocator>(
        &self,
        memory: &M,
        request: BlockRequest,
        page: PagePolicy<'_>,
        mark: BlockMark,
        stacks: Stacks,
        reservation: Option<PoolReservation<'_>>,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let slots = page.slots.ok_or(SlotRefused::Exhausted)?;
        let right = match page.placement {
            Placement::Right => true,
            Placement::Left => false,
            Placement::Alternate => mark.serial.is_multiple_of(2),
        };
        let mut later = DeferredReports::new();
        let block = slots.allocate(memory, request, right, mark, &mut |finding| {
            later.note(finding, Subject::Other)
        });
        if block.is_ok() {
            if let Some(reservation) = reservation {
                reservation.keep();
            }
            self.count_allocation(Count::FencedAllocated, request.layout.size(), mark, stacks);
        }
        if !later.is_empty() {
            self.report_late(later, memory, block.ok(), request);
        }
        block
    }

    /// Reports what was found of other blocks while room was made. If a report unwinds, the new block is freed.
    #[cold]
    fn report_late<M: HostAllocator>(
        &self,
        later: DeferredReports,
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
        later.report_all(self, |finding, _| {
            Operation::of_others(self).report(finding)
        });
        core::mem::forget(rollback);
    }

    #[inline]
    fn count_allocation(&self, count: Count, size: usize, mark: BlockMark, stacks: Stacks) {
        self.tally.add(count, size);
        let Some(sites) = &self.sites else { return };
        if stacks != Stacks::Off {
            self.tally
                .add(Count::Stacks, usize::from(mark.site.is_whole()));
        }
        if self.options.profile {
            sites.allocated(mark.site, size, mark.serial);
        }
    }
}
