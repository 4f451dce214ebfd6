//! A cache of one entry, as far as holding and destroying goes: what `Core` does around the files that are taken in.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;

use super::bucket::{Bucket, HashTag};
use super::entry::{CacheEntry, ShaderHeader};
use super::key::ShaderKey;
use super::ref_records::{self, COMMON, RefRecord, RefRecords, RefSlot};
use super::segments::NONE;
use crate::harness::{Mutant, mutant};
use crate::sync::{
    AtomicPtr, AtomicU32, Lock, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

pub(super) struct Shelf {
    table: AtomicPtr<Bucket>,
    entry: CacheEntry,
    /// All shaders lie here, one after the other, as memory comes back for the next. Nothing in it is read: see `payload`.
    block: ShaderHeader,
    records: RefRecords,
    lock: Lock,
    /// What is in the block: the number of the key that it was made for, 0 where there is none. Read by who holds it, written when it is
    /// made and destroyed: loom reports what is not ordered.
    payload: UnsafeCell<u64>,
    /// The entry that a new one takes. With the lock.
    free: UnsafeCell<u32>,
    /// As the cache's own: whoever lets go is to evict.
    over: AtomicU32,
    /// No shader is to stay without a hold.
    pub(super) limited: bool,
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
    at: Option<RefSlot>,
}

// SAFETY: word and place are atomics that are never freed.
unsafe impl Send for Held {}

/// What became of a look at the table.
enum Tried {
    Held(Held),
    Other(Held),
    Gone,
    Full,
}

impl Shelf {
    /// Never freed, so that a mutant cannot do real harm. Both threads have a record already if `records` says so.
    pub(super) fn new(records: bool) -> &'static Self {
        Self::with_limit(records, false)
    }

    pub(super) fn with_limit(records: bool, limited: bool) -> &'static Self {
        let shelf = Box::leak(Box::new(Self {
            table: AtomicPtr::default(),
            entry: CacheEntry::default(),
            block: ShaderHeader {
                key: ShaderKey::of(0),
                number: 0,
                touched: AtomicU32::new(0),
            },
            records: RefRecords::new(),
            lock: Lock::new(),
            payload: UnsafeCell::new(0),
            free: UnsafeCell::new(0),
            over: AtomicU32::new(0),
            limited,
            owner: UnsafeCell::new(true),
        }));
        shelf.table.store(Box::into_raw(Box::default()), Release);
        if records {
            (0..2).for_each(|slot| shelf.gets_record(slot));
        }
        shelf
    }

    pub(super) fn gets_record(&self, slot: usize) {
        let record: &'static mut RefRecord = Box::leak(Box::default());
        assert!(self.records.put(slot, NonNull::from(record)));
    }

    /// One for all who have none.
    pub(super) fn gets_common_record(&self) {
        self.gets_record(COMMON);
    }

    fn block(&self) -> NonNull<ShaderHeader> {
        NonNull::from(&self.block)
    }

    fn table(&self) -> &Bucket {
        // SAFETY: tables are never freed.
        unsafe { &*self.table.load(Acquire) }
    }

    /// All keys look alike in a bucket.
    const fn sought() -> HashTag {
        HashTag::new(1 << 56)
    }

    /// Puts a shader in, in the free entry, held so many times. `found` is false where it was released meanwhile.
    pub(super) fn makes(&self, key: u64, holds: u32, found: bool) -> u32 {
        // SAFETY: loom panics where two are not ordered: it is the lock's.
        let number = self.free.with(|free| unsafe { *free });
        assert_eq!(number, 0, "a free one was reserved");
        self.payload.with_mut(|payload| {
            // SAFETY: as above: nobody looks before the entry is there.
            assert_eq!(unsafe { payload.replace(key) }, 0, "what was in it is gone")
        });
        let late = mutant() == Mutant::CountsLate;
        {
            let _held = self.lock.lock();
            // SAFETY: as above.
            self.free.with_mut(|free| unsafe { *free = NONE });
            let found = found || mutant() == Mutant::Forgets;
            self.entry
                .fill(self.block(), 0, 1, if late { 0 } else { holds }, found);
            if found {
                assert!(self.table().put(Self::sought(), self.block()));
            }
        }
        if late {
            self.entry.refs.fetch_add(u64::from(holds), SeqCst);
        }
        number
    }

    /// As a hit: the shader of this key, held.
    pub(super) fn finds(&self, slot: usize, key: u64) -> Option<Held> {
        loop {
            let table = self.table();
            match self.tries(table, slot, key) {
                Some(Tried::Held(held)) => return Some(held),
                Some(Tried::Other(held)) => {
                    self.lets_go(held);
                    return None;
                }
                Some(Tried::Full) => return self.finds_counted(key),
                Some(Tried::Gone) => {
                    if mutant() != Mutant::LooksAway {
                        self.sweeps();
                        if self.limited && self.over.load(SeqCst) != 0 {
                            self.sweeps_above_limits();
                        }
                    }
                    if mutant() == Mutant::LooksOnce {
                        return None;
                    }
                }
                None if std::ptr::eq(table, self.table()) => return None,
                None => {}
            }
        }
    }

    fn tries(&self, table: &Bucket, slot: usize, key: u64) -> Option<Tried> {
        let record = self.records.of(Some(slot));
        table
            .search(Self::sought(), &mut |place| {
                let at = if mutant() == Mutant::LooksFirst {
                    let block = NonNull::new(place.load(Acquire))?;
                    RefSlot {
                        word: ref_records::publish(&self.records, record, block)?,
                        place: NonNull::from(place),
                    }
                } else {
                    match ref_records::acquire(&self.records, record, place) {
                        ref_records::RefAttempt::Yes(_, at) => at,
                        ref_records::RefAttempt::Gone(_) => return Some(Tried::Gone),
                        ref_records::RefAttempt::Full => return Some(Tried::Full),
                        ref_records::RefAttempt::Empty => return None,
                    }
                };
                let held = Held { at: Some(at) };
                Some(if self.holds(key) {
                    Tried::Held(held)
                } else {
                    Tried::Other(held)
                })
            })
            .ok()
    }

    /// The shader that is held, or cannot go for another reason, is this key's.
    fn holds(&self, key: u64) -> bool {
        // SAFETY: loom panics where making or destroying is not ordered with this.
        self.payload.with(|payload| unsafe { *payload == key })
    }

    fn finds_counted(&self, key: u64) -> Option<Held> {
        let _held = self.lock.lock();
        let there = self
            .table()
            .search(Self::sought(), &mut |place| {
                NonNull::new(place.load(Relaxed))
            })
            .is_ok();
        (there && self.holds(key)).then(|| {
            self.entry.refs.fetch_add(1, SeqCst);
            Held { at: None }
        })
    }

    /// What every user of a held shader relies on.
    pub(super) fn reads(&self, _: Held, key: u64) {
        assert!(
            self.holds(key),
            "what is held is there, and is what was asked for"
        );
    }

    pub(super) fn lets_go(&self, held: Held) {
        let last = match held.at {
            // SAFETY: held there, let go once.
            Some(at) => unsafe { ref_records::release(at, self.block()) },
            None => ref_records::release_counted(&self.entry),
        };
        if self.limited {
            if last || self.over.load(SeqCst) != 0 {
                self.sweeps_above_limits();
            }
        } else if last {
            self.sweeps();
        }
    }

    pub(super) fn counts(&self, held: Held) -> Held {
        if let Some(at) = held.at {
            if mutant() == Mutant::LeavesFirst {
                // SAFETY: a word of a record that is never freed.
                unsafe { at.word.as_ref() }.swap(std::ptr::null_mut(), SeqCst);
                self.entry.refs.fetch_add(1, SeqCst);
            } else {
                // SAFETY: held there, and from now on in its count.
                unsafe { ref_records::move_to_count(at, &self.entry) };
            }
        }
        Held { at: None }
    }

    /// A hold that the maker counted for somebody.
    pub(super) const fn counted(_: u32) -> Held {
        Held { at: None }
    }

    fn sweeps(&self) {
        let mine = {
            let _held = self.lock.lock();
            ref_records::is_last(&self.records, &self.entry)
        };
        if mine {
            self.destroys();
        }
    }

    /// The owner's strict release: true where its shader is gone when this returns, false where it is as it was.
    pub(super) fn releases(&self) -> bool {
        let mine = {
            let _held = self.lock.lock();
            assert!(self.entry.is_live(), "the model made one");
            if mutant() == Mutant::ChecksFirst {
                if !ref_records::is_free(&self.records, &self.entry) {
                    return false;
                }
                self.removes();
                ref_records::condemn(&self.records, &self.entry)
            } else {
                let place = self
                    .table()
                    .find(Self::sought(), self.block().as_ptr())
                    .expect("the model made one")
                    .place;
                if !ref_records::close(&self.records, &self.entry, place, self.block()) {
                    ref_records::reopen(place, self.block());
                    return false;
                }
                self.removes();
                ref_records::mark_dead(&self.entry);
                true
            }
        };
        if mine {
            self.destroys();
        }
        true
    }

    /// Out of the table. With the lock.
    fn removes(&self) {
        let found = self.table().find(Self::sought(), self.block().as_ptr());
        found.expect("it is there").clear();
    }

    /// As an insertion above the limits does: true where the shader is out of its block when the lock is released.
    pub(super) fn evicts(&self) -> bool {
        let _held = self.lock.lock();
        if !self.entry.is_live() {
            return false;
        }
        let place = self
            .table()
            .find(Self::sought(), self.block().as_ptr())
            .expect("it is live")
            .place;
        let (records, over, block) = (&self.records, &self.over, self.block());
        if !ref_records::close_to_evict(records, over, &self.entry, place, block) {
            return false;
        }
        self.removes();
        self.moves_out();
        true
    }

    /// With the lock: the block is another shader's at once.
    fn moves_out(&self) {
        self.entry.free();
        assert!(self.entry.detach_block().is_some());
        self.payload.with_mut(|payload| {
            // SAFETY: loom panics where a use is not ordered before.
            assert_ne!(unsafe { payload.replace(0) }, 0, "each is destroyed once")
        });
        // SAFETY: as above.
        self.free.with_mut(|free| unsafe { *free = 0 });
    }

    /// Whoever lets go above the limits evicts.
    fn sweeps_above_limits(&self) {
        let _held = self.lock.lock();
        let is_over = self.entry.is_live() && ref_records::is_free(&self.records, &self.entry);
        if is_over {
            self.removes();
        }
        if ref_records::is_last(&self.records, &self.entry)
            || (is_over && ref_records::condemn(&self.records, &self.entry))
        {
            self.moves_out();
        }
    }

    /// The context that the shader was made in goes, with its memory.
    pub(super) fn owner_ends(&self) {
        // SAFETY: loom panics where a use is not ordered before.
        self.owner.with_mut(|owner| unsafe { *owner = false });
    }

    /// Takes the shader of this key out, if it is there.
    pub(super) fn deletes(&self, key: u64) {
        let mine = {
            let _held = self.lock.lock();
            self.entry.is_live() && self.holds(key) && {
                self.removes();
                ref_records::condemn(&self.records, &self.entry)
            }
        };
        if mine {
            self.destroys();
        }
    }

    fn destroys(&self) {
        assert!(self.entry.detach_block().is_some());
        self.owner.with(|owner| {
            assert!(
                // SAFETY: loom panics where the owner's end is not ordered with this.
                unsafe { *owner },
                "what is destroyed goes back to memory that is there"
            )
        });
        self.payload.with_mut(|payload| {
            // SAFETY: loom panics where a use is not ordered before.
            assert_ne!(unsafe { payload.replace(0) }, 0, "each is destroyed once")
        });
        let _held = self.lock.lock();
        self.entry.free();
        // SAFETY: as above.
        self.free.with_mut(|free| unsafe { *free = 0 });
    }

    /// A new table takes the place of this one, with all that is in it.
    pub(super) fn grows(&self) {
        let _held = self.lock.lock();
        let (older, fresh) = (self.table(), Box::leak(Box::<Bucket>::default()));
        for block in older.blocks() {
            assert!(fresh.put(Self::sought(), block));
        }
        self.table.store(fresh, Release);
        if mutant() != Mutant::KeepsPlaces {
            older.retire();
        }
    }

    /// True where another shader may be made.
    pub(super) fn has_room(&self) -> bool {
        let _held = self.lock.lock();
        // SAFETY: as above.
        self.free.with(|free| unsafe { *free != NONE })
    }

    /// After all have ended: how many shaders are there, which must be those that can be found.
    pub(super) fn left(&self) -> usize {
        let there = usize::from(!self.holds(0));
        assert_eq!(
            there,
            usize::from(self.entry.is_live()),
            "a shader that nobody finds and nobody holds is destroyed"
        );
        assert_eq!(self.entry.refs.load(Relaxed), 0, "all holds were let go");
        there
    }
}
