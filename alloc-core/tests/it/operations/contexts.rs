//! Making and ending contexts.

use alloc_core::{Budget, Context, ContextHandle, ContextOptions, Scope, Scoped, TryVec};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing, over, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Context::root"], "with a label", root::<S>),
        takes(
            &[
                "Context::root_owned",
                "Context::into_raw",
                "Context::from_raw",
                "ContextHandle::into_raw",
                "ContextHandle::from_raw",
            ],
            "with a label; the allocator comes back when it is refused",
            root_owned::<S>,
        ),
        takes(&["Context::root_static"], "with a budget", root_static::<S>),
        takes(&["ContextHandle::child"], "", child::<S>),
        takes(
            &["ContextHandle::child"],
            "from one whose account no thread has touched yet",
            grandchild::<S>,
        ),
        takes(
            &["ContextHandle::child_with"],
            "with a label and a scope",
            child_with_label::<S>,
        ),
        takes(
            &["ContextHandle::child_with"],
            "with a budget",
            child_with_budget::<S>,
        ),
        takes(
            &["ContextHandle::child_with"],
            "with an allocator of its own",
            child_with_allocator::<S>,
        ),
        nothing(
            &[
                "ContextOptions::new",
                "ContextOptions::label",
                "ContextOptions::scope",
                "ContextOptions::budget",
                "ContextOptions::allocator",
                "ContextOptions::allocator_static",
                "Budget::exact",
                "Budget::limit",
                "Budget::soft",
            ],
            "values on the stack",
            options::<S>,
        ),
        nothing(
            &[
                "ContextHandle::id",
                "ContextHandle::name",
                "ContextHandle::label",
                "ContextHandle::scope",
                "ContextHandle::parent",
                "ContextHandle::parent_id",
                "ContextHandle::is_closed",
                "ContextHandle::usage",
                "ContextHandle::try_usage",
                "ContextHandle::subtree_usage",
                "BudgetUsage::is_exceeded",
                "ContextHandle::budget",
                "ContextHandle::budget_high_water",
                "ContextHandle::set_limit",
                "ContextHandle::restart_high_water",
                "ContextHandle::with_scope",
            ],
            "reads the node, or writes numbers into it",
            questions::<S>,
        ),
        nothing(
            &["Context::handle"],
            "a handle is a reference that is counted in the node",
            handles::<S>,
        ),
        nothing(
            &[
                "Context::close",
                "Outstanding::is_empty",
                "Outstanding::needs_backing",
            ],
            "ending a node frees; freeing takes nothing (law 3)",
            close::<S>,
        ),
        nothing(
            &["Context::close_root", "Context::try_close"],
            "as close; a refusal gives back the same context",
            close_root::<S>,
        ),
        nothing(
            &["Context::abandon"],
            "only exchanges function pointers",
            abandon::<S>,
        ),
    ]
}

fn root<S: Stage>(stage: &S, ground: &Ground) {
    let root = stage.attempt(
        || ground.picture(),
        // SAFETY: closed below.
        || unsafe {
            Context::root(
                stage.host(),
                ContextOptions::new("second root").label("of two"),
            )
        },
    );
    assert_eq!(root.usage().total().live_blocks, 2);
    root.close_root().expect("nothing was taken from it");
}

fn root_owned<S: Stage>(stage: &S, ground: &Ground) {
    // SAFETY: the root is closed below, while the host lives: nothing of the longer lifetime outlasts the body.
    let host: &'static S::Host = unsafe { &*std::ptr::from_ref(stage.host()) };
    let root = stage.attempt(
        || ground.picture(),
        || {
            let options = ContextOptions::new("owner").label("of its allocator");
            Context::root_owned(host, options).map_err(|rejected| {
                assert!(std::ptr::eq(rejected.value, host));
                rejected.error
            })
        },
    );
    let handle = root.handle().into_raw();
    // SAFETY: taken back once.
    drop(unsafe { ContextHandle::from_raw(handle) });
    let raw = root.into_raw();
    // SAFETY: as above.
    let root = unsafe { Context::from_raw(raw) };
    assert_eq!(root.try_close().map_err(|refused| refused.error), Ok(()));
}

fn root_static<S: Stage>(stage: &S, ground: &Ground) {
    // SAFETY: the root is closed below, while the host lives: nothing of the longer lifetime outlasts the body.
    let host: &'static S::Host = unsafe { &*std::ptr::from_ref(stage.host()) };
    let options = ContextOptions::new("static root")
        .label("labelled")
        .budget(Budget::limit(1 << 20));
    let root = stage.attempt(|| ground.picture(), || Context::root_static(host, options));
    root.close_root().expect("nothing was taken from it");
}

fn child<S: Stage>(stage: &S, ground: &Ground) {
    let child = stage.attempt(|| ground.picture(), || ground.context().child("new"));
    assert_eq!(
        (child.parent_id(), child.scope()),
        (Some(ground.context().id()), ground.context().scope())
    );
}

fn grandchild<S: Stage>(stage: &S, ground: &Ground) {
    let parent = ground.context().child("parent").expect("refused nothing");
    let child = stage.attempt(|| ground.picture(), || parent.child("new"));
    assert_eq!(parent.usage().total().live_blocks, 1);
    drop(child);
    assert_eq!(parent.usage().total().live_blocks, 0);
}

fn child_with_label<S: Stage>(stage: &S, ground: &Ground) {
    let options = ContextOptions::new("new")
        .label("a label")
        .scope(Scope::Command);
    let child = stage.attempt(|| ground.picture(), || ground.context().child_with(options));
    assert_eq!(
        (child.label(), child.scope()),
        (Some("a label"), Scope::Command)
    );
}

