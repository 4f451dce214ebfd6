#![forbid(unsafe_code)]

use serde_json::{Value, json};
use vk_callbacks::Rule;
use vk_callbacks::check::Sight;

pub(super) fn text() -> String {
    let mut text = format!(
        "The rules of VkAllocationCallbacks: the numbers are the program's, the references the specification's. {} of {} are judged; what \
             breaks the others cannot be seen, and each says why.\n\n",
        Rule::ALL.iter().filter(|rule| !matches!(rule.sight, Sight::Never(_))).count(),
        Rule::ALL.len()
    );
    for rule in Rule::ALL {
        let Rule { duty, sight, level, text: rule_text, reference, .. } = rule;
        // A level weighs a breach that can be seen.
        let (weight, seen) = match sight {
            Sight::Never(why) => (String::new(), format!("not seen: {why}")),
            sight => (format!("{level}, "), format!("seen by: {sight}")),
        };
        let head = rule.to_string();
        text += &format!("{head:<3} {rule_text}\n    {weight}duty of: {duty}; {seen}; {reference}\n");
    }
    text
}

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
