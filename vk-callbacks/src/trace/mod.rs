//! Host traces: the calls of callbacks, line by line.
//!
//! ```text
//! # steward host trace 2
//! # driver: llvmpipe (LLVM 15.0.6, 256 bits)
//! p,objects                      a phase begins
//! o,2,1,VkBuffer                 owner 2, below owner 1
//! e,1,2,vkCreateBuffer           thread 1 enters a command about owner 2
//! a,1,2,1,160,8,1                thread 1, callbacks of owner 2: block 1, 160 bytes, alignment 8, scope OBJECT
//! l,1,0                          thread 1 leaves its command with VK_SUCCESS
//! z,8                            the end: 8 lines stand before this one
//! ```
//!
//! A name is the last field of its line and may hold commas. `TRACE-FORMAT.md` has all lines and their rules.

#![forbid(unsafe_code)]

mod event;
mod fields;
mod reader;
mod writer;

pub use event::{Caller, Pointer, Request, Sighting, TraceError, TraceEvent, TraceFault};
pub use reader::TraceReader;
pub use writer::TraceWriter;
