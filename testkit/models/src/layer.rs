//! What the layer's threads count side by side: a peak that begins anew, kinds whose numbers an update writes, and live
//! blocks.

#[path = "../../../vk-layer/src/state/changed.rs"]
mod changed;
#[path = "../../../vk-layer/src/peak/count.rs"]
mod count;
#[path = "../../../vk-callbacks/src/check/live_blocks.rs"]
mod live_blocks;

use loom::thread;

use self::changed::ChangedKinds;
use self::count::PeakCount;
use self::live_blocks::LiveBlocks;
use crate::harness::{Mutant, holds_and_catches};
use crate::sync::{AtomicU64, Ordering};

/// Never freed: threads of loom need what lives for ever.
fn for_ever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A block comes while a part of the run begins: the peak of the part, and that of all, know of it.
#[test]
fn ly22_a_block_that_comes_while_a_phase_begins_is_in_its_peak() {
    holds_and_catches(Mutant::NoFences, || {
        let count = for_ever(PeakCount::default());
        count.add(8);
        count.subtract(8);
        let adding = thread::spawn(|| count.add(8));
        let restarting = thread::spawn(|| count.restart());
        assert_eq!(count.peak_bytes(), 8, "at any time");
        adding.join().expect("it ends");
        restarting.join().expect("it ends");
        assert_eq!((count.live_bytes(), count.recent_peak_bytes()), (8, 8));
        assert_eq!(count.peak_bytes(), 8);
    });
}

/// One block is moved by a thread, and by another one, in other lines, while a third looks: there is a block at any
/// time.
#[test]
fn a_block_that_moves_is_live_at_any_time() {
    holds_and_catches(Mutant::RelaxedExchanges, || {
        // Of the first line, and of one behind it.
        let [first, later] = [0, 6];
        let blocks = for_ever(LiveBlocks::new());
        blocks.count(later);
        let moving = thread::spawn(move || {
            blocks.move_block(first, || ());
            blocks.move_block(later, || ());
        });
        assert!(blocks.any(), "while it moves");
        moving.join().expect("it ends");
        assert!(blocks.any());
        blocks.discount(later);
        assert!(!blocks.any(), "it is freed");
    });
}

/// A command counts and says so, of a kind that was changed before; the update that is under way writes that, or the
/// next one will.
#[test]
fn ly35_an_update_has_what_a_command_counted_or_leaves_it_to_the_next() {
    holds_and_catches(Mutant::RelaxedExchanges, || {
        let changed = for_ever(ChangedKinds::new());
        let (counted, written) = (for_ever(AtomicU64::new(0)), for_ever(AtomicU64::new(0)));
        changed.note(1);
        let command = thread::spawn(|| {
            counted.store(1, Ordering::Relaxed);
            changed.note(1);
        });
        let update = thread::spawn(|| {
            assert_eq!(changed.drain(), 1);
            written.store(counted.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        command.join().expect("it ends");
        update.join().expect("it ends");
        assert!(changed.is_any() || written.load(Ordering::Relaxed) == 1);
    });
}
