//! Values: given to a context, used, taken back.

use alloc_core::{ContextHandle, HostError, Misuse, Rejected};

use super::model::{Deed, Id, OwnedModel, OwnedValue};
use super::things::{Act, Thing};
use super::{MAX_VALUE_BYTES, MAX_VALUES, is_void};
use testkit::programs::Bytes;

impl OwnedModel {
    /// A new thing that will do something to `at` when it goes.
    pub(super) fn thing(&mut self, at: usize, (what, which): (u8, u8)) -> (u32, Thing) {
        let which = usize::from(which);
        let number = self.number();
        let handle = || self.nodes[&at].handle();
        let things: Vec<_> = self.nodes[&at]
            .values
            .iter()
            .filter_map(|value| if let Id::Thing(id) = value.id { Some(id).filter(|_| value.named) } else { None })
            .collect();
        let act = match what % 8 {
            0 => Some((Act::Holds(handle()), Deed::Holds(at))),
            1 => {
                let spawn = self.numbers + 1;
                Some((Act::Owns(handle(), spawn), Deed::Owns(at, spawn)))
            }
            2 => which
                .checked_rem(things.len())
                .map(|which| (Act::Destroys(handle(), things[which]), Deed::Destroys(at, things[which]))),
            3 => Some((Act::Allocates(handle()), Deed::Allocates(at))),
            4 => Some((Act::Declares(handle()), Deed::Declares(at))),
            5 => self.owner_to_give(which),
            _ => None,
        };
        let (act, deed) = act.unzip();
        match deed {
            Some(Deed::Owns(at, spawn)) => {
                self.numbers = spawn;
                self.node(at).held += 1;
            }
            Some(Deed::Ends(_)) | None => {}
            Some(Deed::Holds(at) | Deed::Destroys(at, _) | Deed::Allocates(at) | Deed::Declares(at)) => {
                self.node(at).held += 1
            }
        }
        if let Some(deed) = deed {
            self.deeds.insert(number, deed);
        }
        (number, Thing::new(number, &self.log, act))
    }

    /// A context for a thing to own. The program keeps a handle.
    fn owner_to_give(&mut self, which: usize) -> Option<(Act, Deed)> {
        let (number, count) = (self.numbers, self.nodes.len());
        let (at, node) =
            self.nodes.iter_mut().nth(which % count).filter(|(at, node)| **at != 0 && node.owner.is_some())?;
        let owner = node.owner.take()?;
        node.handles.push(owner.handle());
        node.owner_in = Some(number);
        Some((Act::Ends(owner), Deed::Ends(*at)))
    }

    pub(super) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// A thing that nobody took goes, without doing anything.
    pub(super) fn defuse(&mut self, number: u32, mut thing: Thing) {
        let (act, deed) = (thing.defuse(), self.deeds.remove(&number));
        drop(thing);
        self.listen();
        self.thing_goes(number);
        match (act, deed) {
            (Some(Act::Ends(owner)), Some(Deed::Ends(at))) => {
                let node = self.node(at);
                (node.owner, node.owner_in) = (Some(owner), None);
            }
            (None, None) => {}
            (
                Some(_),
                Some(
                    Deed::Holds(at)
                    | Deed::Owns(at, _)
                    | Deed::Destroys(at, _)
                    | Deed::Allocates(at)
                    | Deed::Declares(at),
                ),
            ) => {
                self.node(at).held -= 1;
            }
            (act, deed) => panic!("{number}: {act:?} is not {deed:?}"),
        }
    }

    pub(super) fn own(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let kind = bytes.next()?;
        if self.nodes[&at].values.len() >= MAX_VALUES {
            return Some(false);
        }
        let handle = self.nodes[&at].handle();
        let (number, owned) = match kind % 8 {
            0 => (self.number(), handle.own(()).map(Id::Nothing).map_err(HostError::from)),
            1 | 2 => {
                let number = self.number();
                let owned = handle.own([u64::from(number); 5]);
                let owned = owned.map(Id::Plain).map_err(|Rejected { value, error }| {
                    assert_eq!(value, [u64::from(number); 5], "a refused value is given back");
                    error
                });
                (number, owned)
            }
            _ => {
                let (number, thing) = self.thing(at, (bytes.next()?, bytes.next()?));
                let owned = handle.own(thing).map(Id::Thing).map_err(|Rejected { value, error }| {
                    self.defuse(number, value);
                    error
                });
                (number, owned)
            }
        };
        Some(match owned {
            Ok(id) => {
                assert!(!self.nodes[&at].closed, "a closed context took a value");
                self.node(at).values.push(OwnedValue::new(number, id));
                self.learn(at, true);
                true
            }
            Err(error) => {
                self.learn(at, true);
                self.refused(at, error, MAX_VALUE_BYTES)
            }
        })
    }

    /// A value of `at`, by its place.
    fn choose(&self, at: usize, bytes: &mut Bytes<'_>) -> Option<Option<(usize, OwnedValue)>> {
        let which = usize::from(bytes.next()?);
        let values = &self.nodes[&at].values;
        Some(which.checked_rem(values.len()).map(|which| (which, values[which])).filter(|(_, value)| value.named))
    }

