//! The driver's side: callbacks as an allocator, the chain that falls back, blocks and their receipts, several arrays
//! in one.

use std::alloc::Layout;

use alloc_core::{Context, ContextOptions, HostAllocator, Scope, TryVec};
use testkit::{Sink, Stage};
use vk_callbacks::driver::{DeviceDomain, InstanceDomain, LevelAllocator};
use vk_callbacks::{CallbackAllocator, FallbackChain, Level, MultiAlloc};

use super::{Ground, Operation, SYSTEM, nothing, takes};

const LAYOUT: Layout = Layout::new::<[u64; 20]>();
const SCOPE: Scope = Scope::Object;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["CallbackAllocator::from_raw"], "then a block, a larger and a smaller one", resized::<S>),
        takes(&["CallbackAllocator::from_raw"], "then a tree of contexts over it", tree::<S>),
        takes(&["FallbackChain::allocate"], "", |s, g| {
            drop(s.attempt(|| g.picture(), || g.chain().allocate(LAYOUT, SCOPE)))
        }),
        takes(&["FallbackChain::allocate_zeroed"], "", |s, g| {
            drop(s.attempt(|| g.picture(), || g.chain().allocate_zeroed(LAYOUT, SCOPE)));
        }),
        takes(&["MultiAlloc::allocate"], "", |s, g| multi(s, g, false)),
        takes(&["MultiAlloc::allocate_zeroed"], "", |s, g| multi(s, g, true)),
        nothing(
            &[
                "CallbackAllocator::from_ptr",
                "InstanceDomain::new",
                "InstanceDomain::chain",
                "InstanceDomain::own",
                "DeviceDomain::new",
                "DeviceDomain::chain",
                "DeviceDomain::own",
                "FallbackChain::new",
                "FallbackChain::instance",
                "FallbackChain::device",
                "FallbackChain::object",
                "FallbackChain::cache",
                "FallbackChain::resolve",
                "FallbackChain::at",
                "Level::name",
            ],
            "they copy pointers",
            resolving::<S>,
        ),
        nothing(
            &[
                "DriverBlock::as_ptr",
                "DriverBlock::layout",
                "DriverBlock::scope",
                "DriverBlock::level",
                "DriverBlock::store",
                "Stored::as_ptr",
                "Stored::layout",
                "Stored::level",
                "Stored::claim",
                "Stored::free",
            ],
            "they read, or give back",
            receipts::<S>,
        ),
        nothing(
            &[
                "MultiAlloc::new",
                "MultiAlloc::array",
                "MultiAlloc::layout",
                "MultiBlock::block",
                "MultiBlock::get",
                "MultiBlock::slice_mut",
                "MultiBlock::store",
            ],
            "arithmetic, and places within the block",
            places::<S>,
        ),
    ]
}

fn resized<S: Stage>(stage: &S, ground: &Ground<'_>) {
    const MORE: Layout = Layout::new::<[u64; 200]>();
    // SAFETY: the ground's callbacks outlive the body.
    let host = unsafe { CallbackAllocator::from_raw(&ground.raw) }.expect("complete");
    let block = stage.attempt(
        || ground.picture(),
        || {
            let mut block = (host.allocate(LAYOUT, SCOPE)?, LAYOUT);
            for new in [MORE, LAYOUT] {
                // SAFETY: the live block.
                let resized = unsafe { host.resize(block.0, block.1, new, SCOPE) };
                block = resized.map(|moved| (moved, new)).inspect_err(|_| {
                    // SAFETY: the refusal left the block as it was.
                    unsafe { host.deallocate(block.0, block.1, SCOPE) };
                })?;
            }
            Ok::<_, alloc_core::AllocError>(block.0)
        },
    );
    // SAFETY: the live block.
    unsafe { host.deallocate(block, LAYOUT, SCOPE) };
}

