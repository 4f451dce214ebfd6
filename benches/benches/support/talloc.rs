//! Samba's hierarchical allocator, if its library is there: the peer that has trees, too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

const NAME: &CStr = c"bench";

/// The library's functions.
pub struct Talloc {
    named: unsafe extern "C" fn(*const c_void, usize, *const c_char) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    steal: unsafe extern "C" fn(*const c_void, *const c_void, *const c_char) -> *mut c_void,
    _library: libloading::Library,
}

/// A live block of talloc's.
#[derive(Clone, Copy)]
pub struct Chunk(NonNull<c_void>);

// SAFETY: an address; the library keeps no state by thread, and the benches use a chunk on one thread at a time.
unsafe impl Send for Chunk {}
// SAFETY: an address; the benches use a chunk on one thread at a time.
unsafe impl Sync for Chunk {}

impl Talloc {
    /// The library, or a line on standard output that `bench` goes without.
    pub fn load(bench: &str) -> Option<Self> {
        let load = || {
            // SAFETY: the C library's loader runs talloc's start-up code, which registers an exit handler.
            let library = unsafe { libloading::Library::new("libtalloc.so.2") }?;
            // SAFETY: the type is that of talloc's header.
            let named = *unsafe { library.get(b"talloc_named_const") }?;
            // SAFETY: the type is that of talloc's header.
            let free = *unsafe { library.get(b"_talloc_free") }?;
            // SAFETY: the type is that of talloc's header.
            let steal = *unsafe { library.get(b"_talloc_steal_loc") }?;
            Ok::<Self, libloading::Error>(Self { named, free, steal, _library: library })
        };
        load().inspect_err(|why| println!("SKIPPED {bench}/talloc: {why}")).ok()
    }

    /// A block below `parent`.
    pub fn take(&self, parent: Option<Chunk>, size: usize) -> Chunk {
        let parent = parent.map_or(std::ptr::null(), |parent| parent.0.as_ptr().cast_const());
        // SAFETY: the parent is NULL or a live block of talloc's; the name lives for ever.
        let block = unsafe { (self.named)(parent, size, NAME.as_ptr()) };
        Chunk(NonNull::new(block).expect("memory"))
    }

    /// Frees a block and all below it.
    pub fn free(&self, chunk: Chunk) {
        // SAFETY: a live block, whose children go with it.
        let answer = unsafe { (self.free)(chunk.0.as_ptr(), NAME.as_ptr()) };
        assert_eq!(answer, 0, "nothing vetoes");
    }

    /// Moves a block below another one.
    pub fn steal(&self, to: Chunk, chunk: Chunk) {
        // SAFETY: live blocks of talloc's, `to` not below `chunk`.
        let answer = unsafe { (self.steal)(to.0.as_ptr(), chunk.0.as_ptr(), NAME.as_ptr()) };
        assert_eq!(answer, chunk.0.as_ptr());
    }
}