    /// Takes a value out of the lists; its id is void from now on.
    fn forget(&mut self, at: usize, place: usize) -> OwnedValue {
        let value = self.node(at).values.remove(place);
        self.voided(value.id);
        value
    }

    pub(super) fn remove(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some((place, value)) = self.choose(at, bytes)? else {
            return Some(false);
        };
        let handle = self.nodes[&at].handle();
        self.forget(at, place);
        match value.id {
            Id::Nothing(id) => handle.remove(id).expect("it is there"),
            Id::Plain(id) => assert_eq!(handle.remove(id).expect("it is there"), [u64::from(value.number); 5]),
            Id::Thing(id) => {
                let thing = handle.remove(id).expect("it is there");
                thing.check(value.number);
                drop(thing);
                self.listen();
                self.thing_goes(value.number);
            }
        }
        Some(true)
    }

    pub(super) fn destroy(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some((place, value)) = self.choose(at, bytes)? else {
            return Some(false);
        };
        let handle = self.nodes[&at].handle();
        self.forget(at, place);
        match value.id {
            Id::Nothing(id) => handle.destroy(id),
            Id::Plain(id) => handle.destroy(id),
            Id::Thing(id) => handle.destroy(id),
        }
        .expect("it is there");
        self.listen();
        self.value_goes(value);
        Some(true)
    }

    pub(super) fn get(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some((_, value)) = self.choose(at, bytes)? else {
            return Some(false);
        };
        let handle = self.nodes[&at].handle();
        match value.id {
            Id::Nothing(id) => *handle.get_mut(id).expect("it is there") = (),
            Id::Plain(id) => {
                let mut plain = handle.get_mut(id).expect("it is there");
                assert_eq!(*plain, [u64::from(value.number); 5]);
                *plain = [u64::from(value.number); 5];
            }
            Id::Thing(id) => {
                let mut thing = handle.get_mut(id).expect("it is there");
                thing.check(value.number);
                thing.rewrite();
            }
        }
        Some(true)
    }

    /// While a value is held nobody else can have it.
    pub(super) fn hold(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some((_, value)) = self.choose(at, bytes)? else {
            return Some(false);
        };
        let Id::Plain(id) = value.id else {
            return Some(false);
        };
        let held = HostError::Misuse(Misuse::Held);
        let handle = self.nodes[&at].handle();
        {
            let (one, two) = (handle.get(id).expect("it is there"), handle.get(id).expect("two may read"));
            assert_eq!((*one, *two), ([u64::from(value.number); 5], [u64::from(value.number); 5]));
            drop(two);
            assert_eq!(handle.get_mut(id).err(), Some(held));
            assert_eq!((handle.remove(id), handle.destroy(id)), (Err(held), Err(held)));
        }
        {
            let _alone = handle.get_mut(id).expect("nobody reads any more");
            assert_eq!((handle.get(id).err(), handle.destroy(id)), (Some(held), Err(held)));
        }
        Some(true)
    }

    /// A value that is held when its context ends goes with the hold.
    pub(super) fn end_while_held(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some((place, value)) = self.choose(at, bytes)? else {
            return Some(false);
        };
        let Id::Thing(id) = value.id else {
            return Some(false);
        };
        let how = bytes.next()? % 2 + 1;
        if at == 0 || self.nodes[&at].owner.is_none() {
            return Some(false);
        }
        // Beyond the context's end, for the model's `bury` as well.
        let handle: ContextHandle = self.nodes[&at].handle();
        self.node(at).held += 1;
        let mut hold = handle.get_mut(id).expect("it is there");
        self.holding = Some(value.number);
        assert!(self.end(at, how));
        assert!(self.events.is_empty(), "nobody expected {:?}", self.events);
        assert_eq!(handle.get_mut(id).err(), Some(HostError::Closed { context: handle.id() }));
        hold.check(value.number);
        hold.rewrite();
        self.holding = None;
        let still = self.nodes[&at].values.iter().position(|one| one.number == value.number);
        assert_eq!(still, Some(0), "of {place} values the one that is held is left");
        drop(hold);
        self.listen();
        let value = self.node(at).values.remove(0);
        self.value_goes(value);
        drop(handle);
        self.node(at).held -= 1;
        Some(true)
    }

    pub(super) fn voided(&mut self, id: Id) {
        if self.void.len() >= 16 {
            self.void.remove(0);
        }
        self.void.push(id);
    }

    /// An id whose value is gone, or one of another context's, is found out.
    pub(super) fn use_void(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let which = usize::from(bytes.next()?);
        let Some(which) = which.checked_rem(self.void.len()) else {
            return Some(false);
        };
        let handle = self.nodes[&at].handle();
        let errors = match self.void[which] {
            Id::Nothing(id) => [handle.get(id).err(), handle.remove(id).err(), handle.destroy(id).err()],
            Id::Plain(id) => [handle.get(id).err(), handle.remove(id).err(), handle.destroy(id).err()],
            Id::Thing(id) => [handle.get_mut(id).err(), handle.destroy(id).err(), handle.get_mut(id).err()],
        };
        for error in errors {
            let error = error.expect("the value is gone");
            assert!(is_void(error, self.nodes[&at].closed), "{error}");
        }
        Some(true)
    }
}
