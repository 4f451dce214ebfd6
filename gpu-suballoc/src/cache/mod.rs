//! Compiled shaders, shared by a device's contexts and freed by their owners.
//!
//! ```text
//!   ShaderCache, CacheOwner --> CacheCore (one block) -- TableList       hash -> shader's block, read without a lock
//!        |                        |                      ZeroedSegments  entries, owners, in-flight compiles: numbered, never move
//!        v                        |                      RefRecords      references, one record per thread
//!   ShaderRef, WorkRef -----------+                      WriterState     lists and sums, under the one lock
//! ```
//! No compile, destructor or host allocator is called while the lock is held.

mod block;
mod bucket;
mod compile;
mod entry;
mod error;
mod evict;
mod find;
mod in_flight_compile;
mod key;
mod owner;
mod persist;
mod records;
mod ref_records;
mod release;
mod segments;
mod shader_cache;
mod shader_ref;
mod state;
mod table;
mod trim;
mod wait_cycles;

pub use compile::CompiledShader;
pub use error::CacheError;
pub use key::{CacheDevice, ContentHash, ShaderKey};
pub use persist::{
    StoreError, StoreIdentity, StoreSink, StoreWriter, StoredShader, StoredShaders, WriteError,
};
pub use release::RemovalCounts;
pub use shader_cache::{CacheLimits, CacheOwner, CacheStats, OwnerStats, ShaderCache};
pub use shader_ref::{ShaderRef, WorkRef};
