//! Taking and giving back, in constant time.

#![forbid(unsafe_code)]

use super::bins::{Bins, bin_of};
use super::conform::{align_down, align_up};
use super::node::{NIL, State};
use super::store::Store;
use super::types::{Fit, Given, MAX_GENERATION, NODES_PER_TAKE, Refusal, Search, Taken, Want};

/// How many holes of the request's own bin a quick search looks at. More cost time; fewer, room (measured: ARCHITECTURE.md).
const OWN_TRIES: u32 = 1;

/// Who has which bytes of a block. It knows nothing of locks and takes no memory: what it keeps its nodes in is
/// [donated](RangeCore::supply).
#[derive(Debug)]
pub(crate) struct RangeCore {
    pub(super) store: Store,
    pub(super) bins: Bins,
    /// Granules.
    pub(super) count: u32,
    pub(super) granule_log2: u32,
    /// Granules.
    pub(super) free: u32,
    pub(super) live: u32,
    pub(super) holes: u32,
    /// No hole fits a request of so many granules and so great an alignment, or more: what the last full search in vain learnt.
    /// (`u32::MAX` granules: it knows nothing.)
    pub(super) in_vain: (u32, u32),
    /// The whole range is one hole that has no node yet.
    pub(super) blank: bool,
}

impl RangeCore {
    /// For `size` bytes, of which what is left of the last whole granule is never given out. Offsets begin at 0 and are multiples
    /// of `granule`, a power of two up to 2^31. The first id's generation is `generation_floor`, 1 at least.
    ///
    /// # Errors
    /// [`Refusal::Granule`], [`Refusal::ZeroSize`] where not even one granule fits, [`Refusal::TooLarge`] above 2^32 - 2 granules,
    /// [`Refusal::UsedUp`] where the floor is above [`MAX_GENERATION`].
    pub(crate) fn new(size: u64, granule: u64, generation_floor: u32) -> Result<Self, Refusal> {
        if !granule.is_power_of_two() || granule > 1 << 31 {
            return Err(Refusal::Granule);
        }
        if generation_floor > MAX_GENERATION {
            return Err(Refusal::UsedUp);
        }
        let granule_log2 = granule.trailing_zeros();
        let count = u32::try_from(size >> granule_log2).map_err(|_| Refusal::TooLarge)?;
        if count == 0 {
            return Err(Refusal::ZeroSize);
        }
        if count == u32::MAX {
            return Err(Refusal::TooLarge);
        }
        Ok(Self {
            store: Store::new(bin_of(count) + 1, generation_floor),
            bins: Bins::default(),
            count,
            granule_log2,
            free: count,
            live: 0,
            holes: 1,
            in_vain: (u32::MAX, 1),
            blank: true,
        })
    }

    #[inline]
    pub(super) fn bytes(&self, granules: u32) -> u64 {
        u64::from(granules) << self.granule_log2
    }

