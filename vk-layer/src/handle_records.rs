use std::mem::forget;
use std::ptr::NonNull;

use alloc_core::TryBox;

use crate::handle_map::{HandleMap, key};
use crate::record::{OwnRecord, free_record, own};

/// Vulkan allows two objects with one handle: one may end, with either record, while a command is about the other. So a
/// record is used and removed while no other thread removes one.
pub(crate) struct HandleRecords<T>(HandleMap<T>);

// SAFETY: a record is reached by one thread at a time, under the map's lock, or by the one that has removed it.
unsafe impl<T: Send> Sync for HandleRecords<T> {}

impl<T> HandleRecords<T> {
    pub(crate) const fn new() -> Self {
        Self(HandleMap::new())
    }

    /// Without memory the value is forgotten and not dropped, since the driver may go on to use what it stands for.
    pub(crate) fn insert(&self, handle: u64, value: T) -> bool {
        let record = match TryBox::try_new_in(value, own()) {
            Ok(record) => TryBox::into_raw_with_allocator(record).0,
            Err(rejected) => {
                forget(rejected.value);
                return false;
            }
        };
        let is_kept = self.0.insert(key(handle), record);
        if !is_kept {
            // SAFETY: from `TryBox`, as of `new_record`, and no map has it.
            forget(unsafe { free_record(record) });
        }
        is_kept
    }

    pub(crate) fn has(&self, handle: u64) -> bool {
        self.0.get(key(handle)).is_some()
    }

    /// Under the lock `use_it` calls neither the program nor the driver.
    pub(crate) fn with<R>(&self, handle: u64, use_it: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.with(key(handle), |mut record| {
            // SAFETY: the map has it, so that it is not freed, nor reached by another thread, before the lock is
            // released.
            use_it(unsafe { record.as_mut() })
        })
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<T> {
        self.0.remove(key(handle)).map(Self::freed)
    }

    /// A record that is like what is wanted, if there is one with the handle; else any.
    pub(crate) fn remove_like(&self, handle: u64, is_like: impl Fn(&T) -> bool) -> Option<OwnRecord<T>> {
        let like = self.0.remove_like(key(handle), |record| {
            // SAFETY: the map has it, and the lock is held.
            is_like(unsafe { record.as_ref() })
        });
        let removed = like.or_else(|| self.0.remove(key(handle)))?;
        // SAFETY: from `new_record`; the map has it no longer.
        Some(unsafe { OwnRecord::from_raw(removed) })
    }

    fn freed(record: NonNull<T>) -> T {
        // SAFETY: from `new_record`; the map has it no longer, and nobody uses it outside of the lock.
        unsafe { free_record(record) }
    }
}

impl<T> Drop for HandleRecords<T> {
    fn drop(&mut self) {
        self.0.drain(|record| drop(Self::freed(record)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Barrier};
    use std::thread;
    use std::time::Duration;

    use super::HandleRecords;

    #[test]
    fn ly4_a_record_that_is_in_use_does_not_end_with_another_object_of_its_handle() {
        let records = HandleRecords::new();
        assert!(records.insert(7, 1_u64) && records.insert(7, 2));
        let (is_used, has_ended) = (Barrier::new(2), AtomicBool::new(false));
        let ended = thread::scope(|scope| {
            let ends = scope.spawn(|| {
                is_used.wait();
                let ended = records.remove(7);
                has_ended.store(true, Ordering::Relaxed);
                ended.expect("one of the two")
            });
            records.with(7, |_| {
                is_used.wait();
                thread::sleep(Duration::from_millis(200));
                assert!(!has_ended.load(Ordering::Relaxed), "it waits");
            });
            ends.join().expect("it ends")
        });
        assert_eq!(records.remove(7).map(|left| left + ended), Some(3));
        assert!(records.remove(7).is_none() && records.with(7, |_| ()).is_none());
        assert!(records.insert(8, 3), "what is left ends with the table");
    }

    #[test]
    fn ly53_what_a_driver_never_ends_ends_with_the_table_in_linear_time() {
        let record = Arc::new(());
        testkit::assert_linear("records that are left", 2000, |number| {
            let records = HandleRecords::new();
            for handle in 0..number as u64 {
                assert!(records.insert(handle, Arc::clone(&record)));
            }
        });
        assert_eq!(Arc::strong_count(&record), 1);
    }
}
