//! Bare blocks: through the crate's trait, through `allocator_api2`'s, and through the adapters.

use std::alloc::{Layout, System};
use std::ptr::NonNull;

use alloc_core::{
    Allocator, AllocatorTraits, Context, FromGlobalAlloc, HostAllocator, HostSource, Notice,
    NoticeEvent, NoticeKind, PointerStatus, Scope, Scoped, dangling, move_block, with_front,
    with_requester,
};
use testkit::Stage;

use super::{Ground, Operation, nothing, over, takes};

const NONE: Layout = Layout::new::<()>();
const SMALL: Layout = Layout::new::<[u64; 3]>();
const LARGE: Layout = Layout::new::<[u64; 40]>();
const SCOPE: Scope = Scope::Cache;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["ContextHandle::try_allocate"], "", try_allocate::<S>),
        takes(&["HostAllocator::allocate"], "through a context", |s, g| {
            allocate(s, g, g.context())
        }),
        takes(&["HostAllocator::allocate"], "through a handle", |s, g| {
            allocate(s, g, &g.context().handle())
        }),
        takes(
            &["HostAllocator::allocate"],
            "through adapters there and back",
            |s, g| {
                allocate(s, g, &over(Scoped::new(g.context(), SCOPE)));
            },
        ),
        takes(
            &["HostAllocator::allocate_zeroed"],
            "through a context",
            |s, g| zeroed(s, g, g.context()),
        ),
        takes(
            &["HostAllocator::allocate_zeroed"],
            "through a handle",
            |s, g| zeroed(s, g, &g.context().handle()),
        ),
        takes(&["HostAllocator::resize"], "through a context", |s, g| {
            resize(s, g, g.context(), SMALL, LARGE)
        }),
        takes(&["HostAllocator::resize"], "through a handle", |s, g| {
            resize(s, g, &g.context().handle(), SMALL, LARGE)
        }),
        takes(&["HostAllocator::resize"], "from nothing", |s, g| {
            resize(s, g, g.context(), NONE, LARGE)
        }),
        takes(
            &["HostAllocator::resize"],
            "to another alignment",
            |s, g| {
                resize(
                    s,
                    g,
                    g.context(),
                    SMALL,
                    Layout::from_size_align(999, 256).expect("a layout"),
                );
            },
        ),
        takes(
            &["HostAllocator::resize"],
            "through adapters there and back",
            |s, g| {
                resize(s, g, &over(Scoped::new(g.context(), SCOPE)), SMALL, LARGE);
            },
        ),
        takes(
            &["HostAllocator::resize"],
            "to less, through a context",
            |s, g| resize(s, g, g.context(), LARGE, SMALL),
        ),
        takes(
            &["HostAllocator::resize"],
            "to less, through a handle",
            |s, g| resize(s, g, &g.context().handle(), LARGE, SMALL),
        ),
        nothing(
            &["HostAllocator::resize", "HostAllocator::deallocate"],
            "to nothing frees, and freeing takes nothing",
            to_nothing,
        ),
        takes(
            &["HostAllocator::allocate"],
            "as `allocator_api2` has it, through a context",
            |s, g| foreign(s, g, g.context()),
        ),
        takes(
            &["HostAllocator::allocate"],
            "as `allocator_api2` has it, through a handle",
            |s, g| {
                foreign(s, g, g.context().handle());
            },
        ),
        takes(
            &["HostAllocator::allocate"],
            "as `allocator_api2` has it, in a scope",
            |s, g| {
                foreign(s, g, g.context().with_scope(SCOPE));
            },
        ),
        nothing(&["ContextHandle::free"], "freeing takes nothing", free::<S>),
        takes(&["move_block"], "", moved::<S>),
        nothing(
            &[
                "AllocatorTraits::never_unwinds",
                "AllocatorTraits::new",
                "AllocatorTraits::with_exact_alignment",
                "AllocatorTraits::with_requester",
                "HostAllocator::notify",
                "HostAllocator::refusal",
                "HostAllocator::traits",
                "HostAllocator::validate_pointer",
                "HostSource::refusal",
                "FromAllocator::get",
                "FromAllocator::new",
                "FromGlobalAlloc::new",
                "FromGlobalAlloc::get",
                "Scoped::new",
                "Scoped::host",
                "dangling",
                "with_front",
                "with_requester",
            ],
            "questions, a message, and pointers to nothing",
            questions::<S>,
        ),
    ]
}

fn try_allocate<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    let block = stage.attempt(|| ground.picture(), || context.try_allocate(SMALL, SCOPE));
    // SAFETY: taken above.
    unsafe { context.deallocate(block, SMALL, SCOPE) };
}

fn free<S: Stage>(stage: &S, ground: &Ground) {
    let mut block = Some(
        ground
            .context()
            .try_allocate(SMALL, SCOPE)
            .expect("refused nothing"),
    );
    stage.attempt_plainly(|| {
        let block = block.take().expect("taken above");
        // SAFETY: taken above.
        unsafe { ground.context().free(block, SMALL, SCOPE) };
    });
}

fn allocate<S: Stage>(stage: &S, ground: &Ground, host: &impl HostAllocator) {
    let block = stage.attempt(|| ground.picture(), || host.allocate(LARGE, SCOPE));
    // SAFETY: taken above.
    unsafe { host.deallocate(block, LARGE, SCOPE) };
}

