//! Trees against a naive model, and what destructors and allocators may do meanwhile.

use std::cell::Cell;
use std::ffi::c_void;

use alloc_core::tagged::{Fill, TaggedBlock, TaggedDomain};
use alloc_core::{Context, ContextOptions, HostError, Misuse};
use testkit::{HookedAllocator, RecordingAllocator, Rng, with_hook};

use super::{SEEN, VICTIM, block, domain, note, number, root, this};

/// What a tree should be: children newest last.
#[derive(Clone, Default)]
struct TaggedNode {
    parent: Option<usize>,
    children: Vec<usize>,
    block: Option<TaggedBlock>,
}

struct TaggedModel(Vec<TaggedNode>);

impl TaggedModel {
    fn is_below(&self, at: usize, top: usize) -> bool {
        let mut at = Some(at);
        while let Some(number) = at {
            if number == top {
                return true;
            }
            at = self.0[number].parent;
        }
        false
    }
    fn unlink(&mut self, at: usize) {
        if let Some(parent) = self.0[at].parent.take() {
            self.0[parent].children.retain(|child| *child != at);
        }
    }
    fn link(&mut self, at: usize, parent: usize) {
        self.0[at].parent = Some(parent);
        self.0[parent].children.push(at);
    }
    /// Children before parents, newest first.
    fn free(&mut self, at: usize, order: &mut Vec<(u64, u64)>) {
        let children = self.0[at].children.clone();
        for child in children.into_iter().rev() {
            self.free(child, order);
        }
        order.push((at as u64, self.0[at].parent.unwrap_or(0) as u64));
        self.0[at] = TaggedNode::default();
    }
    fn check(&self) {
        for (at, node) in self.0.iter().enumerate() {
            let Some(block) = node.block else { continue };
            assert_eq!(number(block), at as u64);
            // SAFETY: the model says that the blocks are live.
            unsafe {
                assert_eq!(block.parent(), node.parent.and_then(|parent| self.0[parent].block));
                let mut child = block.newest_child();
                for expected in node.children.iter().rev() {
                    assert_eq!(child, self.0[*expected].block);
                    child = child.and_then(|child| child.next_older());
                }
                assert_eq!(child, None);
            }
        }
    }
}

#[test]
fn trees_are_what_a_naive_model_says() {
    let root = root();
    let domains = [domain(&root), domain(&root)];
    let mut rng = Rng::new(7);
    let mut model = TaggedModel(vec![TaggedNode::default()]);
    for _ in 0..if cfg!(miri) { 40 } else { 4000 } {
        let live: Vec<usize> = (1..model.0.len()).filter(|at| model.0[*at].block.is_some()).collect();
        let pick = |rng: &mut Rng| live.get(rng.below(live.len().max(1) as u64) as usize).copied();
        let (one, two) = (pick(&mut rng), pick(&mut rng));
        // SAFETY: all blocks that the model has are live.
        unsafe {
            match (rng.below(8), one, two) {
                (0..=2, parent, _) => {
                    let new = match parent.filter(|_| rng.below(8) > 0) {
                        Some(parent) => {
                            model.0.push(TaggedNode::default());
                            model.link(model.0.len() - 1, parent);
                            model.0[parent].block.expect("live").allocate(8, Fill::Zeros)
                        }
                        None => {
                            model.0.push(TaggedNode::default());
                            domains[rng.below(2) as usize].allocate(8, Fill::Zeros)
                        }
                    };
                    let new = new.expect("nothing is refused");
                    let at = model.0.len() - 1;
                    new.payload().cast::<u64>().write(at as u64);
                    new.set_destructor(Some(note)).expect("one function");
                    model.0[at].block = Some(new);
                }
                (3 | 4, Some(one), Some(two)) => {
                    let legal = !model.is_below(two, one);
                    let (a, b) = (model.0[one].block, model.0[two].block);
                    assert_eq!(a.expect("live").steal(b), legal);
                    if legal {
                        model.unlink(one);
                        model.link(one, two);
                    }
                }
                (5, Some(one), Some(two)) => {
                    let legal = !model.is_below(one, two);
                    let (a, b) = (model.0[one].block, model.0[two].block);
                    assert_eq!(a.expect("live").adopt(b.expect("live")), legal);
                    if legal {
                        for child in model.0[two].children.clone() {
                            model.unlink(child);
                            model.link(child, one);
                        }
                    }
                }
                (6, Some(one), _) => {
                    let size = [8, 5000, 200, 70_000][rng.below(4) as usize];
                    let old = model.0[one].block.expect("live");
                    model.0[one].block = Some(old.resize(size).expect("nothing is refused"));
                }
                (7, Some(one), _) if rng.below(3) == 0 => {
                    let block = model.0[one].block.expect("live");
                    model.unlink(one);
                    let mut order = Vec::new();
                    model.free(one, &mut order);
                    SEEN.take();
                    block.free();
                    assert_eq!(SEEN.take(), order);
                }
                _ => (),
            }
        }
        model.check();
    }
    let tops: Vec<TaggedBlock> =
        model.0.iter().filter(|node| node.parent.is_none()).filter_map(|node| node.block).collect();
    // Few steps under miri leave few trees.
    assert!(cfg!(miri) || tops.len() > 1);
    drop(domains);
    for top in tops {
        // SAFETY: live, and used no more.
        unsafe { top.free() };
    }
    root.close_root().expect("both domains have ended");
}

