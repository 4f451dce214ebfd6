//! What a guard refuses to be, and why.

use alloc_core::{FromGlobalAlloc, Scope};
use debug_guard::{
    BackEnd, BackEnds, FailingAllocator, Fault, Guard, GuardError, GuardOptions, Mode, Rule, Sampling, Stacks,
};

#[test]
fn options_that_do_not_go_together_are_refused_with_the_reason() {
    let any = GuardOptions::new(Mode::Fence);
    let rule = Rule::new(Mode::Cookie);
    let mut many = any;
    for size in 0..17 {
        many = many.rule(rule.size(size, size));
    }
    let refused = [
        (many, GuardError::TooManyRules { handed_over: 17 }),
        (
            any.rule(rule.scope(Scope::Object)).rule(rule.scope(Scope::Object).size(1, 2)),
            GuardError::RuleNeverMatches { rule: 1, covered_by: 0 },
        ),
        (any.rule(rule.size(2, 1)), GuardError::EmptySizeWindow { rule: 0 }),
        (any.rule(rule.name("")), GuardError::EmptyName { rule: 0 }),
        (any.stacks(Stacks::Off).exit_leaks(1), GuardError::ListWithoutStacks),
        (GuardOptions::new(Mode::Sampled).exit_leaks(1), GuardError::ListOfPlainBlocks),
        (GuardOptions::new(Mode::Off).exit_leaks(1), GuardError::ListOfPlainBlocks),
        (any.back_end(BackEnd::Cookies), GuardError::BackEndCannot { back_end: BackEnd::Cookies, mode: Mode::Fence }),
        (
            GuardOptions::new(Mode::Cookie).back_end(BackEnd::Mprotect),
            GuardError::BackEndUnused { back_end: BackEnd::Mprotect },
        ),
        (GuardOptions::new(Mode::Sampled).sampling(Sampling::one_in(0)), GuardError::SamplesNothing),
        (
            any.rule(Rule::new(Mode::Sampled).size(0, 9)).sampling(Sampling::one_in(9).slots(0)),
            GuardError::SamplesNothing,
        ),
        (any.pages(2), GuardError::NoPages),
        (any.max_guarded_bytes(0), GuardError::NoPages),
        (any.max_guarded_bytes(4095), GuardError::NoPages),
        (any.report_to(-1), GuardError::NoDescriptor),
    ];
    for (options, error) in refused {
        assert_eq!(options.check(), Err(error));
        let host = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
        let back = Guard::new(host, options).expect_err("refused");
        assert_eq!((back.error, back.value.requests()), (error, 0), "nothing was taken, the allocator came back");
        assert!(error.to_string().contains(": "), "what is wrong, then the remedy: {error}");
    }
    assert_eq!(any.check(), Ok(()));
    assert_eq!(
        any.rule(rule.size(0, 8)).rule(rule).rule(rule.name("never*")).check(),
        Err(GuardError::RuleNeverMatches { rule: 2, covered_by: 1 })
    );
}

/// What no kernel offers is refused where it is asked for by name, and the best that is offered is taken where nothing
/// is.
#[test]
fn a_back_end_that_is_not_offered_is_refused_by_name() {
    let offered = BackEnds::probe();
    for back_end in BackEnd::ALL.iter().copied().filter(|back_end| *back_end != BackEnd::Cookies) {
        match (
            offered.refusal(back_end),
            Guard::new(FromGlobalAlloc::SYSTEM, GuardOptions::new(Mode::Strict).back_end(back_end)),
        ) {
            (None, made) => assert_eq!(made.expect("offered").stats().back_end, back_end),
            (Some(refusal), made) => {
                let refused = made.expect_err("not offered");
                assert_eq!(refused.error, GuardError::NotOffered { back_end, refusal });
            }
        }
    }
    let best = Guard::new(FromGlobalAlloc::SYSTEM, GuardOptions::new(Mode::Fence)).expect("a guard");
    assert_eq!(best.stats().back_end, offered.best());
}
