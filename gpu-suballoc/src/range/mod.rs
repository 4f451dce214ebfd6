//! Ranges of a block: who has which bytes of it, in constant time.

mod conform;
mod core;
mod types;

pub(crate) use self::conform::{Conformed, Unfit, align_down, align_up, conform};
pub(crate) use self::core::{Lack, Memory, RangeCore};
pub(crate) use self::types::{
    Fit, Found, Given, MAX_GENERATION, NODES_PER_TAKE, Refusal, Search, Span, SpanState, Taken, Want,
};
