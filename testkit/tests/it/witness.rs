//! The witness sees what it must see: each rule is broken once.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};
use testkit::{RecordingAllocator, ScopeTally, Sweep, Swept};

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a valid layout")
}

/// The text of the panic that `action` ends with.
fn panic_of(action: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(action)).expect_err("a panic");
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default()
}

#[test]
fn counts_every_call() {
    let witness = RecordingAllocator::system();
    let block = witness.allocate(bytes(16), Scope::Device).expect("memory");
    // SAFETY: the live block.
    let block = unsafe { witness.resize(block, bytes(16), bytes(40), Scope::Device) }.expect("memory");
    // SAFETY: the live block.
    let block = unsafe { witness.resize(block, bytes(40), bytes(8), Scope::Device) }.expect("memory");
    let seen = ScopeTally {
        allocations: 1,
        frees: 0,
        resizes: 2,
        live_bytes: 8,
        live_blocks: 1,
        peak_bytes: 40,
        total_bytes: 40,
    };
    assert_eq!((witness.scope(Scope::Device), witness.total()), (seen, seen));
    assert_eq!(witness.scope(Scope::Object), ScopeTally::default());
    assert!(panic_of(|| witness.assert_empty("now")).contains("8 bytes, alignment 8, scope device"));
    // SAFETY: the live block.
    unsafe { witness.deallocate(block, bytes(8), Scope::Device) };
    witness.assert_empty("after the free");
    assert_eq!((witness.total().frees, witness.total().live_bytes), (1, 0));
}

#[test]
fn every_breach_is_seen() {
    let witness = RecordingAllocator::system();
    let block = witness.allocate(bytes(16), Scope::Object).expect("memory");
    // SAFETY: none is needed: the witness panics before it calls the allocator behind.
    let free = |block, layout, scope| panic_of(|| unsafe { witness.deallocate(block, layout, scope) });
    assert!(free(block, bytes(24), Scope::Object).contains("taken as 16 bytes"));
    assert!(free(block, bytes(16), Scope::Cache).contains("given back as 16 bytes, alignment 8, scope cache"));
    assert!(free(NonNull::<u64>::dangling().cast(), bytes(16), Scope::Object).contains("is not live"));
    assert_eq!(witness.total().live_blocks, 1, "a refused call changes nothing");
    // SAFETY: the live block.
    unsafe { witness.deallocate(block, bytes(16), Scope::Object) };
    assert!(free(block, bytes(16), Scope::Object).contains("freed before"));
}

/// Gives the same block twice, or a misaligned one.
struct Broken(NonNull<u8>);

// SAFETY: it breaks its promise on purpose; nobody uses what it gives.
unsafe impl HostAllocator for Broken {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, _: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        Ok(self.0)
    }
    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout, _: Scope) {}
}

#[test]
fn a_broken_allocator_behind_is_seen() {
    let witness = RecordingAllocator::new(Broken(NonNull::<u64>::dangling().cast()));
    witness.allocate(bytes(16), Scope::Object).expect("the first time it is right");
    let overlapping = panic_of(|| assert!(witness.allocate(bytes(16), Scope::Object).is_err()));
    assert!(overlapping.contains("overlaps"), "{overlapping}");
    let witness = RecordingAllocator::new(Broken(NonNull::dangling()));
    let misaligned = panic_of(|| assert!(witness.allocate(bytes(16), Scope::Object).is_err()));
    assert!(misaligned.contains("the allocator behind gave 0x1"), "{misaligned}");
}

/// Refuses one request; a test's own, so that this crate needs no other.
struct OnceNot<A>(A, std::cell::Cell<Option<u64>>);

// SAFETY: what it does not refuse is `A`'s own.
unsafe impl<A: HostAllocator> HostAllocator for OnceNot<A> {
    fn traits(&self) -> AllocatorTraits {
        self.0.traits()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        match self.1.replace(self.1.get().and_then(|n| n.checked_sub(1))) {
            Some(0) => Err(AllocError),
            _ => self.0.allocate(layout, scope),
        }
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is `A`'s.
        unsafe { self.0.deallocate(block, layout, scope) }
    }
}

fn take(host: &impl HostAllocator) -> Result<NonNull<u8>, AllocError> {
    host.allocate(bytes(8), Scope::Object)
}

fn give(host: &impl HostAllocator, block: NonNull<u8>) {
    // SAFETY: taken by `take`.
    unsafe { host.deallocate(block, bytes(8), Scope::Object) }
}

#[test]
fn the_sweep_passes_what_is_right_and_finds_what_is_not() {
    let sweep = Sweep::new(|witness| OnceNot(witness, None.into()), |host, n| host.1.set(n));
    let swept = sweep.run("two or none", |trial| {
        let host = trial.host();
        let pair = trial.attempt(
            || (),
            || {
                let first = take(host)?;
                take(host).map(|second| (first, second)).inspect_err(|_| give(host, first))
            },
        );
        give(host, pair.0);
        give(host, pair.1);
    });
    assert_eq!(swept, Swept { requests: 2, failed: 2, survived: 0 });

    let swept = sweep.run("a second try", |trial| {
        let host = trial.host();
        give(host, trial.attempt(|| (), || take(host).or_else(|_| take(host))));
    });
    assert_eq!(swept, Swept { requests: 1, failed: 0, survived: 1 });

    let leaks = panic_of(|| {
        sweep.run("leaks the first", |trial| {
            let host = trial.host();
            let pair = trial.attempt(
                || (),
                || {
                    let first = take(host)?;
                    take(host).map(|second| (first, second))
                },
            );
            give(host, pair.0);
            give(host, pair.1);
        });
    });
    assert!(leaks.contains("the failed operation changed something"), "{leaks}");

    let hides = panic_of(|| {
        sweep.run("fails for no reason", |trial| {
            let blocks = std::cell::Cell::new(0);
            trial.attempt(
                || (),
                || {
                    blocks.set(blocks.get() + 1);
                    take(trial.host()).map(|block| give(trial.host(), block)).and(if blocks.get() == 1 {
                        Err(AllocError)
                    } else {
                        Ok(())
                    })
                },
            );
        });
    });
    assert!(hides.contains("although nothing was refused"), "{hides}");
}

#[test]
fn a_refusal_behind_is_counted_and_charges_nothing() {
    let witness = RecordingAllocator::new(OnceNot(FromGlobalAlloc::SYSTEM, Some(0).into()));
    assert!(take(&witness).is_err());
    assert_eq!((witness.refused(), witness.total()), (1, ScopeTally::default()));
    give(&witness, take(&witness).expect("memory"));
}
