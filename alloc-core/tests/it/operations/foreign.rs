//! `Foreign`, and the plain form.

use alloc_core::{Foreign, ForeignKind, ForeignUsage, HostError, Misuse};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        nothing(
            &[
                "Foreign::declare",
                "Foreign::set_bytes",
                "Foreign::bytes",
                "Foreign::kind",
                "Foreign::context",
            ],
            "says what was taken elsewhere; the counts lie in the context's record",
            guarded::<S>,
        ),
        nothing(
            &[
                "ContextHandle::declare_foreign",
                "ContextHandle::subtract_foreign",
            ],
            "as the guard",
            plain::<S>,
        ),
        nothing(
            &[
                "ForeignKind::name",
                "ForeignKind::index",
                "ForeignUsage::is_empty",
                "ForeignUsage::plus",
                "Usage::foreign",
                "Usage::foreign_total",
            ],
            "values on the stack",
            values::<S>,
        ),
    ]
}

fn guarded<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    let live = |kind| context.usage().foreign(kind).live_bytes;
    stage.attempt_plainly(|| {
        for kind in ForeignKind::ALL {
            let mut declared = Foreign::declare(context, kind, 100).expect("a small number");
            declared.set_bytes(5000).expect("a small number");
            assert_eq!(
                (live(kind), declared.bytes(), declared.kind()),
                (5000, 5000, kind)
            );
            declared.set_bytes(10).expect("a small number");
            assert_eq!((live(kind), declared.context().id()), (10, context.id()));
            assert_eq!(declared.set_bytes(usize::MAX), Err(HostError::TooLarge));
            assert!(Sink::debug(&declared) > 0);
            drop(declared);
            assert_eq!(live(kind), 0);
        }
    });
}

fn plain<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    stage.attempt_plainly(|| {
        for kind in ForeignKind::ALL {
            context.declare_foreign(kind, 100).expect("a small number");
            assert_eq!(
                context.subtract_foreign(kind, 101),
                Err(HostError::Misuse(Misuse::NotDeclared))
            );
            context.subtract_foreign(kind, 100).expect("declared above");
        }
    });
}

fn values<S: Stage>(stage: &S, ground: &Ground) {
    stage.attempt_plainly(|| {
        let usage = ground.context().usage();
        for kind in ForeignKind::ALL {
            assert_eq!(
                usage.foreign(kind).plus(&ForeignUsage::default()),
                usage.foreign(kind)
            );
            assert_eq!(
                (kind.name().is_empty(), ForeignKind::ALL[kind.index()]),
                (false, kind)
            );
        }
        assert!(usage.foreign_total().is_empty());
    });
}
