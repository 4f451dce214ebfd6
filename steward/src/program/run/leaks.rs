//! Names functions in the layer's list of live objects and blocks.

#![forbid(unsafe_code)]

use serde_json::Value;
use vk_accounts::report::Leaks;

use crate::symbols::Symbols;

/// Names the functions in the report of one process. Returns the list as text; empty without stacks.
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
    leaks.merge();
    let text = symbols.name_leaks(&mut leaks).to_string();
    if let Ok(named) = serde_json::to_value(leaks) {
        *member = named;
    }
    text
}
