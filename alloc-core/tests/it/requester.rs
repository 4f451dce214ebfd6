//! Who asks is told to a backing that wants to know, call by call, and to no other. Runs under miri.
#![cfg(feature = "std")]

use std::alloc::{Layout, System};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, Arena, Budget, Context, ContextHandle, ContextId, ContextOptions, FromGlobalAlloc,
    HostAllocator, PointerStatus, Scope, with_front, with_requester,
};
use debug_guard::{FailingAllocator, Fault};

const LAYOUT: Layout = Layout::new::<[u64; 5]>();

/// What was told with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    call: &'static str,
    context: Option<ContextId>,
    name: &'static str,
    label: Option<String>,
    front: usize,
}

thread_local! {
    static TOLD: RefCell<Vec<Option<Told>>> = const { RefCell::new(Vec::new()) };
    static UNWINDS: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, which writes down what it is told.
struct Asks {
    wants: bool,
}

impl Asks {
    fn hear(&self, call: &'static str) {
        let told = with_requester(|origin| {
            let origin = origin?;
            let label = origin.label.map(str::to_owned);
            Some(Told { call, context: origin.context, name: origin.name, label, front: origin.front })
        });
        TOLD.with_borrow_mut(|all| all.push(told));
        assert!(!UNWINDS.take(), "as asked");
    }
}

const BEHIND: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

// SAFETY: every block is the system's own.
unsafe impl HostAllocator for Asks {
    fn traits(&self) -> AllocatorTraits {
        let mut traits = AllocatorTraits::new();
        traits.tracks_requester = self.wants;
        traits
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.hear("allocate");
        BEHIND.allocate(layout, scope)
    }
    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.hear("allocate_zeroed");
        BEHIND.allocate_zeroed(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.hear("deallocate");
        // SAFETY: this function's contract: the block is the system's.
        unsafe { BEHIND.deallocate(block, layout, scope) }
    }
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let grows = new.size() > old.size();
        self.hear(if grows { "grow" } else { "shrink" });
        // SAFETY: this function's contract: the block is the system's.
        unsafe { BEHIND.resize(block, old, new, scope) }
    }
    fn validate_pointer(&self, _: NonNull<u8>, front: usize) -> PointerStatus {
        self.hear("vet");
        if front == 16 { PointerStatus::Live } else { PointerStatus::Invalid }
    }
}

static ASKS: Asks = Asks { wants: true };
static DEAF: Asks = Asks { wants: false };

fn root() -> Context {
    Context::root_static(&ASKS, ContextOptions::new("root")).expect("a root")
}

/// What was told during `f`.
fn heard<R>(f: impl FnOnce() -> R) -> (R, Vec<Option<Told>>) {
    TOLD.take();
    let answer = f();
    (answer, TOLD.take())
}

/// Whose they were: call and context.
fn whose(told: &[Option<Told>]) -> Vec<(&'static str, ContextId)> {
    told.iter()
        .map(|told| told.as_ref().expect("told"))
        .map(|told| (told.call, told.context.expect("a context's")))
        .collect()
}

/// All five calls through one context.
fn all_calls(context: &ContextHandle) {
    let large = Layout::new::<[u64; 50]>();
    let block = context.try_allocate(LAYOUT, Scope::Object).expect("a block");
    // SAFETY: live.
    let block = unsafe { context.resize(block, LAYOUT, large, Scope::Object) }.expect("a larger one");
    // SAFETY: live.
    let block = unsafe { context.resize(block, large, LAYOUT, Scope::Object) }.expect("a smaller one");
    // SAFETY: live.
    unsafe { context.free(block, LAYOUT, Scope::Object) };
    let block = context.allocate_zeroed(LAYOUT, Scope::Object).expect("a block");
    // SAFETY: live.
    unsafe { context.free(block, LAYOUT, Scope::Object) };
}

const CALLS: [&str; 6] = ["allocate", "grow", "shrink", "deallocate", "allocate_zeroed", "deallocate"];

#[test]
fn every_call_says_which_context_asks() {
    let root = root();
    let budget = |budget| ContextOptions::new("limited").label("of its own").budget(budget);
    let contexts = [
        (root.child("plain").expect("a child"), None),
        (root.child_with(budget(Budget::limit(1 << 20))).expect("a child"), Some("of its own")),
        (root.child_with(budget(Budget::exact(1 << 20))).expect("a child"), Some("of its own")),
    ];
    for (context, label) in contexts.iter().map(|(context, label)| (context, *label)) {
        // The second time the thread has its entry and its lease.
        for _ in 0..2 {
            let ((), told) = heard(|| all_calls(context));
            let expected = CALLS.map(|call| {
                let (name, label) = (context.name(), label.map(str::to_owned));
                Some(Told { call, context: Some(context.id()), name, label, front: 0 })
            });
            assert_eq!(told, expected);
        }
        assert_eq!(context.usage().total().live_bytes, 0);
    }
    with_requester(|origin| assert_eq!(origin, None, "outside of any call"));
}

