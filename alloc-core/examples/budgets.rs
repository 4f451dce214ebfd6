//! Budgets: a compiler may take 64 KiB, one of its passes 32 KiB of those. What does not fit is an error that names
//! whose budget was short, and nothing has changed.
//!
//! ```text
//!  runtime
//!    +-- compiler   64 KiB, for all below it
//!          +-- parse     whatever is left
//!          +-- optimise  32 KiB
//! ```
//!
//! `cargo run -p alloc-core --example budgets`

use std::error::Error;

use alloc_core::{Budget, ByteCount, Context, ContextOptions, FromGlobalAlloc, HostError, TryVec};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("runtime"))?;
    // `exact` refuses the first byte too many. `limit` is cheaper for many threads, and may refuse a little earlier.
    let compiler = root.child_with(ContextOptions::new("compiler").budget(Budget::exact(64 << 10)))?;
    let parse = compiler.child("parse")?;
    let optimise = compiler.child_with(ContextOptions::new("optimise").budget(Budget::exact(32 << 10)))?;

    let mut tokens = TryVec::<u32, &Context>::new_in(&parse);
    tokens.try_resize(10_000, 0)?;
    say("parse holds its tokens", &compiler);

    let mut graph = TryVec::<u64, &Context>::new_in(&optimise);
    graph.try_resize(1_000, 0)?;
    for (what, wanted) in [("its own", 4_000), ("the compiler's", 2_500)] {
        // 4000 numbers are more than the pass may have; 2500 would fit there, and not beside the tokens.
        let refused = graph.try_reserve_exact(wanted);
        let Err(HostError::OverBudget { context, short_by, .. }) = refused else {
            return Err(format!("expected {what} budget to refuse: {refused:?}").into());
        };
        let name = if context == optimise.id() { "optimise" } else { "compiler" };
        println!(
            "{wanted} more numbers: the budget of \"{name}\" is short of {}; the {} numbers are as they were",
            ByteCount(short_by),
            graph.len()
        );
    }

    // Room elsewhere below the same budget is room here.
    drop(tokens);
    graph.try_reserve_exact(500)?;
    say("the tokens are freed, and the pass goes on", &compiler);

    println!("\n{}", root.snapshot()?);
    drop(graph);
    drop((parse, optimise, compiler));
    root.close_root()?; // an error, with the root, while anything is allocated
    println!("nothing is left");
    Ok(())
}

fn say(what: &str, compiler: &Context) {
    if let Some(budget) = compiler.budget() {
        println!(
            "{what}: {} of {} charged, {} at most so far",
            ByteCount(budget.charged),
            ByteCount(budget.limit),
            ByteCount(budget.high)
        );
    }
}
