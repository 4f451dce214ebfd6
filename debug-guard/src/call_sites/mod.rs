//! Call sites: requester, command and stack, stored once and named by a number in each record.
//!
//! ```text
//!   frame pointers (walk.rs) | the unwinder (unwind.rs)
//!          \                   /
//!   RequesterInfo + stack --hash--> table: bucket -> site -> site ..    SiteId: the site's place in the arena
//!                                     |  none: written there, and linked       (arena.rs; nothing moves or is reused)
//! ```
//! A stack that was walked lately is known by its depth and by the return addresses at their places (`recent`). Sites
//! are read without a lock, also in a signal handler.
//!
//! The *site rule* of the SAFETY comments: the lists name sites that were written to the arena before; nothing there
//! changes, moves or is freed before the depot ends.

#[cfg_attr(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)),
    path = "linux/mod.rs"
)]
#[cfg_attr(all(windows, target_arch = "x86_64", not(miri)), path = "windows.rs")]
mod system;

mod arena;
mod requester;
mod site;
mod support;
mod thread_stack;
mod unwind;
mod walk;

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use alloc_core::{AllocError, HostAllocator};

use crate::block::SiteId;
use crate::mode::Stacks;
use crate::modules;
use crate::os;

use arena::{ArenaOffset, SiteArena};
pub use requester::CommandMark;
pub(crate) use requester::{RequesterInfo, SiteView};
use site::{MAX_FRAMES, NewSite, Site, SiteRef};
pub use support::StackSupport;
use thread_stack::ThreadStack;
pub(crate) use unwind::walk_from;
pub(crate) use walk::call_site;
use walk::{Bounds, WalkStart};

/// Room left for later frees: hundreds may come in a row, each with a new site.
const fn keep(stacks: Stacks) -> usize {
    match stacks {
        Stacks::Off => 16 * 1024,
        Stacks::Fast => 64 * 1024,
        Stacks::Full => 192 * 1024,
    }
}

const BUCKETS: usize = 4096;
const ALIKE: usize = 16;
const RECENT: usize = 128;

const MAX_BYTES: usize = 256 << 20;

pub(crate) struct Sites {
    arena: SiteArena,
    buckets: [AtomicPtr<Site>; BUCKETS],
    /// By requester and depth, the sites of the stacks walked last; each list is filled from its front.
    recent: [[AtomicPtr<Site>; ALIKE]; RECENT],
    count: AtomicU32,
    key: u32,
    lost: AtomicU64,
    turn: AtomicU32,
    tallying: AtomicU32,
}

impl Sites {
    pub(crate) fn new(memory: &dyn HostAllocator) -> Result<Self, AllocError> {
        Self::with_limit(memory, MAX_BYTES)
    }

    fn with_limit(memory: &dyn HostAllocator, limit: usize) -> Result<Self, AllocError> {
        let _ = StackSupport::of_this_process();
        Ok(Self {
            arena: SiteArena::new(memory, limit)?,
            buckets: [const { AtomicPtr::new(null_mut()) }; BUCKETS],
            recent: [const { [const { AtomicPtr::new(null_mut()) }; ALIKE] }; RECENT],
            count: AtomicU32::new(0),
            key: os::random_u64() as u32,
            lost: AtomicU64::new(0),
            turn: AtomicU32::new(0),
            tallying: AtomicU32::new(0),
        })
    }

    pub(crate) fn close(&mut self, memory: &dyn HostAllocator) {
        self.arena.close(memory);
    }

    /// 0 without room. Without `memory`, for a free, it allocates nothing.
    #[inline]
    pub(crate) fn note(
        &self,
        memory: Option<&dyn HostAllocator>,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
    ) -> SiteId {
        if stacks == Stacks::Off && requester.is_anonymous() {
            return SiteId::ANONYMOUS;
        }
        let room = memory.map_or(0, |memory| {
            let room = keep(stacks);
            if self.arena.room() < 2 * room {
                self.arena.grow(2 * room, memory);
            }
            room
        });
        self.walked(requester, stacks, room)
    }

