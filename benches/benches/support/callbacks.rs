//! Callbacks as a subject, and the two kinds of work that benches of callbacks share.

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::NonNull;

use alloc_core::Scope;
use vk_callbacks::raw::RawCallbacks;

use super::subject::{Subject, write};

/// Vulkan's functions.
pub struct Callbacks(pub RawCallbacks);

impl Subject for Callbacks {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        let function = self.0.pfn_allocation.expect("always there");
        // SAFETY: the user data that belongs to the function; the bridge outlives the bench.
        let block = unsafe { function(self.0.p_user_data, layout.size(), layout.align(), Scope::Object as i32) };
        NonNull::new(block.cast()).expect("memory")
    }
    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, _: Layout) {
        let function = self.0.pfn_free.expect("always there");
        // SAFETY: this function's contract: a live block of these callbacks.
        unsafe { function(self.0.p_user_data, block.as_ptr().cast()) }
    }
}

/// Take, write, give back: 64 bytes.
pub fn lifo<S: Subject>(subject: &S, operations: usize) {
    let layout = black_box(Layout::new::<[u64; 8]>());
    for _ in 0..operations {
        let block = subject.take(layout);
        write(block);
        // SAFETY: just taken with this layout.
        unsafe { subject.give(block, layout) };
    }
}

/// 1024 live blocks; a random one is replaced by one of the next size.
pub fn live<S: Subject>(subject: &S, sizes: &[Layout], operations: usize) {
    let mut sizes = sizes.iter().cycle();
    let mut take = || {
        let layout = *sizes.next().expect("a cycle has no end");
        let block = subject.take(layout);
        // SAFETY: at least one byte.
        unsafe { block.as_ptr().write_volatile(1) };
        (block, layout)
    };
    let mut blocks: Vec<(NonNull<u8>, Layout)> = (0..1024).map(|_| take()).collect();
    let mut random = 1_u64;
    for _ in 0..operations {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let slot = &mut blocks[(random >> 54) as usize];
        // SAFETY: the slot's block is live and has this layout.
        unsafe { subject.give(slot.0, slot.1) };
        *slot = take();
    }
    for (block, layout) in blocks {
        // SAFETY: the block is live and has this layout.
        unsafe { subject.give(block, layout) };
    }
}
