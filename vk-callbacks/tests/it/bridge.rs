//! A bridge: which context is charged, when it may be closed, and what a late free finds.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::callback_stream::program::{Stream, callback_stream};
use crate::common::{Driver, assert_filled, fill};
use alloc_core::{AllocError, AllocatorTraits, Budget, Context, ContextOptions, HostAllocator, Scope, TryVec};
use testkit::{Child, RecordingAllocator, silence_panics};
use vk_callbacks::bridge::LeakedBridge;
use vk_callbacks::bridge::leaked_bridges;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{Bridge, CallbackAllocator, CallbackError, Command, Live, Owners};

fn root(witness: &RecordingAllocator) -> Context {
    // SAFETY: each test closes the root before the witness goes, or fails.
    unsafe { Context::root(witness, ContextOptions::new("application").label("root")) }.expect("memory")
}

fn driver(bridge: &Bridge) -> Driver {
    Driver(*bridge.callbacks().raw())
}

fn end(root: Context, witness: &RecordingAllocator) {
    root.close_root().expect("nothing is left");
    witness.assert_empty("after the root was closed");
}

#[test]
fn closing_with_live_blocks_gives_the_bridge_back_with_counts() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let bridge = Bridge::new(root.child("vulkan").expect("memory")).expect("fresh");
    let blocks = [driver(&bridge).alloc(100, 8, Scope::Object), driver(&bridge).alloc(10, 64, Scope::Cache)];
    let busy = bridge.close().expect_err("two blocks are live");
    assert_eq!(busy.value.live().total().blocks, 2);
    assert_eq!(busy.value.live().scope(Scope::Object).bytes, 116);
    assert_eq!(busy.value.live().scope(Scope::Cache).bytes, 74);
    assert_eq!(
        busy.to_string(),
        "Vulkan still holds 2 blocks (190 bytes): 1 object, 1 cache of the context \"vulkan\": destroy its objects first, then close again"
    );
    // What `main` prints of an error that it returns.
    assert_eq!(
        format!("{busy:?}"),
        "Rejected { error: Live { context: \"vulkan\", live: {Object: LiveScope { blocks: 1, bytes: 116 }, \
         Cache: LiveScope { blocks: 1, bytes: 74 }} }, .. }"
    );
    let [object, cache] = blocks;
    driver(&busy.value).free(object);
    let busy = busy.value.close().expect_err("one block is live");
    assert!(
        busy.to_string().starts_with("Vulkan still holds 1 block (74 bytes): 1 cache of the context \"vulkan\": "),
        "{busy}"
    );
    driver(&busy.value).free(cache);
    let context = busy.value.close().expect("nothing live");
    assert_eq!(context.usage().total().live_blocks, 0);
    assert_eq!(context.usage().total().total_blocks, 3, "two blocks and the state");
    drop(context);
    end(root, &witness);
}

#[test]
fn v8_v9_over_budget_is_null_and_a_command_can_tell() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let limited = ContextOptions::new("limited").budget(Budget::exact(2000));
    let bridge = Bridge::new(root.child_with(limited).expect("memory")).expect("fits");
    let driver = driver(&bridge);
    let told = Command::new("vkCreateImage", Owners::default(), BracketCoverage::Partial);
    told.run(|frame| {
        let first = driver.alloc(1000, 8, Scope::Object);
        assert_eq!(
            (first.is_null(), frame.null_answers()),
            (false, 0),
            "OUT_OF_HOST_MEMORY now would be the driver's own malloc"
        );
        assert!(driver.realloc(first, 2000, 8, Scope::Object).is_null());
        assert_eq!(frame.null_answers(), 1);
        driver.free(first);
    });
    assert_eq!(bridge.counters().backing_refusals, 1);
    drop(bridge.close().expect("nothing live"));
    end(root, &witness);
}

#[test]
fn a_root_can_be_bridged_and_closed() {
    let witness = RecordingAllocator::system();
    let bridge = Bridge::new(root(&witness)).expect("its own record and label are not in use");
    assert_eq!(bridge.live(), Live::default());
    let block = driver(&bridge).alloc(0, 1, Scope::Instance);
    assert_eq!(bridge.live().scope(Scope::Instance).blocks, 1);
    driver(&bridge).free(block);
    end(bridge.close().expect("nothing live"), &witness);
}

#[test]
fn a_context_in_use_is_refused_and_given_back() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let context = root.child("mixed").expect("memory");
    let mut mine = TryVec::new_in(context.handle());
    mine.try_push(1_u32).expect("memory");
    let refused = Bridge::new(context).expect_err("it holds a block");
    assert_eq!(refused.error, CallbackError::ContextInUse);
    drop(mine);
    let grandchild = refused.value.child("below").expect("memory");
    let refused = Bridge::new(refused.value).expect_err("it has a child");
    drop(grandchild);
    drop(Bridge::new(refused.value).expect("now it is fresh"));
    end(root, &witness);
}

