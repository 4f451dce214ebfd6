//! Contexts that come and go: made, cleared, ended.

use alloc_core::{Budget, ContextOptions, HostError, Outstanding, Scope};

use super::MAX_CONTEXTS;
use super::model::{OwnedModel, OwnedNode};
use testkit::programs::Bytes;

impl OwnedModel {
    pub(super) fn child(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let kind = bytes.next()?;
        if self.nodes.len() >= MAX_CONTEXTS {
            return Some(false);
        }
        let mut options = ContextOptions::new("child");
        if kind % 8 == 7 {
            options = options.scope(Scope::Cache);
        }
        let limit = match kind / 8 % 8 {
            6 => Some(u64::from(bytes.next()?) << 6),
            7 => Some(u64::from(bytes.next()?) << 10),
            _ => None,
        };
        if let Some(limit) = limit {
            options = options.budget(if kind >= 128 { Budget::exact(limit) } else { Budget::limit(limit) });
        }
        let made = self.nodes[&at].handle().child_with(options);
        let home = self.nodes[&at].scope;
        Some(match made {
            Ok(child) => {
                assert!(!self.nodes[&at].closed, "a closed context got a child");
                let new = self.made;
                self.nodes.insert(new, OwnedNode::new(child, Some(at), home, limit));
                self.node(at).children.push(new);
                self.pays(at, new);
                self.made += 1;
                true
            }
            Err(error) => self.refused(at, error, self.record),
        })
    }

    /// Checks why `at` refused something; false, for that is no success.
    pub(super) fn refused(&self, at: usize, error: HostError, wanted: u64) -> bool {
        if self.nodes[&at].closed {
            assert_eq!(error, HostError::Closed { context: self.nodes[&at].handle().id() });
        } else {
            self.assert_short(at, error, wanted);
        }
        false
    }

    /// Ends the owner of `at`: closes or drops it, here or on another thread.
    pub(super) fn end(&mut self, at: usize, how: u8) -> bool {
        let Some(owner) = self.node(at).owner.take_if(|_| at != 0) else {
            return false;
        };
        let left = match how % 3 {
            0 => Some(owner.close()),
            1 => {
                drop(owner);
                None
            }
            _ => {
                std::thread::scope(|threads| threads.spawn(move || drop(owner)).join())
                    .expect("dropping does not panic");
                None
            }
        };
        self.listen();
        self.ends(at);
        if let Some(left) = left {
            self.assert_left(at, left);
        }
        true
    }

    fn assert_left(&mut self, at: usize, left: Outstanding) {
        // Its own record is still there while it says so.
        self.node(at).held += 1;
        self.forget_the_dead();
        self.node(at).held -= 1;
        assert_eq!(left, self.outstanding(at), "outstanding when context {at} was closed");
    }

    pub(super) fn add_handle(&mut self, at: usize) -> bool {
        let handle = self.nodes[&at].handle();
        self.node(at).handles.push(handle);
        true
    }

    /// The last handle of an open context stays: the model could not see its account otherwise.
    pub(super) fn drop_handle(&mut self, at: usize) -> bool {
        let node = self.node(at);
        let needed = usize::from(node.owner.is_none() && !node.closed);
        node.handles.len() > needed && node.handles.pop().is_some()
    }

    pub(super) fn clear(&mut self, at: usize) -> bool {
        let node = &self.nodes[&at];
        let Some(owner) = &node.owner else {
            return false;
        };
        let values = node.values.clone();
        owner.clear();
        self.listen();
        // What destructors give it meanwhile stays.
        self.values_go_among(at, |number| values.iter().any(|value| value.number == number));
        true
    }
}
