//! Mistakes of a driver with memory that is not its own any more: no callback shows them, a guard does.

use alloc_core::Scope;

use crate::chain::FakeChain;
use crate::driver::FakeDriver;
use crate::planted::SCENE;

/// A mistake of the fake driver that [`FakeProgram::run_harming`](super::FakeProgram::run_harming) plants, once a
/// round.
///
/// Each is about 64 bytes, aligned to 8, of scope command, which `vkMapMemory` allocates through the memory object's
/// callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harm {
    /// `vkMapMemory` writes one byte behind the block, and frees it.
    Overrun,
    /// `vkMapMemory` frees the block, and `vkUnmapMemory` writes one byte into it, 3 from its beginning.
    LateWrite,
    /// `vkMapMemory` frees the block, and `vkUnmapMemory` frees it again.
    FreedTwice,
}

impl Harm {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Overrun, Self::LateWrite, Self::FreedTwice];
}

impl FakeDriver<'_> {
    /// Does what is planted for this command.
    pub(crate) fn harm(&self, command: &'static str, chain: &FakeChain) {
        let (Some(harm), Some(own)) = (self.harm, chain.object) else {
            return;
        };
        match (command, harm) {
            (SCENE, Harm::Overrun) => {
                let Ok(block) = chain.allocate(64, 8, Scope::Command) else {
                    return;
                };
                scribble(block.at.as_ptr().wrapping_add(64));
                chain.free(block);
            }
            (SCENE, Harm::LateWrite | Harm::FreedTwice) => {
                let Ok(block) = chain.allocate(64, 8, Scope::Command) else {
                    return;
                };
                chain.free(block);
                self.kept.put(block);
            }
            ("vkUnmapMemory", Harm::LateWrite) => {
                self.kept.remove().into_iter().for_each(|at| scribble(at.as_ptr().wrapping_add(3)))
            }
            ("vkUnmapMemory", Harm::FreedTwice) => self.kept.remove().into_iter().for_each(|at| own.free(at.as_ptr())),
            _ => {}
        }
    }
}

/// A store that no optimiser removes.
fn scribble(at: *mut u8) {
    // SAFETY: the write is out of bounds on purpose; the caller of `run_harming` promised an allocator that stops or
    // withstands it.
    unsafe { at.write_volatile(0x5a) };
}
