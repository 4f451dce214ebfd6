use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, Scope};

use super::error::GuardError;
use super::leaks::register_list_at_exit;
use super::options::{FENCED, GuardOptions};
use super::stats::Tally;
use crate::call_sites::Sites;
use crate::cookie::{CookieOptions, Cookies};
use crate::mode::{BackEnd, Mode, Placement};
use crate::os::{self, BackEnds};
use crate::report::{self, GuardEntry, GuardSlotId, ReportingGuard};
use crate::sampling::Sampler;
use crate::slots::{SlotOptions, Slots, SlotsError};

/// The state of a [`Guard`](crate::Guard) or [`GlobalGuard`](crate::GlobalGuard), and the questions that it answers:
/// counts, live blocks, leaks, checks. Never moves: the signal handler knows its address.
///
/// ```text
///   strict, fence, pool   blocks in pages of their own       each exists if the options name a mode that
///   cookies               blocks with a header and a tail    needs it; pages only if the system has a back end
///   sites                 call sites, by number
/// ```
pub struct GuardState {
    pub(super) options: GuardOptions,
    pub(super) number: u64,
    pub(super) back_end: BackEnd,
    pub(super) strict: Option<Slots>,
    pub(super) fence: Option<Slots>,
    pub(super) pool: Option<Slots>,
    /// `None` if no block is recorded.
    pub(super) cookies: Option<Cookies>,
    pub(super) sampler: Sampler,
    /// `None` if every block passes.
    pub(super) sites: Option<Sites>,
    pub(super) tally: Tally,
    pub(super) counters: Counters,
    entry: GuardEntry,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) reports: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) notices: AtomicU64,
    pub(super) unguarded: AtomicU64,
    pub(super) sampled: AtomicU64,
    pub(super) operations: AtomicU64,
    pub(super) exit_from: AtomicU64,
}

