//! ```text
//!   0        8                16      20      24        32          48         60
//!   | hash   | the requester's | check | front | context | command   | lengths, whole | tally: blocks, bytes | next |
//!   | frames: innermost first .. | where they stand on the stack .. | name .. | label .. |
//! ```
//! All but the tally is written before the site is linked, and never again.

use core::marker::PhantomData;
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr::NonNull;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use alloc_core::ContextId;

use super::Sites;
use super::arena::{ArenaOffset, SiteArena};
use super::requester::{RequesterInfo, SiteView, cut};
use crate::block::SiteId;
use crate::os;

/// An unoptimised program has fifty of its own between a driver's call and the guard.
pub(super) const MAX_FRAMES: usize = 192;

#[repr(C)]
pub(crate) struct Site {
    pub(super) hash: u64,
    pub(super) key: u64,
    place: ArenaOffset,
    /// The place xored with the depot's key: proves that a site stands here.
    check: AtomicU32,
    front: u32,
    context: Option<ContextId>,
    command: Option<&'static str>,
    frames: u8,
    name: u8,
    label: u8,
    slots: u8,
    whole: bool,
    modules: u16,
    pub(super) tally: Tally,
    pub(super) next: AtomicPtr<Site>,
}

#[derive(Clone, Copy)]
pub(crate) struct SiteRef<'a> {
    at: NonNull<Site>,
    arena: PhantomData<&'a SiteArena>,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) blocks: AtomicU64,
    pub(super) bytes: AtomicU64,
}

#[derive(Clone, Copy)]
pub(super) struct NewSite<'a> {
    pub(super) hash: u64,
    pub(super) key: u64,
    pub(super) requester: &'a RequesterInfo<'a>,
    pub(super) frames: &'a [usize],
    /// They are counted in words above the stack pointer.
    pub(super) slots: &'a [u32],
    pub(super) whole: bool,
    pub(super) modules: u16,
}

impl NewSite<'_> {
    pub(super) fn bytes(&self) -> usize {
        let names =
            cut(self.requester.name).len().saturating_add(self.requester.label.map_or(0, |label| cut(label).len()));
        size_of::<Site>()
            .saturating_add(size_of_val(self.frames))
            .saturating_add(size_of_val(self.slots))
            .saturating_add(names)
    }

    /// # Safety
    /// `at` is `place` in its arena, which lives for `'a`, with [`Self::bytes`] writable bytes at a multiple of 16 that
    /// no other thread knows.
    pub(super) unsafe fn write<'a>(&self, key: u32, place: ArenaOffset, at: NonNull<u8>) -> SiteRef<'a> {
        let (name, label) = (cut(self.requester.name), self.requester.label.map(cut));
        let short = |len: usize| u8::try_from(len).unwrap_or(0);
        let site = Site {
            hash: self.hash,
            key: self.key,
            place,
            check: AtomicU32::new(0),
            front: self.requester.front,
            context: self.requester.context,
            command: self.requester.command.map(|command| command.name),
            frames: short(self.frames.len()),
            name: short(name.len()),
            label: short(label.map_or(0, str::len)),
            slots: short(self.slots.len()),
            whole: self.whole,
            modules: self.modules,
            tally: Tally::default(),
            next: AtomicPtr::new(null_mut()),
        };
        let to = at.cast::<Site>();
        // SAFETY: this function's contract.
        unsafe { to.write(site) };
        // SAFETY: the frames' room is behind the site, within `bytes()`.
        let frames = unsafe { to.add(1) }.cast();
        // SAFETY: within `bytes()`, aligned as a `Site` is.
        let slots = unsafe { copy(frames, self.frames) }.cast();
        // SAFETY: the slots stand behind the frames, within `bytes()`.
        let names = unsafe { copy(slots, self.slots) }.cast();
        // SAFETY: the name stands behind the slots, within `bytes()`.
        let labels = unsafe { copy(names, name.as_bytes()) };
        // SAFETY: the label stands behind the name, within `bytes()`.
        unsafe { copy(labels, label.unwrap_or("").as_bytes()) };
        // SAFETY: written above (the site rule).
        let site = unsafe { SiteRef::new(to) };
        site.check.store(place.get() ^ key, Ordering::Release);
        site
    }
}

/// # Safety
/// There is aligned room that no other thread knows of.
unsafe fn copy<T: Copy>(to: NonNull<T>, items: &[T]) -> NonNull<T> {
    // SAFETY: this function's contract.
    unsafe { to.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len()) };
    // SAFETY: at most the end of the room.
    unsafe { to.add(items.len()) }
}

