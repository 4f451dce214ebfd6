//! Call sites: requester, command and stack, stored once and named by a number in each record.
//!
//! ```text
//!   RequesterInfo + stack --hash--> the thread's last answers --no--> trie --no--> new site      (walk.rs, walked_stack.rs, unwind.rs)
//!                              |                              |             |
//!                              +------------ SiteId <---------+-------------+--> arena: sites, nodes, trails; never moved, never reused
//! ```
//! An allocation may grow the arena and keeps spare room in it. A free stores its site in that room or gets none. Stored sites are read
//! without a lock, also in a signal handler.

mod arena;
mod caller_hash;
mod calls;
mod counters;
mod hash;
mod label;
mod profile;
mod registers;
mod requester;
mod site;
mod stopped;
mod support;
mod tally;
mod thread_sites;
mod trie;
mod unwind;
mod unwind_trail;
mod walk;
mod walked_stack;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use alloc_core::{AllocError, HostAllocator, Scope};

use crate::block::SiteId;
use crate::mode::Stacks;
use crate::modules;
use crate::os;

use arena::{ArenaOffset, SiteArena};
pub(crate) use caller_hash::call_site;
pub(crate) use counters::{Counters, Numbers};
use hash::{Frames, mix};
pub(crate) use label::LabelKind;
pub(crate) use profile::Profile;
pub use requester::CommandMark;
pub(crate) use requester::{RequesterInfo, SiteView};
use site::NewSite;
pub(crate) use site::SiteRef;
pub(crate) use stopped::walk_from;
pub use support::StackSupport;
use thread_sites::ThreadSites;
use trie::{LabelList, NoRoom, Trie};
use walk::WalkStart;
use walked_stack::WalkedStack;

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

/// The options of a depot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteOptions {
    /// Keep counters for each site.
    pub(crate) profile: bool,
    /// Maximum bytes for call sites; 0: 256 MiB.
    pub(crate) max_bytes: usize,
}

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
    sites: Trie,
    trails: Trie,
    all: LabelList,
    /// Unique per depot; keys the answers that threads remember.
    tag: u64,
    /// By scope, the site without requester and stack; 0: not created yet.
    plain: [AtomicU32; Scope::ALL.len()],
    /// Marks the sites of this depot.
    key: u32,
    patience: AtomicU32,
    lost: AtomicU64,
    unwound: AtomicU64,
    tallying: AtomicU32,
    profile: Option<Profile>,
}