/// Panics while set, before anything is done. Keeps what it was to resize or free then: the bridge leaks it.
struct Panicky {
    inner: RecordingAllocator,
    panics: AtomicBool,
    leaked: Mutex<Vec<(usize, Layout, Scope)>>,
}

impl Panicky {
    fn mood(&self) {
        assert!(!self.panics.load(SeqCst), "an allocator with a bug");
    }

    fn leak(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if self.panics.load(SeqCst) {
            self.leaked.lock().expect("no panic under the lock").push((
                block.as_ptr().expose_provenance(),
                layout,
                scope,
            ));
        }
    }
}

// SAFETY: blocks are the witness's.
unsafe impl HostAllocator for Panicky {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.mood();
        self.inner.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.leak(block, layout, scope);
        self.mood();
        // SAFETY: this function's contract: the block is the witness's.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        self.leak(block, old, scope);
        self.mood();
        // SAFETY: this function's contract: the block is the witness's.
        unsafe { self.inner.resize(block, old, new, scope) }
    }
}

#[test]
fn v8_a_panic_below_a_budget_is_null_and_charges_nothing() {
    silence_panics("an allocator with a bug");
    for budget in [Budget::exact(1 << 20), Budget::limit(1 << 20)] {
        let backing =
            Panicky { inner: RecordingAllocator::system(), panics: AtomicBool::new(false), leaked: Mutex::default() };
        // SAFETY: closed below.
        let root = unsafe { Context::root(&backing, ContextOptions::new("application")) }.expect("memory");
        let bridge =
            Bridge::new(root.child_with(ContextOptions::new("limited").budget(budget)).expect("memory")).expect("fits");
        let driver = driver(&bridge);
        let [grown, shrunk, aligned, freed] = [8, 8, 256, 8].map(|align| driver.alloc(1000, align, Scope::Object));
        // What a thread leases ahead, it has leased by now.
        driver.free(driver.alloc(4000, 256, Scope::Object));
        let now = || {
            (bridge.usage(), bridge.context().budget().expect("it has one").charged, backing.inner.total().live_bytes)
        };
        let before = now();

        backing.panics.store(true, SeqCst);
        for round in 1..=3 {
            assert!(driver.alloc(500, 8, Scope::Object).is_null());
            assert!(driver.alloc(500, 256, Scope::Object).is_null());
            assert_eq!((now(), bridge.counters().panics), (before, 2 * round), "{budget:?}");
        }
        for (block, size, align) in [(grown, 2000, 8), (shrunk, 10, 8), (aligned, 2000, 256)] {
            assert!(driver.realloc(block, size, align, Scope::Object).is_null());
            assert_eq!(now(), before, "{budget:?}: {size} bytes at {align}");
        }
        assert_eq!(bridge.counters().panics, 9);
        driver.free(freed);
        assert_eq!((bridge.counters().panics, bridge.counters().faults()), (10, 10));
        assert_eq!(now(), before, "{budget:?}: what is leaked stays charged");
        backing.panics.store(false, SeqCst);

        // The bridge goes on, and what it leaked is all that is left.
        driver.free(driver.alloc(500, 8, Scope::Object));
        let leaked = std::mem::take(&mut *backing.leaked.lock().expect("no panic under the lock"));
        assert_eq!((leaked.len(), bridge.live().total().blocks), (4, 4), "{budget:?}");
        for (at, layout, scope) in leaked {
            let block = NonNull::new(std::ptr::with_exposed_provenance_mut(at)).expect("a block");
            // SAFETY: live in this context: the panic came before anything was done, and the bridge does not touch it
            // again.
            unsafe { bridge.context().deallocate(block, layout, scope) };
        }
        drop(bridge.close().expect("nothing live"));
        end(root, &backing.inner);
    }
}

