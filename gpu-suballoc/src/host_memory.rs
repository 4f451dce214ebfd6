//! Nothing is allocated or freed under a lock, and nothing under a lock can lack memory: [`lock_filled`] returns the
//! lock only when the tables behind it have a reserve, as much as one call needs. So only acquiring the lock can be
//! refused.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, HostError, Scope};

use crate::sync::{StateGuard, StateMutex};

/// Nothing else refers to the block.
#[derive(Debug)]
#[must_use = "it is lost unless it is freed"]
pub(crate) struct HostBlock {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value owns the block, which any thread may use and free.
unsafe impl Send for HostBlock {}

impl HostBlock {
    /// # Safety
    /// `start` is a live block of `layout`, and is used only through this value.
    pub(crate) const unsafe fn new(start: NonNull<u8>, layout: Layout) -> Self {
        Self { start, layout }
    }

    pub(crate) fn allocate(memory: &(impl HostAllocator + ?Sized), layout: Layout) -> Result<Self, HostError> {
        match memory.allocate(layout, Scope::Object) {
            Ok(start) => Ok(Self { start, layout }),
            Err(_) => Err(memory.refusal(layout, Scope::Object)),
        }
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) const fn into_start(self) -> NonNull<u8> {
        self.start
    }
}

pub(crate) trait GrowableTable {
    /// `None` if the table has its reserve, or cannot grow.
    fn missing(&self) -> Option<Layout>;

    /// Returns the memory to free: the old one, or the block if the table has no use for it.
    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock>;

    /// Returns one block at each call, until `None`; from the first one on the table is empty.
    fn detach_memory(&mut self) -> Option<HostBlock>;
}

pub(crate) trait Tables {
    fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable));
}

pub(crate) fn lock_filled<'l, T: Tables>(
    lock: &'l StateMutex<T>,
    memory: &dyn HostAllocator,
) -> Result<StateGuard<'l, T>, HostError> {
    loop {
        let mut state = lock.lock();
        let Some(layout) = grow_first(&mut *state, &mut None) else {
            return Ok(state);
        };
        drop(state);
        let mut block = Some(HostBlock::allocate(memory, layout)?);
        // Another thread may have been faster.
        grow_first(&mut *lock.lock(), &mut block);
        free(memory, block);
    }
}

fn grow_first(tables: &mut impl Tables, block: &mut Option<HostBlock>) -> Option<Layout> {
    let mut missing = None;
    tables.visit_tables(&mut |table| {
        if missing.is_none() {
            missing = table.missing();
            if missing.is_some()
                && let Some(block_for_it) = block.take()
            {
                *block = table.grow_with(block_for_it);
            }
        }
    });
    missing
}

pub(crate) fn fill(table: &mut dyn GrowableTable, memory: &(impl HostAllocator + ?Sized)) -> Result<(), HostError> {
    while let Some(layout) = table.missing() {
        let unneeded = table.grow_with(HostBlock::allocate(memory, layout)?);
        free(memory, unneeded);
    }
    Ok(())
}

pub(crate) fn free_table(table: &mut dyn GrowableTable, memory: &(impl HostAllocator + ?Sized)) {
    while let Some(block) = table.detach_memory() {
        free(memory, Some(block));
    }
}

pub(crate) fn free(memory: &(impl HostAllocator + ?Sized), block: Option<HostBlock>) {
    if let Some(block) = block {
        // SAFETY: all tables of an allocator have their memory from it; nothing refers to the block.
        unsafe { memory.deallocate(block.start, block.layout, Scope::Object) };
    }
}

#[cfg(test)]
mod tests {
    use debug_guard::{FailingAllocator, Fault};
    use testkit::{HookedAllocator, RecordingAllocator, with_hook};

    use super::*;
    use crate::growable_vec::GrowableVec;

    struct Entries(GrowableVec<u64>);

    impl GrowableTable for Entries {
        fn missing(&self) -> Option<Layout> {
            self.0.missing_capacity(1)
        }

        fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
            self.0.grow_with(block)
        }

        fn detach_memory(&mut self) -> Option<HostBlock> {
            self.0.detach_memory()
        }
    }

    struct Two([Entries; 2]);

    impl Tables for Two {
        fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
            self.0.iter_mut().for_each(|table| visit(table));
        }
    }

    #[test]
    fn behind_a_filled_lock_every_table_has_its_reserve_and_a_refusal_comes_before() {
        let mut refusals = 0;
        for refused in 0..12 {
            let entries = || Entries(GrowableVec::new());
            let lock = StateMutex::new(Two([entries(), entries()]));
            let system = RecordingAllocator::system();
            let failing = FailingAllocator::new(system.clone(), Fault::Nth(refused));
            let host = HookedAllocator::new(failing);
            let hook = |_| {
                assert_eq!(alloc_core::held_state_locks(), 0, "under a lock");
                if refused % 2 == 1 {
                    let _ = lock_filled(&lock, &host).map(drop);
                }
            };
            with_hook(1, &hook, || {
                for turn in 0..40 {
                    let mut state = lock_filled(&lock, &host).unwrap_or_else(|_| {
                        refusals += 1;
                        lock_filled(&lock, &host).expect("it refuses once")
                    });
                    for table in &mut state.0 {
                        table.0.push(turn).expect("the reserve");
                    }
                }
            });
            let mut state = lock.lock();
            assert!(state.0.iter().all(|table| table.0.as_slice().iter().copied().eq(0..40)));
            let Two(tables) = core::mem::replace(&mut *state, Two([entries(), entries()]));
            drop(state);
            for mut table in tables {
                free_table(&mut table, &host);
            }
            system.assert_empty("after the tables went");
        }
        assert!(refusals >= 4, "{refusals}");
    }
}