fn zeroed<S: Stage>(stage: &S, ground: &Ground, host: &impl HostAllocator) {
    let block = stage.attempt(|| ground.picture(), || host.allocate_zeroed(LARGE, SCOPE));
    // SAFETY: a live block of this size.
    assert!((0..LARGE.size()).all(|at| unsafe { block.as_ptr().wrapping_add(at).read() } == 0));
    // SAFETY: taken above.
    unsafe { host.deallocate(block, LARGE, SCOPE) };
}

fn resize<S: Stage>(
    stage: &S,
    ground: &Ground,
    host: &impl HostAllocator,
    old: Layout,
    new: Layout,
) {
    let block = host.allocate(old, SCOPE).expect("refused nothing");
    fill(block, old.size());
    let resized = stage.attempt(
        || (filled(block, old.size()), ground.picture()),
        || {
            // SAFETY: live, and untouched by a refusal.
            unsafe { host.resize(block, old, new, SCOPE) }
        },
    );
    assert!(filled(resized, old.size().min(new.size())));
    // SAFETY: the live block.
    unsafe { host.deallocate(resized, new, SCOPE) };
}

fn to_nothing<S: Stage>(stage: &S, ground: &Ground) {
    let host = ground.context();
    let block = host.allocate(LARGE, SCOPE).expect("refused nothing");
    stage.attempt_plainly(|| {
        // SAFETY: live; the attempt is made once.
        let block = unsafe { host.resize(block, LARGE, NONE, SCOPE) }.expect("no memory is needed");
        // SAFETY: the live block of size 0.
        unsafe { host.deallocate(block, NONE, SCOPE) };
    });
}

/// All four requests of `allocator_api2`'s trait in one go; what is refused half-way is given back by hand.
fn foreign<S: Stage>(stage: &S, ground: &Ground, source: impl Allocator) {
    let block = stage.attempt(
        || ground.picture(),
        || {
            let mut block = (source.allocate_zeroed(SMALL)?.cast::<u8>(), SMALL);
            let second = source.allocate(SMALL);
            let resized = second.and_then(|second| {
                // SAFETY: taken above.
                unsafe { source.deallocate(second.cast(), SMALL) };
                // SAFETY: live.
                block = (unsafe { source.grow(block.0, SMALL, LARGE) }?.cast(), LARGE);
                // SAFETY: live.
                block = (
                    unsafe { source.shrink(block.0, LARGE, SMALL) }?.cast(),
                    SMALL,
                );
                Ok(block.0)
            });
            if resized.is_err() {
                // SAFETY: the refusal left the block as it was.
                unsafe { source.deallocate(block.0, block.1) };
            }
            resized
        },
    );
    // SAFETY: the live block.
    unsafe { source.deallocate(block, SMALL) };
}

fn moved<S: Stage>(stage: &S, ground: &Ground) {
    let host: &Context = ground.context();
    let block = host.allocate(LARGE, SCOPE).expect("refused nothing");
    fill(block, LARGE.size());
    let moved = stage.attempt(
        || (filled(block, LARGE.size()), ground.picture()),
        // SAFETY: live, and untouched by a refusal.
        || unsafe { move_block(host, block, LARGE, SMALL, SCOPE) },
    );
    assert!(filled(moved, SMALL.size()));
    // SAFETY: the live block.
    unsafe { host.deallocate(moved, SMALL, SCOPE) };
}

fn questions<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    stage.attempt_plainly(|| {
        let source = Scoped::new(context, SCOPE);
        assert_eq!(source.host().id(), context.id());
        assert_eq!(
            HostSource::refusal(&source, SMALL),
            HostAllocator::refusal(context, SMALL, SCOPE)
        );
        assert_eq!(
            (context.traits(), context.traits().exact_alignment),
            (context.handle().traits(), false)
        );
        let all = AllocatorTraits {
            may_unwind: false,
            exact_alignment: true,
            tracks_requester: true,
        };
        assert_eq!(
            AllocatorTraits::new()
                .never_unwinds()
                .with_exact_alignment()
                .with_requester(),
            all
        );
        assert_eq!(
            context.validate_pointer(dangling(SMALL), 16),
            PointerStatus::Unknown
        );
        with_front(16, || {
            with_requester(|origin| assert_eq!(origin.map(|origin| origin.front), Some(16)))
        });
        for event in [NoticeEvent::Allocated, NoticeEvent::Freed] {
            context.notify(Notice {
                event,
                kind: NoticeKind::Executable,
                bytes: 1,
                scope: SCOPE,
            });
        }
        assert_eq!(
            // SAFETY: the allocator is not used; the system's is one without state.
            size_of_val(unsafe { FromGlobalAlloc::new(System) }.get()),
            0
        );
        assert_eq!(
            over(Scoped::new(context, SCOPE)).get().host().id(),
            context.id()
        );
        assert_eq!(context.try_allocate(NONE, SCOPE), Ok(dangling(NONE)));
    });
}

fn fill(block: NonNull<u8>, bytes: usize) {
    for at in 0..bytes {
        // SAFETY: callers pass live blocks of `bytes` bytes.
        unsafe { block.as_ptr().wrapping_add(at).write(at as u8) };
    }
}

fn filled(block: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: callers pass live blocks of `bytes` bytes that were filled.
    (0..bytes).all(|at| unsafe { block.as_ptr().wrapping_add(at).read() } == at as u8)
}
