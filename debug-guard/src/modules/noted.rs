//! The modules of all recorded stacks, noted when a stack is first seen: when it is reported, another module may lie
//! at its addresses. Read without a lock, also in a signal handler.

use core::sync::atomic::{AtomicU16, Ordering};
use std::sync::OnceLock;

use super::{Module, build_id};
use crate::os;

/// Frames in further modules are addresses alone.
const MAX: u16 = 512;
const PATH: usize = 1024;

struct Noted {
    path: [u8; PATH],
    path_len: usize,
    module: Module<'static>,
    /// Two words of its build id, or of its ELF header: they prove that the module still lies there.
    proof_at: usize,
    proof: [u64; 2],
}

/// Set once by the thread that has taken the number: no thread waits for another.
static SLOTS: [OnceLock<Noted>; MAX as usize] = [const { OnceLock::new() }; MAX as usize];

static TAKEN: AtomicU16 = AtomicU16::new(0);

impl Noted {
    fn contains(&self, pc: usize) -> bool {
        self.module.addresses().contains(&pc)
    }

    fn module(&'static self) -> Module<'static> {
        let path = self.path.get(..self.path_len).unwrap_or_default();
        self.module.with_path(str::from_utf8(path).unwrap_or_default())
    }

    /// What is no file of this form counts as there.
    fn is_there(&self) -> bool {
        self.proof_at == 0 || proof(self.proof_at) == Some(self.proof)
    }
}

fn proof(at: usize) -> Option<[u64; 2]> {
    Some([os::read_u64(at)?, os::read_u64(at.wrapping_add(8))?])
}

fn newest_first(until: u16) -> impl Iterator<Item = (usize, &'static Noted)> {
    let slots = SLOTS.iter().enumerate().take(usize::from(until.min(MAX)));
    slots.rev().filter_map(|(number, slot)| Some((number, slot.get()?)))
}

/// Returns how many modules are noted now, for [`find`]. Async-signal-safe.
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
    // Without an id: the ELF header's words about the section table.
    let header = |base: usize| build_id(base).map_or(base.wrapping_add(40), |(id, _)| id);
    let proof_at = module.base().map_or(0, header);
    let (path_len, module) = (module.path().len(), module.with_path(""));
    let _ = slot.set(Noted { path: name, path_len, module, proof_at, proof: proof(proof_at).unwrap_or_default() });
}

/// Async-signal-safe.
pub(crate) fn find(pc: usize, until: u16) -> Option<Module<'static>> {
    let (_, noted) = newest_first(until).find(|(_, noted)| noted.contains(pc))?;
    Some(noted.module())
}