impl GuardState {
    pub(super) fn create(
        memory: &dyn HostAllocator,
        options: GuardOptions,
    ) -> Result<(NonNull<Self>, GuardSlotId), GuardError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let layout = Layout::new::<Self>();
        let place = memory.allocate(layout, Scope::Instance).map_err(|_| no_memory(layout.size()))?.cast::<Self>();
        let guarded: *const dyn ReportingGuard = place.as_ptr();
        let mut core = Self {
            options,
            number: NUMBERS.fetch_add(1, Relaxed),
            back_end: BackEnd::Cookies,
            strict: None,
            fence: None,
            pool: None,
            cookies: None,
            sampler: Sampler::new(options.sampling.one_in, options.sampling.first, os::random_u64()),
            sites: None,
            tally: Tally::new(),
            counters: Counters::default(),
            entry: GuardEntry::new(guarded),
        };
        let made = core.init(memory);
        // SAFETY: a block of this layout, not shared yet.
        unsafe { place.write(core) };
        let slot = made.and_then(|()| {
            // SAFETY: just written; only the address is used.
            let entry = unsafe { &raw const (*place.as_ptr()).entry };
            // SAFETY: the slot is left before the core is destroyed.
            unsafe { report::REGISTRY.enter(entry) }.ok_or(GuardError::TooManyGuards)
        });
        match slot {
            Ok(slot) => {
                // SAFETY: just written, never written again.
                let core = unsafe { place.as_ref() };
                core.report_missing();
                if core.options.exit_leaks.is_some() {
                    register_list_at_exit();
                }
                Ok((place, slot))
            }
            Err(error) => {
                // SAFETY: created here with this memory, not shared.
                unsafe { Self::destroy(place, memory) };
                Err(error)
            }
        }
    }

    /// After a refusal, the parts created before stay in their fields.
    fn init(&mut self, memory: &dyn HostAllocator) -> Result<(), GuardError> {
        let options = self.options;
        if options.passes_all() {
            return Ok(());
        }
        self.sites = Some(Sites::new(memory).map_err(|_| no_memory(0))?);
        if !options.plain() {
            let cookies = CookieOptions { blocks: options.quarantine_blocks, bytes: options.quarantine_bytes };
            self.cookies = Some(Cookies::new(cookies));
        }
        // Without the handler accesses are stopped, but not reported.
        let _ = os::install_fault_handler(report::on_trap);
        if options.may_use(&FENCED) { self.init_slots(memory) } else { Ok(()) }
    }

    fn init_slots(&mut self, memory: &dyn HostAllocator) -> Result<(), GuardError> {
        let offered = BackEnds::probe();
        let forced = self.options.back_end;
        let best = BackEnd::ALL.iter().copied().filter(|_| forced.is_none());
        let pages = forced.into_iter().chain(best);
        for back_end in pages.filter(|back_end| *back_end != BackEnd::Cookies) {
            let refusal = match offered.refusal(back_end) {
                Some(refusal) => refusal,
                None => match self.init_slots_with(memory, back_end) {
                    Ok(()) => return Ok(()),
                    Err(SlotsError::NoMemory) => return Err(no_memory(0)),
                    Err(SlotsError::TooFewPages) => return Err(GuardError::NoPages),
                    Err(SlotsError::Os(refusal)) => refusal,
                },
            };
            if forced.is_some() {
                return Err(GuardError::NotOffered { back_end, refusal });
            }
        }
        Ok(())
    }

    fn init_slots_with(&mut self, memory: &dyn HostAllocator, back_end: BackEnd) -> Result<(), SlotsError> {
        let options = self.options;
        let strict = SlotOptions {
            pages: options.pages.unwrap_or(0),
            quarantine_blocks: options.quarantine_blocks,
            quarantine_bytes: options.quarantine_bytes,
            deep: options.deep,
            mode: Mode::Strict,
            max_pages: pages(options.max_guarded_bytes),
        };
        let fence = SlotOptions { mode: Mode::Fence, ..strict };
        let pool = SlotOptions { mode: Mode::Sampled, pages: sampled_pages(options.sampling.slots), ..strict };
        let mut made: [Option<Slots>; 3] = [None, None, None];
        for (place, wanted) in made.iter_mut().zip([strict, fence, pool]) {
            if !options.may_use(&[wanted.mode]) {
                continue;
            }
            match Slots::new(memory, back_end, wanted) {
                Ok(slots) => *place = Some(slots),
                Err(error) => {
                    for slots in made.into_iter().flatten() {
                        // SAFETY: made above with `memory`, never used.
                        unsafe { slots.close(memory) };
                    }
                    return Err(error);
                }
            }
        }
        [self.strict, self.fence, self.pool] = made;
        self.back_end = back_end;
        Ok(())
    }

    /// # Safety
    /// `core` came from [`create`](Self::create) with the same `memory`, has left its slot, has no live block, and is
    /// used no more.
    pub(super) unsafe fn destroy(core: NonNull<Self>, memory: &dyn HostAllocator) {
        // SAFETY: this function's contract: live, and not used again.
        let mut own = unsafe { core.read() };
        if let Some(cookies) = &mut own.cookies {
            // The quarantine was checked before the guard ended.
            // SAFETY: created with `memory`, and used no more.
            unsafe { cookies.close(memory, &mut |_| ()) };
        }
        for slots in [own.strict.take(), own.fence.take(), own.pool.take()].into_iter().flatten() {
            // SAFETY: created with `memory`; no block is live.
            unsafe { slots.close(memory) };
        }
        if let Some(sites) = &mut own.sites {
            sites.close(memory);
        }
        // SAFETY: allocated in `create` with this layout; its content was moved out.
        unsafe { memory.deallocate(core.cast(), Layout::new::<Self>(), Scope::Instance) };
    }

    pub(super) fn laid_out(&self) -> impl Iterator<Item = &Slots> {
        [&self.strict, &self.fence, &self.pool].into_iter().flatten()
    }

    pub(super) fn slots_at(&self, address: usize) -> Option<&Slots> {
        for slots in [&self.strict, &self.fence, &self.pool] {
            if let Some(slots) = slots
                && slots.contains(address)
            {
                return Some(slots);
            }
        }
        None
    }

    pub(super) fn fences(&self) -> bool {
        let right = |placement: Placement| placement != Placement::Left;
        let by_rule = self.options.rules.iter().any(|rule| rule.placement.is_some_and(right));
        self.options.may_use(&FENCED) && (right(self.options.placement) || by_rule)
    }
}

const fn no_memory(bytes: usize) -> GuardError {
    GuardError::NoHostMemory { bytes }
}

const UNKNOWN: u64 = 1 << 30;

pub(super) fn pages(max_guarded_bytes: Option<u64>) -> usize {
    let bytes = max_guarded_bytes.unwrap_or_else(|| os::total_memory().map_or(UNKNOWN, |total| total / 4));
    let pages = bytes.checked_div(os::page_size() as u64).unwrap_or(0).max(1);
    usize::try_from(pages).unwrap_or(usize::MAX)
}

/// Enough that a freed block stays inaccessible for long.
fn sampled_pages(slots: u32) -> usize {
    usize::try_from(slots).unwrap_or(usize::MAX).saturating_mul(64).max(1 << 14)
}
