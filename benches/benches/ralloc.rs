//! Blocks that own blocks: ours in Rust and through the installed C library (where `STEWARD_PREFIX` names its prefix),
//! Mesa's ralloc (where `STEWARD_RALLOC` names its `ralloc.c`), talloc (where its library is installed). ns a block.
//!
//! `a-b`: a parents of b blocks of 48 bytes. `free`: the top goes, and all with it. `steal`: each block to another
//! parent. `realloc`: a parent with so many children grows, ns a call. `gc`: blocks of a collector; of a sweep half of
//! them are marked. `linear`: 24 bytes each.

mod support;

use std::ffi::c_void;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{NonNull, null_mut};

use alloc_core::tagged::{Fill, GcBlocks, LinearBlocks, TaggedBlock, TaggedDomain};
use alloc_core::{Context, ContextOptions, Scope};
use support::backing::SYSTEM;
use support::clock::{pinned, thread_ns};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave};
use support::talloc::{Chunk, Talloc};

const SIZE: usize = 48;

/// What has trees.
trait Trees: Sync {
    type Block: Copy;
    fn allocate(&self, parent: Option<Self::Block>, size: usize) -> Self::Block;
    fn free(&self, block: Self::Block);
    fn steal(&self, to: Self::Block, block: Self::Block);
}

/// The calls that talloc lacks.
trait Compiler: Trees {
    fn resize(&self, block: Self::Block, size: usize) -> Self::Block;
    fn collected(&self, collector: Self::Block, size: usize) -> Self::Block;
    fn collector(&self) -> Self::Block;
    /// Frees what is not among `marked`.
    fn sweep(&self, collector: Self::Block, marked: impl Iterator<Item = Self::Block>);
    /// Allocates `count` pieces in linear memory below `parent`.
    fn linear(&self, parent: Self::Block, count: usize, size: usize);
}

struct Tagged(TaggedDomain);

#[expect(clippy::undocumented_unsafe_blocks, reason = "the benches use live blocks, each on one thread")]
impl Trees for Tagged {
    type Block = TaggedBlock;
    fn allocate(&self, parent: Option<TaggedBlock>, size: usize) -> TaggedBlock {
        match parent {
            Some(parent) => unsafe { parent.allocate(size, Fill::Undefined) },
            None => self.0.allocate(size, Fill::Undefined),
        }
        .expect("memory")
    }
    fn free(&self, block: TaggedBlock) {
        unsafe { block.free() };
    }
    fn steal(&self, to: TaggedBlock, block: TaggedBlock) {
        assert!(unsafe { block.steal(Some(to)) });
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "the benches use live blocks, each on one thread")]
impl Compiler for Tagged {
    fn resize(&self, block: TaggedBlock, size: usize) -> TaggedBlock {
        unsafe { block.resize(size) }.expect("memory")
    }
    fn collector(&self) -> TaggedBlock {
        let block = self.allocate(None, GcBlocks::BLOCK_SIZE);
        unsafe { GcBlocks::init(block) }.block()
    }
    fn collected(&self, collector: TaggedBlock, size: usize) -> TaggedBlock {
        unsafe { GcBlocks::new(collector).allocate(size, Fill::Undefined) }.expect("memory")
    }
    fn sweep(&self, collector: TaggedBlock, marked: impl Iterator<Item = TaggedBlock>) {
        let gc = GcBlocks::new(collector);
        assert!(unsafe { gc.begin_sweep() });
        marked.for_each(|block| unsafe { gc.mark(block) });
        unsafe { gc.end_sweep() };
    }
    fn linear(&self, parent: TaggedBlock, count: usize, size: usize) {
        let bytes = LinearBlocks::block_size(size).expect("small");
        let linear = unsafe { LinearBlocks::init(self.allocate(Some(parent), bytes), size) };
        for _ in 0..count {
            black_box(unsafe { linear.allocate(size, Fill::Undefined) }.expect("memory"));
        }
    }
}

type Void = *mut c_void;

/// ralloc's functions of a library, by ralloc's names.
struct Names {
    size: unsafe extern "C" fn(Void, usize) -> Void,
    free: unsafe extern "C" fn(Void),
    steal: unsafe extern "C" fn(Void, Void),
    resize: unsafe extern "C" fn(Void, Void, usize) -> Void,
    gc_context: unsafe extern "C" fn(Void) -> Void,
    gc_alloc: unsafe extern "C" fn(Void, usize, usize) -> Void,
    sweep_start: unsafe extern "C" fn(Void),
    mark_live: unsafe extern "C" fn(Void, Void),
    sweep_end: unsafe extern "C" fn(Void),
    linear_parent: unsafe extern "C" fn(Void, u32) -> Void,
    linear_child: unsafe extern "C" fn(Void, u32) -> Void,
    _library: libloading::Library,
}

