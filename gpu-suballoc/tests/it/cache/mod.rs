//! The shader cache: rows H58 to H75 of the contract.

mod bench;
mod entries;
mod flights;
mod limits;
mod owners;
mod store;
mod threads;
mod unwinding;
