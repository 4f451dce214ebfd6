//! A call site in the arena, and sums by call site over a walk of blocks, for leak lists.
//!
//! ```text
//!   0        8                16      20      24        32          48         60
//!   | hash   | the requester's | check | front | context | command   | lengths, scope, flags | tally: blocks, bytes | next |
//!   | frames: innermost first .. | where they stand on the stack .. | name .. | label .. |
//! ```
//! All but the tally is written before the site is linked, and never again.

use core::marker::PhantomData;
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use alloc_core::{ContextId, Scope};

use super::Sites;
use super::arena::{ArenaOffset, SiteArena};
use super::requester::{RequesterInfo, SiteView, cut};
use crate::block::SiteId;
use crate::os;

/// Maximum frames of a site. An unoptimised program has fifty of its own between a driver's call and the guard.
pub(super) const MAX_FRAMES: usize = 192;

#[repr(C)]
pub(crate) struct Site {
    hash: u64,
    /// That of the requester.
    who: u64,
    /// The site's own place, xored with the key: proves that a site stands here.
    check: AtomicU32,
    front: u32,
    context: Option<ContextId>,
    command: Option<&'static str>,
    frames: u8,
    name: u8,
    label: u8,
    flags: u8,
    scope: Scope,
    /// Noted modules when it was made.
    modules: u16,
    pub(super) tally: Tally,
    /// The next site of its list.
    next: AtomicU32,
}

/// A site in an arena, with the data behind it.
#[derive(Clone, Copy)]
pub(crate) struct SiteRef<'a> {
    at: NonNull<Site>,
    place: ArenaOffset,
    arena: PhantomData<&'a SiteArena>,
}

/// Scratch of one walk over the blocks.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) blocks: AtomicU64,
    pub(super) bytes: AtomicU64,
}

const WHOLE: u8 = 1;
const LABELLED: u8 = 2;
const PLACED: u8 = 4;

/// The data of a new site.
#[derive(Clone, Copy)]
pub(super) struct NewSite<'a> {
    pub(super) hash: u64,
    pub(super) who: u64,
    pub(super) requester: &'a RequesterInfo<'a>,
    pub(super) frames: &'a [usize],
    /// Where each frame's return address stands, in words above the stack pointer; empty if that is not known.
    pub(super) slots: &'a [u32],
    pub(super) whole: bool,
    /// Noted modules, those of the frames among them.
    pub(super) modules: u16,
}

impl NewSite<'_> {
    pub(super) fn bytes(&self) -> usize {
        let names = cut(self.requester.name)
            .len()
            .saturating_add(self.requester.label.map_or(0, |label| cut(label).len()));
        size_of::<Site>()
            .saturating_add(size_of_val(self.frames))
            .saturating_add(size_of_val(self.slots))
            .saturating_add(names)
    }

    /// Writes the site to `place`, where `bytes()` bytes are.
    ///
    /// # Safety
    /// `at` is `place` in its arena, with [`Self::bytes`] writable bytes at a multiple of 16 that no other thread knows.
    pub(super) unsafe fn write(&self, key: u32, place: ArenaOffset, at: NonNull<u8>) {
        let (name, label) = (cut(self.requester.name), self.requester.label.map(cut));
        let short = |len: usize| u8::try_from(len).unwrap_or(0);
        let site = Site {
            hash: self.hash,
            who: self.who,
            check: AtomicU32::new(0),
            front: self.requester.front,
            context: self.requester.context,
            command: self.requester.command.map(|command| command.name),
            frames: short(self.frames.len()),
            name: short(name.len()),
            label: short(label.map_or(0, str::len)),
            flags: if self.whole { WHOLE } else { 0 }
                | if label.is_some() { LABELLED } else { 0 }
                | if self.slots.is_empty() { 0 } else { PLACED },
            scope: self.requester.scope,
            modules: self.modules,
            tally: Tally::default(),
            next: AtomicU32::new(0),
        };
        let to = at.cast::<Site>();
        // SAFETY: the caller gives that many bytes, aligned to 16.
        unsafe { to.write(site) };
        // SAFETY: the frames stand behind the site, within `bytes()`.
        let frames = unsafe { to.add(1) }.cast();
        // SAFETY: aligned as a `Site` is, which is a word or more.
        let slots = unsafe { copy(frames, self.frames) }.cast();
        // SAFETY: the slots stand behind the frames, within `bytes()`.
        let names = unsafe { copy(slots, self.slots) }.cast();
        // SAFETY: the name stands behind the slots, within `bytes()`.
        let labels = unsafe { copy(names, name.as_bytes()) };
        // SAFETY: the label stands behind the name, within `bytes()`.
        unsafe { copy(labels, label.unwrap_or("").as_bytes()) };
        // SAFETY: written above.
        unsafe { to.as_ref() }
            .check
            .store(place.raw() ^ key, Ordering::Release);
    }
}

/// Copies `items` to `to`; the address behind them.
///
/// # Safety
/// There is room for them, aligned, that no other thread knows of.
unsafe fn copy<T: Copy>(to: NonNull<T>, items: &[T]) -> NonNull<T> {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len()) };
    // SAFETY: at most the end of the room.
    unsafe { to.add(items.len()) }
}

/// The `count` items at `from`, and the address behind them.
///
/// # Safety
/// They are there for `'a`, aligned and initialised, and are not written.
unsafe fn read<'a, T>(from: NonNull<T>, count: u8) -> (&'a [T], NonNull<T>) {
    let count = usize::from(count);
    // SAFETY: the caller's promise.
    let items = unsafe { core::slice::from_raw_parts(from.as_ptr(), count) };
    // SAFETY: at most the end of the room.
    (items, unsafe { from.add(count) })
}

