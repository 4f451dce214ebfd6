#![no_std]

mod trace;

pub use trace::{Caller, Capabilities, Pointer, Request, TraceError, TraceEvent, TraceFault, TraceFormat, TraceReader, TraceWriter};