impl Names {
    fn load(library: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: a library that was just built, without start-up code of its own.
        let library = unsafe { libloading::Library::new(library) }?;
        macro_rules! get {
            ($name:literal) => {
                // SAFETY: the type is that of ralloc's header, 22.3.
                *unsafe { library.get($name) }?
            };
        }
        Ok(Self {
            size: get!(b"ralloc_size"),
            free: get!(b"ralloc_free"),
            steal: get!(b"ralloc_steal"),
            resize: get!(b"reralloc_size"),
            gc_context: get!(b"gc_context"),
            gc_alloc: get!(b"gc_alloc_size"),
            sweep_start: get!(b"gc_sweep_start"),
            mark_live: get!(b"gc_mark_live"),
            sweep_end: get!(b"gc_sweep_end"),
            linear_parent: get!(b"linear_alloc_parent"),
            linear_child: get!(b"linear_alloc_child"),
            _library: library,
        })
    }
}

/// The library below the prefix that the variable names.
fn installed() -> Result<Names, String> {
    let prefix = std::env::var_os("STEWARD_PREFIX").ok_or("STEWARD_PREFIX names no prefix")?;
    Names::load(&Path::new(&prefix).join("lib/libsteward-ralloc.so")).map_err(|error| error.to_string())
}

/// Mesa's file, compiled as it is but for the one function that it needs of another file.
fn stock() -> Result<Names, String> {
    let file = std::env::var_os("STEWARD_RALLOC").ok_or("STEWARD_RALLOC names no ralloc.c")?;
    let file = PathBuf::from(file);
    let sources = file.parent().and_then(Path::parent).ok_or("no folder above")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (library, measure) = (folder.path().join("libralloc.so"), folder.path().join("measure.c"));
    let text = include_str!("../../steward-c/tests/c/measure.c");
    std::fs::write(&measure, text).map_err(|error| error.to_string())?;
    let output = Command::new("cc")
        .args(["-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-DHAVE___BUILTIN_EXPECT", "-DHAVE___BUILTIN_UNREACHABLE"])
        .args(["-DHAVE_PTHREAD", "-DHAVE_STRUCT_TIMESPEC", "-DHAVE_ENDIAN_H", "-fPIC", "-shared", "-w", "-I"])
        .arg(sources)
        .arg("-I")
        .arg(sources.join("../include"))
        .arg(&file)
        .arg(&measure)
        .arg("-o")
        .arg(&library)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Names::load(&library).map_err(|error| error.to_string())
}

/// An address that benches pass between threads with its tree.
#[derive(Clone, Copy)]
struct At(Void);

// SAFETY: an address; a tree is one thread's at a time.
unsafe impl Send for At {}

fn some(block: Void) -> At {
    At(NonNull::new(block).expect("memory").as_ptr())
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "the benches use live blocks, each on one thread")]
impl Trees for Names {
    type Block = At;
    fn allocate(&self, parent: Option<At>, size: usize) -> At {
        some(unsafe { (self.size)(parent.map_or(null_mut(), |parent| parent.0), size) })
    }
    fn free(&self, block: At) {
        unsafe { (self.free)(block.0) };
    }
    fn steal(&self, to: At, block: At) {
        unsafe { (self.steal)(to.0, block.0) };
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "the benches use live blocks, each on one thread")]
impl Compiler for Names {
    fn resize(&self, block: At, size: usize) -> At {
        some(unsafe { (self.resize)(null_mut(), block.0, size) })
    }
    fn collector(&self) -> At {
        some(unsafe { (self.gc_context)(null_mut()) })
    }
    fn collected(&self, collector: At, size: usize) -> At {
        some(unsafe { (self.gc_alloc)(collector.0, size, 8) })
    }
    fn sweep(&self, collector: At, marked: impl Iterator<Item = At>) {
        unsafe { (self.sweep_start)(collector.0) };
        marked.for_each(|block| unsafe { (self.mark_live)(collector.0, block.0) });
        unsafe { (self.sweep_end)(collector.0) };
    }
    fn linear(&self, parent: At, count: usize, size: usize) {
        let size = u32::try_from(size).expect("small");
        let linear = some(unsafe { (self.linear_parent)(parent.0, size) });
        for _ in 0..count {
            black_box(some(unsafe { (self.linear_child)(linear.0, size) }));
        }
    }
}

impl Trees for Talloc {
    type Block = Chunk;
    fn allocate(&self, parent: Option<Chunk>, size: usize) -> Chunk {
        self.take(parent, size)
    }
    fn free(&self, block: Chunk) {
        Self::free(self, block);
    }
    fn steal(&self, to: Chunk, block: Chunk) {
        Self::steal(self, to, block);
    }
}

/// ns a piece, of so many.
fn time<R>(pieces: usize, work: impl FnOnce() -> R) -> (f64, R) {
    let before = thread_ns();
    let made = work();
    ((thread_ns() - before) as f64 / pieces as f64, made)
}

