#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

use vk_report::guard_run::Guarding;
use vk_report::report::{FailRun, Refusal};

use super::environment::REPORTS;
use super::reports::Reports;

pub(in crate::program) fn settings(guarding: &Guarding, file: &Path) -> impl Iterator<Item = (&'static str, String)> {
    let settings = [
        ("guard", guarding.guard.map(|guard| guard.to_string())),
        ("back_end", guarding.back_end.map(|back_end| back_end.name().to_owned())),
        ("fail", guarding.fail.map(|fail| fail.to_string())),
        ("refusals", guarding.fail.map(|_| file.display().to_string())),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

pub(super) fn set_environment(command: &mut Command, guarding: &Guarding, folder: &Path) {
    for (name, value) in settings(guarding, &folder.join(REPORTS).join("%p-%t.refusals")) {
        let name = format!("VK_STEWARD_MEMORY_{}", name.to_uppercase());
        command.env(name, value);
    }
}

/// A process without a report counts, too.
pub(super) fn first_refusal(reports: &Reports) -> Option<Refusal> {
    let mut logs = reports.refusals.iter();
    logs.find_map(|log| log.first.clone())
}

/// A plan is met if one process met it, also one without a report. A process that left its state alone may have been
/// guarded.
pub(super) fn faults(guarding: &Guarding, reports: &Reports) -> Vec<String> {
    let mut faults = Vec::new();
    let guards = reports.of_layer().filter_map(|report| report.guard.as_ref());
    let guards: Vec<_> = guards.collect();
    let mistakes: u64 = guards.iter().map(|guard| guard.reports).sum();
    let guarded_none = guards.iter().all(|guard| guard.callback_blocks == 0);
    if guarding.guard.is_some() && guarded_none && (!guards.is_empty() || reports.states.is_empty()) {
        faults.push("the guard guarded no block, so nothing was tested".to_owned());
    }
    if guarding.guard.is_some() && mistakes > 0 {
        let s = if mistakes == 1 { "" } else { "s" };
        faults.push(format!("the guard found {mistakes} mistake{s}"));
    }
    if let Some(plan) = guarding.fail {
        let run = FailRun {
            plan: plan.to_string(),
            refused: reports.refusals.iter().map(|log| log.refused).sum(),
            ..FailRun::default()
        };
        if !run.met_its_plan() {
            faults.push(format!("nothing that was asked for met the plan {plan}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use debug_guard::Fault;
    use vk_report::guard_run::GuardChoice;
    use vk_report::guard_run::refused::RefusalLog;
    use vk_report::report::{GuardRun, Leaks, Report};

    use super::*;

    fn reports(mistakes: &[u64], refused: &[u64]) -> Reports {
        let report = |reports: &u64| {
            let guard = GuardRun { callback_blocks: 1, reports: *reports, ..GuardRun::default() };
            Report { guard: Some(guard), ..Report::of_stacks(7, 9, &Leaks::default()) }
        };
        let log = |refused: &u64| RefusalLog { refused: *refused, ..RefusalLog::default() };
        Reports { refusals: refused.iter().map(log).collect(), ..Reports::of(mistakes.iter().map(report).collect()) }
    }

    #[test]
    fn a_mistake_and_a_plan_that_nothing_met_are_faults() {
        let guarding = Guarding { guard: Some(GuardChoice::Fence), fail: "nth=3".parse().ok(), ..Guarding::default() };
        assert_eq!(faults(&guarding, &reports(&[0], &[1])), [""; 0]);
        assert_eq!(faults(&guarding, &reports(&[0, 0], &[0, 1])), [""; 0]);
        // A process that was refused and ended by `_exit`.
        let refused = Guarding { guard: None, ..guarding };
        assert_eq!(faults(&refused, &reports(&[], &[1])), [""; 0]);
        let unseen = faults(&guarding, &reports(&[], &[1]));
        assert!(unseen.len() == 1 && unseen[0].contains("guarded no block"), "{unseen:?}");
        // What ended by `_exit` left its state: nobody knows that nothing was guarded.
        let mut state = reports(&[], &[1]);
        state.states.push("ended".to_owned());
        assert_eq!(faults(&guarding, &state), [""; 0]);
        let both = faults(&guarding, &reports(&[2, 1], &[0]));
        let [mistakes, plan] = both.as_slice() else {
            panic!("{both:?}");
        };
        assert!(mistakes.contains("3 mistakes") && plan.contains("nth=3"));
        let nothing = faults(&guarding, &reports(&[], &[]));
        assert_eq!(nothing.len(), 2, "no process met it, and none was guarded");
        let never = Guarding { fail: Some(Fault::Never), ..Guarding::default() };
        for guarding in [Guarding::default(), never] {
            assert_eq!(faults(&guarding, &reports(&[2], &[])), [""; 0]);
        }
    }
}