#[test]
fn who_does_not_want_to_know_is_not_told() {
    let root = Context::root_static(&DEAF, ContextOptions::new("root")).expect("a root");
    let child = root.child("child").expect("a child");
    let ((), told) = heard(|| all_calls(&child));
    assert_eq!(told, vec![None; CALLS.len()]);
}

#[test]
fn a_child_with_its_own_allocator_tells_that_one() {
    let deaf = Context::root_static(&DEAF, ContextOptions::new("deaf")).expect("a root");
    let (own, told) = heard(|| deaf.child_with(ContextOptions::new("own").allocator_static(&ASKS)).expect("a child"));
    assert_eq!(told, [None], "its record is the parent's memory");
    let ((), told) = heard(|| all_calls(&own));
    assert_eq!(whose(&told), CALLS.map(|call| (call, own.id())));
    let below = own.child("below").expect("a child");
    let ((), told) = heard(|| all_calls(&below));
    assert_eq!(whose(&told), CALLS.map(|call| (call, below.id())));

    let asking = root();
    let quiet = asking.child_with(ContextOptions::new("quiet").allocator_static(&DEAF)).expect("a child");
    let ((), told) = heard(|| all_calls(&quiet));
    assert_eq!(told, vec![None; CALLS.len()]);
}

#[test]
fn records_and_labels_are_told_as_the_parents_and_a_roots_as_its_own() {
    let (root, told) =
        heard(|| Context::root_static(&ASKS, ContextOptions::new("root").label("label")).expect("a root"));
    assert_eq!(whose(&told), [("allocate", root.id()); 2]);
    let id = root.id();
    let (child, told) = heard(|| root.child_with(ContextOptions::new("child").label("label")).expect("a child"));
    assert_eq!(whose(&told), [("allocate", id); 2]);
    let ((), told) = heard(|| drop(child));
    assert_eq!(whose(&told), [("deallocate", id); 2]);
    let (closed, told) = heard(|| root.close_root());
    assert!(closed.is_ok());
    assert_eq!(whose(&told), [("deallocate", id); 2]);
}

/// Blocks of all sizes come and go through both; every count, every peak and what it may be off are the same.
#[test]
fn telling_changes_no_count() {
    let churn = |host: &'static Asks| {
        let root = Context::root_static(host, ContextOptions::new("root")).expect("a root");
        let mut usages = Vec::new();
        for budget in [None, Some(Budget::limit(1 << 20))] {
            let options = ContextOptions::new("child");
            let options = budget.map_or(options, |budget| options.budget(budget));
            let child = root.child_with(options).expect("a child");
            let mut live = Vec::new();
            for n in 0..400_usize {
                let layout = Layout::from_size_align(1 + n * 37 % 700, 8).expect("a layout");
                let block = child.try_allocate(layout, Scope::Object).expect("a block");
                live.push((block, layout));
                if n % 3 == 0 {
                    let (block, layout) = live.swap_remove(n * 7 % live.len());
                    // SAFETY: live.
                    unsafe { child.free(block, layout, Scope::Object) };
                }
                usages.push(child.usage());
            }
            for (block, layout) in live {
                // SAFETY: live.
                unsafe { child.free(block, layout, Scope::Object) };
            }
            usages.push(child.usage());
        }
        usages
    };
    assert_eq!(churn(&ASKS), churn(&DEAF));
    TOLD.take();
}

/// Values, arenas and contexts that move are told as their new context's from then on.
#[test]
fn what_moved_is_told_as_its_new_contexts() {
    let root = root();
    let (old, new) = (root.child("old").expect("a child"), root.child("new").expect("a child"));
    let freed_by_new = [("deallocate", new.id())];

    let id = new.own(0_u8).expect("owned");
    new.destroy(id).expect("destroyed, and the table is there");
    let (id, told) = heard(|| old.own([1_u64; 9]).expect("owned"));
    assert_eq!(whose(&told), [("allocate", old.id()); 2], "its block, and the table");
    let (stolen, told) = heard(|| new.steal(&old, id).expect("stolen"));
    assert_eq!(told, [], "nothing is allocated or freed");
    let (value, told) = heard(|| new.remove(stolen).expect("there"));
    assert_eq!((value, whose(&told)), ([1; 9], freed_by_new.to_vec()));

    let mut arena = Arena::new_in(old.handle());
    let (_, told) = heard(|| arena.try_alloc([0_u8; 9]).expect("room"));
    assert_eq!(whose(&told), [("allocate", old.id())]);
    let (moved, told) = heard(|| arena.move_to(new.handle()));
    assert_eq!((moved, told), (Ok(()), vec![]));
    let ((), told) = heard(|| drop(arena));
    assert_eq!(whose(&told), freed_by_new, "its chunk became the new one's");

    let mut moved = old.child("moved").expect("a child");
    moved.reparent(&new).expect("moved");
    let ((), told) = heard(|| all_calls(&moved));
    assert_eq!(whose(&told), CALLS.map(|call| (call, moved.id())), "it stays itself");
    let ((), told) = heard(|| drop(moved));
    assert_eq!(whose(&told), freed_by_new, "its record lies in its parent's memory");
}

