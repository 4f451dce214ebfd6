//! `steward rules`: what callbacks, commands and handles are judged by.

#![forbid(unsafe_code)]

use std::fmt;

use serde_json::{Value, json};
use vk_callbacks::Rule;
use vk_callbacks::check::Sight;

/// All rules, two lines each.
pub(super) struct Rules;

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "The rules of VkAllocationCallbacks: the numbers are the program's, the references the specification's. {} of {} are judged; what \
             breaks the others cannot be seen, and each says why.\n",
            Rule::ALL
                .iter()
                .filter(|rule| !matches!(rule.sight, Sight::Never(_)))
                .count(),
            Rule::ALL.len()
        )?;
        Rule::ALL.iter().try_for_each(|rule| {
            let Rule {
                duty,
                sight,
                level,
                text,
                reference,
                ..
            } = rule;
            // A level weighs a breach that can be seen.
            let weight = if matches!(sight, Sight::Never(_)) {
                String::new()
            } else {
                format!("{level}, ")
            };
            let seen = if let Sight::Never(why) = sight {
                format!("not seen: {why}")
            } else {
                format!("seen by: {sight}")
            };
            writeln!(
                f,
                "{:<3} {text}\n    {weight}duty of: {duty}; {seen}; {reference}",
                rule.to_string()
            )
        })
    }
}

/// The same for programs.
pub(super) fn as_data() -> Vec<Value> {
    let one = |rule: &Rule| {
        json!({
            "rule": rule.to_string(),
            "text": rule.text,
            "level": rule.level.name(),
            "duty": rule.duty.to_string(),
            "seen_by": rule.sight.to_string(),
            "reference": rule.reference,
        })
    };
    Rule::ALL.iter().map(one).collect()
}
