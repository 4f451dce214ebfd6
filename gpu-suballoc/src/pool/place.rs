//! A region: with what there is, else with what can be fetched, else with memory of another type.

use super::ask::{Ask, Placed};
use super::blocks::Spot;
use super::classed::Lacking;
use super::env::Env;
use super::growth::Growth;
use super::make::{Plan, Stop};
use super::{Pool, Pools};
use crate::classes::Donation;
use crate::error::{GpuError, Misuse};
use crate::request::DedicatedPolicy;

/// A region of more than this part of a pool's largest block gets a memory object of its own, if it may.
const LARGE_PART: u64 = 2;

impl Ask {
    /// Nothing special is asked for, and nothing that has to be refused: a block that is there may do at once.
    fn is_plain(&self) -> bool {
        matches!(self.dedicated, DedicatedPolicy::Never | DedicatedPolicy::Allowed)
            && self.alignment.is_power_of_two()
            && self.priority.is_none()
            && !self.prefers_dedicated
            && !self.must_be_alone()
            && self.pool.is_none()
    }

    fn must_be_alone(&self) -> bool {
        self.requires_dedicated || self.dedicated == DedicatedPolicy::Required || !self.export.is_empty() || self.next.is_some()
    }

    /// A memory object of its own is tried first. Not for a preference where there can be few more: they are for blocks then.
    fn would_be_alone(&self, largest_block: u64, scarce: bool) -> bool {
        match self.dedicated {
            DedicatedPolicy::Never => false,
            DedicatedPolicy::Allowed => self.prefers_dedicated && !scarce || self.size > largest_block / LARGE_PART,
            DedicatedPolicy::Preferred => !scarce,
            DedicatedPolicy::Required => true,
        }
    }
}

impl Pools {
    /// Finds room for a region.
    ///
    /// # Errors
    /// The first reason there was, of the memory type that would have been best.
    // Always inlined: what was found goes into the region by way of registers. In memory it is written narrow and read wide, and waited for.
    #[inline(always)]
    pub(crate) fn place(&self, env: Env<'_>, ask: &Ask) -> Result<Placed, GpuError> {
        match self.place_at_once(ask) {
            Some(placed) => Ok(placed),
            None => self.place_with_driver(env, ask),
        }
    }

    /// The common case: the question was asked before, and there is room. Nobody is called.
    #[inline(always)]
    fn place_at_once(&self, ask: &Ask) -> Option<Placed> {
        let memory_type = self.choices.recall(ask.memory_type_bits, ask.wish).filter(|_| ask.is_plain())?;
        let mut state = self.pool(self.index_of(memory_type, ask.kind))?.lock();
        if ask.size > state.growth.max() / LARGE_PART {
            return None;
        }
        let mut spot = Spot::NOWHERE;
        state.place(ask, true, &mut spot).ok()?;
        state.region(&spot)
    }

    #[cold]
    fn place_with_driver(&self, env: Env<'_>, ask: &Ask) -> Result<Placed, GpuError> {
        self.check(ask)?;
        match self.place_somewhere(env, ask) {
            // Empty blocks that are kept here may be just what is missing there, and what was an empty page is a hole then.
            Err(error) if error.is_out_of_device_memory() && self.make_room(env) => self.place_somewhere(env, ask),
            other => other,
        }
    }

