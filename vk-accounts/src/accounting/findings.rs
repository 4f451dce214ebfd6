//! What the checker found, as rows of the report.

use alloc_core::{Context, HostError};
use vk_callbacks::Checker;

use crate::report::{FindingRow, Unjudged};

/// Ends the check and returns the findings, and how many were lost; `records` holds the list meanwhile.
pub(super) fn rows(
    checker: &Checker<'_>,
    records: &Context,
) -> Result<(Vec<FindingRow>, Option<Unjudged>), HostError> {
    checker.finish();
    let rows = checker
        .findings(records)?
        .iter()
        .map(FindingRow::from)
        .collect();
    Ok((rows, Unjudged::live(checker.lost())))
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::ptr;

    use alloc_core::{Budget, ContextOptions, FromGlobalAlloc};

    use super::super::{Accounts, Watching};
    use super::*;
    use crate::{CreatedObject, Hooks as _, ObjectKind};

    static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

    #[test]
    fn what_the_checker_has_no_memory_for_is_told() {
        let run = |limit| {
            let options = ContextOptions::new("checker").budget(Budget::exact(limit));
            // SAFETY: the system lives for ever.
            let memory = unsafe { Context::root(&SYSTEM, options) }.expect("memory");
            let memory = memory.handle();
            let watching = Watching {
                check: Some(&memory),
                ..Watching::default()
            };
            // SAFETY: no driver is given the callbacks, and the checker's memory outlives the accounts.
            let accounts = unsafe { Accounts::new(&SYSTEM, watching) }.expect("memory");
            for handle in 1..=20_000 {
                accounts.created(&CreatedObject {
                    kind: ObjectKind::Buffer,
                    handle,
                    parent: 0,
                    allocator: ptr::null(),
                });
            }
            accounts.finish().expect("memory")
        };
        let (whole, refused) = (run(1 << 30), run(256 << 10));
        assert_eq!(whole.unjudged, None);
        let lost = refused.unjudged.expect("20 000 handles do not fit");
        assert!(
            lost.events == 0 && (1000..20_000).contains(&lost.observations),
            "{lost:?}"
        );
        assert!(
            refused.findings.iter().all(|row| !row.rule.is_empty()),
            "{:?}",
            refused.findings
        );
    }
}