#[test]
fn ca20_a_destructor_may_free_siblings_and_allocate_below_itself() {
    unsafe extern "C" fn free_and_allocate(payload: *mut c_void) {
        let block = this(payload);
        // SAFETY: the block is dying; what is used below is live.
        unsafe {
            let parent = block.parent().expect("not the top");
            VICTIM.take().expect("set by the test").free();
            // What is dying stays where it is.
            block.free();
            assert!(!block.steal(None) && !parent.steal(None));
            assert_eq!(block.resize(99), Err(HostError::Misuse(Misuse::Dying)));
            assert_eq!(
                block.set_destructor(Some(free_and_allocate)),
                Err(HostError::Misuse(Misuse::Dying)),
                "it would be called without end"
            );
            assert_eq!(block.set_destructor(None), Ok(()));
            let below = block.allocate(8, Fill::Zeros).expect("a block");
            below.payload().cast::<u64>().write(77);
            below.set_destructor(Some(note)).expect("one function");
        }
    }
    let root = root();
    let domain = domain(&root);
    let top = block(&domain);
    // SAFETY: all are live until the top is freed.
    unsafe {
        let [older, middle, newer] = [1, 2, 3].map(|number: u64| {
            let child = top.allocate(8, Fill::Zeros).expect("a block");
            child.payload().cast::<u64>().write(number);
            child.set_destructor(Some(note)).expect("one function");
            child
        });
        assert_eq!(top.newest_child(), Some(newer));
        VICTIM.set(Some(older));
        middle.set_destructor(Some(free_and_allocate)).expect("one function");
        SEEN.take();
        top.free();
        assert_eq!(SEEN.take(), [(3, 0), (1, 0), (77, 2)]);
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn an_allocator_may_use_other_trees_of_the_domain_meanwhile() {
    let witness = HookedAllocator::new(RecordingAllocator::system());
    // SAFETY: closed below.
    let root = unsafe { Context::root(&witness, ContextOptions::new("root")) }.expect("a root");
    let domain = TaggedDomain::new(root.child("domain").expect("a child")).expect("a domain");
    let other = block(&domain);
    let times = Cell::new(0);
    let hook = |_| {
        times.set(times.get() + 1);
        // SAFETY: the other tree is this thread's.
        unsafe {
            let child = other.allocate(24, Fill::Zeros).expect("a block");
            child.allocate(8, Fill::Zeros).expect("a block");
            if let Some(older) = child.next_older() {
                older.free();
            }
        }
    };
    with_hook(1, &hook, || {
        let top = block(&domain);
        // SAFETY: all are live until the top is freed.
        unsafe {
            let child = top.allocate(8, Fill::Zeros).expect("a block");
            child.allocate(8, Fill::Zeros).expect("a block");
            child.resize(4000).expect("a block");
            top.free();
        }
    });
    assert!(times.get() >= 7, "{times:?}");
    // SAFETY: live, and used no more.
    unsafe { other.free() };
    drop(domain);
    root.close_root().expect("nothing is left");
}
