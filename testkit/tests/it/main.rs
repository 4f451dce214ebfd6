//! The tests of testkit itself, and the house rules of the whole repository.

mod child;
mod common;
mod doc_names;
mod hooked;
mod hosted;
mod licences;
mod measures;
mod packages;
mod poison;
mod programs;
mod public_api;
mod quiet_points;
mod rows;
mod windows;
mod witness;
mod workspace;
