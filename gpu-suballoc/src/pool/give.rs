//! Giving back, looking up, and what else one lock is enough for.

use super::ask::{BARE, FoundRegion, Gave, Where};
use super::env::Env;
use super::state::Later;
use super::{Pool, Pools};
use crate::error::Misuse;
use crate::id::PlaceKind;

impl Pools {
    /// Gives a region without a record back. Never takes memory.
    ///
    /// # Errors
    /// [`Misuse::Stale`] where there is no such region, [`Misuse::Held`] where it has a record, [`Misuse::Mapped`] where it is a memory
    /// object of its own and mapped. Nothing was changed.
    #[inline]
    pub(crate) fn give(&self, env: Env<'_>, at: Where) -> Result<Gave, Misuse> {
        self.give_recorded(env, at, BARE)
    }

    /// Gives a region back, if it has that word.
    ///
    /// # Errors
    /// As [`give`](Pools::give).
    #[inline]
    pub(crate) fn give_recorded(&self, env: Env<'_>, at: Where, word: u32) -> Result<Gave, Misuse> {
        let pool = self.pool(at.place.pool).ok_or(Misuse::Stale)?;
        let mut state = pool.lock();
        let (size, more) = state.give(at, word)?;
        if more {
            let later = state.later();
            drop(state);
            self.clear_up(env, pool, later);
        }
        Ok(Gave { size, word })
    }

    /// What nothing lies in any more goes back to whom it came from, if it is not kept.
    #[cold]
    pub(super) fn clear_up(&self, env: Env<'_>, pool: &Pool, later: Later) {
        env.give_some(later.spare);
        if let Some(object) = later.object {
            self.discard(env, pool, &object);
        }
        if let Some(block) = later.emptied {
            let dropped = {
                let mut state = pool.lock();
                let over = self.ledger.lock().heap(state.facts.heap).is_over_budget();
                state.drop_block(Some(block), over)
            };
            if let Some((object, memory)) = dropped {
                env.give_some(memory);
                self.discard(env, pool, &object);
            }
        }
    }

    /// A live region.
    ///
    /// # Errors
    /// [`Misuse::Stale`].
    pub(crate) fn find(&self, at: Where) -> Result<FoundRegion, Misuse> {
        self.pool(at.place.pool).ok_or(Misuse::Stale)?.lock().found(at)
    }

    /// Keeps the word `to` with a region, if it was `from`; answers with what it was.
    ///
    /// # Errors
    /// [`Misuse::Stale`].
    pub(crate) fn set_word(&self, at: Where, from: u32, to: u32) -> Result<u32, Misuse> {
        self.pool(at.place.pool).ok_or(Misuse::Stale)?.lock().set_word(at, from, to)
    }

    /// The same region under another generation: ids that are out are stale.
    ///
    /// # Errors
    /// [`Misuse::Stale`] where there is no such region, or where its place has no other generation; those in pages, slabs and linear
    /// pools never have.
    pub(crate) fn renew(&self, at: Where) -> Result<u32, Misuse> {
        let mut state = self.pool(at.place.pool).ok_or(Misuse::Stale)?.lock();
        state.find(at)?;
        match at.place.kind {
            PlaceKind::Dedicated => state.alone.renew(at.place.block, at.generation),
            PlaceKind::General => state.blocks.renew(at.place.block, at.slot, at.generation),
            _ => Err(Misuse::Stale),
        }
    }
}
