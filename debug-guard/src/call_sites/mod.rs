//! Call sites: requester, command and stack, stored once and named by a number in each record.
//!
//! ```text
//!   frame pointers (walk.rs) | the unwinder (unwind.rs)
//!          \                   /
//!   RequesterInfo + stack --hash--> table: bucket -> site -> site ..    SiteId: the site's place in the arena
//!                                     |  none: written there, and linked       (arena.rs; nothing moves or is reused)
//! ```
//! A stack that was walked lately is known by its depth and by the return addresses at their places (`recent`).
//!
//! An allocation may grow the arena and keeps spare room in it. A free stores its site in that room or gets none. Stored sites are read
//! without a lock, also in a signal handler.

mod arena;
mod requester;
mod site;
mod support;
mod thread_stack;
mod unwind;
mod walk;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use alloc_core::{AllocError, HostAllocator, Scope};

use crate::block::SiteId;
use crate::mode::Stacks;
use crate::modules;
use crate::os;

use arena::{ArenaOffset, SiteArena};
pub use requester::CommandMark;
pub(crate) use requester::{RequesterInfo, SiteView};
use site::{MAX_FRAMES, NewSite, SiteRef};
pub use support::StackSupport;
use thread_stack::ThreadStack;
pub(crate) use unwind::walk_from;
pub(crate) use walk::call_site;
use walk::{Bounds, WalkStart};

/// Room that an allocation leaves for later frees: hundreds may come in a row, each with a new site.
const fn keep(stacks: Stacks) -> usize {
    match stacks {
        Stacks::Off => 16 * 1024,
        Stacks::Fast => 64 * 1024,
        Stacks::Full => 192 * 1024,
    }
}

/// Requests before the arena tries to grow again after a refusal.
const PATIENCE: u32 = 1000;
/// Lists of sites, by hash.
const BUCKETS: usize = 4096;
/// Stacks of one requester and one depth that are known again.
const ALIKE: usize = 16;
/// Lists of them.
const RECENT: usize = 128;

/// Maximum bytes of a depot.
const MAX_BYTES: usize = 256 << 20;

/// The statistics of a depot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteStats {
    /// Distinct call sites, of allocations and of frees.
    pub(crate) sites: u64,
    /// Bytes allocated for them.
    pub(crate) bytes: u64,
    /// Allocations and frees without room for their site.
    pub(crate) lost: u64,
    /// Passes of the unwinder.
    pub(crate) unwound: u64,
}

/// The depot of call sites of one guard.
pub(crate) struct Sites {
    arena: SiteArena,
    /// The newest site of each list; 0: none.
    buckets: [AtomicU32; BUCKETS],
    /// By requester and depth, the sites of stacks that were walked last: half of the key, and the site's place; 0: none.
    recent: [[AtomicU64; ALIKE]; RECENT],
    count: AtomicU32,
    /// By scope, the site without requester and stack; 0: not created yet.
    plain: [AtomicU32; Scope::ALL.len()],
    /// Marks the sites of this depot.
    key: u32,
    patience: AtomicU32,
    lost: AtomicU64,
    unwound: AtomicU64,
    /// The next place in a list of recent sites.
    turn: AtomicU32,
    tallying: AtomicU32,
}

impl Sites {
    /// Allocates the first 64 KiB, and probes the stack support of this process once.
    pub(crate) fn new(memory: &dyn HostAllocator) -> Result<Self, AllocError> {
        Self::with_limit(memory, MAX_BYTES)
    }

    /// As [`new`](Self::new), with at most about `limit` bytes.
    fn with_limit(memory: &dyn HostAllocator, limit: usize) -> Result<Self, AllocError> {
        let _ = StackSupport::of_this_process();
        Ok(Self {
            arena: SiteArena::new(memory, limit)?,
            buckets: [const { AtomicU32::new(0) }; BUCKETS],
            recent: [const { [const { AtomicU64::new(0) }; ALIKE] }; RECENT],
            count: AtomicU32::new(0),
            plain: [const { AtomicU32::new(0) }; Scope::ALL.len()],
            key: os::random_u64() as u32,
            patience: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            unwound: AtomicU64::new(0),
            turn: AtomicU32::new(0),
            tallying: AtomicU32::new(0),
        })
    }

    /// Frees everything. Nothing else is called afterwards.
    pub(crate) fn close(&mut self, memory: &dyn HostAllocator) {
        self.arena.close(memory);
    }

    /// The site of an allocation. May allocate; 0 if that is refused.
    #[inline]
    pub(crate) fn note(
        &self,
        memory: &dyn HostAllocator,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
    ) -> SiteId {
        self.known_plain(requester, stacks)
            .unwrap_or_else(|| self.note_walked(memory, requester, stacks))
    }

    /// The site of a free. Allocates nothing; 0 without room.
    #[inline]
    pub(crate) fn note_free(&self, requester: &RequesterInfo<'_>, stacks: Stacks) -> SiteId {
        self.known_plain(requester, stacks)
            .unwrap_or_else(|| self.walked(requester, stacks, None))
    }

