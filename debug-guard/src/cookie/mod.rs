//! Blocks with a keyed header in front and a tail that begins at the first byte behind them; freed ones are poisoned and wait.
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
//! A free makes two checks: the header is valid for this address, and the header's record has a live block there. If both pass, the block
//! is ours and live. Everything else handles errors, and may walk the table. No lock is held over a call to the allocator behind; one of
//! thirteen frees locks the quarantine, and other calls lock nothing.

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
use self::registry::KeySeat;
use self::table::RecordTable;
use self::thread_cache::ThreadCaches;
use crate::os;

/// How cookies are to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieOptions {
    /// The guard's number, not 0: what other guards' reports about its blocks name it by.
    pub(crate) guard: u64,
    /// How many freed blocks wait, about; 0: none.
    pub(crate) blocks: usize,
    /// How many bytes of freed blocks wait, about; larger ones never do.
    pub(crate) bytes: usize,
}

/// The keeper of a guard's cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    keys: Keys,
    seat: KeySeat,
    table: RecordTable,
    quarantine: Quarantine,
    caches: ThreadCaches,
}

impl Cookies {
    /// Takes what quarantine needs, ten bytes a block; the records of what waits come as they are needed.
    ///
    /// # Errors
    /// [`AllocError`] when `memory` has not that much.
    pub(crate) fn new<A: HostAllocator + ?Sized>(
        memory: &A,
        options: CookieOptions,
    ) -> Result<Self, AllocError> {
        let quarantine = Quarantine::new(memory, options.blocks, options.bytes)?;
        let keys = Keys([(); Keys::COUNT].map(|()| os::random_u64() | 1));
        let seat = registry::enter(options.guard, &keys);
        Ok(Self {
            keys,
            seat,
            table: RecordTable::new(),
            quarantine,
            caches: ThreadCaches::new(seat),
        })
    }
}
