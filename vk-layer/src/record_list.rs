//! A list of records that are never freed.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::record::new_static;

/// Records, the newest first. Any thread adds records and reads all of them, without a lock.
pub(crate) struct RecordList<T: 'static>(AtomicPtr<Node<T>>);

struct Node<T: 'static> {
    value: T,
    next: AtomicPtr<Node<T>>,
}

impl<T: Send + Sync> RecordList<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Adds a record. `None` when there is no memory.
    pub(crate) fn push(&self, value: T) -> Option<&'static T> {
        let next = AtomicPtr::new(self.0.load(Ordering::Acquire));
        let node = new_static(Node { value, next })?;
        let new = ptr::from_ref(node).cast_mut();
        let mut first = node.next.load(Ordering::Relaxed);
        while let Err(other) =
            self.0
                .compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire)
        {
            node.next.store(other, Ordering::Relaxed);
            first = other;
        }
        Some(&node.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        let node_at = |node: &AtomicPtr<Node<T>>| {
            // SAFETY: null, or a node that `push` published, which is never freed.
            unsafe { node.load(Ordering::Acquire).as_ref::<'static>() }
        };
        std::iter::successors(node_at(&self.0), move |node| node_at(&node.next))
            .map(|node| &node.value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire).is_null()
    }

    /// In the child of a fork. The records stay, since objects of the parent may use them.
    pub(crate) fn forget(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}
