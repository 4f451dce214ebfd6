//! The child's side: a guard, and the few things that a case does to its blocks.
//!
//! What takes, gives and touches stands in functions of its own that are never inlined: stacks must name them.

use std::alloc::{Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{Guard, GuardOptions, Stacks};

use super::config::Config;

/// The guard of all rows: over the system's allocator.
pub(crate) type Under = Guard<FromGlobalAlloc<System>>;

/// What a case has.
pub(crate) struct Lab {
    pub(crate) guard: Under,
    pub(crate) config: Config,
}

/// What the guards of all rows are called.
pub(crate) const OWNER: &str = "laboratory";

impl Lab {
    pub(crate) fn options(config: Config) -> GuardOptions {
        let options = GuardOptions::new(config.mode).name(OWNER).placement(config.placement).stacks(Stacks::Full);
        match config.back_end {
            Some(back_end) => options.back_end(back_end),
            None => options,
        }
    }

    pub(crate) fn new(config: Config, options: GuardOptions) -> Self {
        let guard =
            Guard::new(FromGlobalAlloc::SYSTEM, options).unwrap_or_else(|refused| panic!("{:?}", refused.error));
        Self { guard, config }
    }

    /// A block of the case's, and its address noted as `block`.
    #[track_caller]
    pub(crate) fn block(&self, size: usize, align: usize) -> *mut u8 {
        let block = self.take(size, align);
        note_pointer("block", block);
        block
    }

    #[inline(never)]
    pub(crate) fn take(&self, size: usize, align: usize) -> *mut u8 {
        takes(&self.guard, size, align)
    }

    #[inline(never)]
    pub(crate) fn give(&self, block: *mut u8, size: usize, align: usize) {
        gives(&self.guard, block, size, align);
    }

    /// The numbers that show that blocks were guarded.
    pub(crate) fn note_stats(&self) {
        let stats = self.guard.stats();
        note("guarded", stats.guarded as usize);
        note("cookies", stats.cookies as usize);
        note("unguarded", stats.unguarded as usize);
        note("reports", stats.reports as usize);
    }
}

pub(crate) fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

#[inline(never)]
pub(crate) fn takes(host: &dyn HostAllocator, size: usize, align: usize) -> *mut u8 {
    let block = host.allocate(layout(size, align), Scope::Object).expect("memory");
    assert_eq!(block.as_ptr().addr() % align, 0, "aligned as asked for");
    black_box(block.as_ptr())
}

/// Whatever the pointer is: cases give back what they should not.
#[inline(never)]
pub(crate) fn gives(host: &dyn HostAllocator, block: *mut u8, size: usize, align: usize) {
    let block = NonNull::new(block).expect("not null");
    // SAFETY: broken on purpose where the case says so: the guard must notice, and touches nothing then.
    unsafe { host.deallocate(block, layout(size, align), Scope::Object) };
    black_box(());
}

/// One store, wherever it goes.
#[inline(never)]
pub(crate) fn stores(at: *mut u8, value: u8) {
    let at = black_box(at);
    // SAFETY: the case knows where this goes; an address beyond its block is the guard's to stop, and belongs to the
    // guard.
    unsafe { *at = value };
    black_box(());
}

/// One load, from wherever.
#[inline(never)]
pub(crate) fn loads(at: *const u8) -> u8 {
    let at = black_box(at);
    // SAFETY: the case knows where this goes; an address beyond its block belongs to the guard, which stops the load.
    black_box(unsafe { *at })
}

/// Tells the parent a number.
pub(crate) fn note(name: &str, value: usize) {
    println!("NOTE {name} {value}");
}

pub(crate) fn note_pointer(name: &str, pointer: *const u8) {
    note(name, pointer.addr());
}