    /// The site of a scope without requester and stack, once it is there.
    #[inline]
    fn known_plain(&self, requester: &RequesterInfo<'_>, stacks: Stacks) -> Option<SiteId> {
        let is_plain = stacks == Stacks::Off && requester.is_anonymous();
        let place = self
            .plain
            .get(requester.scope.index())
            .filter(|_| is_plain)?;
        Some(SiteId(place.load(Ordering::Relaxed))).filter(|site| site.0 != 0)
    }

    #[inline(never)]
    fn note_walked(
        &self,
        memory: &dyn HostAllocator,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
    ) -> SiteId {
        if self.arena.room() < 2 * keep(stacks) {
            self.grow(memory);
        }
        let site = self.walked(requester, stacks, Some(memory));
        if stacks == Stacks::Off
            && requester.is_anonymous()
            && let Some(place) = self.plain.get(requester.scope.index())
        {
            place.store(site.0, Ordering::Relaxed);
        }
        site
    }

    /// The site with the stack of the calling thread. Not inlined: both callers have the same frames.
    #[inline(never)]
    fn walked(
        &self,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
        memory: Option<&dyn HostAllocator>,
    ) -> SiteId {
        let from = thread_stack::read_registers();
        let request = SiteRequest {
            requester,
            who: requester.hash(),
            stacks,
            memory,
        };
        let walked = |local: &ThreadStack| {
            if stacks == Stacks::Off || from.stack == 0 {
                return None;
            }
            let start = start_of(local, from, requester);
            let key = request.key(start);
            let recent = self.recent.get(key as usize % RECENT)?;
            let known = recent.iter().find_map(|known| {
                let known = known.load(Ordering::Relaxed);
                if known >> 32 != key >> 32 {
                    return None;
                }
                let site = self.at(known as u32)?;
                request.is_at(site, start).then(|| site.id())
            });
            known.or_else(|| {
                let id = match stacks {
                    Stacks::Fast => self.fast(&request, start),
                    _ => self.full(&request, local, start)?,
                };
                let site = self.site(id).filter(|site| request.is_at(*site, start));
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize % ALIKE;
                if let (Some(_), Some(place)) = (site, recent.get(turn)) {
                    let entry = key >> 32 << 32 | u64::from(id.0 & !SiteId::WHOLE);
                    place.store(entry, Ordering::Relaxed);
                }
                Some(id)
            })
        };
        thread_stack::with(walked).unwrap_or_else(|| self.site_with(&request, (&[], &[]), false))
    }

    /// By frame pointers. That their addresses are those of calls is verified once, for a new site.
    #[cold]
    #[inline(never)]
    fn fast(&self, request: &SiteRequest<'_>, start: WalkStart) -> SiteId {
        let (mut frames, mut slots) = ([0; walk::MAX_FRAMES], [0; walk::MAX_FRAMES]);
        let (count, end) = walk::frames(start, &mut frames, &mut slots);
        let frames = frames.get(..count).unwrap_or_default();
        if let Some(known) = self.find(request.hash(frames)) {
            return known.id();
        }
        let calls = walk::count_calls(frames);
        let whole = end == walk::End::Reached && calls == count;
        let frames = frames.get(..calls).unwrap_or_default();
        // What stands behind the last frame of a chain that ended early is not compared: another stack may begin alike.
        let is_known_again = whole || calls == walk::MAX_FRAMES;
        let slots = slots
            .get(..calls)
            .filter(|_| is_known_again)
            .unwrap_or_default();
        self.site_with(request, (frames, slots), whole)
    }

    /// By the unwinder. `None` if the unwinder itself allocates.
    #[cold]
    #[inline(never)]
    fn full(
        &self,
        request: &SiteRequest<'_>,
        local: &ThreadStack,
        start: WalkStart,
    ) -> Option<SiteId> {
        let (mut frames, mut slots) = ([0; MAX_FRAMES], [0; MAX_FRAMES]);
        let (count, whole) = unwind::walk(local, start, &mut frames, &mut slots)?;
        self.unwound.fetch_add(1, Ordering::Relaxed);
        let frames = frames.get(..count).unwrap_or_default();
        let slots = slots.get(..count).unwrap_or_default();
        // SAFETY: no slot is above the last one.
        let placed = whole && slots.is_sorted() && unsafe { start.stands(frames, slots) };
        let slots = if placed { slots } else { &[] };
        Some(self.site_with(request, (frames, slots), whole))
    }

    /// The site with these frames: one that is there, or a new one; 0 without room.
    fn site_with(
        &self,
        request: &SiteRequest<'_>,
        stack: (&[usize], &[u32]),
        whole: bool,
    ) -> SiteId {
        let hash = request.hash(stack.0);
        self.find(hash)
            .map(SiteRef::id)
            .unwrap_or_else(|| self.make(hash, request, stack, whole))
    }

    fn bucket(&self, hash: u64) -> Option<&AtomicU32> {
        self.buckets.get(hash as usize % BUCKETS)
    }

