//! The checker: rules, findings, and their two uses, live and over a log.
//!
//! ```text
//!  live:  driver --> entry (C functions) --+                  +-- call_rules        calls of callbacks
//!                    Checker::run ---------+--> Engine ------+-- lifetime_rules    commands, objects, leftovers
//!  a log: TraceReader --> Judge -----------+                  +-- allocator_rules   the right allocator (pure)
//!                                                   |
//!                     tables: blocks, handles, rows of findings  -->  finding, message
//! ```
//! The file of each rule (see [`Rule`]; some rules have parts in several):
//!
//! - `call_rules`, with `pass` for where a call goes: V7, V8, V11, V14 to V16, V18 to V23, V30, V35, V41
//! - `lifetime_rules`: V1 to V6, V8, V9, V20 to V23, V25, V28, V34, V41 to V44
//! - `allocator_rules`: V5, V26, V28 to V32, V34, V36 to V40

mod allocator_rules;
mod block;
mod call_rules;
mod checker;
mod engine;
mod entry;
mod finding;
mod handed_out;
mod handle_record;
mod kind;
mod lifetime_rules;
mod live_blocks;
mod log_checker;
mod message;
mod options;
mod owner;
mod owner_list;
mod owner_usage;
mod pass;
mod past_callbacks;
mod row;
mod rules;
mod table;
mod user_data;
mod watched_entry;

pub use checker::Checker;
pub use entry::Checked;
pub use finding::CheckFinding;
pub use handed_out::HandedOut;
pub use kind::FindingKind;
pub use log_checker::Judge;
pub use options::{CheckOptions, CheckedOwner, Opened};
pub use owner_usage::OwnerUsage;
pub use rules::{Duty, Rule, RuleLevel, Sight};
pub use user_data::stray_callbacks;
