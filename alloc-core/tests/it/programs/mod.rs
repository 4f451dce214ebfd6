//! Programs of operations on contexts, owned values and arenas, decoded from bytes, run on the real thing and on a
//! naive model beside it.

pub(crate) mod context_tree;
pub(crate) mod owned_values;
pub(crate) mod side;