    /// The sites of a list, from `first` on.
    fn chain(&self, first: u32) -> impl Iterator<Item = SiteRef<'_>> {
        let mut next = self.at(first);
        core::iter::from_fn(move || {
            let site = next?;
            next = self.at(site.next());
            Some(site)
        })
    }

    fn find(&self, hash: u64) -> Option<SiteRef<'_>> {
        let first = self.bucket(hash)?.load(Ordering::Acquire);
        self.chain(first).find(|site| site.hash() == hash)
    }

    #[cold]
    fn make(
        &self,
        hash: u64,
        request: &SiteRequest<'_>,
        (frames, slots): (&[usize], &[u32]),
        whole: bool,
    ) -> SiteId {
        let made = NewSite {
            hash,
            who: request.who,
            requester: request.requester,
            frames,
            slots: if slots.is_sorted() { slots } else { &[] },
            whole,
            modules: modules::note(frames),
        };
        let keep = request.memory.map_or(0, |_| keep(request.stacks));
        let site = self.put(made, keep).or_else(|| {
            self.arena
                .grow(request.memory?)
                .then(|| self.put(made, keep))?
        });
        if site.is_none() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        site.unwrap_or_default()
    }

    /// Writes the site to the arena and links it, unless another thread was faster. `None` without room.
    fn put(&self, made: NewSite<'_>, keep: usize) -> Option<SiteId> {
        let (place, at) = self.arena.allocate(made.bytes(), keep)?;
        // SAFETY: just allocated, so many bytes at a multiple of 16.
        unsafe { made.write(self.key, place, at) };
        let site = self.at(place.raw())?;
        let bucket = self.bucket(made.hash)?;
        let mut first = bucket.load(Ordering::Acquire);
        loop {
            if let Some(faster) = self.chain(first).find(|other| other.hash() == made.hash) {
                return Some(faster.id());
            }
            site.set_next(first);
            match bucket.compare_exchange(first, place.raw(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(site.id())
    }

    /// The recorded site. Async-signal-safe; `None` for a number of no site of this depot.
    pub(crate) fn get(&self, id: SiteId) -> Option<SiteView<'_>> {
        Some(self.site(id)?.view())
    }

    pub(crate) fn stats(&self) -> SiteStats {
        SiteStats {
            sites: u64::from(self.count.load(Ordering::Relaxed)),
            bytes: self.arena.bytes() as u64,
            lost: self.lost.load(Ordering::Relaxed),
            unwound: self.unwound.load(Ordering::Relaxed),
        }
    }

    fn site(&self, id: SiteId) -> Option<SiteRef<'_>> {
        self.at(id.0 & !SiteId::WHOLE)
    }

    fn at(&self, place: u32) -> Option<SiteRef<'_>> {
        SiteRef::at(&self.arena, self.key, ArenaOffset::from_raw(place)?)
    }

    /// All sites, in no order.
    fn all(&self) -> impl Iterator<Item = SiteRef<'_>> {
        let firsts = self
            .buckets
            .iter()
            .map(|first| first.load(Ordering::Acquire));
        firsts.flat_map(|first| self.chain(first))
    }

    #[cold]
    fn grow(&self, memory: &dyn HostAllocator) {
        let waited = self.patience.load(Ordering::Relaxed);
        let next = match waited.checked_sub(1) {
            Some(less) => less,
            None if self.arena.grow(memory) => 0,
            None => PATIENCE,
        };
        self.patience.store(next, Ordering::Relaxed);
    }
}

/// The requester and the memory for its site.
struct SiteRequest<'a> {
    requester: &'a RequesterInfo<'a>,
    /// Its hash.
    who: u64,
    stacks: Stacks,
    /// `None`: a free.
    memory: Option<&'a dyn HostAllocator>,
}

impl SiteRequest<'_> {
    fn hash(&self, frames: &[usize]) -> u64 {
        requester::stack(self.who, frames)
    }

    /// Of the requester, the kind of walk, and how far the stack reaches up to its end.
    fn key(&self, start: WalkStart) -> u64 {
        let Bounds { mark, top, .. } = start.bounds;
        let end = if mark == 0 { top } else { mark };
        let depth = end.wrapping_sub(start.from.stack) as u64;
        requester::mix(self.who, depth << 8 | self.stacks as u64)
    }

    /// True if the stack is that of `site`: all return addresses are at their places again. The key is that of the site's stack.
    fn is_at(&self, site: SiteRef<'_>, start: WalkStart) -> bool {
        let placed = site.placed().filter(|_| site.who() == self.who);
        // SAFETY: a site has no other slots than those that rise, or none.
        placed.is_some_and(|(frames, slots)| unsafe { start.stands(frames, slots) })
    }
}

/// The start of a walk that ends at the requester's command.
fn start_of(
    local: &ThreadStack,
    from: thread_stack::Registers,
    requester: &RequesterInfo<'_>,
) -> WalkStart {
    let bounds = local.bounds(from.stack);
    let mark = requester.command.map_or(0, |command| command.stack);
    let is_below = from.stack < mark && mark < bounds.top;
    WalkStart {
        from,
        bounds: bounds.up_to(if is_below { mark } else { 0 }),
    }
}

#[cfg(test)]
mod tests;
