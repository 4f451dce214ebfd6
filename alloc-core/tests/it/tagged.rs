//! Tagged blocks.
//!
//! Runs under miri.
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "one promise holds for a whole tree: its blocks are live")]

mod collectors;
mod contexts;
mod domains;
mod linear;
mod reserve;
mod sizes;
mod slabs;
mod trees;

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::scene::root;
use alloc_core::tagged::{Fill, TaggedBlock, TaggedDomain};
use alloc_core::{Context, ContextOptions, Scope};

fn domain(root: &Context) -> TaggedDomain {
    let options = ContextOptions::new("domain").scope(Scope::Object);
    TaggedDomain::new(root.child_with(options).expect("a child")).expect("a domain")
}

fn block(domain: &TaggedDomain) -> TaggedBlock {
    domain.allocate(8, Fill::Zeros).expect("a block")
}

thread_local! {
    /// The numbers in the payloads that destructors saw, and each one's parent's.
    static SEEN: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
    static VICTIM: Cell<Option<TaggedBlock>> = const { Cell::new(None) };
}

fn this(payload: *mut c_void) -> TaggedBlock {
    TaggedBlock::from_payload(NonNull::new(payload.cast()).expect("a payload"))
}

fn number(block: TaggedBlock) -> u64 {
    // SAFETY: every block of these tests has 8 bytes, written when it was allocated.
    unsafe { block.payload().cast::<u64>().read() }
}

unsafe extern "C" fn note(payload: *mut c_void) {
    let block = this(payload);
    // SAFETY: the block is live, dying.
    let parent = unsafe { block.parent() };
    SEEN.with_borrow_mut(|seen| seen.push((number(block), parent.map_or(0, number))));
}
