//! An allocator that shares no code with the crate: it knows every block that is out and refuses on demand.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope, Scoped};

#[derive(Default)]
struct Book {
    /// Address to layout and scope of each block that is out.
    live: BTreeMap<usize, (Layout, Scope)>,
    bytes: usize,
    /// Requests heard so far, refused ones included.
    requests: usize,
    /// Refuse the request with this number.
    refuse: Option<usize>,
    limit: Option<usize>,
}

#[derive(Default)]
pub(crate) struct Witness {
    book: Mutex<Book>,
}

impl Witness {
    pub(crate) fn new() -> Self {
        Self::default()
    }
    pub(crate) fn limited(bytes: usize) -> Self {
        Self { book: Mutex::new(Book { limit: Some(bytes), ..Book::default() }) }
    }
    pub(crate) fn source(&self) -> Scoped<&Self> {
        Scoped::new(self, Scope::Object)
    }
    pub(crate) fn blocks(&self) -> usize {
        self.book.lock().unwrap().live.len()
    }
    pub(crate) fn bytes(&self) -> usize {
        self.book.lock().unwrap().bytes
    }
    pub(crate) fn requests(&self) -> usize {
        self.book.lock().unwrap().requests
    }
    /// Refuses the `nth` request from now, counted from 0.
    pub(crate) fn refuse_in(&self, nth: usize) {
        let mut book = self.book.lock().unwrap();
        book.refuse = Some(book.requests + nth);
    }
    /// True when the refusal that was asked for has not come yet.
    pub(crate) fn disarm(&self) -> bool {
        let mut book = self.book.lock().unwrap();
        book.refuse.take().is_some_and(|nth| nth >= book.requests)
    }
    pub(crate) fn set_limit(&self, limit: Option<usize>) {
        self.book.lock().unwrap().limit = limit;
    }
    pub(crate) fn assert_empty(&self) {
        let book = self.book.lock().unwrap();
        assert!(book.live.is_empty(), "left behind: {:?}", book.live);
    }
}

// SAFETY: blocks are the system's; the book only refuses.
unsafe impl HostAllocator for Witness {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_ne!(layout.size(), 0, "size 0 was forwarded");
        let mut book = self.book.lock().unwrap();
        let number = book.requests;
        book.requests += 1;
        if book.refuse == Some(number) || book.limit.is_some_and(|limit| book.bytes + layout.size() > limit) {
            return Err(AllocError);
        }
        // SAFETY: the size is not 0.
        let block = NonNull::new(unsafe { System.alloc(layout) }).ok_or(AllocError)?;
        // SAFETY: the block has this size. Poison shows who takes fresh memory for zeros.
        unsafe { block.as_ptr().write_bytes(0xA5, layout.size()) };
        book.live.insert(block.as_ptr().addr(), (layout, scope));
        book.bytes += layout.size();
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        let mut book = self.book.lock().unwrap();
        let known = book.live.remove(&block.as_ptr().addr());
        assert_eq!(known, Some((layout, scope)), "freed with another layout or scope than it was taken with");
        book.bytes -= layout.size();
        drop(book);
        // SAFETY: just proved to be a live block of the system with this layout.
        unsafe { block.as_ptr().write_bytes(0x5A, layout.size()) };
        // SAFETY: just proved to be a live block of the system with this layout.
        unsafe { System.dealloc(block.as_ptr(), layout) };
    }
}
