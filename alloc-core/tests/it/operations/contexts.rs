//! Contexts: created, ended, moved; what they own; what they answer.

use std::hash::BuildHasher;

use alloc_core::support::{Json, StateLock, StateMutex, watch_forks};
use alloc_core::{
    Budget, CloseError, Context, ContextHandle, ContextId, ContextOptions, FoldState, Foreign, ForeignKind,
    ForeignUsage, HostError, Misuse, Owned, Rejected, Scope, Scoped, Snapshot, TryVec, Usage, attach_thread,
    fold_thread, held_state_locks,
};
use testkit::{Sink, Stage};

use super::{Ground, over};

pub(super) fn contexts<S: Stage>(g: &Ground<'_, S>) {
    let context = g.context();
    drop(g.step(|| context.child("plain")));
    let untouched = g.below();
    drop(g.step(|| untouched.child("the first use of its parent's account")));
    let options = ContextOptions::new("new").label("a label").scope(Scope::Command);
    let child = g.step(|| context.child_with(options));
    assert_eq!((child.label(), child.scope()), (Some("a label"), Scope::Command));
    let budgeted = g.step(|| context.child_with(options.budget(Budget::exact(5000))));
    assert_eq!(budgeted.budget().map(|budget| (budget.limit, budget.charged)), Some((5000, 0)));
    let own = over(Scoped::new(g.stage.host(), Scope::Command));
    // SAFETY: the child is dropped before `own`.
    drop(g.step(|| context.child_with(unsafe { options.allocator(&own) })));

    let held = TryVec::try_from_slice_in(&[1_u64, 2, 3], child.handle()).expect("refused nothing");
    let below = child.child("below").expect("refused nothing");
    g.without_memory(|| {
        let left = child.close();
        let seen = (left.is_empty() || !left.needs_backing(), left.blocks, left.contexts, left.handles);
        assert_eq!(seen, (false, 1, 1, 1));
        let handle = budgeted.handle();
        assert_eq!(budgeted.abandon().handles, 1);
        assert!(TryVec::try_from_slice_in(&[1_u8], handle).is_err(), "it gives nothing any more");
    });
    drop((held, below));
    moves(g);
}

fn moves<S: Stage>(g: &Ground<'_, S>) {
    let (context, other, mut child) = (g.context(), g.below(), g.below());
    let below = child.child("below").expect("refused nothing");
    g.without_memory(|| {
        child.reparent(&other).expect("within one tree");
        assert_eq!(child.parent().map(|parent| parent.id()), Some(other.id()));
        child.reparent(context).expect("within one tree");
        assert_eq!(child.parent().map(|parent| parent.id()), Some(context.id()));
        drop(child);
    });
    assert!(below.is_closed());
}

pub(super) fn roots<S: Stage>(g: &Ground<'_, S>) {
    let options = ContextOptions::new("second root").label("of two");
    // SAFETY: closed below, while the host lives.
    let root = g.step(|| unsafe { Context::root(g.stage.host(), options) });
    assert_eq!(root.usage().total().live_blocks, 2);
    // SAFETY: nothing of the longer lifetime outlasts this function.
    let host: &'static S::Host = unsafe { &*std::ptr::from_ref(g.stage.host()) };
    let limited = g.step(|| Context::root_static(host, options.budget(Budget::exact(5000))));
    let mut backing = Some(host);
    let owner = g.step(|| {
        Context::root_owned(backing.take().expect("given back"), options).map_err(|rejected| {
            backing = Some(rejected.value);
            rejected.error
        })
    });
    g.without_memory(|| {
        // SAFETY: converted back once each.
        let owner = unsafe { Context::from_raw(owner.into_raw()) };
        // SAFETY: each is converted back once.
        drop(unsafe { ContextHandle::from_raw(owner.handle().into_raw()) });
        owner.close_root().expect("nothing is left");
        limited.try_close().expect("nothing is left");
        let handle = root.handle();
        let refused = root.close_root().expect_err("a handle is out");
        assert_eq!(refused.error.outstanding().handles, 1);
        assert!(Sink::debug(&refused) > 0);
        drop(handle);
        refused.value.close_root().expect("nothing is left");
        assert_ne!(Budget::soft(1), Budget::limit(1));
        assert!(Sink::debug(options.allocator_static(host)) > 0);
    });
}

pub(super) fn owned<S: Stage>(g: &Ground<'_, S>) {
    let (context, other) = (g.context(), g.below());
    let own = |n: u64| {
        let before = (context.owned_values(), context.usage().total());
        let refused = || {
            assert_eq!((context.owned_values(), context.usage().total().live_bytes), (before.0, before.1.live_bytes))
        };
        g.step(|| context.own(n).inspect_err(|_| refused()))
    };
    // The first value of a context, and one that needs a further segment.
    let ids: [Owned<u64>; 9] = std::array::from_fn(|n| own(n as u64));
    let stolen = g.step(|| other.steal(context, ids[8]));
    assert_eq!((stolen.context(), other.get(stolen).map(|value| *value)), (other.id(), Ok(8)));
    let (from, below) = (g.below(), other.child("moved along").expect("refused nothing"));
    for n in 0..20_u64 {
        other.own(n).expect("refused nothing");
    }
    g.step(|| from.adopt(&other));
    let counts = (other.owned_values(), from.owned_values(), below.parent().map(|parent| parent.id()));
    assert_eq!(counts, (0, 21, Some(from.id())));
    g.without_memory(|| {
        let [first, second, third, ..] = ids;
        *context.get_mut(first).expect("no hold is out") += 10;
        assert!(Sink::debug(context.get(first).expect("it is there")) > 0 && Sink::debug(first) > 0);
        assert_eq!(context.remove(first), Ok(10));
        assert!(context.get(first).is_err());
        context.destroy(second).expect("no hold is out");
        assert_eq!(context.get(third).map(|value| *value), Ok(2));
        from.clear();
        context.clear();
        assert_eq!((context.owned_values(), from.owned_values()), (0, 0));
    });
}

