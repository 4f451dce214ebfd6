//! What becomes of a request.
//!
//! ```text
//!   who asks? -> rule -> pages -------> Slots     \
//!                     |   (used up: v)             +-> counted, numbered, its site written down
//!                     +-> cookie -----> Cookies   /
//!                     +-> off --------> the allocator behind, or Cookies (header only) where other modes serve the guard
//! ```

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{AllocError, HostAllocator, Scope, with_origin};

use super::choice::Choice;
use super::later::{Later, Unreturned, Whose};
use super::rule::Asked;
use super::serial;
use super::state::{Core, Way};
use super::tally::Count;
use super::telling::Doing;
use crate::block::{Mark, SiteId};
use crate::mode::{Mode, Placement, Stacks};
use crate::os;
use crate::sites::{self, Who};
use crate::slots::{SlotRefused, Slots};

impl Core {
    /// Gives a block; of no bytes too.
    #[inline]
    pub(super) fn take<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        if self.way == Way::Passing {
            return self.pass(memory, layout, scope, zeroed);
        }
        if self.way == Way::Sampling {
            return self.take_sampled(memory, layout, scope, zeroed);
        }
        if self.way == Way::Plain
            && let Some(block) = self.take_plainly(layout, scope, zeroed)
        {
            return Ok(block);
        }
        self.take_guarded(memory, layout, scope, zeroed)
    }

    /// Most blocks of these guards pass, and who asks need not be known for that. A function of its own: the calls that lead to it tell
    /// places apart.
    #[inline(never)]
    fn take_sampled<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        if self.samples(layout.size()) {
            self.take_guarded(memory, layout, scope, zeroed)
        } else {
            self.pass(memory, layout, scope, zeroed)
        }
    }

    /// A block that left quarantine, where that is all there is to it.
    #[inline(never)]
    fn take_plainly(&self, layout: Layout, scope: Scope, zeroed: bool) -> Option<NonNull<u8>> {
        let cookies = self.cookies.as_ref()?;
        let site = self.nobody(Stacks::Off, scope)?;
        let again = cookies.again(layout, scope)?;
        let mark = Mark { site, thread: os::thread_id(), serial: serial::next() };
        // SAFETY: found for this request just now.
        let block = unsafe { cookies.take_again(again, layout, scope, zeroed, mark) };
        self.tally.add(Count::CookieTaken, Count::CookieTakenBytes, layout.size());
        Some(block)
    }

    /// As [`take`](Self::take), where not every block passes. Apart, so that where all do little stands in the way.
    #[inline(never)]
    fn take_guarded<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        let taken = match self.at_once(scope) {
            Some((choice, mark)) => self.take_as(memory, layout, scope, zeroed, (choice, mark))?,
            None => self.with_who(scope, |who| self.take_for(memory, layout, zeroed, who))?,
        };
        if self.options.check_every != 0 {
            let unreturned = Unreturned { core: self, memory, block: taken, layout, scope };
            self.check_now_and_then();
            core::mem::forget(unreturned);
        }
        Ok(taken)
    }

    /// Where there are no rules and nobody says who asks: how, and what is written down.
    #[inline(always)]
    fn at_once(&self, scope: Scope) -> Option<(Choice, Mark)> {
        let choice = self.fixed?;
        let site = self.nobody(choice.stacks, scope)?;
        Some((choice, Mark { site, thread: os::thread_id(), serial: serial::next() }))
    }

    /// The site of those of whom the scope is all that is known, where it is there and has no stack.
    #[inline(always)]
    pub(super) fn nobody(&self, stacks: Stacks, scope: Scope) -> Option<SiteId> {
        if stacks != Stacks::Off || self.options.command.is_some() || with_origin(|origin| origin.is_some()) {
            return None;
        }
        self.sites.as_ref()?.of_nobody(scope)
    }

    #[inline(never)]
    pub(super) fn take_for<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        zeroed: bool,
        who: &Who<'_>,
    ) -> Result<NonNull<u8>, AllocError> {
        let choice = match self.fixed {
            Some(choice) => choice,
            None => self.choose(memory, layout.size(), who),
        };
        let pool = match choice.mode {
            Mode::Off => return self.take_off(memory, layout, zeroed, who),
            Mode::Sampled => match self.place_in_pool(layout.size()) {
                None => return self.take_off(memory, layout, zeroed, who),
                pool => pool,
            },
            _ => None,
        };
        let mark = self.mark(memory, who, choice.stacks);
        let Some(pool) = pool else { return self.take_as(memory, layout, who.scope, zeroed, (choice, mark)) };
        self.take_fenced(memory, pool, layout, who.scope, zeroed, (choice, mark)).or_else(|refused| match refused {
            SlotRefused::NoMemory => Err(AllocError),
            SlotRefused::Exhausted => self.take_off(memory, layout, zeroed, who),
        })
    }

    /// In pages where they were chosen and are to be had, else with cookies.
    #[inline(always)]
    fn take_as<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
        (choice, mark): (Choice, Mark),
    ) -> Result<NonNull<u8>, AllocError> {
        let slots = match choice.mode {
            Mode::Strict => self.strict.as_ref(),
            Mode::Fence => self.fence.as_ref(),
            _ => return self.take_cookie(memory, layout, scope, zeroed, (choice, mark)),
        };
        if let Some(slots) = slots {
            match self.take_fenced(memory, slots, layout, scope, zeroed, (choice, mark)) {
                Ok(block) => return Ok(block),
                Err(SlotRefused::NoMemory) => return Err(AllocError),
                Err(SlotRefused::Exhausted) => {}
            }
        }
        self.take_instead(memory, layout, scope, zeroed, (choice, mark))
    }

    /// What the rules say. Where one goes by calls the site is written down first: it has them.
    #[inline]
    fn choose(&self, memory: &dyn HostAllocator, size: usize, who: &Who<'_>) -> Choice {
        let asked = Asked { scope: who.scope, name: who.name, size, frames: &[] };
        match &self.sites {
            Some(sites) if self.options.ask_for_calls() => {
                let site = sites.get(sites.note(memory, who, self.options.stacks));
                self.options.choose(&Asked { frames: site.map_or(&[], |site| site.frames), ..asked })
            }
            _ => self.options.choose(&asked),
        }
    }

    /// Whether this block is chosen.
    #[inline(always)]
    fn samples(&self, size: usize) -> bool {
        self.pool.is_some() && self.sampler.chooses(sites::call_site(size))
    }

    /// The pool, if this block is chosen and a place is left: the place is then taken.
    fn place_in_pool(&self, size: usize) -> Option<&Slots> {
        let pool = self.pool.as_ref()?;
        // Where blocks are only sampled it was chosen before.
        if self.way != Way::Sampling && !self.samples(size) {
            return None;
        }
        let most = u64::from(self.options.sampling.slots);
        if self.counters.sampled.fetch_add(1, Relaxed) < most {
            return Some(pool);
        }
        self.counters.sampled.fetch_sub(1, Relaxed);
        None
    }

    /// With cookies where there are no pages, or none are left.
    #[cold]
    #[inline(never)]
    fn take_instead<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
        how: (Choice, Mark),
    ) -> Result<NonNull<u8>, AllocError> {
        let block = self.take_cookie(memory, layout, scope, zeroed, how)?;
        self.went_unguarded();
        Ok(block)
    }

    #[inline(always)]
    fn take_fenced(
        &self,
        memory: &dyn HostAllocator,
        slots: &Slots,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
        (choice, mark): (Choice, Mark),
    ) -> Result<NonNull<u8>, SlotRefused> {
        let right = match choice.placement {
            Placement::Right => true,
            Placement::Left => false,
            Placement::Alternate => mark.serial.is_multiple_of(2),
        };
        let mut later = Later::new();
        let taken = slots.take(memory, layout, scope, right, zeroed, mark, &mut |fault| later.note(fault, Whose::Other));
        match taken {
            Ok(_) => self.count_taken(Count::FencedTaken, Count::FencedTakenBytes, layout.size(), mark, choice.stacks),
            // The place in the pool, which was taken before.
            Err(_) if choice.mode == Mode::Sampled => drop(self.counters.sampled.fetch_sub(1, Relaxed)),
            Err(_) => {}
        }
        if !later.is_empty() {
            self.tell_late(later, &memory, taken.ok(), layout, scope);
        }
        taken
    }

    /// Tells what room for a block showed of others. Where that unwinds nobody gets the block, and it goes back.
    #[cold]
    fn tell_late<M: HostAllocator>(&self, later: Later, memory: &M, taken: Option<NonNull<u8>>, layout: Layout, scope: Scope) {
        let unreturned = taken.map(|block| Unreturned { core: self, memory, block, layout, scope });
        later.tell(self, |fault, _| Doing::of_others(self).tell(fault));
        core::mem::forget(unreturned);
    }

    #[inline(always)]
    fn take_cookie<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
        (choice, mark): (Choice, Mark),
    ) -> Result<NonNull<u8>, AllocError> {
        // There wherever a mode but Off and Sampled is named.
        let cookies = self.cookies.as_ref().ok_or(AllocError)?;
        let block = cookies.take(memory, layout, scope, false, zeroed, mark)?;
        self.count_taken(Count::CookieTaken, Count::CookieTakenBytes, layout.size(), mark, choice.stacks);
        Ok(block)
    }

    fn take_off<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        zeroed: bool,
        who: &Who<'_>,
    ) -> Result<NonNull<u8>, AllocError> {
        let Some(cookies) = &self.cookies else { return self.pass(memory, layout, who.scope, zeroed) };
        let mark = self.mark(memory, who, Stacks::Off);
        let block = cookies.take(memory, layout, who.scope, true, zeroed, mark)?;
        self.count_taken(Count::OffTaken, Count::OffTakenBytes, layout.size(), mark, Stacks::Off);
        Ok(block)
    }

    /// From the allocator behind, untouched.
    #[inline]
    fn pass<M: HostAllocator>(&self, memory: &M, layout: Layout, scope: Scope, zeroed: bool) -> Result<NonNull<u8>, AllocError> {
        let block = if zeroed { memory.allocate_zeroed(layout, scope) } else { memory.allocate(layout, scope) }?;
        self.tally.add(Count::OffTaken, Count::OffTakenBytes, layout.size());
        Ok(block)
    }

    /// Calls `f` with who asks: the context that says so, and the command that the thread is in.
    #[inline]
    pub(super) fn with_who<R>(&self, scope: Scope, f: impl FnOnce(&Who<'_>) -> R) -> R {
        let command = self.options.ask_command();
        with_origin(|origin| {
            f(&match origin {
                Some(origin) => Who {
                    context: origin.context,
                    name: origin.name,
                    label: origin.label,
                    scope,
                    front: u32::try_from(origin.front).unwrap_or(0),
                    command,
                },
                None => Who { context: None, name: "", label: None, scope, front: 0, command },
            })
        })
    }

    /// What is written down of an allocation.
    #[inline]
    fn mark(&self, memory: &dyn HostAllocator, who: &Who<'_>, stacks: Stacks) -> Mark {
        // First: a thread that is new here has the signals unblocked that a stack which leads astray may raise.
        let thread = os::thread_id();
        let site = self.sites.as_ref().map(|sites| sites.note(memory, who, stacks)).unwrap_or_default();
        Mark { site, thread, serial: serial::next() }
    }

    #[inline]
    fn count_taken(&self, blocks: Count, bytes: Count, size: usize, mark: Mark, stacks: Stacks) {
        self.tally.add(blocks, bytes, size);
        let Some(sites) = &self.sites else { return };
        if stacks != Stacks::Off {
            self.tally.add(Count::Stacks, Count::WholeStacks, usize::from(mark.site.is_whole()));
        }
        if self.options.profile {
            sites.allocated(mark.site, size, mark.serial);
        }
    }
}
