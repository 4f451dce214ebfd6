//! Compiled shaders, shared by a device's contexts and freed by their owners.
//!
//! ```text
//!   ShaderCache -> Core: 16 shards, by the key's hash -> Shard, behind one lock: index    key -> entry
//!                                                                                entries  all that are not destroyed
//!                                                                                compiles those in flight, on the stacks of their threads
//!   CacheOwner --> Owner: the memory of its entries
//!   CacheRef -> CacheEntry, in its owner's memory; it counts its references itself
//! ```
//! No compile, destructor or host allocator is called while a lock is held. Two locks are held at once by
//! [`CacheOwner::release_unused`] alone, which acquires all of them in their order.

mod compile;
mod entry;
mod key;
mod owner;
mod persist;
mod shader_cache;
mod shard;

pub use self::entry::{CacheRef, ShaderRef, WorkRef};
pub use self::shader_cache::{CacheError, CacheLimits, CacheStats, RemovalCounts, ShaderCache};
pub use compile::CompiledShader;
pub use key::{CacheDevice, ContentHash, ShaderKey};
pub use owner::{CacheOwner, OwnerStats, RestoreCounts};
pub use persist::{StoreError, StoreIdentity, StoreSink, StoreWriter, StoredShader, StoredShaders};
