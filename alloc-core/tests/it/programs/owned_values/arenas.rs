//! Arenas that own values.

use std::cell::RefCell;

use alloc_core::{Arena, ContextHandle, HostError, Misuse};

use super::MAX_ARENAS;
use super::model::OwnedModel;
use testkit::programs::Bytes;
use testkit::with_hook;

impl OwnedModel {
    pub(super) fn arena(&mut self, at: usize) -> bool {
        if self.arenas.len() >= MAX_ARENAS {
            return false;
        }
        self.arenas.push((at, Arena::new_in(self.nodes[&at].handle()), Vec::new()));
        self.node(at).held += 1;
        true
    }

    fn choose_arena(&self, bytes: &mut Bytes<'_>) -> Option<Option<usize>> {
        let which = bytes.below(MAX_ARENAS)?;
        Some(which.checked_rem(self.arenas.len()))
    }

    pub(super) fn arena_owns(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some(which) = self.choose_arena(bytes)? else {
            return Some(false);
        };
        let kind = bytes.next()?;
        let at = self.arenas[which].0;
        if kind % 4 == 0 {
            let words = usize::from(kind) * 20;
            let taken = self.in_arena(which, |arena| arena.try_alloc_slice_fill_with(words, |at| at as u64));
            return Some(match taken {
                Ok(taken) => taken.len() == words && taken.iter().enumerate().all(|(at, word)| *word == at as u64),
                Err(error) => self.refused_arena(at, error, 8 * words as u64 + 64),
            });
        }
        // What it does, it does to some context, not to the arena's alone.
        let target = self.pick(bytes)?;
        let (number, thing) = self.thing(target, (bytes.next()?, bytes.next()?));
        let owned = self.in_arena(which, |arena| arena.try_own(thing)).map(|thing| thing.check(number));
        Some(match owned {
            Ok(()) => {
                self.arenas[which].2.push(number);
                true
            }
            Err(refused) => {
                let error = refused.error;
                self.defuse(number, refused.value);
                self.refused_arena(at, error, 256)
            }
        })
    }

    /// Allocates of an arena; where the backing uses contexts meanwhile, it uses the arena as well.
    fn in_arena<'m, R>(&'m self, which: usize, allocate: impl FnOnce(&'m Arena<ContextHandle>) -> R) -> R {
        let arena = &self.arenas[which].1;
        let Some(side) = &self.side else {
            return allocate(arena);
        };
        let meanwhile = RefCell::new(Vec::new());
        let hook = |_| {
            side.visit();
            let number = side.visits();
            match arena.try_alloc_slice_fill_with(3 + number as usize % 200, |_| number) {
                Ok(words) => meanwhile.borrow_mut().push((number, words)),
                Err(error) => {
                    assert!(matches!(error, HostError::Closed { .. } | HostError::OverBudget { .. }), "{error}")
                }
            }
        };
        let allocated = with_hook(1, &hook, || allocate(arena));
        for (number, words) in meanwhile.take() {
            assert!(words.iter().all(|word| *word == number), "an arena gave memory to two, or freed it");
        }
        allocated
    }

    fn refused_arena(&self, at: usize, error: HostError, wanted: u64) -> bool {
        if self.nodes[&at].closed {
            assert!(matches!(error, HostError::Closed { .. }), "{error}");
            return false;
        }
        self.assert_short(at, error, wanted);
        false
    }

    /// A scope: what is made in it goes with it.
    pub(super) fn arena_scope(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some(which) = self.choose_arena(bytes)? else {
            return Some(false);
        };
        let (count, target) = (bytes.next()? % 5, self.pick(bytes)?);
        let choices = (0..count).map(|_| Some((bytes.next()?, bytes.next()?))).collect::<Option<Vec<_>>>()?;
        let things: Vec<_> = choices.into_iter().map(|choice| self.thing(target, choice)).collect();
        let (mut owned, mut refused) = (Vec::new(), Vec::new());
        let scope = self.arenas[which].1.scope();
        for (number, thing) in things {
            match scope.try_own(thing) {
                Ok(thing) => {
                    thing.check(number);
                    owned.push(number);
                }
                Err(rejected) => refused.push((number, rejected.error)),
            }
        }
        drop(scope);
        self.listen();
        let at = self.arenas[which].0;
        let none = refused.is_empty();
        for (number, error) in refused {
            self.refused_arena(at, error, u64::MAX);
            self.thing_goes(number);
        }
        owned.into_iter().rev().for_each(|number| self.thing_goes(number));
        Some(none && count > 0)
    }

    /// Reset, dropped, or moved to another context.
    pub(super) fn arena_ends(&mut self, to: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some(which) = self.choose_arena(bytes)? else {
            return Some(false);
        };
        let how = bytes.next()?;
        let (at, mut arena, things) = self.arenas.remove(which);
        match how % 4 {
            0 => {
                drop(arena);
                self.node(at).held -= 1;
            }
            1 => {
                arena.reset();
                self.arenas.push((at, arena, Vec::new()));
            }
            _ => return Some(self.arena_moves(at, to, arena, things)),
        }
        self.listen();
        things.into_iter().rev().for_each(|thing| self.thing_goes(thing));
        Some(true)
    }

    fn arena_moves(&mut self, at: usize, to: usize, mut arena: Arena<ContextHandle>, things: Vec<u32>) -> bool {
        let held = arena.bytes_held();
        match arena.move_to(self.nodes[&to].handle()) {
            Ok(()) => {
                assert_eq!(arena.bytes_held(), held);
                self.node(at).held -= 1;
                self.node(to).held += 1;
                self.arenas.push((to, arena, things));
                true
            }
            Err(error) => {
                self.arenas.push((at, arena, things));
                let (source, target) = (&self.nodes[&at], &self.nodes[&to]);
                match error {
                    HostError::Misuse(Misuse::OtherScope) => assert_ne!(source.scope, target.scope),
                    HostError::Closed { .. } => assert!(target.closed),
                    error => self.assert_short(to, error, u64::MAX),
                }
                false
            }
        }
    }
}
