//! What `steward run` orders of the layer, and what the program's exit status hides: what a guard reported, and a plan that nothing met.

#![forbid(unsafe_code)]

use std::process::Command;

use serde::Deserialize;
use vk_accounts::guard_run::Guarding;
use vk_accounts::report::{FailRun, GuardRun, Refusal};

/// The part of a layer's report that is about this.
#[derive(Deserialize)]
struct Guarded {
    guard: Option<GuardRun>,
    fail: Option<FailRun>,
}

/// The layer's settings, in the words of the command line.
pub(super) fn set_environment(command: &mut Command, guarding: &Guarding) {
    let settings = [
        ("GUARD", guarding.guard.map(|guard| guard.to_string())),
        (
            "BACK_END",
            guarding.back_end.map(|back_end| back_end.name().to_owned()),
        ),
        ("FAIL", guarding.fail.map(|fail| fail.to_string())),
    ];
    for (name, value) in settings {
        if let Some(value) = value {
            command.env(format!("VK_STEWARD_MEMORY_{name}"), value);
        }
    }
}

/// The first request that was refused in some process.
pub(super) fn first_refusal(reports: &[String]) -> Option<Refusal> {
    let read = reports
        .iter()
        .filter_map(|report| serde_json::from_str::<Guarded>(report).ok());
    let mut refused = read.filter_map(|report| report.fail?.first.into_iter().next());
    refused.next()
}

/// What went wrong in some process, one sentence each. A plan that one process met is met.
pub(super) fn faults(guarding: &Guarding, reports: &[String]) -> Vec<String> {
    let read: Vec<Guarded> = reports
        .iter()
        .filter_map(|report| serde_json::from_str(report).ok())
        .collect();
    let mut faults = Vec::new();
    let mistakes: u64 = read
        .iter()
        .filter_map(|report| report.guard.as_ref())
        .map(|guard| guard.reports)
        .sum();
    if guarding.guard.is_some() && mistakes > 0 {
        let s = if mistakes == 1 { "" } else { "s" };
        faults.push(format!("the guard found {mistakes} mistake{s}"));
    }
    if let Some(plan) = guarding.fail {
        let mut runs = read.iter().filter_map(|report| report.fail.as_ref());
        if !runs.any(FailRun::met_its_plan) {
            faults.push(format!("nothing that was asked for met the plan {plan}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vk_accounts::guard_run::GuardChoice;

    use super::*;

    #[test]
    fn a_mistake_and_a_plan_that_nothing_met_are_faults() {
        let report = |reports: u64, refused: u64| {
            let guard = GuardRun {
                reports,
                ..GuardRun::default()
            };
            let fail = FailRun {
                plan: "nth=3".into(),
                refused,
                ..FailRun::default()
            };
            json!({ "layer_format": 1, "guard": guard, "fail": fail }).to_string()
        };
        let guarding = Guarding {
            guard: Some(GuardChoice::Fence),
            fail: "nth=3".parse().ok(),
            ..Guarding::default()
        };
        assert_eq!(faults(&guarding, &[report(0, 1)]), [""; 0]);
        assert_eq!(faults(&guarding, &[report(0, 0), report(0, 1)]), [""; 0]);
        let both = faults(&guarding, &[report(2, 0), report(1, 0)]);
        let [mistakes, plan] = both.as_slice() else {
            panic!("{both:?}");
        };
        assert!(mistakes.contains("3 mistakes") && plan.contains("nth=3"));
        assert_eq!(faults(&guarding, &[]).len(), 1, "no report met it");
        assert_eq!(faults(&Guarding::default(), &[report(2, 0)]), [""; 0]);
    }
}
