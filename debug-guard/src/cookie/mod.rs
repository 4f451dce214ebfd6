//! Blocks with a keyed header in front and a tail that begins at the first byte behind them; freed ones are poisoned and wait.
//!
//! ```text
//!            plan.rs, words.rs, keys.rs: pure arithmetic       memory.rs: the bytes in and around a block
//!                            \                                    /
//!   take.rs   allocator behind -> | pad | header | object | tail |         lane.rs: what a thread has for itself
//!                ^                         \ token                         table.rs, record.rs: every block, a second time
//!                |  \ or the block that left quarantine last
//!   give.rs   header right? tail, pad, layout, scope right? -> poison -> quarantine.rs -> verified -> the next like it, or the
//!                   \ no                                                                             allocator behind
//!   judge.rs         damaged, moved, freed before, inside of a block, another guard's (registry.rs), foreign
//!   check.rs  looks at everything that lives and waits, and lists it
//! ```
//! A free asks whether the keys prove the header for this address, and whether the record that it names has a live block there: so it is
//! a live block of ours, whatever the pointer was. All else is for the case that something is wrong, and may walk. No lock is held over a
//! call to the allocator behind, and a pair takes none at all but for one in thirteen frees.

mod check;
mod give;
mod judge;
mod keys;
mod lane;
mod memory;
mod plan;
mod quarantine;
mod record;
mod registry;
mod table;
mod take;
#[cfg(test)]
mod tests;
mod words;

use alloc_core::{AllocError, HostAllocator};

use self::keys::Keys;
use self::lane::Lanes;
use self::quarantine::Quarantine;
use self::registry::Seat;
use self::table::Table;
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
    seat: Seat,
    table: Table,
    quarantine: Quarantine,
    lanes: Lanes,
}

impl Cookies {
    /// Takes what quarantine needs, ten bytes a block; the records of what waits come as they are needed.
    ///
    /// # Errors
    /// [`AllocError`] when `memory` has not that much.
    pub(crate) fn new<A: HostAllocator + ?Sized>(memory: &A, options: CookieOptions) -> Result<Self, AllocError> {
        let quarantine = Quarantine::new(memory, options.blocks, options.bytes)?;
        let keys = Keys([(); Keys::COUNT].map(|()| os::random_u64() | 1));
        let seat = registry::enter(options.guard, &keys);
        Ok(Self { keys, seat, table: Table::new(), quarantine, lanes: Lanes::new(seat) })
    }
}
