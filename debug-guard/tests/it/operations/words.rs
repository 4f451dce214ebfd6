//! Options, rules and names: arithmetic.

use alloc_core::Scope;
use debug_guard::{
    BackEnd, BackEnds, ContextName, GuardChoice, GuardOptions, Mode, OnReport, OsRefusal, Placement, Rule, Sampling,
    StackSupport, Stacks,
};
use testkit::{MemoryUse, Sink, Stage};

use super::GuardOperation;

pub(super) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    vec![
        GuardOperation {
            names: &[
                "GuardChoice::mode",
                "GuardChoice::options",
                "GuardOptions::back_end",
                "GuardOptions::check",
                "GuardOptions::check_every",
                "GuardOptions::command",
                "GuardOptions::deep",
                "GuardOptions::exit_leaks",
                "GuardOptions::json",
                "GuardOptions::max_guarded_bytes",
                "GuardOptions::name",
                "GuardOptions::new",
                "GuardOptions::on_report",
                "GuardOptions::pages",
                "GuardOptions::placement",
                "GuardOptions::quarantine",
                "GuardOptions::report_to",
                "GuardOptions::rule",
                "GuardOptions::sampling",
                "GuardOptions::stacks",
                "Rule::name",
                "Rule::new",
                "Rule::placement",
                "Rule::scope",
                "Rule::size",
                "Rule::stacks",
                "Sampling::first",
                "Sampling::one_in",
                "Sampling::slots",
            ],
            how: "all of them",
            takes: |_| MemoryUse::Nothing("options are plain values"),
            body: |stage, mode| {
                stage.attempt_plainly(|| {
                    assert_eq!(GuardChoice::Strict.mode(), Mode::Strict);
                    assert_eq!(GuardChoice::Strict.options().check(), Ok(()));
                    let rule = Rule::new(mode)
                        .name("any*")
                        .placement(Placement::Left)
                        .scope(Scope::Cache)
                        .size(1, 2)
                        .stacks(Stacks::Full);
                    let options = GuardOptions::new(Mode::Fence)
                        .back_end(BackEnd::Mprotect)
                        .check_every(9)
                        .command(|| None)
                        .deep(true)
                        .exit_leaks(3)
                        .json(false)
                        .max_guarded_bytes(1 << 20)
                        .name("options")
                        .on_report(OnReport::Log)
                        .pages(64)
                        .placement(Placement::Alternate)
                        .quarantine(1, 2)
                        .report_to(2)
                        .rule(rule)
                        .sampling(Sampling::one_in(9).first(1).slots(2))
                        .stacks(Stacks::Fast);
                    assert_eq!(options.check(), Ok(()));
                    assert!(Sink::debug(options) > 100);
                });
            },
        },
        GuardOperation {
            names: &[
                "BackEnd::name",
                "BackEnds::best",
                "BackEnds::offers",
                "BackEnds::probe",
                "BackEnds::refusal",
                "ContextName::as_str",
                "ContextName::new",
                "OsRefusal::errno",
                "StackSupport::of_this_process",
            ],
            how: "all of them",
            takes: |_| MemoryUse::Nothing("it is asked of the system, or known"),
            body: |stage, _| {
                // The unwinder takes memory of the C library's the first time.
                let first = StackSupport::of_this_process();
                stage.attempt_plainly(|| {
                    let offered = BackEnds::probe();
                    assert!(offered.offers(offered.best()));
                    let name = ContextName::new("name").expect("four bytes");
                    for back_end in BackEnd::ALL {
                        let refused = offered.refusal(*back_end).map_or(0, OsRefusal::errno);
                        let words = (back_end.name(), refused, name.as_str());
                        assert!(Sink::debug(words) > 15);
                    }
                    assert_eq!(Sink::debug(StackSupport::of_this_process()), Sink::debug(first));
                });
            },
        },
    ]
}
