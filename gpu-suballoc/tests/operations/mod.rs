//! Every public operation of the crate, run once: what `sweep.rs`, `no_global.rs` and `dhat_heap.rs` watch.

use std::fmt::Write;

use gpu_suballoc::{MemoryType, PropertyFlags, Wish, choose_memory_type};
use testkit::Sink;

/// Every public function. None asks for memory: a choice is made among numbers that the caller passes.
#[allow(dead_code, reason = "only the sweep compares")]
pub(crate) const TABLE: &[&str] = &[
    "PropertyFlags::as_raw",
    "PropertyFlags::contains",
    "PropertyFlags::count",
    "PropertyFlags::from_raw",
    "PropertyFlags::is_empty",
    "PropertyFlags::without",
    "Wish::avoiding",
    "Wish::preferring",
    "Wish::requiring",
    "choose_memory_type",
];

pub(crate) fn run() {
    let visible = PropertyFlags::from_raw(PropertyFlags::HOST_VISIBLE.as_raw());
    assert!(visible.contains(PropertyFlags::HOST_VISIBLE) && visible.count() == 1);
    assert!(visible.without(PropertyFlags::HOST_VISIBLE).is_empty());
    let types = [
        MemoryType { properties: PropertyFlags::DEVICE_LOCAL, heap_index: 0 },
        MemoryType { properties: visible, heap_index: 1 },
    ];
    let wish = Wish::requiring(visible).preferring(PropertyFlags::HOST_CACHED).avoiding(PropertyFlags::PROTECTED);
    assert_eq!(choose_memory_type(&types, 0b11, wish), Ok(1));
    let error = choose_memory_type(&types, 0b01, wish).expect_err("the one that is visible is not allowed");
    let mut sink = Sink::default();
    write!(sink, "{error} {error:?} {visible:?} {wish:?}").expect("the sink takes all");
    assert!(sink.bytes > 0);
}
