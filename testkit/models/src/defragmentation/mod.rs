//! A region that is moved while others read, map and free it: the states of its record as they are, beside the two
//! locks.

#[path = "../../../../gpu-suballoc/src/region_metadata/root_state.rs"]
mod root_state;

mod moved_region;
mod passes;