pub(super) fn snapshots<S: Stage>(g: &Ground<'_, S>) {
    let options = ContextOptions::new("a \"name\"").label("label").scope(Scope::Command);
    let child = g.context().child_with(options).expect("refused nothing");
    let limited = ContextOptions::new("limited").budget(Budget::exact(1000));
    let _limited = child.child_with(limited).expect("refused nothing");
    assert_eq!(g.step(|| Snapshot::capture(&child, g.handle())).nodes().len(), 2);
    let snapshot = g.step(|| g.context().snapshot());
    g.without_memory(|| {
        assert_eq!((snapshot.nodes().len(), snapshot.label(&snapshot.nodes()[1])), (3, Some("label")));
        assert_eq!(snapshot.subtree(0), snapshot.total());
        let mut sink = Sink::default();
        snapshot.write_json(&mut sink).expect("the sink takes all");
        std::fmt::write(&mut sink, format_args!("{snapshot}")).expect("the sink takes all");
        assert!(sink.bytes > 100 && Sink::debug(&snapshot) > 0);
        Json::new(&mut sink)
            .list(|json| {
                json.text("text")?;
                json.object(|json| {
                    json.plain("number", 1)?;
                    json.plain_or_null("none", None::<u8>)?;
                    json.string("string", "text")?;
                    json.string_or_null("some", Some("text"))?;
                    json.list_at("list", |_| Ok(()))?;
                    json.object_at("object", |_| Ok(()))
                })
            })
            .expect("the sink takes all");
    });
}

pub(super) fn questions<S: Stage>(g: &Ground<'_, S>) {
    let context = g.context();
    let options = ContextOptions::new("asked").label("label").budget(Budget::exact(1 << 16));
    let asked = context.child_with(options).expect("refused nothing");
    g.without_memory(|| {
        assert_eq!((asked.name(), asked.label(), asked.is_closed()), ("asked", Some("label"), false));
        assert_eq!((asked.scope(), asked.parent().map(|parent| parent.id())), (context.scope(), Some(context.id())));
        assert_eq!(asked.usage(), asked.subtree_usage());
        // Another thread may be reading at this moment.
        assert!(asked.try_usage().is_none_or(|usage| usage == asked.usage()));
        asked.set_limit(1 << 15).expect("nothing is charged");
        assert_eq!(asked.budget().map(|budget| budget.limit), Some(1 << 15));
        let handles = [asked.handle(), asked.handle().clone()];
        assert!(handles.iter().all(|handle| handle.id() == asked.id() && Sink::debug(handle) > 0));
        values(&asked);
        declared(&asked);
        attach_thread();
        fold_thread();
        watch_forks();
        let lock = StateLock::new();
        let held = lock.lock();
        assert_eq!(held_state_locks(), 1);
        drop(held);
        let mut state = StateMutex::new(1);
        *state.get_mut() += 1;
        let taken = state.lock();
        assert!(*taken == 2 && state.try_lock().is_none());
        drop(taken);
        assert_eq!(state.try_lock().map(|free| *free), Some(2));
        assert_eq!(held_state_locks(), 0);
    });
}

fn values(context: &Context) {
    assert_eq!(ContextId::from_raw(context.id().get()), Some(context.id()));
    let error = HostError::OutOfHostMemory { bytes: 1, scope: Scope::Command };
    assert!(error.is_out_of_host_memory());
    assert!(CloseError::Misuse(Misuse::NotARoot).outstanding().is_empty());
    assert_eq!(Rejected::<_, HostError>::new([7; 3], error).value, [7; 3]);
    let own = context.usage();
    for scope in Scope::ALL {
        assert_eq!(Scope::from_raw(scope.as_raw()), Some(scope));
        assert!(scope.index() < Scope::COUNT && !scope.name().is_empty());
        assert_eq!(own.scope(scope).plus(&Usage::default().scope(scope)), own.scope(scope));
    }
    let none = Usage::default();
    assert_eq!(own.plus(&none).without(&none).total(), own.total());
    assert_ne!(FoldState.hash_one((context.id(), "text")), FoldState.hash_one(()));
}

fn declared(context: &Context) {
    for kind in ForeignKind::ALL {
        let live = || context.usage().foreign(kind).live_bytes;
        let mut declared = Foreign::declare(context, kind, 100).expect("a small number");
        declared.set_bytes(5000).expect("a small number");
        assert_eq!(
            (live(), declared.bytes(), declared.kind(), declared.context().id()),
            (5000, 5000, kind, context.id())
        );
        assert_eq!(declared.set_bytes(usize::MAX), Err(HostError::TooLarge));
        drop(declared);
        assert_eq!((live(), ForeignKind::ALL[kind.index()], kind.name().is_empty()), (0, kind, false));
        let usage = context.usage();
        assert_eq!(usage.foreign(kind).plus(&ForeignUsage::default()), usage.foreign(kind));
        assert!(!usage.foreign_total().is_empty());
    }
}
