//! Law 1 over a crate's table of operations: under a global allocator that refuses, and under one that counts. Each is
//! a process of its own.

use std::fmt::Debug;
use std::hint::black_box;

use crate::{Refusing, STILL};

/// The public operations of a crate, each of which is run over [`STILL`] in each of several ways: modes, places in a
/// tree.
#[derive(Debug)]
pub struct OperationTable<O, W: 'static> {
    /// All of them.
    pub operations: fn() -> Vec<O>,
    /// The ways.
    pub ways: &'static [W],
    /// What messages call an operation.
    pub name: fn(&O) -> String,
    /// Runs it in one way, from setting up to cleaning up.
    pub run: fn(&O, W),
    /// Whether a run requests memory from [`STILL`].
    pub allocates: fn(&O, W) -> bool,
}

impl<O: 'static, W: Copy + Debug + Sync> OperationTable<O, W> {
    /// Runs the table while the global allocator refuses; then once more on a thread that makes its first call in
    /// there, and ends there.
    ///
    /// # Panics
    /// When a run reaches the global allocator, leaves a block of [`STILL`] live, or requests nothing of it though it
    /// should; also when `global` is not the global allocator of this process.
    pub fn assert_global_allocator_is_not_asked(self, global: Refusing) {
        global.assert_it_would_notice();
        let operations = (self.operations)();
        self.each(&operations, |operation, way| {
            let before = STILL.requests();
            global.inside(|| (self.run)(operation, way));
            let name = || (self.name)(operation);
            assert_eq!(global.refused(), 0, "{} ({way:?}) asked the global allocator", name());
            assert_eq!(STILL.live(), 0, "{} ({way:?}) left something", name());
            let requested = STILL.requests() > before;
            assert!(requested || !(self.allocates)(operation, way), "{} ({way:?}) requested nothing", name());
        });
        println!("{} operations in {} ways, none asked the global allocator", operations.len(), self.ways.len());

        let thread = std::thread::spawn(move || {
            let operations = (self.operations)();
            global.inside_for_good();
            // Under miri a second each.
            let some = if cfg!(miri) { operations.get(..1).unwrap_or_default() } else { &operations };
            self.each(some, self.run);
        });
        thread.join().expect("nothing was refused");
        assert_eq!(global.refused(), 0, "a thread's own calls, or its end, asked the global allocator");
    }

    /// Runs the table while `blocks` answers how many blocks the global allocator allocated so far.
    ///
    /// # Panics
    /// When a run allocates one, when the table requests nothing of [`STILL`], or when `blocks` does not count.
    pub fn assert_no_block_on_the_heap(self, blocks: fn() -> u64) {
        let before = blocks();
        drop(black_box(Vec::<u8>::with_capacity(100)));
        assert_eq!(blocks() - before, 1, "a block is counted");

        let operations = (self.operations)();
        let (before, requests) = (blocks(), STILL.requests());
        self.each(&operations, |operation, way| {
            (self.run)(operation, way);
            assert_eq!(blocks(), before, "{} ({way:?}) allocated on the heap", (self.name)(operation));
        });
        assert!(STILL.requests() > requests && STILL.live() == 0);
        println!("{} operations in {} ways, no block on the heap", operations.len(), self.ways.len());
    }

    fn each(&self, operations: &[O], run: impl Fn(&O, W)) {
        for operation in operations {
            self.ways.iter().for_each(|way| run(operation, *way));
        }
    }
}
