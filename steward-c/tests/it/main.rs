//! The C interface, compiled by the C compiler that is there: without one each test prints that it was skipped.

mod headers;
mod installed;
mod programs;
mod symbols;
