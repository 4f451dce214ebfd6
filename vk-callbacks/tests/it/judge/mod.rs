//! The judge: a minimal log for each kind of finding, its wording, and what it leaves out.

mod blame;
mod logs;
mod memory;
mod rows;
mod wording;

use crate::common::{self, COMPLETE, SYSTEM};
use std::alloc::System;

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use logs::{OWNERS, log};
use vk_callbacks::check::{FindingKind, Opened, Sight};
use vk_callbacks::{CheckOptions, Judge, Rule, TraceReader};

/// A trace of these lines, which stand apart by spaces, with the owners before.
fn trace(lines: &str) -> String {
    let lines: String = lines.split_whitespace().flat_map(|line| [line, "\n"]).collect();
    common::trace(&format!("{OWNERS}{lines}"))
}

/// What was found, as kinds and as sentences.
fn judged(text: &str, options: CheckOptions) -> Vec<(FindingKind, String)> {
    let (found, lost) = common::judged(text, options, |found| (found.kind, found.to_string()));
    assert_eq!(lost, 0);
    found
}

#[test]
fn each_kind_has_a_log_that_leads_to_it_and_to_nothing_else() {
    for kind in FindingKind::ALL {
        let found = judged(&trace(log(*kind)), COMPLETE);
        let kinds: Vec<_> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [*kind], "{found:#?}");
        println!("{:<24} {}", kind.name(), found[0].1);
    }
}

#[test]
fn the_table_of_rules_is_whole() {
    let of = |number: u8| FindingKind::ALL.iter().filter(|kind| kind.rules().contains(&number)).count();
    println!("rule  level      kinds  duty         to be seen at\n");
    for (index, rule) in Rule::ALL.iter().enumerate() {
        assert_eq!((usize::from(rule.number), Rule::of(rule.number)), (index + 1, Some(rule)));
        assert!(!rule.text.is_empty() && !rule.reference.is_empty());
        let (kinds, level) = (of(rule.number), rule.level.name());
        println!(
            "{:<5} {level:<10} {kinds:<6} {:<12} {}\n      {} [{}]",
            rule.to_string(),
            rule.duty,
            rule.sight,
            rule.text,
            rule.reference
        );
        let seen = !matches!(rule.sight, Sight::Never(_));
        assert_eq!(kinds > 0, seen, "{rule}");
    }
    assert_eq!((Rule::ALL.len(), Rule::of(0), Rule::of(45)), (44, None, None));
    for kind in FindingKind::ALL {
        assert_eq!(kind.rule().number, kind.rules()[0], "{}", kind.name());
    }
}
