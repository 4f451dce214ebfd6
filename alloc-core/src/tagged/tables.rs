//! The two tables of the process, which number domains with 16 bits and destructors with 12.

use core::ptr::{NonNull, null_mut};

use super::TaggedDestructor;
use super::domain::DomainRecord;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

const DOMAIN_COUNT: usize = 1 << 16;
const DESTRUCTOR_COUNT: usize = 1 << 12;

/// By number; number 0 stays null.
static DOMAINS: [AtomicPtr<DomainRecord>; DOMAIN_COUNT] =
    [const { AtomicPtr::new(null_mut()) }; DOMAIN_COUNT];

/// The destructor number of blocks that a collector frees (see `gc`). No function has it.
pub(super) const COLLECTED: u16 = 4095;

/// The destructor number of a collector with slabs (see `slabs`). No function has it.
pub(super) const COLLECTOR: u16 = 4094;

/// The destructor number of a collector's slab. No function has it.
pub(super) const SLAB: u16 = 4093;

/// The next number to try.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// By number; numbers 0, [`SLAB`], [`COLLECTOR`] and [`COLLECTED`] stay null. Never cleared: a function of an unloaded library costs a slot.
static DESTRUCTORS: [AtomicPtr<()>; DESTRUCTOR_COUNT] =
    [const { AtomicPtr::new(null_mut()) }; DESTRUCTOR_COUNT];

/// Assigns a free number to the record; `None` when there is none.
pub(super) fn add_domain(record: NonNull<DomainRecord>) -> Option<u16> {
    // One of the tries is number 0.
    (0..DOMAIN_COUNT).find_map(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) as u16;
        let slot = slot(number)?;
        slot.compare_exchange(
            null_mut(),
            record.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        )
        .ok()
        .map(|_| number)
    })
}

pub(super) fn remove_domain(number: u16) {
    if let Some(slot) = slot(number) {
        slot.store(null_mut(), Ordering::Release);
    }
}

#[inline]
pub(super) fn domain(number: u16) -> Option<NonNull<DomainRecord>> {
    NonNull::new(slot(number)?.load(Ordering::Acquire))
}

#[inline]
fn slot(number: u16) -> Option<&'static AtomicPtr<DomainRecord>> {
    DOMAINS.get(usize::from(number)).filter(|_| number != 0)
}

/// The number of a function, assigned at its first use; `None` when the table is full of others.
pub(super) fn number_of_destructor(destructor: TaggedDestructor) -> Option<u16> {
    let function = destructor as *mut ();
    let first = (function.addr() >> 4) % DESTRUCTOR_COUNT;
    let (before, from) = DESTRUCTORS.split_at_checked(first)?;
    let places = (first..).zip(from).chain((0..).zip(before));
    let is_free = |number: usize| (1..usize::from(SLAB)).contains(&number);
    for (number, slot) in places.filter(|(number, _)| is_free(*number)) {
        let present = match slot.load(Ordering::Acquire) {
            free if free.is_null() => slot
                .compare_exchange(free, function, Ordering::Release, Ordering::Acquire)
                .map_or_else(|other| other, |_| function),
            other => other,
        };
        if present == function {
            return u16::try_from(number).ok();
        }
    }
    None
}

pub(super) fn destructor(number: u16) -> Option<TaggedDestructor> {
    let function = DESTRUCTORS
        .get(usize::from(number))?
        .load(Ordering::Acquire);
    if function.is_null() {
        return None;
    }
    // SAFETY: only `TaggedDestructor`s are ever stored there.
    Some(unsafe { core::mem::transmute::<*mut (), TaggedDestructor>(function) })
}