/// In a process of its own, with its own count of leaked bridges.
#[test]
fn a_bridge_dropped_while_vulkan_holds_blocks_leaves_no_dangling_pointer() {
    const NAME: &str = "a_bridge_dropped_while_vulkan_holds_blocks_leaves_no_dangling_pointer";
    if !Child::is_child(NAME) {
        Child::this_test(NAME).run().assert_code(0);
        return;
    }
    // What is leaked on purpose is not a leak of the test's allocator: it is never torn down.
    let witness: &'static RecordingAllocator = Box::leak(Box::new(RecordingAllocator::system()));
    let root = Context::root_static(witness, ContextOptions::new("application")).expect("memory");
    /// The arguments of the listener, with the count of leaked bridges by then.
    static TOLD: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());
    fn tell(leaked: &LeakedBridge<'_>) {
        let live = leaked.live.scope(Scope::Object);
        let text = format!("{} {}: {leaked}", leaked.context, live.blocks);
        TOLD.lock().expect("unpoisoned").push((text, leaked_bridges()));
    }
    // One that ends well is no news.
    let child = root.child("well").expect("memory");
    drop(Bridge::new(child).expect("fresh").with_leak_listener(tell));
    let bridge = Bridge::new(root.child("vulkan").expect("memory")).expect("fresh");
    let bridge = bridge.with_leak_listener(tell);
    let driver = driver(&bridge);
    let block = driver.alloc(100, 8, Scope::Object);
    let before = leaked_bridges();
    drop(bridge);
    assert_eq!(leaked_bridges(), before + 1);
    let told = "vulkan 1: the bridge over \"vulkan\" was dropped while Vulkan held 1 block (116 bytes): 1 object";
    assert_eq!(*TOLD.lock().expect("unpoisoned"), [(told.to_owned(), before + 1)]);
    // A late driver: new requests are refused, the free still reaches the allocator.
    assert!(driver.alloc(10, 8, Scope::Object).is_null());
    driver.free(block);
    assert_eq!(witness.scope(Scope::Object).live_blocks, 0);
    let refused = root.close_root().expect_err("the state of the leaked bridge is left");
    assert_eq!(
        (refused.error.outstanding().blocks, refused.error.outstanding().contexts),
        (1, 1),
        "{:?}",
        refused.error.outstanding()
    );
    let _ = refused.value.abandon();
}

/// application's context -> callbacks -> a driver's allocator -> the driver's root context -> children -> a collection
#[test]
fn m38_m43_a_compilers_context_carries_the_applications_allocator() {
    let witness = RecordingAllocator::system();
    let application = root(&witness);
    let bridge = Bridge::new(application.child("vulkan device").expect("memory")).expect("fresh");
    // In the driver: the plumbing that was missing between pAllocator and the compiler's contexts.
    {
        // SAFETY: the bridge outlives the driver.
        let p_allocator = unsafe { CallbackAllocator::from_raw(&bridge.raw()) }.expect("whole");
        // SAFETY: `p_allocator` outlives the root, which is closed below.
        let device =
            unsafe { Context::root(&p_allocator, ContextOptions::new("device").scope(Scope::Device)) }.expect("memory");
        let compiler = device.child_with(ContextOptions::new("compiler").scope(Scope::Object)).expect("memory");
        let pass = compiler.child("a pass").expect("memory");
        let mut instructions = TryVec::new_in(pass.handle());
        for i in 0..1000_u64 {
            instructions.try_push(i).expect("memory");
        }
        assert_eq!(pass.scope(), Scope::Object, "inherited from the compiler's context");
        let held = bridge.live().scope(Scope::Object);
        assert!(held.bytes >= 8000, "the pass's instructions are the application's to see: {held:?}");
        assert_eq!(witness.scope(Scope::Object).live_bytes, held.bytes);
        assert_eq!(pass.usage().scope(Scope::Object).live_blocks, 1);
        drop(instructions);
        drop((pass, compiler));
        device.close_root().expect("nothing is left");
    }
    assert_eq!((bridge.live(), bridge.counters().faults()), (Live::default(), 0));
    drop(bridge.close().expect("nothing live"));
    end(application, &witness);
}

#[test]
fn v24_two_threads_and_blocks_that_cross_end_with_nothing_live() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let bridge = Bridge::new(root.child("vulkan").expect("memory")).expect("fresh");
    let driver = driver(&bridge);
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    let (to, from) = std::sync::mpsc::channel::<usize>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..rounds {
                let block = driver.alloc(i % 300, 1 << (i % 8), Scope::ALL[i % 5]);
                fill(block, i % 300, 1);
                to.send(block.expose_provenance()).expect("the other thread listens");
            }
        });
        scope.spawn(move || {
            for (i, address) in from.into_iter().enumerate() {
                let block = std::ptr::with_exposed_provenance_mut(address);
                let block = driver.realloc(block, i % 300 + 7, 1 << (i % 8), Scope::ALL[i % 5]);
                assert_filled(block, i % 300, 1);
                driver.free(block);
            }
        });
    });
    assert_eq!(bridge.live(), Live::default());
    assert_eq!(bridge.counters().faults(), 0);
    drop(bridge.close().expect("nothing live"));
    end(root, &witness);
}

