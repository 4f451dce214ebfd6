//! A thread's own share.

use std::cell::RefCell;

use gpu_suballoc::{Lifetime, MemoryPreference, PropertyFlags, RegionOptions};
use testkit::{MemoryUse, Stage};

use super::GpuOperation;
use super::facade::{allocator, end, mock, needs};

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        GpuOperation {
            names: &["GpuAllocator::shard", "Shard::allocate"],
            how: "the first transient region",
            takes: MemoryUse::Memory,
            body: |stage| first_of(stage, Lifetime::Transient),
        },
        GpuOperation {
            names: &["Shard::allocate"],
            how: "the first long-lived region",
            takes: MemoryUse::Memory,
            body: |stage| first_of(stage, Lifetime::Persistent),
        },
        GpuOperation {
            names: &["Shard::map_id"],
            how: "a region without a record",
            takes: MemoryUse::Memory,
            body: |stage| {
                let mock = mock();
                let allocator = allocator(stage, &mock);
                let shard = RefCell::new(allocator.shard());
                let options = RegionOptions::new()
                    .lifetime(Lifetime::Transient)
                    .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
                let allocated = shard.borrow_mut().allocate(&needs(500), &options);
                let region = allocated.expect("refused nothing");
                let seen = || allocator.stats().total;
                stage.attempt(seen, || shard.borrow_mut().map_id(region.id()));
                allocator.unmap_id(region.id()).expect("mapped");
                shard.borrow_mut().free(region).expect("live");
                drop(shard);
                end::<S>(allocator);
            },
        },
        GpuOperation {
            names: &[
                "Shard::allocator",
                "Shard::free",
                "Shard::free_batch",
                "Shard::trim",
                "Shard::usage",
            ],
            how: "and a region that the allocator frees",
            takes: MemoryUse::Nothing("freeing takes no memory"),
            body: |stage| {
                let mock = mock();
                let allocator = allocator(stage, &mock);
                let mut shard = allocator.shard();
                let options = RegionOptions::new().lifetime(Lifetime::Transient);
                let mut regions = [(); 5].map(|()| {
                    Some(
                        shard
                            .allocate(&needs(500), &options)
                            .expect("refused nothing"),
                    )
                });
                stage.attempt_plainly(|| {
                    assert!(
                        shard.usage().regions >= 5 && std::ptr::eq(shard.allocator(), &allocator)
                    );
                    shard.free(regions[0].take().expect("there")).expect("live");
                    allocator
                        .free(regions[1].take().expect("there"))
                        .expect("live");
                    shard.free_batch(&mut regions).expect("live");
                    shard.trim();
                });
                drop(shard);
                end::<S>(allocator);
            },
        },
    ]
}

/// A new shard's first region of this lifetime.
fn first_of<S: Stage>(stage: &S, lifetime: Lifetime) {
    let mock = mock();
    let allocator = allocator(stage, &mock);
    let shard = RefCell::new(allocator.shard());
    let options = RegionOptions::new().lifetime(lifetime);
    // A page or slab that was got for it may stay with the shard.
    let seen = || shard.borrow_mut().usage().regions;
    let region = stage.attempt(seen, || shard.borrow_mut().allocate(&needs(500), &options));
    shard.borrow_mut().free(region).expect("live");
    drop(shard);
    end::<S>(allocator);
}