/// A tree of `parents` with `each` blocks, several times over where it is small: build, steal, free.
fn tree<T: Trees>(trees: &T, parents: usize, each: usize) -> Vec<f64> {
    let blocks = parents * each;
    let times = (200_000 / blocks).max(1);
    let mut sums = [0.0; 3];
    let mut all = Vec::with_capacity(blocks);
    for _ in 0..times {
        let top = trees.allocate(None, 0);
        let (built, ()) = time(blocks, || {
            for _ in 0..parents {
                let parent = trees.allocate(Some(top), SIZE);
                all.extend((0..each).map(|_| trees.allocate(Some(parent), SIZE)));
            }
        });
        let heir = trees.allocate(Some(top), SIZE);
        let (stolen, ()) = time(blocks, || {
            for block in all.drain(..) {
                trees.steal(heir, block);
            }
        });
        let (freed, ()) = time(blocks, || trees.free(top));
        for (sum, ns) in sums.iter_mut().zip([built, stolen, freed]) {
            *sum += ns;
        }
    }
    sums.map(|sum| sum / times as f64).to_vec()
}

/// A large block makes the C library join what was freed: else whoever comes next pays for it.
fn settle<T: Trees>(trees: &T) {
    let large = trees.allocate(None, 1 << 20);
    trees.free(large);
}

/// Realloc of a parent, collector, linear memory.
fn compiler<T: Compiler>(trees: &T) -> Vec<f64> {
    let (children, count) = (amount(1_000_000), amount(500_000));
    let top = trees.allocate(None, 64);
    for _ in 0..children {
        trees.allocate(Some(top), 16);
    }
    // Behind the last child: it may grow where it is or not, and its children must follow if not.
    let (realloc, top) = time(2, || {
        let moved = trees.resize(top, 100_000);
        trees.resize(moved, 100_016)
    });
    trees.free(top);
    settle(trees);
    let collector = trees.collector();
    let (allocated, blocks) = time(count, || (0..count).map(|_| trees.collected(collector, 40)).collect::<Vec<_>>());
    let (swept, ()) = time(count, || trees.sweep(collector, blocks.iter().copied().step_by(2)));
    trees.free(collector);
    settle(trees);
    let top = trees.allocate(None, 0);
    let (linear, ()) = time(count, || trees.linear(top, count, 24));
    trees.free(top);
    vec![realloc, allocated, swept, linear]
}

/// A subject's cases of one kind, in the order of the columns.
fn rows(report: &mut BenchReport, labels: &[String], cases: Vec<(usize, Case<'_>)>) {
    const PEERS: [&str; 4] = ["tagged", "library", "ralloc.c", "talloc"];
    let (columns, cases): (Vec<usize>, Vec<Case<'_>>) = cases.into_iter().unzip();
    let times = interleave(11, cases);
    for (at, label) in labels.iter().enumerate() {
        let mut cells = [f64::NAN; 4];
        for (column, times) in columns.iter().zip(&times) {
            cells[*column] = times[at];
        }
        report.row(label, &cells);
        report.ns(label, cells[0]);
        for peer in 2..4 {
            for ours in 0..2 {
                if !cells[peer].is_nan() && !cells[ours].is_nan() {
                    let case = format!("{label}-{}", PEERS[ours]);
                    report.ratio(&case, PEERS[peer], cells[ours], cells[peer]);
                }
            }
        }
    }
}

fn main() {
    keep_pages();
    let root = Context::root_static(&SYSTEM, ContextOptions::new("root").scope(Scope::Object)).expect("memory");
    let tagged = Tagged(TaggedDomain::new(root.child("compiler").expect("memory")).expect("memory"));
    let load = |what: &str, loaded: Result<Names, String>| {
        loaded.inspect_err(|why| println!("SKIPPED ralloc/{what}: {why}")).ok()
    };
    let (library, stock) = (load("library", installed()), load("ralloc.c", stock()));
    let talloc = Talloc::load("ralloc");
    let mut report = BenchReport::new("ralloc", &["case", "tagged", "library", "ralloc.c", "talloc"]);
    for (parents, each) in [(100, 100), (1000, amount(1000))] {
        let mut cases = vec![(0, Case::several("tagged", || pinned(|| tree(&tagged, parents, each))))];
        for (column, names) in [(1, &library), (2, &stock)] {
            if let Some(names) = names {
                cases.push((column, Case::several("names", move || pinned(move || tree(names, parents, each)))));
            }
        }
        if let Some(talloc) = &talloc {
            cases.push((3, Case::several("talloc", move || pinned(move || tree(talloc, parents, each)))));
        }
        rows(&mut report, &["build", "steal", "free"].map(|what| format!("{parents}-{each}-{what}")), cases);
    }
    let mut cases = vec![(0, Case::several("tagged", || pinned(|| compiler(&tagged))))];
    for (column, names) in [(1, &library), (2, &stock)] {
        if let Some(names) = names {
            cases.push((column, Case::several("names", move || pinned(move || compiler(names)))));
        }
    }
    rows(&mut report, &["realloc-parent", "gc-allocate", "gc-sweep-half", "linear"].map(str::to_owned), cases);
    report.print();
}
