//! Values and contexts that change hands: all of it, or nothing.

use alloc_core::{HostError, Misuse};

use super::MAX_VALUE_BYTES;
use super::model::{Id, OwnedModel, OwnedValue};
use testkit::programs::Bytes;

impl OwnedModel {
    /// Why memory of `from` cannot become that of `to`, budgets aside.
    fn forbids(&self, from: usize, to: usize) -> Option<HostError> {
        let (source, target) = (&self.nodes[&from], &self.nodes[&to]);
        if from == to {
            Some(HostError::Misuse(Misuse::SameContext))
        } else if source.scope != target.scope {
            Some(HostError::Misuse(Misuse::OtherScope))
        } else if target.closed {
            Some(HostError::Closed { context: target.handle().id() })
        } else {
            None
        }
    }

    pub(super) fn steal(&mut self, to: usize, from: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let which = usize::from(bytes.next()?);
        let Some(place) = which.checked_rem(self.nodes[&from].values.len()) else {
            return Some(false);
        };
        let OwnedValue { number, id, named } = self.nodes[&from].values[place];
        if !named {
            return Some(false);
        }
        let (target, source) = (self.nodes[&to].handle(), self.nodes[&from].handle());
        let stolen = match id {
            Id::Thing(id) => target.steal(&source, id).map(Id::Thing),
            Id::Plain(id) => target.steal(&source, id).map(Id::Plain),
            Id::Nothing(id) => target.steal(&source, id).map(Id::Nothing),
        };
        Some(match (stolen, self.forbids(from, to)) {
            (Ok(new), None) => {
                assert_ne!(new, id);
                self.node(from).values.remove(place);
                self.voided(id);
                self.node(to).values.push(OwnedValue::new(number, new));
                self.learn(to, true);
                self.learn(from, false);
                true
            }
            (Err(error), None) => {
                self.learn(to, true);
                self.assert_short(to, error, MAX_VALUE_BYTES);
                false
            }
            (stolen, forbidden) => {
                assert_eq!(stolen.err(), forbidden, "from context {from} to {to}");
                false
            }
        })
    }

    /// All values and all children, and their order stays.
    pub(super) fn adopt(&mut self, to: usize, from: usize) -> bool {
        let Some(source) = &self.nodes[&from].owner else {
            return false;
        };
        let adopted = self.nodes[&to].handle().adopt(source);
        let forbidden = self.forbids(from, to);
        if let Err(error) = adopted {
            self.learn(to, true);
            let cycle = self.is_below(to, from) && error == HostError::Misuse(Misuse::Cycle);
            let closed = self.nodes[&from].closed && matches!(error, HostError::Closed { .. });
            if Some(error) != forbidden && !cycle && !closed {
                self.assert_short_or_in_use(to, error);
            }
            return false;
        }
        assert!(
            forbidden.is_none() && !self.is_below(to, from) && !self.nodes[&from].closed,
            "context {from} was adopted by {to}"
        );
        let source = self.node(from);
        let (values, children) = (std::mem::take(&mut source.values), std::mem::take(&mut source.children));
        values.iter().filter(|value| value.named).for_each(|value| self.voided(value.id));
        for child in &children {
            self.node(*child).parent = Some(to);
            self.pays(to, *child);
        }
        self.node(to).children.extend(children);
        self.node(to).values.extend(values.into_iter().map(|value| OwnedValue { named: false, ..value }));
        self.learn(to, true);
        self.learn(from, false);
        true
    }

    fn assert_short_or_in_use(&self, at: usize, error: HostError) {
        if error == HostError::Misuse(Misuse::InUse) {
            assert!(self.nodes[&at].paid, "context {at}: {error}");
        } else {
            self.assert_short(at, error, u64::MAX);
        }
    }

    pub(super) fn reparent(&mut self, at: usize, to: usize) -> bool {
        let target = self.nodes[&to].handle();
        let (same, cycle, closed) = (
            self.nodes[&at].parent == Some(to),
            self.is_below(to, at),
            self.nodes[&at].closed || self.nodes[&to].closed,
        );
        let Some(owner) = self.node(at).owner.as_mut() else {
            return false;
        };
        let moved = owner.reparent(&target);
        match moved {
            Ok(()) if same => true,
            Ok(()) => {
                assert!(at != 0 && !cycle && !closed, "context {at} went below {to}");
                if let Some(old) = self.nodes[&at].parent {
                    self.node(old).children.retain(|child| *child != at);
                }
                self.node(at).parent = Some(to);
                self.node(to).children.push(at);
                self.pays(to, at);
                true
            }
            Err(HostError::Misuse(Misuse::IsARoot)) if at == 0 => false,
            Err(HostError::Misuse(Misuse::Cycle)) if cycle => false,
            Err(HostError::Closed { .. }) if closed => false,
            Err(error) => {
                self.assert_short_or_in_use(to, error);
                false
            }
        }
    }
}
