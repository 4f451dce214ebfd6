//! Values, threads, and what else asks nobody for anything.

use std::hash::BuildHasher;

use alloc_core::support::{StateLock, StateMutex, watch_forks};
use alloc_core::{
    CloseError, ContextId, FoldState, HostError, Misuse, Rejected, Scope, Usage, attach_thread,
    fold_thread, held_state_locks,
};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        nothing(
            &[
                "CloseError::outstanding",
                "ContextId::from_raw",
                "ContextId::get",
                "HostError::is_out_of_host_memory",
                "Rejected::into_value",
                "Rejected::new",
                "Scope::as_raw",
                "Scope::from_raw",
                "Scope::index",
                "Scope::name",
                "ScopeUsage::plus",
                "Usage::plus",
                "Usage::scope",
                "Usage::total",
                "Usage::without",
            ],
            "values on the stack",
            values::<S>,
        ),
        nothing(
            &[
                "attach_thread",
                "fold_thread",
                "held_state_locks",
                "StateLock::new",
                "StateLock::lock",
                "StateMutex::new",
                "StateMutex::lock",
                "StateMutex::get_mut",
                "watch_forks",
            ],
            "a thread's counters lie in its thread-local storage",
            threads::<S>,
        ),
    ]
}

fn values<S: Stage>(stage: &S, ground: &Ground) {
    let context = ground.context();
    let own = context.usage();
    stage.attempt_plainly(|| {
        assert_eq!(ContextId::from_raw(context.id().get()), Some(context.id()));
        let error = HostError::OutOfHostMemory {
            bytes: 1,
            scope: Scope::Command,
        };
        assert!(
            error.is_out_of_host_memory() && Sink::debug(error) + Sink::debug(context.id()) > 0
        );
        let closing = CloseError::Misuse(Misuse::NotARoot);
        assert!(closing.outstanding().is_empty());
        let rejected = Rejected::<_, HostError>::new([7; 3], error);
        assert_eq!(rejected.into_value(), [7; 3]);
        let mut sink = Sink::default();
        std::fmt::write(&mut sink, format_args!("{error} {}", Scope::Cache))
            .expect("the sink takes all");
        for scope in Scope::ALL {
            assert_eq!(Scope::from_raw(scope.as_raw()), Some(scope));
            assert!(scope.index() < Scope::COUNT && !scope.name().is_empty());
            assert_eq!(
                own.scope(scope).plus(&Usage::default().scope(scope)),
                own.scope(scope)
            );
        }
        assert_eq!(
            own.plus(&Usage::default())
                .without(&Usage::default())
                .total()
                .live_bytes,
            own.total().live_bytes
        );
        let _ = FoldState.hash_one((context.id(), "text"));
    });
}

fn threads<S: Stage>(stage: &S, _: &Ground) {
    stage.attempt_plainly(|| {
        attach_thread();
        fold_thread();
        watch_forks();
        let lock = StateLock::new();
        let held = lock.lock();
        assert_eq!(held_state_locks(), 1);
        drop(held);
        let mut state = StateMutex::new(1);
        *state.get_mut() += 1;
        assert_eq!(*state.lock(), 2);
        assert_eq!(held_state_locks(), 0);
    });
}
