//! The checker: rules, findings, and their two uses, live and over a log.
//!
//! ```text
//!  live:  driver --> entry (C functions) --+                  +-- call_rules        calls of callbacks
//!                    Checker::run ---------+--> Engine ------+-- lifetime_rules    commands, objects, leftovers
//!  a log: TraceReader --> Judge -----------+                  +-- allocator_rules   the right allocator (pure)
//!                                                   |
//!                     tables: blocks, handles, rows of findings  -->  finding, message
//! ```

mod allocator_rules;
mod call_rules;
mod checker;
mod engine;
mod entry;
mod finding;
mod lifetime_rules;
mod live_blocks;
mod log_checker;
mod message;
mod owner;
mod owner_list;
mod records;
mod rules;
mod table;
mod user_data;

pub use checker::Checker;
pub use entry::{Checked, HandedOut};
pub use finding::{CheckFinding, FindingKind};
pub use log_checker::Judge;
pub use owner::{CheckOptions, CheckedOwner, Opened, OwnerUsage};
pub use rules::{Duty, Rule, RuleLevel, Sight};
pub use user_data::stray_callbacks;
