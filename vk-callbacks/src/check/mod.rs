//! The checker: rules, what was found, and who looks (live, or over a log).
//!
//! ```text
//!  live:  driver --> entry (C functions) --+                         +-- stream   calls of callbacks
//!                    Checker::run ---------+--> Engine --+-- lives    commands, objects, what is left
//!  a log: TraceReader --> Judge -----------+             +-- chain    the right allocator (pure)
//!                                                        |
//!                     tables: blocks, handles, rows of findings  -->  Found, in words
//! ```

mod block;
mod bracket;
mod chain;
mod checker;
mod engine;
mod entry;
mod found;
mod handed;
mod judge;
mod kind;
mod lives;
mod options;
mod owner;
mod owner_list;
mod row;
mod rules;
mod slots;
mod stream;
mod table;
mod thing;
mod words;

pub(crate) use bracket::Bracket;
pub use checker::{Checker, CheckerInUse};
pub use entry::Checked;
pub use found::Found;
pub use handed::HandedOut;
pub use judge::Judge;
pub use kind::FindingKind;
pub use options::{CheckOptions, CheckedOwner, Opened};
pub(crate) use owner::Making;
pub use rules::{Duty, Rule, RuleLevel, Sight};
pub use slots::stray_callbacks;
