//! Nothing here: see the targets.
