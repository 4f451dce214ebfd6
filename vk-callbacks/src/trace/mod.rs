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
//! | line | fields | meaning |
//! |-|-|-|
//! | `a` | thread, owner, block, size, align, scope | `pfnAllocation` answered; block 0: NULL |
//! | `b` | thread, owner, old | `pfnReallocation` was called |
//! | `r` | thread, owner, old, new, size, align, scope | `pfnReallocation` answered; new 0: NULL |
//! | `f` | thread, owner, block | `pfnFree` was called; block 0: NULL |
//! | `i`, `j` | thread, owner, size, type, scope | `pfnInternalAllocation`, `pfnInternalFree` |
//! | `e` | thread, owner, command | a command was entered |
//! | `l` | thread, result | the thread's innermost command returned |
//! | `o` | owner, parent, kind | an owner was declared |
//! | `c`, `d` | thread, owner, handle, kind | an object was made, was ended |
//! | `s` | thread, owner, block, what | something that other lines do not show |
//! | `p` | phase | a phase began |
//! | `x` | events | so many events were lost here |
//! | `z` | lines | the end; so many lines stand before it |
//!
//! A name is the last field of its line and may hold commas. `TRACE-FORMAT.md` has the rules in full.

#![forbid(unsafe_code)]

mod event;
mod fields;
mod reader;
mod writer;

pub use event::{Caller, Pointer, Request, Sighting, TraceError, TraceEvent, TraceFault};
pub use reader::TraceReader;
pub use writer::TraceWriter;
