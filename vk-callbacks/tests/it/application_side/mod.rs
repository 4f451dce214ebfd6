//! The application's side: what a driver gets from a bridge, row by row.

mod circumstances;
mod freeing;
mod guarded;
mod reallocation;
mod requests;
mod support;
mod wrong_calls;