impl Site {
    const fn whole(&self) -> bool {
        self.flags & WHOLE != 0
    }

    /// How many slots stand behind the frames: one each, or none.
    const fn slots(&self) -> u8 {
        if self.flags & PLACED != 0 {
            self.frames
        } else {
            0
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// The hash of the requester.
    pub(super) fn who(&self) -> u64 {
        self.who
    }

    /// The place of the next site in its list; 0: none.
    pub(super) fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    pub(super) fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Relaxed);
    }
}

impl Deref for SiteRef<'_> {
    type Target = Site;
    fn deref(&self) -> &Site {
        // SAFETY: `SiteRef::at` saw that a site stands there; it lives as long as the arena.
        unsafe { self.at.as_ref() }
    }
}

impl<'a> SiteRef<'a> {
    /// The site at `place`; `None` where no site was ever put, whatever the number came from.
    pub(crate) fn at(arena: &'a SiteArena, key: u32, place: ArenaOffset) -> Option<Self> {
        let at = arena.at(place, size_of::<Site>())?.cast::<Site>();
        // SAFETY: within the bytes of a site, which `at` gave.
        let check = unsafe { at.byte_add(offset_of!(Site, check)) }.cast::<AtomicU32>();
        // SAFETY: in memory that is never taken back; any word is an `AtomicU32`.
        let check = unsafe { check.as_ref() };
        // Only `NewSite::write` puts that word there, last of all, and a random key keeps other data from looking like it.
        (check.load(Ordering::Acquire) == place.raw() ^ key).then_some(Self {
            at,
            place,
            arena: PhantomData,
        })
    }

    /// Its number.
    pub(crate) fn id(self) -> SiteId {
        SiteId(self.place.raw() | if self.whole() { SiteId::WHOLE } else { 0 })
    }

    /// The frames, and where they stand on the stack.
    pub(super) fn placed(self) -> Option<(&'a [usize], &'a [u32])> {
        // SAFETY: it lives as long as the arena.
        let site: &'a Site = unsafe { self.at.as_ref() };
        // SAFETY: the frames stand behind the site.
        let frames = unsafe { self.at.add(1) }.cast();
        // SAFETY: `write` put that many frames there, and they are never written again.
        let (frames, slots) = unsafe { read(frames, site.frames) };
        // SAFETY: likewise; the slots stand behind the frames.
        let (slots, _) = unsafe { read(slots.cast(), site.slots()) };
        (!slots.is_empty()).then_some((frames, slots))
    }

    pub(crate) fn view(self) -> SiteView<'a> {
        // SAFETY: it lives as long as the arena.
        let site: &'a Site = unsafe { self.at.as_ref() };
        // SAFETY: the frames stand behind the site.
        let frames = unsafe { self.at.add(1) }.cast();
        // SAFETY: `write` put that many frames there, and they are never written again.
        let (frames, behind) = unsafe { read(frames, site.frames) };
        // SAFETY: likewise; the slots stand behind the frames.
        let (_, names) = unsafe { read(behind.cast::<u32>(), site.slots()) };
        // SAFETY: likewise; the name stands behind the slots.
        let (name, labels) = unsafe { read(names.cast(), site.name) };
        // SAFETY: likewise; the label stands behind the name.
        let (label, _) = unsafe { read(labels, site.label) };
        SiteView {
            context: site.context,
            name: core::str::from_utf8(name).unwrap_or(""),
            label: (site.flags & LABELLED != 0).then(|| core::str::from_utf8(label).unwrap_or("")),
            scope: site.scope,
            front: site.front,
            command: site.command,
            frames,
            whole: site.whole(),
            modules: site.modules,
        }
    }
}

/// One walk. Its sums stand in the sites, so there is one walk at a time.
pub(crate) struct Tallying<'a> {
    sites: &'a Sites,
    /// The sums of blocks without a known site.
    anonymous: (u64, u64),
}

impl Sites {
    /// Begins a tally at zero. `None` during another one.
    pub(crate) fn tally(&self) -> Option<Tallying<'_>> {
        // A tally that a fork left behind has no owner.
        let me = os::forks().wrapping_add(1).max(1);
        let now = self.tallying.load(Ordering::Relaxed);
        if now == me {
            return None;
        }
        self.tallying
            .compare_exchange(now, me, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        for site in self.all() {
            site.tally.blocks.store(0, Ordering::Relaxed);
            site.tally.bytes.store(0, Ordering::Relaxed);
        }
        Some(Tallying {
            sites: self,
            anonymous: (0, 0),
        })
    }
}

impl Tallying<'_> {
    /// Counts a block of `bytes` that was allocated at `id`.
    pub(crate) fn add(&mut self, id: SiteId, bytes: u64) {
        match self.sites.site(id) {
            Some(site) => {
                site.tally.blocks.fetch_add(1, Ordering::Relaxed);
                site.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            None => {
                self.anonymous = (
                    self.anonymous.0.saturating_add(1),
                    self.anonymous.1.saturating_add(bytes),
                )
            }
        }
    }

    /// Calls `tell` for each site with blocks: number, blocks, bytes. Number 0: the site is not known.
    pub(crate) fn for_each(&self, tell: &mut dyn FnMut(SiteId, u64, u64)) {
        for site in self.sites.all() {
            let blocks = site.tally.blocks.load(Ordering::Relaxed);
            if blocks != 0 {
                tell(site.id(), blocks, site.tally.bytes.load(Ordering::Relaxed));
            }
        }
        if self.anonymous.0 != 0 {
            tell(SiteId(0), self.anonymous.0, self.anonymous.1);
        }
    }
}

impl Drop for Tallying<'_> {
    fn drop(&mut self) {
        self.sites.tallying.store(0, Ordering::Release);
    }
}
