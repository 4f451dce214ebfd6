//! Owned values, and contexts that move.

use alloc_core::Owned;
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(
            &["ContextHandle::own"],
            "the first value of a context",
            |s, g| owned(s, g, 0),
        ),
        takes(&["ContextHandle::own"], "with one segment more", |s, g| {
            owned(s, g, 8)
        }),
        takes(
            &["ContextHandle::steal"],
            "into a context that owns nothing yet",
            stolen::<S>,
        ),
        takes(
            &["ContextHandle::adopt"],
            "more than fits a new table",
            adopted::<S>,
        ),
        nothing(
            &[
                "ContextHandle::get",
                "ContextHandle::get_mut",
                "ContextHandle::remove",
                "ContextHandle::destroy",
                "ContextHandle::owned_values",
                "Owned::context",
                "ContextHandle::steal",
                "ContextHandle::adopt",
                "Context::clear",
            ],
            "the table has room, and gives none back before the context's record goes",
            used::<S>,
        ),
        nothing(
            &[
                "Context::leave",
                "ContextHandle::claim",
                "Context::reparent",
            ],
            "links, flags and charges in records that are there",
            moved::<S>,
        ),
    ]
}

fn owned<S: Stage>(stage: &S, ground: &Ground, before: u64) {
    for n in 0..before {
        ground.context().own(n).expect("refused nothing");
    }
    let id = stage.attempt(
        || (ground.context().owned_values(), ground.picture()),
        || ground.context().own([7_u64; 4]),
    );
    assert_eq!(ground.context().remove(id), Ok([7; 4]));
    ground.context().clear();
}

fn stolen<S: Stage>(stage: &S, ground: &Ground) {
    let other = ground.context().child("other").expect("refused nothing");
    let id = ground.context().own([1_u64; 20]).expect("refused nothing");
    let id = stage.attempt(
        || {
            (
                ground.context().owned_values(),
                other.owned_values(),
                ground.picture(),
            )
        },
        || other.steal(ground.context(), id),
    );
    assert_eq!(id.context(), other.id());
}

fn adopted<S: Stage>(stage: &S, ground: &Ground) {
    let (from, to) = (ground.context().child("from"), ground.context().child("to"));
    let (from, to) = (from.expect("refused nothing"), to.expect("refused nothing"));
    for n in 0..20_u64 {
        from.own(n).expect("refused nothing");
    }
    let below = from.child("below").expect("refused nothing");
    stage.attempt(
        || {
            (
                from.owned_values(),
                to.owned_values(),
                below.parent_id(),
                ground.picture(),
            )
        },
        || to.adopt(&from),
    );
    assert_eq!(
        (from.owned_values(), to.owned_values(), below.parent_id()),
        (0, 20, Some(to.id()))
    );
}

fn used<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    let other = context.child("other").expect("refused nothing");
    let ids: [Owned<u64>; 4] = [0, 1, 2, 3].map(|n| context.own(n).expect("refused nothing"));
    other.own(9_u8).expect("refused nothing");
    stage.attempt_plainly(|| {
        let [first, second, third, fourth] = ids;
        *context.get_mut(first).expect("nobody holds it") += 10;
        assert!(
            Sink::debug(context.get(first).expect("it is there")) > 0 && Sink::debug(first) > 0
        );
        assert_eq!(context.remove(first), Ok(10));
        assert!(context.get(first).is_err());
        context.destroy(second).expect("nobody holds it");
        let third = other
            .steal(context, third)
            .expect("the same allocator and scope");
        assert_eq!(
            (third.context(), other.get(third).map(|value| *value)),
            (other.id(), Ok(2))
        );
        assert_eq!((context.owned_values(), other.owned_values()), (1, 2));
        context.adopt(&other).expect("the table has room");
        assert_eq!(context.get(fourth).map(|value| *value), Ok(3));
        assert_eq!((context.owned_values(), other.owned_values()), (3, 0));
        context.clear();
        assert_eq!(context.owned_values(), 0);
    });
}

fn moved<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    let other = context.child("other").expect("refused nothing");
    let mut moving = Some(context.child("moving").expect("refused nothing"));
    let below = moving
        .as_ref()
        .map(|moving| moving.child("below").expect("refused nothing"));
    let below = below.map(|below| below.leave().expect("it has a parent"));
    stage.attempt_plainly(|| {
        let mut child = moving.take().expect("made above");
        child.reparent(&other).expect("within one tree");
        assert_eq!(child.parent_id(), Some(other.id()));
        let handle = child.leave().expect("it has a parent");
        let mut child = handle.claim().expect("it was left");
        child.reparent(context).expect("within one tree");
        assert_eq!(child.parent_id(), Some(context.id()));
    });
    assert!(below.is_some_and(|below| below.is_closed()));
}
