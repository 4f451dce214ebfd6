//! Nothing: see `../tests/contract.rs`.