    /// Not inlined: all callers have the same frames.
    #[inline(never)]
    fn walked(&self, requester: &RequesterInfo<'_>, stacks: Stacks, keep: usize) -> SiteId {
        let from = thread_stack::read_registers();
        let mut request = SiteRequest { requester, who: requester.hash(stacks), key: 0, keep };
        let site = if stacks == Stacks::Off || from.stack == 0 {
            self.site_with(&request, (&[], &[]), false)
        } else {
            thread_stack::with(|local| {
                let start = start_of(local, from, requester);
                request.key = key(request.who, start);
                self.recent(&request)
                    .map_while(|place| self.linked(place.load(Ordering::Acquire)))
                    .find(|site| request.is_at(*site, start))
                    .or_else(|| self.walk(&request, stacks, local, start))
            })
        };
        site.map_or(SiteId::default(), SiteRef::id)
    }

    #[inline(always)]
    fn recent(&self, request: &SiteRequest<'_>) -> core::slice::Iter<'_, AtomicPtr<Site>> {
        let list = self.recent.get(request.key as usize % RECENT);
        list.map_or(&[][..], |list| list).iter()
    }

    #[cold]
    #[inline(never)]
    fn walk(
        &self,
        request: &SiteRequest<'_>,
        stacks: Stacks,
        local: &ThreadStack,
        start: WalkStart,
    ) -> Option<SiteRef<'_>> {
        let site = match stacks {
            Stacks::Fast => self.fast(request, start),
            _ => self.full(request, local, start),
        }?;
        if request.is_at(site, start) {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize % ALIKE;
            let is_free = |place: &&AtomicPtr<Site>| place.load(Ordering::Relaxed).is_null();
            let free = self.recent(request).find(is_free);
            if let Some(place) = free.or_else(|| self.recent(request).nth(turn)) {
                place.store(site.as_ptr(), Ordering::Release);
            }
        }
        Some(site)
    }

    /// That the frames' addresses follow calls is verified once, for a new site.
    fn fast(&self, request: &SiteRequest<'_>, start: WalkStart) -> Option<SiteRef<'_>> {
        let (mut frames, mut slots) = ([0; walk::MAX_FRAMES], [0; walk::MAX_FRAMES]);
        let (count, end) = walk::frames(start, &mut frames, &mut slots);
        let frames = frames.get(..count).unwrap_or_default();
        if let Some(known) = self.find(request.hash(frames)) {
            return Some(known);
        }
        let calls = walk::count_calls(frames);
        let whole = end == walk::End::Reached && calls == count;
        let frames = frames.get(..calls).unwrap_or_default();
        // What is behind the last frame of a chain that ended early is not compared: another stack may begin alike.
        let is_known_again = whole || calls == walk::MAX_FRAMES;
        let slots = slots.get(..calls).filter(|_| is_known_again).unwrap_or_default();
        self.site_with(request, (frames, slots), whole)
    }

    /// The site has no stack if the unwinder itself allocates.
    fn full(&self, request: &SiteRequest<'_>, local: &ThreadStack, start: WalkStart) -> Option<SiteRef<'_>> {
        let (mut frames, mut slots) = ([0; MAX_FRAMES], [0; MAX_FRAMES]);
        let Some((count, whole)) = unwind::walk(local, start, &mut frames, &mut slots) else {
            return self.site_with(request, (&[], &[]), false);
        };
        #[cfg(test)]
        tests::count_walk();
        let frames = frames.get(..count).unwrap_or_default();
        let slots = slots.get(..count).unwrap_or_default();
        // SAFETY: no slot is above the last one, as they are sorted.
        let placed = whole && slots.is_sorted() && unsafe { start.stands(frames, slots) };
        let slots = if placed { slots } else { &[] };
        self.site_with(request, (frames, slots), whole)
    }

    #[inline]
    fn site_with(&self, request: &SiteRequest<'_>, stack: (&[usize], &[u32]), whole: bool) -> Option<SiteRef<'_>> {
        let hash = request.hash(stack.0);
        self.find(hash).or_else(|| self.make(hash, request, stack, whole))
    }

    fn bucket(&self, hash: u64) -> Option<&AtomicPtr<Site>> {
        self.buckets.get(hash as usize % BUCKETS)
    }

    #[inline(always)]
    fn linked(&self, site: *mut Site) -> Option<SiteRef<'_>> {
        // SAFETY: the site rule.
        NonNull::new(site).map(|site| unsafe { SiteRef::new(site) })
    }

    fn chain(&self, first: *mut Site) -> impl Iterator<Item = SiteRef<'_>> {
        let next = |site: &SiteRef<'_>| self.linked(site.next.load(Ordering::Relaxed));
        core::iter::successors(self.linked(first), next)
    }

    fn find(&self, hash: u64) -> Option<SiteRef<'_>> {
        let first = self.bucket(hash)?.load(Ordering::Acquire);
        self.chain(first).find(|site| site.hash == hash)
    }

