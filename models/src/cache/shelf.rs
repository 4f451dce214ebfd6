//! A cache of one entry, as far as holding and destroying goes: what `Core` does around the files that are taken in.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;

use super::bucket::{Bucket, Sought};
use super::entry::Entry;
use super::holds::{self, Record, Records, Word};
use super::key::ShaderKey;
use super::segments::NONE;
use crate::harness::{Mutant, mutant};
use crate::sync::{AtomicPtr, Lock, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

const ENTRIES: usize = 1;

pub(super) struct Shelf {
    table: AtomicPtr<Bucket>,
    entries: [Entry; ENTRIES],
    records: Records,
    lock: Lock,
    /// The number of the key that the payload was made for, 0 where there is none. Read by who holds it, written when it is made and
    /// destroyed: loom reports what is not ordered.
    payloads: [UnsafeCell<u64>; ENTRIES],
    /// The entry that a new one takes. With the lock.
    free: UnsafeCell<u32>,
    /// The memory that payloads go back to is there.
    owner: UnsafeCell<bool>,
}

// SAFETY: loom watches over the cells.
unsafe impl Sync for Shelf {}
// SAFETY: as above.
unsafe impl Send for Shelf {}

/// A hold, until it is let go by hand.
#[derive(Clone, Copy)]
pub(super) struct Held {
    number: u32,
    word: Word,
}

// SAFETY: the word is an atomic of a record that is never freed.
unsafe impl Send for Held {}

impl Shelf {
    /// Never freed, so that a mutant cannot do real harm. Both threads have a record already if `records` says so.
    pub(super) fn new(records: bool) -> &'static Self {
        let shelf = Box::leak(Box::new(Self {
            table: AtomicPtr::default(),
            entries: std::array::from_fn(|_| Entry::default()),
            records: Records::new(),
            lock: Lock::new(),
            payloads: std::array::from_fn(|_| UnsafeCell::new(0)),
            free: UnsafeCell::new(0),
            owner: UnsafeCell::new(true),
        }));
        shelf.table.store(Box::into_raw(Box::default()), Release);
        if records {
            (0..2).for_each(|slot| shelf.gets_record(slot));
        }
        shelf
    }

    pub(super) fn gets_record(&self, slot: usize) {
        let record: &'static mut Record = Box::leak(Box::default());
        assert!(self.records.put(slot, NonNull::from(record)));
    }

    fn table(&self) -> &Bucket {
        // SAFETY: tables are never freed.
        unsafe { &*self.table.load(Acquire) }
    }

    fn sought(key: u64) -> Sought {
        Sought::new(key << 32)
    }

    /// Puts a shader in, in the free entry, held so many times. `found` is false where it was released meanwhile.
    pub(super) fn makes(&self, key: u64, holds: u32, found: bool) -> u32 {
        // SAFETY: loom panics where two are not ordered: it is the lock's.
        let number = self.free.with(|free| unsafe { *free });
        assert!((number as usize) < ENTRIES, "a free one was reserved");
        let entry = &self.entries[number as usize];
        // SAFETY: as above: nobody looks before the entry is there.
        self.payloads[number as usize]
            .with_mut(|payload| assert_eq!(unsafe { payload.replace(key) }, 0, "what was in it is gone"));
        let early = mutant() == Mutant::CountsLate;
        {
            let _held = self.lock.lock();
            // SAFETY: as above.
            self.free.with_mut(|free| unsafe { *free = NONE });
            entry.make(
                ShaderKey::of(key),
                0,
                (NonNull::dangling(), 1),
                if early { 0 } else { holds },
                found || mutant() == Mutant::Forgets,
            );
            if found || mutant() == Mutant::Forgets {
                assert!(self.table().put(Self::sought(key), number));
            }
        }
        if early {
            entry.cold.refs.fetch_add(u64::from(holds), SeqCst);
        }
        number
    }

    /// As a hit: the shader of this key, held.
    pub(super) fn finds(&self, slot: usize, key: u64) -> Option<Held> {
        let record = self.records.of(Some(slot));
        self.table()
            .search(Self::sought(key), &mut |number| {
                let entry = &self.entries[number as usize];
                if mutant() == Mutant::LooksFirst && !(entry.is_live() && entry.is(ShaderKey::of(key))) {
                    return None;
                }
                let looked = mutant() == Mutant::LooksFirst;
                loop {
                    match self.holds(record, entry, number, key, looked) {
                        Ok(word) => return Some(Held { number, word }),
                        Err(true) if self.sweeps(number) && mutant() != Mutant::LooksOnce => {}
                        Err(_) => return None,
                    }
                }
            })
            .ok()
    }

    fn holds(&self, record: Option<&Record>, entry: &Entry, number: u32, key: u64, looked: bool) -> Result<Word, bool> {
        if looked {
            return Ok(holds::publish(record, entry, number));
        }
        holds::hold(record, entry, number, || entry.is(ShaderKey::of(key)))
    }

    /// What every user of a held shader relies on.
    pub(super) fn reads(&self, held: Held, key: u64) {
        // SAFETY: loom panics where making or destroying is not ordered with this.
        let payload = self.payloads[held.number as usize].with(|payload| unsafe { *payload });
        assert_eq!(payload, key, "what is held is there, and is what was asked for");
    }

    pub(super) fn lets_go(&self, held: Held) {
        // SAFETY: published for this entry, taken back once.
        if unsafe { holds::retract(held.word, &self.entries[held.number as usize]) } {
            self.sweeps(held.number);
        }
    }

    pub(super) fn counts(&self, held: Held) -> Held {
        let entry = &self.entries[held.number as usize];
        if mutant() == Mutant::LeavesFirst {
            if let Some(word) = held.word {
                // SAFETY: a word of a record that is never freed.
                unsafe { word.as_ref() }.swap(0, SeqCst);
                entry.cold.refs.fetch_add(1, SeqCst);
            }
        } else {
            // SAFETY: published for this entry, and from now on in its count.
            unsafe { holds::count(held.word, entry) };
        }
        Held { word: None, ..held }
    }

    /// A hold that the maker counted for somebody.
    pub(super) const fn counted(number: u32) -> Held {
        Held { number, word: None }
    }

    fn sweeps(&self, number: u32) -> bool {
        let entry = &self.entries[number as usize];
        let (mine, lives) = {
            let _held = self.lock.lock();
            (holds::last(&self.records, entry, number), entry.is_live())
        };
        if mine {
            self.destroys(number);
        }
        lives
    }

    /// The owner's strict release: true where its shader is gone when this returns, false where it is as it was.
    pub(super) fn releases(&self) -> bool {
        let (entry, number) = (&self.entries[0], 0);
        let mine = {
            let _held = self.lock.lock();
            assert!(entry.is_live(), "the model made one");
            if mutant() == Mutant::ChecksFirst {
                if !holds::is_free(&self.records, entry, number) {
                    return false;
                }
                self.table().take(Self::sought(1), number);
                holds::condemn(&self.records, entry, number)
            } else {
                if !holds::close(&self.records, entry, number) {
                    holds::reopen(entry);
                    return false;
                }
                self.table().take(Self::sought(1), number);
                holds::doom(entry);
                true
            }
        };
        if mine {
            self.destroys(number);
        }
        true
    }

    /// The context that the shader was made in goes, with its memory.
    pub(super) fn owner_ends(&self) {
        // SAFETY: loom panics where a use is not ordered before.
        self.owner.with_mut(|owner| unsafe { *owner = false });
    }

    /// Takes the shader of this key out, if it is there.
    pub(super) fn deletes(&self, key: u64) {
        let mut mine = None;
        {
            let _held = self.lock.lock();
            let entries = self.entries.iter().zip(0..);
            for (entry, number) in entries.filter(|(entry, _)| entry.is_live() && entry.is(ShaderKey::of(key))) {
                self.table().take(Self::sought(key), number);
                if holds::condemn(&self.records, entry, number) {
                    mine = Some(number);
                }
            }
        }
        if let Some(number) = mine {
            self.destroys(number);
        }
    }

    fn destroys(&self, number: u32) {
        // SAFETY: loom panics where the owner's end is not ordered with this.
        self.owner.with(|owner| assert!(unsafe { *owner }, "what is destroyed goes back to memory that is there"));
        // SAFETY: loom panics where a use is not ordered before.
        self.payloads[number as usize].with_mut(|payload| assert_ne!(unsafe { payload.replace(0) }, 0, "each is destroyed once"));
        let _held = self.lock.lock();
        self.entries[number as usize].free();
        // SAFETY: as above.
        self.free.with_mut(|free| unsafe { *free = number });
    }

    /// A new table takes the place of this one, with all that is in it.
    pub(super) fn grows(&self, key: u64) {
        let _held = self.lock.lock();
        let fresh = Box::leak(Box::<Bucket>::default());
        for number in self.table().entries() {
            assert!(fresh.put(Self::sought(key), number));
        }
        self.table.store(fresh, Release);
    }

    /// True where another shader may be made.
    pub(super) fn has_room(&self) -> bool {
        let _held = self.lock.lock();
        // SAFETY: as above.
        self.free.with(|free| unsafe { *free != NONE })
    }

    /// After all have ended: how many shaders are there, which must be those that can be found.
    pub(super) fn left(&self) -> usize {
        let there = self.payloads.iter().filter(|payload| {
            // SAFETY: loom panics where a use is not ordered before.
            payload.with(|payload| unsafe { *payload != 0 })
        });
        let there = there.count();
        let live = self.entries.iter().filter(|entry| entry.is_live()).count();
        assert_eq!(there, live, "a shader that nobody finds and nobody holds is destroyed");
        assert!(self.entries.iter().all(|entry| entry.cold.refs.load(Relaxed) == 0), "all holds were let go");
        there
    }
}