    /// Size and alignment in granules.
    #[inline]
    pub(super) fn granules(&self, size: u64, alignment: u64) -> Result<(u32, u32), Refusal> {
        if size == 0 {
            return Err(Refusal::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(Refusal::Alignment);
        }
        let count = ((size - 1) >> self.granule_log2) + 1;
        let alignment = (alignment >> self.granule_log2).max(1);
        if count > u64::from(self.count) || alignment > u64::from(self.count) {
            return Err(Refusal::TooLarge);
        }
        Ok((count as u32, alignment as u32))
    }

    /// Takes a range. Constant time, but for what [`Search::Full`] does before it says [`Refusal::Full`].
    ///
    /// # Errors
    /// [`Refusal::ZeroSize`], [`Refusal::Alignment`]; [`Refusal::TooLarge`] for a size or an alignment above the core's own size;
    /// [`Refusal::NoNodes`] where [`lacks`](Self::lacks) was not asked before; [`Refusal::Full`].
    #[inline]
    pub(crate) fn take(&mut self, want: &Want) -> Result<Taken, Refusal> {
        let (count, alignment) = self.granules(want.size, want.alignment)?;
        if self.store.spare_nodes() < NODES_PER_TAKE || self.blank {
            self.begin()?;
        }
        let (hole, first) = match self.find(count, alignment, want.fit) {
            Some(found) => found,
            None => self.find_full(count, alignment, want)?,
        };
        let slack = self.bytes(count) - want.size;
        Ok(self.carve(hole, first, count, want.word, slack as u32))
    }

    #[cold]
    fn begin(&mut self) -> Result<(), Refusal> {
        if self.store.spare_nodes() < NODES_PER_TAKE + u32::from(self.blank) {
            return Err(Refusal::NoNodes);
        }
        if self.blank {
            self.blank = false;
            let node = self.store.take_node();
            let whole = self.store.at_mut(node);
            (whole.first, whole.before, whole.after) = (0, NIL, NIL);
            whole.count = self.count;
            let edge = self.store.at_mut(NIL);
            (edge.before, edge.after) = (node, node);
            self.put(node, self.count);
        }
        Ok(())
    }

    /// Where a request would begin in a hole.
    #[inline]
    fn fits(&self, hole: u32, count: u32, alignment: u32, fit: Fit) -> Option<u32> {
        let node = self.store.at(hole);
        if node.count < count {
            return None;
        }
        if alignment == 1 {
            return Some(if fit == Fit::Low { node.first } else { node.end() - count });
        }
        let (first, end) = (u64::from(node.first), u64::from(node.end()));
        let begin = match fit {
            Fit::Low => align_up(first, u64::from(alignment))?,
            Fit::High => align_down(end - u64::from(count), u64::from(alignment))?,
        };
        if begin >= first && begin + u64::from(count) <= end { Some(begin as u32) } else { None }
    }

    /// The quick search: the first holes of the request's own bin, the first of the next bin, and for an alignment the first of
    /// a bin where any hole does.
    #[inline]
    fn find(&self, count: u32, alignment: u32, fit: Fit) -> Option<(u32, u32)> {
        let own = bin_of(count);
        let mut hole = self.store.head(own);
        for _ in 0..OWN_TRIES {
            if hole == NIL {
                break;
            }
            if let Some(first) = self.fits(hole, count, alignment, fit) {
                return Some((hole, first));
            }
            hole = self.store.at(hole).link;
        }
        let next = self.bins.from(own + 1)?;
        let hole = self.store.head(next);
        if let Some(first) = self.fits(hole, count, alignment, fit) {
            return Some((hole, first));
        }
        let sure = self.bins.from(bin_of(count.checked_add(alignment - 1)?) + 1)?;
        let hole = self.store.head(sure);
        self.fits(hole, count, alignment, fit).map(|first| (hole, first))
    }

    /// Every hole that might do. It costs one look at each hole of the request's own bin; for an alignment above the granule, at each
    /// hole between the request's size and the size with which it fits anyhow. A search in vain is remembered: until a hole appears
    /// that is as large as the request, the next one of its kind costs nothing.
    #[cold]
    fn find_full(&mut self, count: u32, alignment: u32, want: &Want) -> Result<(u32, u32), Refusal> {
        if want.search == Search::Quick || (count >= self.in_vain.0 && alignment >= self.in_vain.1) {
            return Err(Refusal::Full);
        }
        let sure = bin_of(count.saturating_add(alignment - 1));
        let mut at = self.bins.from(bin_of(count));
        while let Some(bin) = at.filter(|&bin| bin <= sure) {
            let mut hole = self.store.head(bin);
            while hole != NIL {
                if let Some(first) = self.fits(hole, count, alignment, want.fit) {
                    return Ok((hole, first));
                }
                hole = self.store.at(hole).link;
            }
            at = self.bins.from(bin + 1);
        }
        self.in_vain = (count, alignment);
        Err(Refusal::Full)
    }

    /// Makes `count` granules from `first` on a live range; what is left of the hole on either side stays free. The nodes are there.
    #[inline]
    fn carve(&mut self, hole: u32, first: u32, count: u32, word: u32, slack: u32) -> Taken {
        let old = *self.store.at(hole);
        let lead = first - old.first;
        let tail = old.count - lead - count;
        let node = if lead == 0 && tail == 0 {
            self.pull(hole, old.count);
            self.take_whole(hole)
        } else if lead == 0 {
            let node = self.store.take_node();
            self.insert(node, old.before, hole);
            self.resize(hole, old.count, first + count, tail);
            node
        } else {
            let node = self.store.take_node();
            self.insert(node, hole, old.after);
            self.resize(hole, old.count, old.first, lead);
            if tail > 0 {
                let rest = self.store.take_node();
                self.insert(rest, node, old.after);
                let place = self.store.at_mut(rest);
                (place.first, place.count) = (first + count, tail);
                self.put(rest, tail);
                self.holes += 1;
            }
            node
        };
        let place = self.store.at_mut(node);
        (place.first, place.count, place.word, place.link, place.slack) = (first, count, word, 0, slack);
        place.set_state(State::Used);
        let generation = place.generation();
        self.free -= count;
        self.live += 1;
        Taken { node, generation, offset: self.bytes(first), size: self.bytes(count) }
    }

    /// The node of a hole that is taken whole: its own, unless its generations are used up.
    #[inline]
    fn take_whole(&mut self, hole: u32) -> u32 {
        self.holes -= 1;
        if self.store.at(hole).generation() <= MAX_GENERATION {
            return hole;
        }
        let old = *self.store.at(hole);
        let node = self.store.take_node();
        self.insert(node, old.before, old.after);
        self.store.give_node(hole);
        node
    }

    /// Puts a node between two neighbours.
    #[inline]
    fn insert(&mut self, node: u32, before: u32, after: u32) {
        let place = self.store.at_mut(node);
        (place.before, place.after) = (before, after);
        self.store.at_mut(before).after = node;
        self.store.at_mut(after).before = node;
    }

    /// Gives a range back and joins it with the holes on either side. Takes nothing, cannot fail for lack of anything.
    ///
    /// # Errors
    /// [`Refusal::Stale`], [`Refusal::Held`].
    #[inline]
    pub(crate) fn give(&mut self, node: u32, generation: u32) -> Result<Given, Refusal> {
        let old = *self.store.at(node);
        if !old.is_live(generation) {
            return Err(Refusal::Stale);
        }
        if old.link != 0 {
            return Err(Refusal::Held);
        }
        self.live -= 1;
        self.free += old.count;
        self.store.at_mut(node).outdate(State::Leaving);
        self.join(node, old.first, old.count, old.before, old.after);
        Ok(Given { offset: self.bytes(old.first), size: self.bytes(old.count), word: old.word, empty: self.live == 0 })
    }

    /// Makes a node that is no longer live a hole, or a part of the holes beside it.
    #[inline]
    pub(super) fn join(&mut self, node: u32, first: u32, count: u32, before: u32, after: u32) {
        let left = *self.store.at(before);
        let right = *self.store.at(after);
        let count = match (left.is_free(), right.is_free()) {
            (false, false) => {
                self.holes += 1;
                self.put(node, count);
                count
            }
            (true, false) => {
                self.remove(node, before, after);
                self.resize(before, left.count, left.first, left.count + count);
                left.count + count
            }
            (false, true) => {
                self.remove(node, before, after);
                self.resize(after, right.count, first, right.count + count);
                right.count + count
            }
            (true, true) => {
                self.holes -= 1;
                self.pull(after, right.count);
                self.store.give_node(node);
                self.remove(after, before, right.after);
                let sum = left.count + count + right.count;
                self.resize(before, left.count, left.first, sum);
                sum
            }
        };
        if count >= self.in_vain.0 {
            self.in_vain.0 = u32::MAX;
        }
    }

    /// Takes a node from between two neighbours.
    #[inline]
    pub(super) fn remove(&mut self, node: u32, before: u32, after: u32) {
        self.store.at_mut(before).after = after;
        self.store.at_mut(after).before = before;
        self.store.give_node(node);
    }

    /// Changes a hole's bounds, and its bin where it needs another.
    #[inline]
    pub(super) fn resize(&mut self, hole: u32, old_count: u32, first: u32, count: u32) {
        let (from, to) = (bin_of(old_count), bin_of(count));
        if from != to {
            self.pull_from(hole, from);
        }
        let place = self.store.at_mut(hole);
        (place.first, place.count) = (first, count);
        if from != to {
            self.put_into(hole, to);
        }
    }

    /// Puts a hole into its bin.
    #[inline]
    pub(super) fn put(&mut self, hole: u32, count: u32) {
        self.store.at_mut(hole).set_state(State::Free);
        self.put_into(hole, bin_of(count));
    }

    /// The hole with the lowest offset goes to the front: what is taken from there leaves the high end whole.
    #[inline]
    fn put_into(&mut self, hole: u32, bin: u32) {
        let head = self.store.head(bin);
        if head == NIL {
            let place = self.store.at_mut(hole);
            (place.word, place.link) = (NIL, NIL);
            self.store.set_head(bin, hole);
            return self.bins.set(bin);
        }
        let first = self.store.at(hole).first;
        let front = self.store.at_mut(head);
        if first < front.first {
            front.word = hole;
            let place = self.store.at_mut(hole);
            (place.word, place.link) = (NIL, head);
            self.store.set_head(bin, hole);
        } else {
            let second = core::mem::replace(&mut front.link, hole);
            let place = self.store.at_mut(hole);
            (place.word, place.link) = (head, second);
            if second != NIL {
                self.store.at_mut(second).word = hole;
            }
        }
    }

    /// Takes a hole out of its bin.
    #[inline]
    pub(super) fn pull(&mut self, hole: u32, count: u32) {
        self.pull_from(hole, bin_of(count));
    }

    #[inline]
    fn pull_from(&mut self, hole: u32, bin: u32) {
        let place = self.store.at(hole);
        let (front, behind) = (place.word, place.link);
        if behind != NIL {
            self.store.at_mut(behind).word = front;
        }
        if front != NIL {
            self.store.at_mut(front).link = behind;
        } else {
            self.store.set_head(bin, behind);
            if behind == NIL {
                self.bins.clear(bin);
            }
        }
    }
}
