//! How things go, as the model sees it: each event of the log is the one that has to come next.

use std::collections::BTreeMap;

use alloc_core::{HostError, Misuse};

use super::model::{Deed, Id, OwnedModel, OwnedNode, OwnedValue};
use super::things::Event;

impl OwnedModel {
    /// Everything that happened has been explained.
    pub(super) fn explained(&mut self) {
        assert!(self.events.is_empty(), "nobody expected {:?}", self.events);
        assert_eq!(self.log.allocated(), [], "nobody expected these");
        self.bury();
    }

    /// Fetches what happened in the operation just made.
    pub(super) fn listen(&mut self) {
        assert!(self.events.is_empty(), "nobody expected {:?}", self.events);
        self.events = self.log.allocated().into();
    }

    fn expect(&mut self, event: Event) {
        assert_eq!(self.events.pop_front(), Some(event), "before {:?}", self.events);
    }

    /// A value that was taken out of its context goes.
    pub(super) fn value_goes(&mut self, value: OwnedValue) {
        if let Id::Thing(_) = value.id {
            self.thing_goes(value.number);
        }
    }

    /// A thing is dropped, and does what it has to do.
    pub(super) fn thing_goes(&mut self, number: u32) {
        self.expect(Event::Dropped(number));
        let Some(deed) = self.deeds.remove(&number) else {
            return;
        };
        match deed {
            Deed::Holds(at) | Deed::Declares(at) => self.node(at).held -= 1,
            Deed::Owns(at, new) => {
                let Some(Event::Owned(told, result)) = self.events.pop_front() else {
                    panic!("{number} owned nothing")
                };
                assert_eq!(told, new);
                match result {
                    Ok(id) => {
                        assert!(!self.nodes[&at].closed, "a closed context took a value");
                        self.node(at).values.push(OwnedValue::new(new, Id::Thing(id)));
                        self.grown.push(at);
                    }
                    Err(error) => {
                        if self.nodes[&at].closed {
                            assert!(matches!(error, HostError::Closed { .. }), "{error}");
                        } else {
                            self.assert_short(at, error, u64::MAX);
                        }
                        self.grown.push(at);
                        self.expect(Event::Dropped(new));
                    }
                }
                self.node(at).held -= 1;
            }
            Deed::Destroys(at, other) => {
                let is_it = |value: &OwnedValue| {
                    value.named && value.id == Id::Thing(other) && self.holding != Some(value.number)
                };
                match self.nodes[&at].values.iter().position(is_it) {
                    Some(found) => {
                        let value = self.node(at).values.remove(found);
                        self.value_goes(value);
                        self.expect(Event::Destroyed(number, Ok(())));
                    }
                    None => {
                        let Some(Event::Destroyed(told, Err(error))) = self.events.pop_front() else {
                            panic!("{number} destroyed {other:?}, which is not there")
                        };
                        let closed = self.nodes[&at].closed && matches!(error, HostError::Closed { .. });
                        let gone = matches!(error, HostError::Misuse(Misuse::NotOwned | Misuse::Held));
                        assert!(told == number && (closed || gone), "{error}");
                    }
                }
                self.node(at).held -= 1;
            }
            Deed::Allocates(at) => {
                let Some(Event::Allocated(told, taken)) = self.events.pop_front() else {
                    panic!("{number} took nothing")
                };
                let node = &self.nodes[&at];
                assert!(told == number && taken != node.closed || self.is_budgeted(at), "{number}: {taken}");
                assert!(!(taken && self.nodes[&at].closed), "a closed context gave memory");
                self.node(at).held -= 1;
            }
            Deed::Ends(at) => {
                self.node(at).owner_in = None;
                self.ends(at);
            }
        }
    }

    /// A context ends, with all below it: closed first, then what is owned goes, children before parents, newest first.
    pub(super) fn ends(&mut self, top: usize) {
        for at in self.subtree(top) {
            self.node(at).closed = true;
        }
        self.drains(top);
    }

    fn drains(&mut self, at: usize) {
        for child in self.nodes[&at].children.clone().into_iter().rev() {
            self.drains(child);
        }
        self.values_go(at);
    }

    /// All values of a context go, newest first, but for the one that is held.
    fn values_go(&mut self, at: usize) {
        self.values_go_among(at, |_| true);
    }

    /// Those of these numbers go, newest first, but for the one that is held.
    pub(super) fn values_go_among(&mut self, at: usize, is_one: impl Fn(u32) -> bool) {
        let holding = self.holding;
        let goes = |value: &OwnedValue| Some(value.number) != holding && is_one(value.number);
        while let Some(last) = self.nodes[&at].values.iter().rposition(goes) {
            let value = self.node(at).values.remove(last);
            self.value_goes(value);
        }
    }

    /// Contexts that nothing refers to are gone; what the tables of others have grown by meanwhile is learned then.
    pub(super) fn bury(&mut self) {
        self.forget_the_dead();
        for at in std::mem::take(&mut self.grown) {
            if self.nodes.get(&at).is_some_and(OwnedNode::can_be_used) {
                self.learn(at, true);
            }
        }
    }

    /// Contexts that nothing refers to are gone, and so are their records; their parents may follow.
    pub(super) fn forget_the_dead(&mut self) {
        let dead = |nodes: &BTreeMap<usize, OwnedNode>| {
            nodes.iter().rev().find(|(at, node)| **at != 0 && !node.is_referred_to()).map(|(at, _)| *at)
        };
        while let Some(at) = dead(&self.nodes) {
            let Some(node) = self.nodes.remove(&at) else {
                break;
            };
            assert!(node.values.is_empty(), "context {at} is gone and owned {:?}", node.values);
            let Some(parent) = node.parent else { continue };
            let parent = self.node(parent);
            parent.children.retain(|child| *child != at);
            for (lost, below) in
                parent.lost.iter_mut().zip(node.plain.iter().zip(node.lost).map(|(plain, lost)| plain + lost))
            {
                *lost += below;
            }
        }
    }
}
