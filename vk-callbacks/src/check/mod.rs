//! The checker: rules, what was found, and who looks (live, or over a log).

mod bracket;
mod found;
mod kind;
mod options;
mod rules;

pub(crate) use bracket::Bracket;
pub use found::Found;
pub use kind::FindingKind;
pub use options::{CheckOptions, CheckedOwner, Opened};
pub use rules::{Duty, Rule, RuleLevel, Sight};
