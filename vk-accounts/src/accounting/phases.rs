//! The ends and beginnings of phases.

use alloc_core::Snapshot;

use super::{Accounts, Fullest};
use crate::report::{Counts, PhaseStart};

impl Accounts<'_> {
    /// A phase begins with the same numbers as the one before ended with: the driver's threads may free blocks between two readings, which
    /// would be in no phase.
    pub(super) fn begin_phase(&self, name: &'static str) {
        let counts = self
            .end_phase()
            .unwrap_or_else(|| Counts::from(&self.total()));
        if let Some(recorder) = &self.recorder {
            recorder.phase(name);
        }
        self.timeline
            .borrow_mut()
            .add(self.sample(counts.live_bytes));
        let start = PhaseStart {
            name: name.to_owned(),
            commands: self.commands.get(),
            counts,
        };
        self.running.replace(Some(start));
    }

    /// Ends the running phase, if any, and returns its accounts.
    pub(super) fn end_phase(&self) -> Option<Counts> {
        let start = self.running.take()?;
        let peak = self.vulkan.restart_high_water();
        let usage = self.total();
        let total = usage.total();
        let peak = match peak {
            Some(peak) => (peak.high.saturating_sub(self.own_bytes()), 0),
            None => (total.peak_bytes, total.peak_slack),
        };
        let counts = Counts::from(&usage);
        self.timeline
            .borrow_mut()
            .end_phase(self.sample(counts.live_bytes));
        let phase = start.end(self.commands.get(), &counts, peak);
        let mut fullest = self.fullest.borrow_mut();
        let is_fullest = fullest
            .as_ref()
            .is_none_or(|fullest| total.live_bytes > fullest.live_bytes);
        if let Some(stacks) = &self.stacks {
            let at = stacks.moment().at;
            stacks.with(|recorder| recorder.end_phase(is_fullest, at));
        }
        if is_fullest && let Ok(snapshot) = Snapshot::capture(&self.vulkan, self.records.handle()) {
            *fullest = Some(Fullest {
                live_bytes: total.live_bytes,
                phase: phase.name.clone(),
                snapshot,
            });
        }
        self.phases.borrow_mut().push(phase);
        Some(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, System};
    use std::cell::RefCell;
    use std::ptr::NonNull;

    use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};

    use vk_callbacks::raw::RawCallbacks;

    use super::super::Watching;
    use super::*;
    use crate::{Hooks as _, ObjectKind};

    static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

    thread_local! {
        /// What a thread of the driver does at the next request of memory.
        static NEXT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    struct Backing;

    // SAFETY: every call goes on to the system as it came.
    unsafe impl HostAllocator for Backing {
        fn traits(&self) -> AllocatorTraits {
            AllocatorTraits::new()
        }

        fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
            if let Some(next) = NEXT.take() {
                next();
            }
            SYSTEM.allocate(layout, scope)
        }

        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
            // SAFETY: forwarded from this function's contract.
            unsafe { SYSTEM.deallocate(block, layout, scope) }
        }
    }

    #[test]
    fn what_is_freed_between_two_phases_is_in_one() {
        // SAFETY: the backing lives for ever, and no driver is given the callbacks.
        let accounts = unsafe { Accounts::new(&Backing, Watching::default()) }.expect("memory");
        let callbacks = accounts.callbacks(ObjectKind::Buffer);
        let callbacks = *RawCallbacks::from_ash(callbacks.expect("buffers take callbacks"));
        let (take, give) = (
            callbacks.pfn_allocation.expect("given"),
            callbacks.pfn_free.expect("given"),
        );
        let user = callbacks.p_user_data;
        accounts.phase("first");
        // SAFETY: a request as Vulkan allows it.
        let block = unsafe { take(user, 100, 8, Scope::Object.as_raw() as i32) };
        // The snapshot at the end of the first phase asks for memory: its numbers have been read by then, the second's have not.
        // SAFETY: the callbacks' own block, once.
        NEXT.set(Some(Box::new(move || unsafe { give(user, block) })));
        accounts.phase("second");
        assert!(
            NEXT.take().is_none(),
            "the block was freed between the phases"
        );
        let phases = accounts.finish().expect("memory").phases;
        assert_eq!(
            phases
                .iter()
                .map(|phase| (phase.blocks, phase.freed))
                .collect::<Vec<_>>(),
            [(1, 0), (0, 1)]
        );
    }
}
