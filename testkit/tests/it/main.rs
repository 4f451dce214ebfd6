//! The tests of testkit itself, and the house rules of the whole repository.

mod child;
mod common;
mod doc_names;
mod hooked;
mod measures;
mod packages;
mod poison;
mod public_api;
mod rows;
mod windows;
mod witness;
mod workspace;
