//! Blocks with a keyed header in front and a tail directly behind; freed blocks are poisoned and quarantined.
//!
//! ```text
//!           layout.rs: pure arithmetic                               memory.rs: the bytes in, around and in front of a block
//!                            \                                    /
//!   allocate.rs   allocator behind -> | pad | header | object | tail |
//!                                               \ token
//!                                                table.rs, record.rs: a second copy of every header
//!   free.rs    header, tail, pad, layout, scope right? -> poison -> quarantine.rs -> verified -> the allocator behind, or the next block
//!                   \ no
//!   classify.rs       damaged, moved, freed before, inside of a block, foreign
//!   check.rs         verifies and lists all live and quarantined blocks
//! ```
//! A free checks that the header is valid for this address, and that its record has a live block there.
//!
//! A block belongs to the shard of the thread that allocated it. With that shard locked no thread frees the block, and
//! it does not leave quarantine.

mod allocate;
mod check;
mod classify;
mod free;
mod layout;
mod memory;
mod quarantine;
mod record;
mod table;
#[cfg(test)]
mod tests;

use self::layout::Keys;
use self::quarantine::Quarantine;
use self::table::CookieTable;
use crate::os;

#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieOptions {
    /// The number is approximate; 0: no quarantine.
    pub(crate) blocks: usize,
    /// The number is approximate; larger blocks are not quarantined.
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Cookies {
    keys: Keys,
    table: CookieTable,
    quarantine: Quarantine,
}

impl Cookies {
    pub(crate) fn new(options: CookieOptions) -> Self {
        Self {
            keys: Keys([(); Keys::COUNT].map(|()| os::random_u64() | 1)),
            table: CookieTable::new(),
            quarantine: Quarantine::new(options.blocks, options.bytes),
        }
    }
}
