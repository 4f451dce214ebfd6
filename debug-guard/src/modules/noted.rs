//! The modules of all stacks that are recorded, noted when a stack is seen first: when it is reported, a module may be unloaded, and
//! another one may lie at its addresses.
//!
//! One list for the process, which only grows; it is read without a lock, also in a signal handler.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use super::{Module, build_id};
use crate::os;

/// Maximum number of modules; frames in further ones are addresses alone.
const MAX: u16 = 512;
/// Maximum bytes of a path; the end of a longer one is cut off.
const PATH: usize = 1024;

struct Noted {
    /// Its path lies here.
    path: [u8; PATH],
    module: Option<Module<'static>>,
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
            path: [0; PATH],
            module: None,
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
    fn contains(&self, pc: usize) -> bool {
        self.module
            .is_some_and(|module| module.addresses().contains(&pc))
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

/// Notes the modules of the frames of a running or stopped thread. Returns how many are noted now, with which [`find`] finds these.
/// Async-signal-safe.
pub(crate) fn note(frames: &[usize]) -> u16 {
    let mut are_there = [false; MAX as usize];
    for pc in frames {
        let taken = TAKEN.load(Ordering::Acquire);
        let known = newest_first(taken).find(|(_, noted)| noted.contains(*pc));
        let is_known = known.is_some_and(|(number, noted)| {
            are_there.get_mut(number).is_some_and(|is_there| {
                *is_there = *is_there || noted.is_there();
                *is_there
            })
        });
        if !is_known {
            push(*pc);
        }
    }
    TAKEN.load(Ordering::Acquire).min(MAX)
}

/// Notes the file that `pc` lies in, if it lies in one.
fn push(pc: usize) {
    let mut name = [0; PATH];
    let Some(module) = Module::at(pc, &mut name).filter(|module| !module.path().is_empty()) else {
        return;
    };
    let next = |taken: u16| (taken < MAX).then(|| taken + 1);
    let taken = TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    let Some(slot) = taken.ok().and_then(|taken| SLOTS.get(usize::from(taken))) else {
        return;
    };
    // SAFETY: the number was just taken, once: no other thread writes the slot, and none reads it before it is ready.
    let noted = unsafe { &mut *slot.noted.get() };
    for (to, from) in noted.path.iter_mut().zip(module.path().bytes()) {
        *to = from;
    }
    let path: &'static [u8] = {
        let path = noted.path.get(..module.path().len()).unwrap_or_default();
        // SAFETY: in a static, and not written again.
        unsafe { core::slice::from_raw_parts(path.as_ptr(), path.len()) }
    };
    // Where the tables are that only the whole file has, and how many there are, if it has no id.
    let header = |base: usize| build_id(base).map_or(base.wrapping_add(40), |(id, _)| id);
    noted.proof_at = module.base().map_or(0, header);
    noted.proof = proof(noted.proof_at).unwrap_or_default();
    noted.module = Some(module.with_path(str::from_utf8(path).unwrap_or_default()));
    slot.is_ready.store(true, Ordering::Release);
}

/// The module of a frame, if it was among the first `until` noted ones. Async-signal-safe.
pub(crate) fn find(pc: usize, until: u16) -> Option<Module<'static>> {
    newest_first(until)
        .find(|(_, noted)| noted.contains(pc))?
        .1
        .module
}
