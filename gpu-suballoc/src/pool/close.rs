//! The end of an allocator's memory.

use super::env::Env;
use super::state::State;
use super::{POOLS, Pools};
use crate::sync::Guarded;

impl Pools {
    /// Regions that live.
    pub(crate) fn live_regions(&self) -> u64 {
        self.all().map(|pool| pool.lock().regions).fold(0, u64::saturating_add)
    }

    /// Gives everything back, to the driver and to the host. Nothing happens while regions live: how many do.
    pub(crate) fn close(&mut self, env: Env<'_>) -> u64 {
        let live = self.live_regions();
        if live == 0 {
            self.end(env, true);
        }
        live
    }

    /// Gives our own records back; the driver is not called, and what it gave is gone with the device.
    pub(crate) fn abandon(&mut self, env: Env<'_>) {
        self.end(env, false);
    }

    /// Gives everything back, whatever lives in it.
    pub(crate) fn close_by_force(&mut self, env: Env<'_>) {
        self.end(env, true);
    }

    fn end(&mut self, env: Env<'_>, driver: bool) {
        for index in 0..POOLS as u16 {
            let Some((mut pool, memory)) = self.take_pool(index) else { continue };
            let state: &mut State = Guarded::get_mut(&mut pool);
            let heap = state.facts.heap;
            for slot in state.blocks.slots.as_mut_slice() {
                let Some(mut live) = slot.live.take() else { continue };
                env.give_some(live.core.dismantle(&state.blocks.store));
                if driver {
                    // SAFETY: no region lives, or the caller wants none to; `&mut self`: nobody is at it, and nobody can find it any more.
                    unsafe { env.device.free(live.object.memory) };
                }
                self.ledger.get_mut().leave(heap, live.object.size);
            }
            for slot in state.alone.slots.as_mut_slice() {
                let Some(live) = slot.live.take() else { continue };
                if driver {
                    // SAFETY: as above.
                    unsafe { env.device.free(live.object.memory) };
                }
                self.ledger.get_mut().leave(heap, live.object.size);
            }
            env.give_some(state.blocks.spare_memory.take());
            while let Some(memory) = state.blocks.store.dismantle() {
                env.give(memory);
            }
            env.give_some(state.blocks.slots.dismantle());
            env.give_some(state.blocks.order.ranks.dismantle());
            env.give_some(state.alone.slots.dismantle());
            env.give_some(state.classes.line.nodes.dismantle());
            while let Some(memory) = state.classes.withdraw() {
                env.give(memory);
            }
            env.give(memory);
        }
    }
}
