//! Commands, phases and handles, as an observer is told of them.

use std::collections::BTreeMap;

use vk_accounts::ObjectKind;
use vk_steward::drivers::Selected;

use super::Outcome;
use super::counting::{Told, counted};

pub(crate) fn brackets_balance_and_twenty_kinds_are_seen(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 2);
    assert_eq!(hooks.inside.get(), None);
    assert_eq!(hooks.brackets.get(), report.commands);
    let exercised: Vec<_> = report.exercised().collect();
    let seen: Vec<_> = hooks.kinds.borrow().keys().copied().collect();
    assert_eq!(
        seen, exercised,
        "kinds whose commands were bracketed, and kinds of which objects were made"
    );
    assert!(exercised.len() >= 20, "{exercised:?}");
    println!(
        "    {} kinds, {} brackets",
        exercised.len(),
        hooks.brackets.get()
    );
    Ok(())
}

pub(crate) fn phases_come_in_their_order(driver: &Selected) -> Outcome {
    let round = [
        "resources",
        "sub-allocation",
        "pipelines",
        "recording",
        "submit",
        "teardown",
    ];
    let (hooks, _) = counted(driver, 2);
    assert_eq!(
        *hooks.phases.borrow(),
        [
            &["instance", "device"][..],
            &round,
            &round,
            &["defragmentation", "shutdown"]
        ]
        .concat()
    );
    let (hooks, _) = counted(driver, 0);
    assert_eq!(*hooks.phases.borrow(), ["instance", "device", "shutdown"]);
    Ok(())
}

pub(crate) fn what_was_made_is_destroyed(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 2);
    let ended = hooks.ended.borrow();
    for kind in report
        .exercised()
        .filter(|kind| !matches!(kind, ObjectKind::PhysicalDevice | ObjectKind::Queue))
    {
        assert_eq!(ended.get(&kind), Some(&report.made(kind)), "{kind}");
    }
    Ok(())
}

/// Both pipelines of one command, both sets and both command buffers of a pool, one by one; each goes with what it came with.
pub(crate) fn v44_each_handle_is_told_as_it_comes_and_as_it_goes(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 2);
    let (came, went) = (hooks.came.take(), hooks.went.take());
    for kind in report
        .exercised()
        .filter(|kind| !matches!(kind, ObjectKind::PhysicalDevice | ObjectKind::Queue))
    {
        let told = came.iter().filter(|told| told.0 == kind).count();
        assert_eq!(told, report.made(kind) as usize, "{kind}");
    }
    let mut live: BTreeMap<(ObjectKind, u64), u64> = BTreeMap::new();
    for (kind, handle, parent, _) in &came {
        let above = kind
            .parent()
            .map(|above| came.iter().any(|told| (told.0, told.1) == (above, *parent)));
        assert!(
            above.unwrap_or(*parent == 0),
            "{kind} {handle:#x} of {parent:#x}"
        );
        *live.entry((*kind, *handle)).or_default() += 1;
    }
    // A driver may give a handle again once its object is gone, and the same one for equal objects.
    went.iter().for_each(|told| {
        *live
            .get_mut(&(told.0, told.1))
            .expect("came before it went") -= 1
    });
    assert!(live.values().all(|live| *live == 0), "{live:?}");
    let sorted = |mut all: Vec<Told>| {
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(came), sorted(went));
    Ok(())
}

/// The callbacks are asked for once an object: the guard keeps the answer, so create and destroy cannot differ.
pub(crate) fn v43_the_allocator_is_asked_for_once_an_object(driver: &Selected) -> Outcome {
    let (hooks, report) = counted(driver, 1);
    for (kind, asked) in hooks.asked.borrow().iter() {
        // Both compute pipelines come from one command, with one allocator (V44).
        let commands = report.made(*kind) - u32::from(*kind == ObjectKind::Pipeline);
        assert_eq!(*asked, commands, "{kind}");
    }
    Ok(())
}