fn child_with_budget<S: Stage>(stage: &S, ground: &Ground) {
    let options = ContextOptions::new("new")
        .label("budgeted")
        .budget(Budget::exact(5000));
    let child = stage.attempt(|| ground.picture(), || ground.context().child_with(options));
    assert_eq!(
        child.budget().map(|budget| (budget.limit, budget.charged)),
        Some((5000, 0))
    );
}

fn child_with_allocator<S: Stage>(stage: &S, ground: &Ground) {
    let own = over(Scoped::new(stage.host(), Scope::Command));
    // SAFETY: the child is dropped before `own`.
    let options = unsafe {
        ContextOptions::new("new")
            .label("of its own")
            .allocator(&own)
    };
    let child = stage.attempt(|| ground.picture(), || ground.context().child_with(options));
    drop(child);
}

fn options<S: Stage>(stage: &S, _: &Ground) {
    let own = over(Scoped::new(stage.host(), Scope::Command));
    stage.attempt_plainly(|| {
        let options = ContextOptions::new("name")
            .label("label")
            .scope(Scope::Cache)
            .budget(Budget::limit(1));
        assert_ne!(Budget::soft(1), Budget::limit(1));
        // SAFETY: no context is made of them.
        let options = unsafe { options.budget(Budget::exact(2)).allocator(&own) };
        // SAFETY: as above.
        let host: &'static S::Host = unsafe { &*std::ptr::from_ref(stage.host()) };
        assert!(Sink::debug(options.allocator_static(host)) > 0);
    });
}

fn questions<S: Stage>(stage: &S, ground: &Ground) {
    let options = ContextOptions::new("asked")
        .label("label")
        .budget(Budget::exact(1 << 16));
    let asked = ground
        .context()
        .child_with(options)
        .expect("refused nothing");
    stage.attempt_plainly(|| {
        assert_eq!(asked.parent_id(), Some(ground.context().id()));
        assert!(asked.budget().is_some_and(|budget| !budget.is_exceeded()));
        assert_ne!(asked.id(), ground.context().id());
        assert_eq!(
            (asked.name(), asked.label(), asked.is_closed()),
            ("asked", Some("label"), false)
        );
        assert_eq!(asked.scope(), ground.context().scope());
        assert_eq!(asked.usage(), asked.subtree_usage());
        // Another thread may be reading at this moment.
        assert!(asked.try_usage().is_none_or(|usage| usage == asked.usage()));
        let high = asked.budget().map(|budget| budget.high);
        assert_eq!(asked.budget_high_water(), high);
        assert_eq!(asked.budget(), asked.restart_high_water());
        assert_eq!(asked.parent().map(|parent| parent.id()), asked.parent_id());
        asked.set_limit(1 << 15).expect("nothing is charged");
        assert_eq!(asked.budget().map(|budget| budget.limit), Some(1 << 15));
        assert_eq!(asked.with_scope(Scope::Cache).host().id(), asked.id());
        assert!(Sink::debug(&asked) > 0);
    });
}

fn handles<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    stage.attempt_plainly(|| {
        let first = context.handle();
        let (second, third) = (first.clone(), ContextHandle::from(context));
        for handle in [&first, &second, &third] {
            assert_eq!(
                (handle.id(), handle.name(), handle.scope()),
                (context.id(), context.name(), context.scope())
            );
            assert_eq!(
                (handle.is_closed(), handle.usage()),
                (false, context.usage())
            );
        }
        assert!(Sink::debug(first) > 0);
    });
}

fn close<S: Stage>(stage: &S, ground: &Ground) {
    let mut middle = Some(ground.context().child("middle").expect("refused nothing"));
    let below = middle
        .as_ref()
        .map(|middle| middle.child("below").expect("refused nothing"));
    let handle = middle.as_ref().map(Context::handle).expect("made above");
    let held = TryVec::try_from_slice_in(&[1_u64, 2, 3], handle).expect("refused nothing");
    stage.attempt_plainly(|| {
        let left = middle.take().map(Context::close).expect("made above");
        assert_eq!(
            (
                left.is_empty() || !left.needs_backing(),
                left.blocks,
                left.contexts,
                left.handles
            ),
            (false, 1, 1, 1)
        );
    });
    drop((held, below));
}

fn close_root<S: Stage>(stage: &S, _: &Ground) {
    // SAFETY: closed below.
    let root = unsafe { Context::root(stage.host(), ContextOptions::new("closed")) }
        .expect("refused nothing");
    let mut parts = Some((root.handle(), root));
    stage.attempt_plainly(|| {
        let (handle, root) = parts.take().expect("made above");
        let refused = root.close_root().expect_err("a handle is out");
        assert_eq!(refused.error.outstanding().handles, 1);
        assert!(Sink::debug(&refused) > 0);
        let refused = refused.value.try_close().expect_err("it still is");
        drop(handle);
        refused.value.close_root().expect("nothing is left");
    });
}

fn abandon<S: Stage>(stage: &S, ground: &Ground) {
    let mut child = Some(
        ground
            .context()
            .child("abandoned")
            .expect("refused nothing"),
    );
    let handle = child.as_ref().map(Context::handle).expect("made above");
    stage.attempt_plainly(|| {
        let left = child.take().map(Context::abandon).expect("made above");
        assert_eq!((left.blocks, left.handles), (0, 1));
        assert!(
            TryVec::try_from_slice_in(&[1_u8], handle.clone()).is_err(),
            "it gives nothing any more"
        );
    });
}
