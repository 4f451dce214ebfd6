//! Blocks with a keyed header in front and a tail directly behind; freed blocks are poisoned and quarantined.
//!
//! ```text
//!           plan.rs, header_words.rs, keys.rs: pure arithmetic       memory.rs: the bytes in and around a block
//!                            \                                    /
//!   allocate.rs   allocator behind -> | pad | header | object | tail |       thread_cache.rs: blocks and records of one thread
//!                   ^                         \ token                         table.rs, record.rs: a second copy of every header
//!                   |  \ or the block that left quarantine last
//!   free.rs   header, tail, pad, layout, scope right? -> poison -> quarantine.rs -> write_after_free.rs -> reuse, or the
//!                   \ no                                                                              allocator behind
//!   accuse.rs        damaged, moved, freed before, inside of a block, another guard's (registry.rs), foreign
//!   peek.rs          reads the header in front of a pointer of unknown origin
//!   check.rs         verifies and lists all live and quarantined blocks
//! ```
//! A free checks that the header is valid for this address, and that the header's record has a live block there. If both checks pass, the
//! block belongs to this guard and is live. All other code handles errors, and may walk the table. No lock is held during a call to the
//! allocator behind. One of thirteen frees locks the quarantine; other calls lock nothing.

mod accuse;
mod allocate;
mod check;
mod free;
mod header_words;
mod keys;
mod memory;
mod peek;
mod plan;
mod quarantine;
mod record;
mod registry;
mod table;
#[cfg(test)]
mod tests;
mod thread_cache;
mod write_after_free;

use alloc_core::{AllocError, HostAllocator};

use self::keys::Keys;
use self::quarantine::Quarantine;
use self::registry::KeySlot;
use self::table::RecordTable;
use self::thread_cache::ThreadCaches;
use crate::os;

/// The options of cookies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieOptions {
    /// The guard's number, not 0; other guards' reports name its blocks by it.
    pub(crate) guard: u64,
    /// Approximate number of quarantined blocks; 0: none.
    pub(crate) blocks: usize,
    /// Approximate bytes of quarantined blocks; larger blocks are not quarantined.
    pub(crate) bytes: usize,
}

/// The cookies of a guard.
#[derive(Debug)]
pub(crate) struct Cookies {
    keys: Keys,
    slot: KeySlot,
    table: RecordTable,
    quarantine: Quarantine,
    caches: ThreadCaches,
}

impl Cookies {
    /// Allocates the quarantine, ten bytes a block; records are allocated when needed.
    ///
    /// # Errors
    /// [`AllocError`] if `memory` refuses.
    pub(crate) fn new<A: HostAllocator + ?Sized>(
        memory: &A,
        options: CookieOptions,
    ) -> Result<Self, AllocError> {
        let quarantine = Quarantine::new(memory, options.blocks, options.bytes)?;
        let keys = Keys([(); Keys::COUNT].map(|()| os::random_u64() | 1));
        let slot = registry::enter(options.guard, &keys);
        Ok(Self {
            keys,
            slot,
            table: RecordTable::new(),
            quarantine,
            caches: ThreadCaches::new(slot),
        })
    }
}
