//! The modules of all stacks that are recorded, noted when a stack is seen first: when it is reported, a module may be unloaded, and
//! another one may lie at its addresses.
//!
//! One list for the process, which only grows; it is read without a lock, also in a signal handler.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use super::module::{ModuleEntry, build_id};
use crate::os::{self, Mapping};

/// Maximum number of modules; those of further ones are looked up when they are reported.
const MAX: u16 = 256;

struct Noted {
    module: ModuleEntry,
    /// What proves that the module still lies there: two words of its build id, or of its ELF header.
    proof_at: usize,
    proof: [u64; 2],
}

struct NotedSlot {
    is_ready: AtomicBool,
    noted: UnsafeCell<Noted>,
}

// SAFETY: the thread that has taken the slot's number writes it before it is ready; afterwards it is only read.
unsafe impl Sync for NotedSlot {}

static SLOTS: [NotedSlot; MAX as usize] = [const {
    NotedSlot {
        is_ready: AtomicBool::new(false),
        noted: UnsafeCell::new(Noted {
            module: ModuleEntry::NONE,
            proof_at: 0,
            proof: [0; 2],
        }),
    }
}; MAX as usize];

/// Slots that were taken.
static TAKEN: AtomicU16 = AtomicU16::new(0);

impl NotedSlot {
    fn get(&self) -> Option<&Noted> {
        // SAFETY: ready, so no longer written.
        (self.is_ready.load(Ordering::Acquire)).then(|| unsafe { &*self.noted.get() })
    }
}

impl Noted {
    fn new(text: &Mapping<'_>) -> Self {
        let at = text.base.map(|base| {
            // Where the tables are that only the whole file has, and how many there are.
            build_id(base).map_or(base.wrapping_add(40), |(id, _)| id)
        });
        let proof_at = at.unwrap_or(0);
        Self {
            module: ModuleEntry::new(text),
            proof_at,
            proof: proof(proof_at).unwrap_or_default(),
        }
    }

    /// What is no file of this form counts as there.
    fn is_there(&self) -> bool {
        self.proof_at == 0 || proof(self.proof_at) == Some(self.proof)
    }
}

fn proof(at: usize) -> Option<[u64; 2]> {
    Some([os::read_u64(at)?, os::read_u64(at.wrapping_add(8))?])
}

/// The noted modules, the newest first, with their numbers.
fn newest_first(until: u16) -> impl Iterator<Item = (usize, &'static Noted)> {
    let slots = SLOTS.iter().enumerate().take(usize::from(until.min(MAX)));
    slots
        .rev()
        .filter_map(|(number, slot)| Some((number, slot.get()?)))
}

/// Notes the modules of the frames of a running thread. Returns how many are noted now, with which [`find`] finds these.
pub(crate) fn note(frames: &[usize]) -> u16 {
    let mut are_there = [false; MAX as usize];
    for pc in frames {
        let taken = TAKEN.load(Ordering::Acquire);
        let known = newest_first(taken).find(|(_, noted)| noted.module.contains(*pc));
        let is_known = known.is_some_and(|(number, noted)| {
            are_there.get_mut(number).is_some_and(|is_there| {
                *is_there = *is_there || noted.is_there();
                *is_there
            })
        });
        if !is_known && taken < MAX {
            let mut name = [0; 256];
            if let Some(text) = os::mapping_at(*pc, &mut name) {
                push(Noted::new(&text));
            }
        }
    }
    TAKEN.load(Ordering::Acquire).min(MAX)
}

fn push(noted: Noted) {
    let next = |taken: u16| (taken < MAX).then(|| taken.wrapping_add(1));
    let taken = TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    let slot = taken.ok().and_then(|taken| SLOTS.get(usize::from(taken)));
    if let Some(slot) = slot {
        // SAFETY: the number was just taken, once: no other thread writes the slot, and none reads it before it is ready.
        unsafe { slot.noted.get().write(noted) };
        slot.is_ready.store(true, Ordering::Release);
    }
}

/// Path and offset of a frame whose module was among the first `until` noted ones. Async-signal-safe.
pub(crate) fn find(pc: usize, until: u16) -> Option<(&'static str, usize)> {
    let mut noted = newest_first(until);
    let (_, noted) = noted.find(|(_, noted)| noted.module.contains(pc))?;
    noted.module.place(pc)
}