/// # Safety
/// They are there for `'a`, aligned and initialised, and are not written.
unsafe fn read<'a, T>(from: NonNull<T>, count: u8) -> (&'a [T], NonNull<T>) {
    let count = usize::from(count);
    // SAFETY: this function's contract.
    let items = unsafe { core::slice::from_raw_parts(from.as_ptr(), count) };
    // SAFETY: at most the end of the room.
    (items, unsafe { from.add(count) })
}

impl Deref for SiteRef<'_> {
    type Target = Site;
    fn deref(&self) -> &Site {
        // SAFETY: the site rule.
        unsafe { self.at.as_ref() }
    }
}

impl<'a> SiteRef<'a> {
    /// # Safety
    /// [`NewSite::write`] wrote the site there, in an arena that lives for `'a`.
    #[inline(always)]
    pub(super) unsafe fn new(at: NonNull<Site>) -> Self {
        Self { at, arena: PhantomData }
    }

    pub(super) fn as_ptr(self) -> *mut Site {
        self.at.as_ptr()
    }

    /// `None` where no site was ever put, whatever the number came from.
    pub(crate) fn at(arena: &'a SiteArena, key: u32, place: ArenaOffset) -> Option<Self> {
        let at = arena.at(place, size_of::<Site>())?.cast::<Site>();
        // SAFETY: within the bytes that `at` returned.
        let check = unsafe { at.byte_add(offset_of!(Site, check)) }.cast::<AtomicU32>();
        // SAFETY: arena memory stays until the end; any word is an `AtomicU32`.
        let check = unsafe { check.as_ref() };
        // Only `NewSite::write` puts that word there, last of all; a random key keeps other data from looking like
        // it.
        let is_site = check.load(Ordering::Acquire) == place.get() ^ key;
        // SAFETY: that word proves a site.
        is_site.then(|| unsafe { Self::new(at) })
    }

    pub(crate) fn id(self) -> SiteId {
        SiteId(self.place.get() | if self.whole { SiteId::WHOLE } else { 0 })
    }

    #[inline(always)]
    pub(super) fn placed(self) -> (&'a [usize], &'a [u32]) {
        let (frames, slots, ..) = self.parts();
        (frames, slots)
    }

    #[inline(always)]
    fn parts(self) -> (&'a [usize], &'a [u32], &'a [u8], &'a [u8]) {
        // SAFETY: the frames stand behind the site.
        let frames = unsafe { self.at.add(1) }.cast();
        // SAFETY: the site rule: `write` put that many frames there.
        let (frames, slots) = unsafe { read(frames, self.frames) };
        // SAFETY: the site rule: the slots stand behind the frames.
        let (slots, names) = unsafe { read(slots.cast(), self.slots) };
        // SAFETY: the site rule: the name stands behind the slots.
        let (name, labels) = unsafe { read(names.cast(), self.name) };
        // SAFETY: the site rule: the label stands behind the name.
        let (label, _) = unsafe { read(labels, self.label) };
        (frames, slots, name, label)
    }

    pub(crate) fn view(self) -> SiteView<'a> {
        // SAFETY: the site rule.
        let site: &'a Site = unsafe { self.at.as_ref() };
        let (frames, _, name, label) = self.parts();
        SiteView {
            context: site.context,
            name: core::str::from_utf8(name).unwrap_or(""),
            label: core::str::from_utf8(label).ok().filter(|label| !label.is_empty()),
            front: site.front,
            command: site.command,
            frames,
            whole: site.whole,
            modules: site.modules,
        }
    }
}

/// The sums stand in the sites, so there is one walk at a time.
pub(crate) struct Tallying<'a> {
    sites: &'a Sites,
    anonymous: (u64, u64),
}

impl Sites {
    pub(crate) fn tally(&self) -> Option<Tallying<'_>> {
        // A tally that a fork left behind has no owner.
        let me = os::forks().wrapping_add(1).max(1);
        let now = self.tallying.load(Ordering::Relaxed);
        if now == me {
            return None;
        }
        self.tallying.compare_exchange(now, me, Ordering::Acquire, Ordering::Relaxed).ok()?;
        for site in self.all() {
            site.tally.blocks.store(0, Ordering::Relaxed);
            site.tally.bytes.store(0, Ordering::Relaxed);
        }
        Some(Tallying { sites: self, anonymous: (0, 0) })
    }
}

impl Tallying<'_> {
    pub(crate) fn add(&mut self, id: SiteId, bytes: u64) {
        match self.sites.site(id) {
            Some(site) => {
                site.tally.blocks.fetch_add(1, Ordering::Relaxed);
                site.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            None => self.anonymous = (self.anonymous.0.saturating_add(1), self.anonymous.1.saturating_add(bytes)),
        }
    }

    pub(crate) fn group(&self, id: SiteId) -> SiteId {
        self.sites.site(id).map_or(SiteId::default(), SiteRef::id)
    }

    /// `tell` gets the site, its blocks and bytes. Number 0: the site is not known.
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
