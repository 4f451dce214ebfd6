//! The C interface, compiled by the C compiler that is there: without one each test prints that it was skipped.

mod accounts;
mod clients;
mod headers;
mod installed;
mod mesa;
mod pipelines;
mod programs;
mod symbols;
#[cfg(unix)]
mod windows;
