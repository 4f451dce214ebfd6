//! Slots over the system's own pages, and over pages of paper, which tell when they are misused and can be had under miri.

#[cfg(not(miri))]
mod kernel;
mod paper;
