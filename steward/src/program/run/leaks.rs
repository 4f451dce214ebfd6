//! What the layer's report says is alive, with the names of functions, which the layer does not look for.

#![forbid(unsafe_code)]

use serde_json::Value;
use vk_accounts::report::Leaks;

use crate::symbols::Symbols;

/// Names the functions in the report of one process. Returns what is alive as text; empty where no stacks were kept.
pub(super) fn name(report: &mut Value, symbols: &mut Symbols) -> String {
    let Some(member) = report.get_mut("leaks").filter(|member| !member.is_null()) else {
        return String::new();
    };
    let mut leaks = match serde_json::from_value::<Leaks>(member.clone()) {
        Ok(leaks) => leaks,
        Err(error) => {
            return format!(
                "\nwhat is alive cannot be read ({error}): the layer is another version's\n"
            );
        }
    };
    let text = symbols.name_leaks(&mut leaks).to_string();
    if let Ok(named) = serde_json::to_value(leaks) {
        *member = named;
    }
    text
}
