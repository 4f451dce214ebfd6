//! What is done from time to time: giving empty blocks back, asking what the budgets are.

use super::env::Env;
use super::{Pool, Pools};
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::sync::Ordering;

impl Pools {
    /// Gives empty blocks back to the driver, until that were `bytes`, or there is none that may go. How many bytes it were.
    pub(crate) fn trim(&self, env: Env<'_>, bytes: u64) -> u64 {
        let mut freed = 0u64;
        for pool in self.all() {
            if freed >= bytes {
                break;
            }
            freed = freed.saturating_add(self.trim_pool(env, pool, bytes.saturating_sub(freed)).0);
        }
        freed
    }

    /// Lets go of everything that is kept for what may come. Whether there was something.
    pub(super) fn make_room(&self, env: Env<'_>) -> bool {
        let mut any = false;
        for pool in self.all() {
            any |= self.trim_pool(env, pool, u64::MAX) != (0, false);
        }
        any
    }

    /// As [`trim`](Pools::trim), of one pool; and whether a page or slab became a hole of its block.
    pub(super) fn trim_pool(&self, env: Env<'_>, pool: &Pool, bytes: u64) -> (u64, bool) {
        let mut holes = false;
        // Pages and slabs first: what lies in none of them may be all that keeps a block.
        loop {
            let mut state = pool.lock();
            let more = state.free_spare(true);
            // An empty block is dropped below.
            let later = state.later();
            drop(state);
            env.give_some(later.spare);
            if !more {
                break;
            }
            holes = true;
        }
        let mut freed = 0u64;
        while freed < bytes {
            let dropped = pool.lock().drop_block(None, true);
            let Some((object, memory)) = dropped else { break };
            freed = freed.saturating_add(object.size);
            env.give_some(memory);
            self.discard(env, pool, &object);
        }
        (freed, holes)
    }

    /// A frame begins: the first time that `frame` is told, budgets are asked for anew (`VK_EXT_memory_budget`), and heaps that are over
    /// theirs keep no empty blocks. False where the driver was not asked, or has no answer.
    pub(crate) fn set_frame(&self, env: Env<'_>, frame: u32) -> bool {
        let told = u64::from(frame) + 1;
        if self.frame.swap(told, Ordering::Relaxed) == told || !self.ask_budgets(env.device) {
            return false;
        }
        for pool in self.all() {
            let over = {
                let state = pool.lock();
                self.ledger.lock().heap(state.facts.heap).is_over_budget()
            };
            if over {
                self.trim_pool(env, pool, u64::MAX);
            }
        }
        true
    }

    pub(super) fn ask_budgets(&self, device: &dyn DeviceMemory) -> bool {
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        let told = budgets.get_mut(..self.device.heap_count()).is_some_and(|budgets| device.budget(budgets));
        if told {
            self.ledger.lock().tell(budgets.get(..self.device.heap_count()).unwrap_or_default());
        }
        told
    }
}