impl Sites {
    /// Allocates the first 64 KiB, and probes the stack support of this process once.
    pub(crate) fn new(
        memory: &dyn HostAllocator,
        options: SiteOptions,
    ) -> Result<Self, AllocError> {
        let _ = StackSupport::of_this_process();
        static DEPOTS: AtomicU64 = AtomicU64::new(1);
        let limit = if options.max_bytes == 0 {
            256 << 20
        } else {
            options.max_bytes
        };
        Ok(Self {
            arena: SiteArena::new(memory, limit)?,
            sites: Trie::default(),
            trails: Trie::default(),
            all: LabelList::default(),
            tag: mix(0, DEPOTS.fetch_add(1, Ordering::Relaxed)),
            plain: [const { AtomicU32::new(0) }; Scope::ALL.len()],
            key: os::random_u64() as u32,
            patience: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            unwound: AtomicU64::new(0),
            tallying: AtomicU32::new(0),
            profile: options.profile.then(Profile::default),
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
        match self
            .plain(requester, stacks)
            .map(|place| place.load(Ordering::Relaxed))
        {
            None | Some(0) => self.note_anew(memory, requester, stacks),
            Some(site) => SiteId(site),
        }
    }

    #[inline(never)]
    fn note_anew(
        &self,
        memory: &dyn HostAllocator,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
    ) -> SiteId {
        let keep = keep(stacks);
        if self.arena.room() < 2 * keep {
            self.grow(memory);
        }
        let site = self.find(requester, stacks, Some((memory, keep)));
        if let Some(place) = self.plain(requester, stacks) {
            place.store(site.0, Ordering::Relaxed);
        }
        site
    }

    /// The place of the site without requester and stack.
    #[inline]
    fn plain(&self, requester: &RequesterInfo<'_>, stacks: Stacks) -> Option<&AtomicU32> {
        let is_plain = stacks == Stacks::Off && requester.is_anonymous();
        if is_plain {
            self.plain.get(requester.scope.index())
        } else {
            None
        }
    }

    /// The site without requester and stack; `None` before it is created.
    #[inline(always)]
    pub(crate) fn anonymous(&self, scope: Scope) -> Option<SiteId> {
        let site = self.plain.get(scope.index())?.load(Ordering::Relaxed);
        (site != 0).then_some(SiteId(site))
    }

    /// The site of a free. Allocates nothing; 0 without room.
    #[inline]
    pub(crate) fn note_free(&self, requester: &RequesterInfo<'_>, stacks: Stacks) -> SiteId {
        match self
            .plain(requester, stacks)
            .map(|place| place.load(Ordering::Relaxed))
        {
            None | Some(0) => self.find(requester, stacks, None),
            Some(site) => SiteId(site),
        }
    }

    /// The recorded site. Async-signal-safe; `None` for a number of no site of this depot.
    pub(crate) fn get(&self, id: SiteId) -> Option<SiteView<'_>> {
        Some(self.site(id)?.view())
    }

    pub(crate) fn stats(&self) -> SiteStats {
        SiteStats {
            sites: u64::from(self.all.head().1),
            bytes: self.arena.bytes() as u64,
            lost: self.lost.load(Ordering::Relaxed),
            unwound: self.unwound.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    pub(crate) const fn arena(&self) -> &SiteArena {
        &self.arena
    }

    pub(crate) fn site(&self, id: SiteId) -> Option<SiteRef<'_>> {
        self.at(ArenaOffset::from_raw(id.0 & !SiteId::WHOLE)?)
    }

    fn at(&self, place: ArenaOffset) -> Option<SiteRef<'_>> {
        SiteRef::at(&self.arena, self.key, place)
    }

    /// Calls `tell` for all sites, the newest first.
    pub(crate) fn for_each(&self, tell: &mut dyn FnMut(SiteId, SiteRef<'_>)) {
        let mut next = self.all.head().0;
        while let Some(site) = next.and_then(|place| self.at(place)) {
            tell(site.id(), site);
            next = site.before();
        }
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

    /// Not inlined: the depth of its frame distinguishes stacks, and must be the same for both callers.
    #[inline(never)]
    fn find(
        &self,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
        memory: Option<(&dyn HostAllocator, usize)>,
    ) -> SiteId {
        let from = registers::read();
        let request = &SiteRequest {
            requester,
            quick: requester.quick(self.tag),
            memory,
        };
        thread_sites::with(|local| {
            let Some(local) = local else {
                return self.bare(request);
            };
            if stacks == Stacks::Off || from.stack == 0 {
                return local
                    .recall(request.quick)
                    .map_or_else(|| self.bare_and_remember(local, request), SiteId);
            }
            let bounds = local.bounds(from.stack);
            let mark = request.requester.command.map_or(0, |command| command.stack);
            let mark = if from.stack < mark && mark < bounds.top {
                mark
            } else {
                0
            };
            let start = WalkStart {
                from,
                bounds: bounds.up_to(mark),
            };
            match stacks {
                Stacks::Full => self.full(local, request, start),
                _ => self.fast(local, request, start),
            }
        })
    }

    /// Without a stack.
    fn bare(&self, request: &SiteRequest<'_>) -> SiteId {
        let hash = Frames::new().finish(self.hash(request));
        self.known(hash)
            .unwrap_or_else(|| self.make(hash, request, &[], false))
    }

    #[cold]
    fn bare_and_remember(&self, local: &ThreadSites, request: &SiteRequest<'_>) -> SiteId {
        let id = self.bare(request);
        local.remember(request.quick, id.0);
        id
    }

    #[inline]
    fn fast(&self, local: &ThreadSites, request: &SiteRequest<'_>, start: WalkStart) -> SiteId {
        let trail = self.trail(request.quick, start);
        self.follow(local, trail, start)
            .unwrap_or_else(|| self.walk(local, request, start, trail))
    }

    /// A stack that this thread does not remember.
    #[inline(never)]
    fn walk(
        &self,
        local: &ThreadSites,
        request: &SiteRequest<'_>,
        start: WalkStart,
        trail: u64,
    ) -> SiteId {
        if let Some(site) = self.search(local, trail, start) {
            return site;
        }
        let mut frames = Frames::new();
        walk::frames(start, |back, _| frames.add(back));
        let quick = frames.finish(request.quick);
        local.recall(quick).map_or_else(
            || self.chained(local, request, start, (frames, quick), trail),
            SiteId,
        )
    }

    /// A chain of frame pointers that this thread does not remember.
    #[cold]
    fn chained(
        &self,
        local: &ThreadSites,
        request: &SiteRequest<'_>,
        start: WalkStart,
        (frames, quick): (Frames, u64),
        trail: u64,
    ) -> SiteId {
        let id = self
            .known(frames.finish(self.hash(request)))
            .unwrap_or_else(|| {
                let mut found = WalkedStack::nothing();
                found.by_frames(start);
                let id = self.of_stack(request, &found);
                self.remember(local, request, (&found, id), trail);
                id
            });
        local.remember(quick, id.0);
        id
    }

    #[inline]
    fn full(&self, local: &ThreadSites, request: &SiteRequest<'_>, start: WalkStart) -> SiteId {
        let trail = self.trail(!request.quick, start);
        self.follow(local, trail, start)
            .unwrap_or_else(|| self.unwind(local, request, start, trail))
    }

    /// The key of a trail: requester, kind of walk, and depth of the stack.
    #[inline]
    fn trail(&self, requester: u64, start: WalkStart) -> u64 {
        let WalkStart { from, bounds } = start;
        let end = if bounds.mark == 0 {
            bounds.top
        } else {
            bounds.mark
        };
        mix(requester, end.wrapping_sub(from.stack) as u64)
    }

    /// Compares the stack with the trail that this thread remembers.
    #[inline]
    fn follow(&self, local: &ThreadSites, trail: u64, start: WalkStart) -> Option<SiteId> {
        let place = ArenaOffset::from_raw(local.recall(trail)?)?;
        // SAFETY: what is remembered by the hash of a trail is its place; the bounds are those of this stack pointer.
        unsafe { unwind_trail::follow(&self.arena, place, trail, start) }.map(SiteId)
    }

    /// Compares the stack with all trails.
    #[cold]
    fn search(&self, local: &ThreadSites, trail: u64, start: WalkStart) -> Option<SiteId> {
        // SAFETY: the bounds are those of this stack pointer.
        let (place, site) = unsafe { unwind_trail::find(&self.trails, &self.arena, trail, start) }?;
        local.remember(trail, place.raw());
        Some(SiteId(site))
    }

    /// A stack that this thread does not remember; walked by the unwinder if no trail matches.
    #[cold]
    #[inline(never)]
    fn unwind(
        &self,
        local: &ThreadSites,
        request: &SiteRequest<'_>,
        start: WalkStart,
        trail: u64,
    ) -> SiteId {
        if let Some(site) = self.search(local, trail, start) {
            return site;
        }
        let mut found = WalkedStack::nothing();
        if !found.by_unwinder(local, start) {
            return self.bare(request);
        }
        self.unwound.fetch_add(1, Ordering::Relaxed);
        let id = self.of_stack(request, &found);
        self.remember(local, request, (&found, id), trail);
        id
    }

    fn remember(
        &self,
        local: &ThreadSites,
        request: &SiteRequest<'_>,
        (found, id): (&WalkedStack, SiteId),
        trail: u64,
    ) {
        if let Some(slots) = found.slots().filter(|_| id.0 != 0)
            && let Some(place) = unwind_trail::remember(
                &self.trails,
                &self.arena,
                trail,
                (found.frames(), slots),
                id.0,
                request.keep(),
            )
        {
            local.remember(trail, place.raw());
        }
    }

    fn of_stack(&self, request: &SiteRequest<'_>, found: &WalkedStack) -> SiteId {
        let hash = Frames::of(found.frames()).finish(self.hash(request));
        self.known(hash)
            .unwrap_or_else(|| self.make(hash, request, found.frames(), found.whole))
    }

    fn hash(&self, request: &SiteRequest<'_>) -> u64 {
        request.requester.hash(self.tag)
    }

    fn known(&self, hash: u64) -> Option<SiteId> {
        Some(self.at(self.sites.find(&self.arena, hash)?)?.id())
    }

    /// A new site, or 0.
    #[cold]
    fn make(&self, hash: u64, request: &SiteRequest<'_>, frames: &[usize], whole: bool) -> SiteId {
        let made = NewSite {
            hash,
            requester: request.requester,
            frames,
            whole,
            modules: modules::note(frames),
            counters: None,
        };
        let place = match (self.put(made, request.keep()), request.memory) {
            (Err(NoRoom), Some((memory, _))) if self.arena.grow(memory) => {
                self.put(made, request.keep())
            }
            (place, _) => place,
        };
        if let Some(site) = place.ok().and_then(|place| self.at(place)) {
            return site.id();
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
        SiteId(0)
    }

    fn put(&self, mut made: NewSite<'_>, keep: usize) -> Result<ArenaOffset, NoRoom> {
        let bytes = made.bytes();
        if self.profile.is_some() {
            let lines = profile::lines(made.requester.command.is_some(), made.frames.len());
            made.counters = Some(Counters::put(&self.arena, lines, keep)?);
        }
        let (place, at) = self.arena.allocate(bytes, keep).ok_or(NoRoom)?;
        // SAFETY: just taken, `bytes` bytes at a multiple of 16.
        unsafe { made.write(self.key, place, at) };
        if let (Some(profile), Some(counters)) = (&self.profile, made.counters) {
            let site = self.at(place).ok_or(NoRoom)?;
            // SAFETY: made above for so many lines; only this thread knows of them until the site is linked.
            unsafe { profile.label(&self.arena, counters, (site.id(), site.view()), keep)? };
        }
        let stands = self.sites.insert(&self.arena, made.hash, place, keep)?;
        if let Some(site) = self.at(place).filter(|_| stands == place) {
            self.all
                .push(place, |before, number| site.link(before, number));
        }
        Ok(stands)
    }
}

/// The requester and the memory for its site.
struct SiteRequest<'a> {
    requester: &'a RequesterInfo<'a>,
    /// The key that threads remember it by.
    quick: u64,
    /// With the room that must be left; `None`: a free.
    memory: Option<(&'a dyn HostAllocator, usize)>,
}

impl SiteRequest<'_> {
    fn keep(&self) -> usize {
        self.memory.map_or(0, |(_, keep)| keep)
    }
}

#[cfg(test)]
mod tests;