    #[cold]
    fn make(
        &self,
        hash: u64,
        request: &SiteRequest<'_>,
        (frames, slots): (&[usize], &[u32]),
        whole: bool,
    ) -> Option<SiteRef<'_>> {
        let made = NewSite {
            hash,
            key: request.key,
            requester: request.requester,
            frames,
            slots: if slots.is_sorted() { slots } else { &[] },
            whole,
            modules: modules::note(frames),
        };
        let site = self.put(made, request.keep);
        if site.is_none() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        site
    }

    /// Another thread may have been faster.
    fn put(&self, made: NewSite<'_>, keep: usize) -> Option<SiteRef<'_>> {
        let (place, at) = self.arena.allocate(made.bytes(), keep)?;
        // SAFETY: just allocated, so many bytes at a multiple of 16.
        let site: SiteRef<'_> = unsafe { made.write(self.key, place, at) };
        let bucket = self.bucket(made.hash)?;
        let mut first = bucket.load(Ordering::Acquire);
        loop {
            let faster = self.chain(first).find(|other| other.hash == made.hash);
            if faster.is_some() {
                return faster;
            }
            site.next.store(first, Ordering::Relaxed);
            match bucket.compare_exchange(first, site.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(site)
    }

    /// Async-signal-safe; `None` for a number of no site of this depot.
    pub(crate) fn get(&self, id: SiteId) -> Option<SiteView<'_>> {
        if id == SiteId::ANONYMOUS {
            return Some(SiteView::default());
        }
        Some(self.site(id)?.view())
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed).into()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn site(&self, id: SiteId) -> Option<SiteRef<'_>> {
        let place = ArenaOffset::new(id.0 & !SiteId::WHOLE)?;
        SiteRef::at(&self.arena, self.key, place)
    }

    fn all(&self) -> impl Iterator<Item = SiteRef<'_>> {
        let firsts = self.buckets.iter().map(|first| first.load(Ordering::Acquire));
        firsts.flat_map(|first| self.chain(first))
    }
}

struct SiteRequest<'a> {
    requester: &'a RequesterInfo<'a>,
    who: u64,
    key: u64,
    keep: usize,
}

impl SiteRequest<'_> {
    fn hash(&self, frames: &[usize]) -> u64 {
        requester::stack(self.who, frames)
    }

    #[inline(always)]
    fn is_at(&self, site: SiteRef<'_>, start: WalkStart) -> bool {
        let (frames, slots) = site.placed();
        // SAFETY: a site's slots rise, or there are none.
        site.key == self.key && unsafe { start.stands(frames, slots) }
    }
}

#[inline(always)]
fn key(who: u64, start: WalkStart) -> u64 {
    let Bounds { mark, top, .. } = start.bounds;
    let end = if mark == 0 { top } else { mark };
    // Frames are 16 bytes apart, and commands may be less: the low bits choose the list, the others stay.
    who.wrapping_add((end.wrapping_sub(start.from.stack) as u64).rotate_right(4))
}

#[inline(always)]
fn start_of(local: &ThreadStack, from: thread_stack::Registers, requester: &RequesterInfo<'_>) -> WalkStart {
    let bounds = local.bounds(from.stack);
    let mark = requester.command.map_or(0, |command| command.stack);
    let is_below = from.stack < mark && mark < bounds.top;
    WalkStart { from, bounds: bounds.up_to(if is_below { mark } else { 0 }) }
}

#[cfg(test)]
mod tests;