fn tree<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (root, child, list) = stage.attempt(
        || ground.picture(),
        || {
            // SAFETY: the callbacks outlive the body, and all of the tree is dropped in it.
            let root = unsafe { Context::root(ground.callbacks, ContextOptions::new("driver")) }?;
            let child = root.child_with(ContextOptions::new("child").label("label"))?;
            let list = TryVec::try_from_slice_in(&[1, 2, 3], child.handle())?;
            Ok::<_, alloc_core::HostError>((root, child, list))
        },
    );
    drop((list, child));
    root.close_root().expect("nothing is left");
}

fn multi<S: Stage>(stage: &S, ground: &Ground<'_>, zeroed: bool) {
    let block = stage.attempt(
        || ground.picture(),
        || {
            let mut plan = MultiAlloc::new();
            plan.array::<u64>(10)?;
            plan.array::<u8>(3)?;
            if zeroed { plan.allocate_zeroed(&ground.chain(), SCOPE) } else { plan.allocate(&ground.chain(), SCOPE) }
        },
    );
    assert_eq!(block.block().layout().size(), 83);
}

fn resolving<S: Stage>(stage: &S, ground: &Ground<'_>) {
    stage.attempt_plainly(|| {
        // SAFETY: the ground's callbacks outlive the body.
        let object = unsafe { CallbackAllocator::from_ptr(&raw const ground.raw) }.expect("complete");
        // SAFETY: the ground's callbacks outlive the body.
        let instance = unsafe { InstanceDomain::new(&raw const ground.raw, &SYSTEM) }.expect("complete");
        // SAFETY: NULL is no callbacks.
        let device = unsafe { DeviceDomain::new(std::ptr::null()) }.expect("none");
        assert!(instance.own().is_some() && device.own().is_none());
        let chain = device.chain(&instance, object.as_ref());
        assert_eq!(chain.cache(LevelAllocator::NONE).resolve(Scope::Cache).level, Level::Instance);
        assert_eq!(chain.resolve(Scope::Command).level, Level::Object);
        assert_eq!(chain.resolve(Scope::Device).level, Level::Instance);
        assert_eq!(instance.chain(None).resolve(SCOPE).level.name(), "instance");
        let whole = FallbackChain::new(&SYSTEM)
            .instance(LevelAllocator::NONE)
            .device(Some(ground.callbacks))
            .object(LevelAllocator::NONE);
        assert!(whole.at(Level::Object).is_none() && Sink::debug((chain, whole)) > 0);
    });
}

fn receipts<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let chain = ground.chain();
    let mut blocks = Some([(); 2].map(|()| chain.allocate(LAYOUT, SCOPE).expect("refused nothing")));
    stage.attempt_plainly(|| {
        let [first, second] = blocks.take().expect("made above");
        assert_eq!((first.layout(), first.scope(), first.level()), (LAYOUT, SCOPE, Level::Device));
        let at = first.as_ptr();
        let (first, second) = (first.store(), second.store());
        assert_eq!((first.as_ptr(), first.layout(), first.level()), (at, LAYOUT, Level::Device));
        // SAFETY: the chain of their allocation has the device's callbacks; this one has none.
        let refused = unsafe { first.claim(&FallbackChain::new(&SYSTEM)) }.expect_err("its level is missing");
        assert!(Sink::debug(&refused) > 0);
        // SAFETY: the chain it was taken through.
        drop(unsafe { refused.value.claim(&chain) }.expect("its level is there"));
        // SAFETY: the chain that it was taken through.
        unsafe { second.free(&chain) }.expect("its level is there");
    });
}

fn places<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let chain = ground.chain();
    let mut plan = MultiAlloc::new();
    let numbers = plan.array::<u64>(10).expect("small");
    let mut block = Some(plan.allocate(&chain, SCOPE).expect("refused nothing"));
    stage.attempt_plainly(|| {
        let mut other = MultiAlloc::new();
        let others = other.array::<u32>(5).expect("small");
        assert_eq!(other.layout().size(), 20);
        let mut block = block.take().expect("made above");
        assert_eq!((block.slice_mut(numbers).len(), block.get(others), block.block().scope()), (10, None, SCOPE));
        // SAFETY: the chain it was taken through.
        unsafe { block.store().free(&chain) }.expect("its level is there");
    });
}