    fn check(&self, ask: &Ask) -> Result<(), GpuError> {
        if ask.size == 0 {
            return Err(Misuse::ZeroSize.into());
        }
        if !ask.alignment.is_power_of_two() {
            return Err(Misuse::BadAlignment.into());
        }
        if ask.priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
            return Err(Misuse::BadPriority.into());
        }
        if !ask.export.is_empty() && !self.device.features.external_memory {
            return Err(Misuse::NotEnabled.into());
        }
        Ok(())
    }

    fn place_somewhere(&self, env: Env<'_>, ask: &Ask) -> Result<Placed, GpuError> {
        let budget_first = [true, false];
        let within_only = ask.within_budget || self.options.within_budget;
        if let Some(id) = ask.pool {
            let pool = self.custom(id.index, id.generation)?;
            let facts = pool.lock().facts;
            let (_, heap_size) = self.device.memory_type(facts.memory_type).ok_or(Misuse::NoSuchPool)?;
            if ask.memory_type_bits >> facts.memory_type & 1 == 0 {
                return Err(Misuse::WrongPool.into());
            }
            self.check_size(ask, pool.lock().growth, heap_size.min(facts.max_bytes))?;
            return self.place_in(env, pool, ask, within_only).map_err(Stop::error);
        }
        let best = self.device.best_type(ask.memory_type_bits, ask.wish)?;
        self.check_fits_some_type(ask)?;
        let mut first = None;
        let mut refused = 0u32;
        for within in budget_first.into_iter().filter(|within| *within || !within_only) {
            for memory_type in self.device.types_by_fit(ask.memory_type_bits, ask.wish) {
                if refused >> memory_type & 1 == 1 {
                    continue;
                }
                let pool = self.pool_of(env, memory_type, ask.kind)?;
                match self.place_in(env, pool, ask, within) {
                    Ok(placed) => {
                        if memory_type == best && ask.is_plain() {
                            self.choices.remember(ask.memory_type_bits, ask.wish, best);
                        }
                        return Ok(placed);
                    }
                    Err(Stop::Final(error)) => return Err(error),
                    Err(Stop::Next(error)) => {
                        refused |= 1 << memory_type;
                        first = first.or(Some(error));
                    }
                    Err(Stop::Budget(error)) => first = first.or(Some(error)),
                }
            }
        }
        Err(first.unwrap_or(GpuError::Misuse(Misuse::BadOptions)))
    }

    /// What no memory type could ever hold is refused before anybody is asked.
    fn check_fits_some_type(&self, ask: &Ask) -> Result<(), GpuError> {
        let mut refusal = None;
        for memory_type in self.device.types_by_fit(ask.memory_type_bits, ask.wish) {
            let Some((_, heap_size)) = self.device.memory_type(memory_type) else { continue };
            let growth = Growth::new(heap_size, self.device.largest_object(heap_size), &self.options);
            match (self.check_size(ask, growth, heap_size), refusal) {
                (Ok(()), _) => return Ok(()),
                (Err(GpuError::TooLarge { limit, .. }), Some(GpuError::TooLarge { limit: other, .. })) if limit <= other => {}
                (Err(error), _) => refusal = Some(error),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    fn check_size(&self, ask: &Ask, growth: Growth, heap_size: u64) -> Result<(), GpuError> {
        let alone = self.device.largest_object(heap_size);
        let limit = if ask.dedicated == DedicatedPolicy::Never && !ask.must_be_alone() { growth.max().min(alone) } else { alone };
        if ask.size > limit {
            return Err(GpuError::TooLarge { bytes: ask.size, limit });
        }
        // Where a memory object begins every alignment is kept; a larger one than any object is a mistake.
        if ask.alignment > alone.max(growth.max()) {
            return Err(Misuse::AlignmentTooLarge.into());
        }
        Ok(())
    }

    /// In one pool.
    pub(super) fn place_in(&self, env: Env<'_>, pool: &Pool, ask: &Ask, within: bool) -> Result<Placed, Stop> {
        let (facts, largest) = {
            let state = pool.lock();
            (state.facts, state.growth.max())
        };
        let scarce = self.ledger.lock().is_scarce();
        let alone_first = ask.must_be_alone() || (ask.would_be_alone(largest, scarce) && !facts.is_fixed);
        let mut stop = None;
        if alone_first {
            match self.place_alone(env, pool, ask, within) {
                Err(reason) if !ask.must_be_alone() && !matches!(reason, Stop::Final(_)) => stop = Some(reason),
                other => return other,
            }
        }
        match self.place_shared(env, pool, ask, within) {
            Err(reason) if !alone_first && ask.dedicated != DedicatedPolicy::Never && !facts.is_fixed => {
                if matches!(reason, Stop::Final(_)) {
                    return Err(reason);
                }
                self.place_alone(env, pool, ask, within)
                    .map_err(|last| if matches!(last, Stop::Final(_)) { last } else { reason })
            }
            Err(reason) => Err(if matches!(reason, Stop::Final(_)) { reason } else { stop.unwrap_or(reason) }),
            Ok(placed) => Ok(placed),
        }
    }

    /// In a block, in one that is made where there is no room.
    fn place_shared(&self, env: Env<'_>, pool: &Pool, ask: &Ask, within: bool) -> Result<Placed, Stop> {
        let mut classes = true;
        let mut tries = 0u32;
        loop {
            let (lacking, seen) = {
                let mut state = pool.lock();
                let generation = ask.pool.map_or(0, |id| id.generation);
                if !state.open || state.facts.generation != generation {
                    return Err(Stop::Final(Misuse::NoSuchPool.into()));
                }
                let mut spot = Spot::NOWHERE;
                match state.place(ask, classes, &mut spot) {
                    Ok(()) => return state.region(&spot).ok_or(Stop::Final(Misuse::NoSuchPool.into())),
                    Err(lacking) => (lacking, state.made),
                }
            };
            match lacking {
                Lacking::Records(lack) => {
                    let memory = env.take(lack.layout())?;
                    let mut state = pool.lock();
                    // SAFETY: a fresh block of the layout that was lacking, the store's from now on.
                    let unused = unsafe { state.blocks.store.supply(lack, memory) };
                    drop(state);
                    env.give_some(unused);
                }
                Lacking::Class { slab, need } => {
                    let memory = env.take(need.layout)?;
                    // SAFETY: a fresh block of that layout, the class's from now on, until it gives it back.
                    let donation = unsafe { Donation::new(memory, need.layout) };
                    let unused = pool.lock().classes.supply(slab, need, donation);
                    env.give_some(unused);
                }
                Lacking::Line(layout) => {
                    let memory = env.take(layout)?;
                    let mut state = pool.lock();
                    // SAFETY: a fresh block of the layout that was lacking, the table's from now on.
                    let unused = unsafe { state.classes.line.nodes.supply(layout, memory) };
                    drop(state);
                    env.give_some(unused);
                }
                Lacking::Block { need, class } => {
                    let exact = ask.dedicated == DedicatedPolicy::Never && !class;
                    match self.grow(env, pool, Plan { need, exact, within_budget: within, seen: Some(seen) }, &mut tries) {
                        Ok(()) => {}
                        Err(Stop::Final(error)) => return Err(Stop::Final(error)),
                        // No page for it; it may do without.
                        Err(_) if class => classes = false,
                        Err(stop) => return Err(stop),
                    }
                }
            }
        }
    }
}
