//! What a bridge or a context learns of an allocator through the decorators of this crate.

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault, Guard, GuardOptions, Mode, OnReport};

/// The system's allocator, with traits of the test's choice.
struct Claims(AllocatorTraits);

// SAFETY: blocks are the system's own and go back to it as they came.
unsafe impl HostAllocator for Claims {
    fn traits(&self) -> AllocatorTraits {
        self.0
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        FromGlobalAlloc::SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the system's.
        unsafe { FromGlobalAlloc::SYSTEM.deallocate(block, layout, scope) }
    }
}

/// All traits there are.
fn all() -> impl Iterator<Item = AllocatorTraits> {
    (0..8).map(|bits| {
        let mut traits = AllocatorTraits::new();
        traits.may_unwind = bits & 1 != 0;
        traits.exact_alignment = bits & 2 != 0;
        traits.tracks_requester = bits & 4 != 0;
        traits
    })
}

#[test]
fn a_failing_allocator_adds_the_requester_and_hides_nothing() {
    for traits in all() {
        assert_eq!(FailingAllocator::new(Claims(traits), Fault::Never).traits(), traits.with_requester());
    }
}

#[test]
fn a_guard_adds_what_its_options_need_and_hides_nothing() {
    for traits in all() {
        let of = |options| Guard::new(Claims(traits), options).expect("memory").traits();
        let options = |mode| GuardOptions::new(mode);
        assert_eq!(of(options(Mode::Cookie).on_report(OnReport::Log)), traits.with_requester());
        let mut unwinding = traits.with_requester();
        unwinding.may_unwind = true;
        assert_eq!(of(options(Mode::Cookie).on_report(OnReport::Panic)), unwinding);
        // Functions of the user's, which may panic.
        assert_eq!(of(options(Mode::Cookie).on_report(OnReport::Call(|_| ()))), unwinding);
        assert_eq!(of(options(Mode::Cookie).on_report(OnReport::Log).command(|| None)), unwinding);
        let mut exact = traits.with_requester();
        exact.exact_alignment = true;
        assert_eq!(of(options(Mode::Fence).on_report(OnReport::Log)), exact);
    }
}