/// Random streams through bridges over a bare allocator and over contexts, against the model.
#[test]
fn a_wild_driver_meets_what_the_model_says() {
    let mut ran = testkit::programs::Ran::default();
    for seed in 0..testkit::programs::cases(if cfg!(miri) { 1 } else { 200 }) {
        let mut rng = testkit::Rng::new(seed);
        let program = rng.bytes(if cfg!(miri) { 200 } else { 3000 });
        let witnesses = [RecordingAllocator::system(), RecordingAllocator::system()];
        let roots = witnesses.each_ref().map(root);
        let bridges = roots.each_ref().map(|root| Bridge::new(root.child("vulkan").expect("memory")).expect("fresh"));
        let streams: Vec<_> =
            bridges.iter().zip(&witnesses).map(|(bridge, witness)| Stream(driver(bridge), witness.clone())).collect();
        ran.add(callback_stream(&program, &streams));
        for bridge in bridges {
            drop(bridge.close().expect("nothing live"));
        }
        for (root, witness) in roots.into_iter().zip(&witnesses) {
            end(root, witness);
        }
    }
    if !cfg!(miri) {
        ran.assert_meaningful();
    }
}

/// Law 4: the header knows the bridge.
#[test]
fn v11_v19_a_block_that_another_bridge_is_called_for_goes_back_through_its_own() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let new = |name| Bridge::new(root.child(name).expect("memory")).expect("fresh");
    let (layouts, pipelines) = (new("layouts"), new("pipelines"));
    let (a, b) = (driver(&layouts), driver(&pipelines));
    let empty = pipelines.usage();
    for align in [1, 8, 16, 64, 4096, 8192] {
        let block = a.alloc(144, align, Scope::Object);
        fill(block, 144, 7);
        let grown = b.realloc(block, 1000, align, Scope::Object);
        assert_filled(grown, 144, 7);
        assert!(grown.addr().is_multiple_of(align), "{align}");
        assert_eq!(layouts.live().total().blocks, 1, "it stays the layouts'");
        b.free(grown);
        assert!(layouts.live().is_empty(), "{align}");
        let block = a.alloc(144, align, Scope::Object);
        assert!(b.realloc(block, 0, align, Scope::Object).is_null());
        assert!(layouts.live().is_empty(), "{align}");
    }
    assert_eq!(pipelines.counters().foreign_pointers, 6 * 3);
    assert_eq!(pipelines.counters().faults(), 6 * 3);
    assert_eq!(layouts.counters().faults(), 0);
    assert_eq!(pipelines.usage(), empty);
    // What only looks like a block of that bridge: a copied header, and one that was overwritten.
    let block = a.alloc(16, 8, Scope::Object);
    let mut copy = [0_u64; 4];
    // SAFETY: the block has 16 bytes in front.
    unsafe {
        std::ptr::copy_nonoverlapping(block.wrapping_sub(16), copy.as_mut_ptr().cast::<u8>(), 16);
    };
    b.free((&raw mut copy).cast::<u8>().wrapping_add(16));
    let before = block.wrapping_sub(1);
    // SAFETY: the byte in front is the bridge's own and writable.
    let byte = unsafe { before.read() };
    // SAFETY: the byte in front is the bridge's own and writable.
    unsafe { before.write(byte ^ 1) };
    b.free(block);
    // SAFETY: the byte in front is the bridge's own and writable.
    unsafe { before.write(byte) };
    assert_eq!(pipelines.counters().unknown_pointers, 2);
    assert_eq!(layouts.live().total().blocks, 1);
    // The owner's bridge is gone, its state is not: the block is live.
    let account = layouts.context().handle();
    let closes = layouts.close().expect_err("a block is live").value;
    drop(closes);
    b.free(block);
    assert_eq!(account.usage().total().live_blocks, 1, "the leaked state");
    assert_eq!(pipelines.counters().foreign_pointers, 6 * 3 + 1);
    // A bridge that was closed has no block that could be live.
    let short = new("short");
    let block = driver(&short).alloc(64, 8, Scope::Object);
    let header = [16, 8].map(|offset| {
        // SAFETY: the header in front of the block.
        unsafe { block.wrapping_sub(offset).cast::<u64>().read_unaligned() }
    });
    driver(&short).free(block);
    drop(short.close().expect("nothing is live"));
    let mut stale = [header[0], header[1], 0];
    b.free((&raw mut stale).cast::<u8>().wrapping_add(16));
    assert_eq!(pipelines.counters().unknown_pointers, 3);
    drop(pipelines.close().expect("nothing is live"));
}
