//! Compiled shaders that are shared by a device's contexts and cleaned by their owners.
//!
//! ```text
//!   ShaderCache, CacheOwner --> Core (one block) --- Tables     hash -> shader's block, read without a lock
//!        |                        |                  Segments   entries, owners, flights: numbered, never move
//!        v                        |                  Records    who holds what, a line a thread
//!   Hold, WorkHold ---------------+                  Writer     lists and sums, under the one lock
//! ```
//! The lock is never held over a compile, a destructor, or a call to a host allocator.

mod block;
mod bucket;
mod compile;
mod entry;
mod error;
mod find;
mod flight;
mod hold;
mod holds;
mod key;
mod owner;
mod records;
mod release;
mod segments;
mod shader_cache;
mod state;
mod store;
mod table;

pub use compile::Compiled;
pub use error::CacheError;
pub use hold::{Hold, WorkHold};
pub use key::{CacheDevice, ContentHash, ShaderKey};
pub use release::Removed;
pub use shader_cache::{CacheLimits, CacheOwner, CacheStats, OwnerStats, ShaderCache};
pub use store::{StoreError, StoreIdentity, StoreSink, StoreWriter, StoredShader, StoredShaders, WriteError};
