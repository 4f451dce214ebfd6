//! The rule table, row by row, and its totality.

use super::*;
use proptest::prelude::*;

const BLOCK: OriginalBlock = OriginalBlock {
    size: 100,
    align: 8,
    scope: Scope::Object,
};

fn object() -> RawScope {
    Scope::Object.as_raw() as RawScope
}

#[test]
fn v13_null_is_an_allocation_and_v14_zero_is_a_free() {
    assert_eq!(
        decide(Original::Null, 0, 8, object(), Mode::Own),
        Action::Nothing
    );
    assert_eq!(
        decide(Original::Null, 1, 8, object(), Mode::Own),
        Action::Allocate
    );
    assert_eq!(
        decide(Original::Ours(BLOCK), 0, 8, object(), Mode::Own),
        Action::Free
    );
    // Freeing needs neither a right alignment nor a right scope.
    assert_eq!(
        decide(Original::Ours(BLOCK), 0, 0, -1, Mode::Own),
        Action::Free
    );
}

#[test]
fn v11_a_foreign_pointer_is_never_touched() {
    assert_eq!(
        decide(Original::NotOurs, 0, 8, object(), Mode::Own),
        Action::RefuseNotOurs
    );
    assert_eq!(
        decide(Original::NotOurs, 9, 8, object(), Mode::Own),
        Action::RefuseNotOurs
    );
}

#[test]
fn v15_and_scope_changes_are_noted_and_not_followed() {
    let Action::Resize {
        old, new, ignored, ..
    } = decide(Original::Ours(BLOCK), 200, 64, 0, Mode::Own)
    else {
        unreachable!()
    };
    assert_eq!(
        ignored,
        IgnoredArguments {
            alignment: true,
            scope: true
        }
    );
    assert_eq!(old.layout.align(), new.layout.align());
    let Action::Resize { ignored, .. } = decide(Original::Ours(BLOCK), 200, 8, object(), Mode::Own)
    else {
        unreachable!()
    };
    assert_eq!(ignored, IgnoredArguments::default());
}

#[test]
fn v16_a_size_beyond_the_limit_is_refused() {
    assert_eq!(
        decide(
            Original::Ours(BLOCK),
            usize::try_from(1_u64 << 47).unwrap_or(usize::MAX - 15),
            8,
            object(),
            Mode::Own
        ),
        Action::Refuse(HeaderError::TooLarge)
    );
    assert_eq!(
        decide(Original::Ours(BLOCK), usize::MAX, 8, object(), Mode::Own),
        Action::Refuse(HeaderError::TooLarge)
    );
}

/// So that a block of any of these sizes and alignments has a layout on this machine.
const LARGEST: usize = 1 << if usize::BITS == 64 { 40 } else { 29 };
const LARGEST_LOG: u32 = if usize::BITS == 64 { 31 } else { 29 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_resize_keeps_the_alignment_and_fits_the_new_size(
        size in 0..LARGEST, log in 0_u32..=LARGEST_LOG, new_size in 1..LARGEST, align: usize, scope: i32, exact: bool
    ) {
        let mode = if exact { Mode::Exact } else { Mode::Own };
        let block = OriginalBlock { size, align: 1 << log, scope: Scope::Cache };
        match decide(Original::Ours(block), new_size, align, scope, mode) {
            Action::Resize { old, new, size: answered, .. } => {
                prop_assert_eq!(answered, new_size);
                prop_assert_eq!(old, HeaderPlan::new(size, 1 << log, mode).unwrap());
                prop_assert_eq!(new, HeaderPlan::new(new_size, 1 << log, mode).unwrap());
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
