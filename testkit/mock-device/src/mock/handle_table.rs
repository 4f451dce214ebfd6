//! Objects by handle: a used handle is told from a live one, and from another device's.

#![forbid(unsafe_code)]

use alloc_core::{FromGlobalAlloc, Scope, Scoped, TryVec};

use super::driver_heap::{DriverHeap, HEAP};
use super::violation::Breach;

/// ```text
///   63      56 55 54 53            32 31            0
///  | device   | kind | generation    | index         |
/// ```
#[derive(Clone, Copy)]
struct HandleBits(u64);

impl HandleBits {
    const fn new(owner: u8, kind: u8, generation: u32, index: u32) -> Self {
        Self((owner as u64) << 56 | (kind as u64 & 3) << 54 | (generation as u64 & GENERATIONS) << 32 | index as u64)
    }
    const fn family(self) -> u64 {
        self.0 >> 54
    }
    const fn generation(self) -> u32 {
        (self.0 >> 32 & GENERATIONS) as u32
    }
    const fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

const GENERATIONS: u64 = (1 << 22) - 1;
const NONE: u32 = u32::MAX;

struct HandleSlot<T> {
    generation: u32,
    next_free: u32,
    value: Option<T>,
}

/// Objects of one kind of one device.
pub(super) struct HandleTable<T> {
    slots: TryVec<HandleSlot<T>, Scoped<&'static FromGlobalAlloc<DriverHeap>>>,
    free: u32,
    live: u64,
    owner: u8,
    kind: u8,
    /// Handles are given again, as drivers do.
    pub(super) repeats: bool,
}

impl<T> HandleTable<T> {
    /// `kind` is 1 to 3, so that no name is 0.
    pub(super) fn new(owner: u8, kind: u8) -> Self {
        Self {
            slots: TryVec::new_in(Scoped::new(&HEAP, Scope::Device)),
            free: NONE,
            live: 0,
            owner,
            kind,
            repeats: false,
        }
    }

    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// The name of a new object; `None` when host memory is short.
    pub(super) fn insert(&mut self, value: T) -> Option<u64> {
        let at = self.free;
        if let Some(slot) = self.slots.get_mut(at as usize).filter(|_| at != NONE) {
            self.free = slot.next_free;
            slot.value = Some(value);
            self.live += 1;
            return Some(HandleBits::new(self.owner, self.kind, slot.generation, at).0);
        }
        let at = u32::try_from(self.slots.len()).ok().filter(|at| *at != NONE)?;
        self.slots.try_push(HandleSlot { generation: 0, next_free: NONE, value: Some(value) }).ok()?;
        self.live += 1;
        Some(HandleBits::new(self.owner, self.kind, 0, at).0)
    }

    /// Why a name is none of a live object.
    fn check(&self, name: u64) -> Result<usize, Breach> {
        let (name, family) = (HandleBits(name), HandleBits::new(self.owner, self.kind, 0, 0).family());
        match self.slots.get(name.index()) {
            Some(_) if name.family() != family => Err(Breach::UnknownHandle),
            Some(slot) if slot.generation == name.generation() && slot.value.is_some() => Ok(name.index()),
            Some(_) => Err(Breach::StaleHandle),
            None => Err(Breach::UnknownHandle),
        }
    }

    pub(super) fn get(&self, name: u64) -> Result<&T, Breach> {
        let at = self.check(name)?;
        self.slots.get(at).and_then(|slot| slot.value.as_ref()).ok_or(Breach::StaleHandle)
    }

    pub(super) fn get_mut(&mut self, name: u64) -> Result<&mut T, Breach> {
        let at = self.check(name)?;
        self.slots.get_mut(at).and_then(|slot| slot.value.as_mut()).ok_or(Breach::StaleHandle)
    }

    pub(super) fn remove(&mut self, name: u64) -> Result<T, Breach> {
        let at = self.check(name)?;
        let free = self.free;
        let slot = self.slots.get_mut(at).ok_or(Breach::UnknownHandle)?;
        let value = slot.value.take().ok_or(Breach::StaleHandle)?;
        slot.generation = slot.generation.wrapping_add(u32::from(!self.repeats)) & GENERATIONS as u32;
        slot.next_free = free;
        self.free = HandleBits(name).index() as u32;
        self.live = self.live.saturating_sub(1);
        Ok(value)
    }

    /// Every live object with its name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0u32..).zip(self.slots.iter()).filter_map(|(at, slot)| {
            let name = HandleBits::new(self.owner, self.kind, slot.generation, at);
            Some((name.0, slot.value.as_ref()?))
        })
    }

    /// Takes every live object out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.take())
    }
}
