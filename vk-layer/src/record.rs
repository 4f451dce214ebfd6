use std::alloc::System;
use std::io::Read;
use std::ops::Deref;
use std::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostError, Scope, Scoped, TryBox, TryVec};

pub(crate) static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

pub(crate) type Own = Scoped<&'static FromGlobalAlloc<System>>;

pub(crate) const fn own() -> Own {
    Scoped::new(&SYSTEM, Scope::Object)
}

pub(crate) fn new_record<T>(value: T) -> Option<NonNull<T>> {
    let record = TryBox::try_new_in(value, own()).ok()?;
    Some(TryBox::into_raw_with_allocator(record).0)
}

/// The block is never freed.
pub(crate) fn new_static<T>(value: T) -> Option<&'static T> {
    let record = new_record(value)?;
    // SAFETY: just allocated, and never freed.
    Some(unsafe { record.as_ref() })
}

/// # Safety
/// `record` comes from [`new_record`], and no reference to it is used any more.
pub(crate) unsafe fn free_record<T>(record: NonNull<T>) -> T {
    // SAFETY: a block of `new_record` with a valid value, which no other code uses.
    TryBox::into_inner(unsafe { TryBox::from_raw_in(record, own()) })
}

/// A box in the layer's own memory, of one word.
pub(crate) struct OwnRecord<T>(NonNull<T>);

// SAFETY: it owns the value.
unsafe impl<T: Send> Send for OwnRecord<T> {}

impl<T> OwnRecord<T> {
    pub(crate) fn new(value: T) -> Option<Self> {
        new_record(value).map(Self)
    }

    /// # Safety
    /// `record` comes from [`new_record`], and no other code uses it any more.
    pub(crate) const unsafe fn from_raw(record: NonNull<T>) -> Self {
        Self(record)
    }
}

impl<T> Deref for OwnRecord<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: from `new_record`, and freed by the drop only.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for OwnRecord<T> {
    fn drop(&mut self) {
        // SAFETY: from `new_record`; no borrow outlives this value.
        drop(unsafe { free_record(self.0) });
    }
}

pub(crate) fn read_to_end(mut file: impl Read) -> Result<TryVec<u8, Own>, HostError> {
    let mut bytes = TryVec::new_in(own());
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = file.read(&mut buffer) {
        bytes.try_extend_from_slice(buffer.get(..length).unwrap_or_default())?;
    }
    Ok(bytes)
}
