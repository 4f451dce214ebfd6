//! Atomics, under the name by which the models of `testkit/models` replace them.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