/// Takes its memory from a context of another tree, as a guard takes its tables.
struct Through(Context);

// SAFETY: every block is the context's own.
unsafe impl HostAllocator for Through {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().with_requester()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let before = with_requester(|origin| origin.copied().map(|origin| (origin.context, origin.front)));
        let block = self.0.allocate(layout, scope);
        let after = with_requester(|origin| origin.copied().map(|origin| (origin.context, origin.front)));
        assert_eq!(before, after, "the outer origin is back");
        block
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the context's.
        unsafe { self.0.deallocate(block, layout, scope) }
    }
}

#[test]
fn nested_contexts_tell_their_own_and_restore_the_outer_one() {
    let through = Through(root());
    // SAFETY: `upper` is dropped first.
    let upper = unsafe { Context::root(&through, ContextOptions::new("upper")) }.expect("a root");
    let (block, told) = heard(|| with_front(16, || upper.try_allocate(LAYOUT, Scope::Object)).expect("a block"));
    assert_eq!(told.len(), 1);
    let told = told[0].clone().expect("told");
    assert_eq!(
        (told.context, told.front),
        (Some(through.0.id()), 16),
        "the block of the context behind is the bridge's, front and all"
    );
    // SAFETY: live.
    unsafe { upper.free(block, LAYOUT, Scope::Object) };
}

#[test]
fn the_outer_origin_is_back_when_the_allocator_unwinds() {
    let root = root();
    UNWINDS.set(true);
    let unwound = catch_unwind(AssertUnwindSafe(|| root.try_allocate(LAYOUT, Scope::Object)));
    assert!(unwound.is_err());
    with_requester(|origin| assert_eq!(origin, None));
}

#[test]
fn a_bridge_says_what_stands_in_front() {
    let root = root();
    let ((), told) = heard(|| with_front(64, || all_calls(&root)));
    assert_eq!(told.iter().flatten().map(|told| told.front).collect::<Vec<_>>(), [64; CALLS.len()]);
    let ((), told) = heard(|| all_calls(&root));
    assert_eq!(told.iter().flatten().map(|told| told.front).collect::<Vec<_>>(), [0; CALLS.len()]);
    // Over no context, nobody has a name.
    let (block, told) = heard(|| with_front(16, || ASKS.allocate(LAYOUT, Scope::Object)).expect("a block"));
    assert_eq!(told, [Some(Told { call: "allocate", context: None, name: "", label: None, front: 16 })]);
    // SAFETY: live.
    unsafe { ASKS.deallocate(block, LAYOUT, Scope::Object) };
}

#[test]
fn whoever_wraps_an_allocator_passes_on_what_it_wants_and_what_it_knows() {
    let root = root();
    let at = NonNull::<u64>::dangling().cast();
    let failing = FailingAllocator::new(&ASKS, Fault::Never);
    let hosts: [&dyn HostAllocator; 4] = [&ASKS, &&ASKS, &failing, &root];
    for host in hosts {
        assert_eq!(host.traits(), AllocatorTraits::new().with_requester());
        assert_eq!(
            (host.validate_pointer(at, 16), host.validate_pointer(at, 32)),
            (PointerStatus::Live, PointerStatus::Invalid)
        );
    }
    let (_, told) = heard(|| root.validate_pointer(at, 16));
    assert_eq!(whose(&told), [("vet", root.id())]);
    // Those that know nothing of blocks say so.
    assert_eq!((BEHIND.validate_pointer(at, 16), BEHIND.traits().tracks_requester), (PointerStatus::Unknown, false));
}

/// An abandoned root's record is left where it is.
#[test]
#[cfg(not(miri))]
fn an_abandoned_backing_is_asked_nothing_any_more() {
    let root = root();
    let handle = root.handle();
    root.abandon();
    let (answer, told) = heard(|| handle.validate_pointer(NonNull::<u64>::dangling().cast(), 16));
    assert_eq!((answer, told), (PointerStatus::Unknown, vec![]));
}
