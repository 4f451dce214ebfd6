use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::record::new_static;

/// The order of the records numbers them in reports. Any thread adds and reads records, without a lock. They are never
/// freed.
pub(crate) struct RecordList<T: 'static> {
    first: AtomicPtr<Node<T>>,
    last: AtomicPtr<Node<T>>,
}

struct Node<T: 'static> {
    value: T,
    next: AtomicPtr<Node<T>>,
}

impl<T: Send + Sync> RecordList<T> {
    pub(crate) const fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()), last: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn push(&self, value: T) -> Option<&'static T> {
        let next = AtomicPtr::new(ptr::null_mut());
        let node = new_static(Node { value, next })?;
        let new = ptr::from_ref(node).cast_mut();
        let mut end = node_at(&self.last).map_or(&self.first, |last| &last.next);
        while end.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            end = node_at(end).map_or(end, |node| &node.next);
        }
        self.last.store(new, Ordering::Release);
        Some(&node.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        std::iter::successors(node_at(&self.first), |node| node_at(&node.next)).map(|node| &node.value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Ordering::Acquire).is_null()
    }

    /// In the child of a fork. The records stay, since objects of the parent may use them.
    pub(crate) fn forget(&self) {
        self.first.store(ptr::null_mut(), Ordering::Release);
        self.last.store(ptr::null_mut(), Ordering::Release);
    }
}

fn node_at<T>(link: &AtomicPtr<Node<T>>) -> Option<&'static Node<T>> {
    // SAFETY: null, or a node that `push` published, which is never freed.
    unsafe { link.load(Ordering::Acquire).as_ref() }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::RecordList;

    #[test]
    fn ly60_records_of_a_thread_stand_in_the_order_in_which_it_added_them() {
        const EACH: u32 = if cfg!(miri) { 10 } else { 1000 };
        static LIST: RecordList<(u32, u32)> = RecordList::new();
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for number in 0..EACH {
                        let added = LIST.push((thread, number)).expect("memory");
                        assert_eq!(*added, (thread, number));
                    }
                });
            }
        });
        for thread in 0..4 {
            let of_it = LIST.iter().filter(|(of, _)| *of == thread);
            assert!(of_it.map(|(_, number)| *number).eq(0..EACH));
        }
        assert_eq!(LIST.iter().count(), 4 * EACH as usize);
    }
}
