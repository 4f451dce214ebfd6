//! Runs a model, whole or with a mutant that it must catch.

use crate::sync;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is made wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mutant {
    /// Nothing.
    None,
    /// Every Release store is a Relaxed one.
    RelaxedStores,
    /// No lock excludes anybody.
    NoLocks,
    /// Every read-modify-write is a Relaxed one.
    RelaxedExchanges,
    /// A compare-exchange is a load and a store.
    TornExchanges,
    /// What is sequentially consistent acquires and releases, and no more.
    NoFences,
    /// Who uses something is not counted meanwhile.
    Uncounted,
    /// A context's number is the value of its device's handle.
    ByHandle,
    /// Place and resource of a region are read one after the other.
    ReadsApart,
    /// Two locks are taken in one order here, and in the other one there.
    LocksCrosswise,
    /// A region that is given back during its move is freed at once.
    FreesAtOnce,
    /// A mapping during a move is not noted.
    UnnotedUse,
}

/// Where the fences stand that make sequentially consistent what is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    AfterStores,
    BeforeLoads,
}

/// The registry of threads is a static: one model at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static RUN: AtomicU64 = AtomicU64::new(0);
static MUTANT: AtomicU8 = AtomicU8::new(Mutant::None as u8);

static BEFORE_LOADS: AtomicBool = AtomicBool::new(false);

pub(crate) fn fences() -> Fences {
    if BEFORE_LOADS.load(Ordering::Relaxed) { Fences::BeforeLoads } else { Fences::AfterStores }
}

/// Which run of which model this is.
pub(crate) fn run() -> u64 {
    RUN.load(Ordering::Relaxed)
}

pub(crate) fn mutant() -> Mutant {
    match MUTANT.load(Ordering::Relaxed) {
        1 => Mutant::RelaxedStores,
        2 => Mutant::NoLocks,
        3 => Mutant::RelaxedExchanges,
        4 => Mutant::TornExchanges,
        5 => Mutant::NoFences,
        6 => Mutant::Uncounted,
        7 => Mutant::ByHandle,
        8 => Mutant::ReadsApart,
        9 => Mutant::LocksCrosswise,
        10 => Mutant::FreesAtOnce,
        11 => Mutant::UnnotedUse,
        _ => Mutant::None,
    }
}

/// The model holds in every order; with `mutant` there is an order in which it does not.
pub(crate) fn holds_and_catches(mutant: Mutant, model: fn()) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    BEFORE_LOADS.store(true, Ordering::Relaxed);
    let before = explore(Mutant::None, model);
    BEFORE_LOADS.store(false, Ordering::Relaxed);
    before.expect("the model holds in every order, with fences before loads");
    let orders = explore(Mutant::None, model).expect("the model holds in every order");
    assert!(orders > 10, "only {orders} orders: the threads hardly met");
    let caught = explore(mutant, model).is_err();
    MUTANT.store(Mutant::None as u8, Ordering::Relaxed);
    assert!(caught, "{mutant:?} went unnoticed: the model proves nothing");
    println!("{orders} orders; {mutant:?} caught");
}

/// How many orders were run.
fn explore(mutant: Mutant, model: fn()) -> Result<u64, ()> {
    MUTANT.store(mutant as u8, Ordering::Relaxed);
    let before = run();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let explored = catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            RUN.fetch_add(1, Ordering::Relaxed);
            sync::prepare();
            model();
        });
    }));
    explored.map(|()| run() - before).map_err(drop)
}
