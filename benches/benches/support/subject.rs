//! Who is timed, and the two kinds of work.

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

/// 16, 24 .. 256 bytes.
pub const LAYOUTS: [Layout; 31] = {
    let mut layouts = [Layout::new::<u64>(); 31];
    let mut at = 0;
    while at < layouts.len() {
        // 8 is a power of two and the sizes are small.
        layouts[at] = match Layout::from_size_align(16 + 8 * at, 8) {
            Ok(layout) => layout,
            Err(_) => unreachable!(),
        };
        at += 1;
    }
    layouts
};

/// Something that gives and takes back blocks.
pub trait Subject: Sync {
    fn take(&self, layout: Layout) -> NonNull<u8>;

    /// # Safety
    /// `block` is live, of this subject and of `layout`.
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout);
}

/// A `HostAllocator` called with an explicit scope: a context, or the allocator behind one.
pub struct ByScope<H>(pub H);

impl<H: HostAllocator + Sync> Subject for ByScope<H> {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        self.0.allocate(layout, Scope::Object).expect("memory")
    }
    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function's contract; all blocks were allocated in this scope.
        unsafe { self.0.deallocate(block, layout, Scope::Object) }
    }
}

/// Writes to a block, as whoever asked for it would.
#[inline]
pub fn write(block: NonNull<u8>) {
    // SAFETY: every block of the benches has at least 8 bytes, aligned to 8.
    unsafe { block.cast::<u64>().as_ptr().write_volatile(1) };
}

/// Take, write, give back; one size after the other.
pub fn pair<S: Subject>(subject: &S, operations: usize) {
    let layouts = black_box(&LAYOUTS);
    for _ in 0..operations / layouts.len() {
        for layout in layouts {
            let block = subject.take(*layout);
            write(block);
            // SAFETY: just taken with this layout.
            unsafe { subject.give(block, *layout) };
        }
    }
}

/// A ring of 256 live blocks: give the oldest back, take one of another size.
pub fn churn<S: Subject>(subject: &S, operations: usize) {
    let layouts = black_box(&LAYOUTS);
    let mut sizes = layouts.iter().cycle();
    let mut take = || {
        let layout = *sizes.next().expect("a cycle has no end");
        let block = subject.take(layout);
        write(block);
        (block, layout)
    };
    let mut ring: Vec<(NonNull<u8>, Layout)> = (0..256).map(|_| take()).collect();
    for _ in 0..operations / 256 {
        for slot in &mut ring {
            // SAFETY: the slot's block is live and has this layout.
            unsafe { subject.give(slot.0, slot.1) };
            *slot = take();
        }
    }
    for (block, layout) in ring {
        // SAFETY: the block is live and has this layout.
        unsafe { subject.give(block, layout) };
    }
}
