//! The recorder between a driver and callbacks: what passes is unchanged, and the trace says what passed.

use std::alloc::{Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use alloc_core::{AllocError, FromGlobalAlloc, HostAllocator, Scope, Scoped};
use proptest::prelude::*;
use testkit::Witness;
use vk_callbacks::{
    CallbackError, Caller, Finding, Pointer, RawCallbacks, Recorder, Replay, ReplayTarget, Request, Tap, Totals, TraceEvent,
    TraceReader, Written, current_thread,
};

// --- what stands behind the taps ---------------------------------------------------------------------------------------

/// Hands out made-up addresses, the lowest free one first, so that each is used again at once. Nobody touches the memory.
#[derive(Default)]
struct Model {
    state: Mutex<State>,
    /// Called in the middle of a reallocation, when the old address is free and the call has not returned.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[derive(Default)]
struct State {
    /// Address to the number of its block.
    live: BTreeMap<usize, u64>,
    given: u64,
    refuse: bool,
    /// Every call as it came.
    seen: Vec<(usize, usize, usize, i32)>,
}

impl State {
    fn give(&mut self, size: usize, align: usize) -> usize {
        if self.refuse || size > 1 << 40 {
            return 0;
        }
        let step = if align.is_power_of_two() { align.clamp(16, 4096) } else { 16 };
        let at = (1..).map(|n| n * step).find(|at| !self.live.contains_key(at)).unwrap_or(0);
        self.given += 1;
        self.live.insert(at, self.given);
        at
    }
}

impl Model {
    fn callbacks(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(model_allocation),
            pfn_reallocation: Some(model_reallocation),
            pfn_free: Some(model_free),
            pfn_internal_allocation: Some(model_notice),
            pfn_internal_free: Some(model_notice),
        }
    }

    fn of<'a>(user_data: *mut c_void) -> &'a Self {
        // SAFETY: the tests pass back what `callbacks` gave, and keep the model until the end.
        unsafe { &*user_data.cast::<Self>() }
    }

    fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.state.lock().expect("no panic under the lock"))
    }
}

unsafe extern "system" fn model_allocation(user_data: *mut c_void, size: usize, align: usize, scope: i32) -> *mut c_void {
    Model::of(user_data).with(|state| {
        state.seen.push((0, size, align, scope));
        ptr::without_provenance_mut(state.give(size, align))
    })
}

unsafe extern "system" fn model_reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    let model = Model::of(user_data);
    let meanwhile = model.meanwhile.lock().expect("no panic under the lock").take();
    let new = model.with(|state| {
        state.seen.push((old.addr(), size, align, scope));
        let new = if size == 0 { 0 } else { state.give(size, align) };
        if new != 0 || size == 0 {
            state.live.remove(&old.addr());
        }
        new
    });
    if let Some(meanwhile) = meanwhile {
        meanwhile();
    }
    ptr::without_provenance_mut(new)
}

unsafe extern "system" fn model_free(user_data: *mut c_void, block: *mut c_void) {
    Model::of(user_data).with(|state| {
        state.seen.push((block.addr(), 0, 0, -1));
        state.live.remove(&block.addr());
    });
}

unsafe extern "system" fn model_notice(user_data: *mut c_void, size: usize, kind: i32, scope: i32) {
    Model::of(user_data).with(|state| state.seen.push((0, size, kind.unsigned_abs() as usize, scope)));
}

/// A driver's calls through a tap.
#[derive(Clone, Copy)]
struct Driver(Tap);

impl Driver {
    fn raw(&self) -> (&RawCallbacks, *mut c_void) {
        (self.0.raw(), self.0.raw().p_user_data)
    }
    fn allocate(self, size: usize, align: usize, scope: i32) -> usize {
        let (raw, user_data) = self.raw();
        // SAFETY: the recorder and what is behind the tap are there.
        unsafe { raw.pfn_allocation.expect("set")(user_data, size, align, scope) }.addr()
    }
    fn reallocate(self, old: usize, size: usize, align: usize, scope: i32) -> usize {
        let (raw, user_data) = self.raw();
        // SAFETY: as in `allocate`; the callbacks behind bear any address.
        unsafe { raw.pfn_reallocation.expect("set")(user_data, ptr::without_provenance_mut(old), size, align, scope) }.addr()
    }
    fn free(self, block: usize) {
        let (raw, user_data) = self.raw();
        // SAFETY: as in `reallocate`.
        unsafe { raw.pfn_free.expect("set")(user_data, ptr::without_provenance_mut(block)) }
    }
    fn notice(self, size: usize, kind: i32, scope: i32) {
        let (raw, user_data) = self.raw();
        // SAFETY: as in `allocate`.
        unsafe { raw.pfn_internal_allocation.expect("set")(user_data, size, kind, scope) }
    }
}

fn system() -> FromGlobalAlloc<System> {
    FromGlobalAlloc(System)
}

fn tap(recorder: &Recorder<'_>, owner: u64, inner: RawCallbacks) -> Result<Driver, CallbackError> {
    // SAFETY: the tests keep what is behind the tap until the recorder is gone, and call nothing afterwards.
    unsafe { recorder.tap(owner, inner) }.map(Driver)
}

fn trace(recorder: &Recorder<'_>) -> (String, Written) {
    let mut text = String::new();
    let written = recorder.write("model", &mut text).expect("memory for the numbers");
    assert_eq!(written.lines, text.lines().count() as u64);
    (text, written)
}

fn lines(recorder: &Recorder<'_>) -> Vec<String> {
    trace(recorder).0.lines().skip(2).map(str::to_owned).collect()
}

// --- one call at a time -------------------------------------------------------------------------------------------------

#[test]
fn v5_v7_v35_calls_pass_unchanged_legal_or_not() {
    let (model, memory) = (Model::default(), system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 3, model.callbacks()).expect("memory");
    let block = driver.allocate(0, 3, 77);
    driver.notice(9, 1, -4);
    let block = driver.reallocate(block, 20, 64, 2);
    driver.free(block);
    driver.free(0);
    let seen = model.with(|state| state.seen.clone());
    assert_eq!(seen, [(0, 0, 3, 77), (0, 9, 1, -4), (16, 20, 64, 2), (64, 0, 0, -1), (0, 0, 0, -1)]);
    let me = current_thread();
    assert_eq!(
        lines(&recorder),
        [
            format!("a,{me},3,1,0,3,77"),
            format!("i,{me},3,9,1,-4"),
            format!("b,{me},3,1"),
            format!("r,{me},3,1,2,20,64,2"),
            format!("f,{me},3,2"),
            format!("f,{me},3,0"),
            "z,8".to_owned(),
        ]
    );
    recorder.close().expect("nothing is live");
}

#[test]
fn v1_v4_missing_functions_stay_missing_and_notices_are_heard_anyway() {
    let memory = system();
    let recorder = Recorder::new(&memory).expect("memory");
    let none = RawCallbacks {
        p_user_data: ptr::null_mut(),
        pfn_allocation: None,
        pfn_reallocation: None,
        pfn_free: None,
        pfn_internal_allocation: None,
        pfn_internal_free: None,
    };
    let driver = tap(&recorder, 1, none).expect("memory");
    let raw = driver.0.raw();
    assert!(raw.pfn_allocation.is_none() && raw.pfn_reallocation.is_none() && raw.pfn_free.is_none());
    driver.notice(64, 0, 1);
    assert_eq!(lines(&recorder), [format!("i,{},1,64,0,1", current_thread()), "z,3".to_owned()]);
}

#[test]
fn v9_v11_v19_refusals_unknown_pointers_and_second_frees_are_written_as_such() {
    let (model, memory) = (Model::default(), system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 1, model.callbacks()).expect("memory");
    let block = driver.allocate(8, 8, 1);
    model.with(|state| state.refuse = true);
    assert_eq!(driver.allocate(8, 8, 1), 0);
    assert_eq!(driver.reallocate(block, 80, 8, 1), 0);
    driver.free(block);
    driver.free(block);
    driver.free(0xbad0);
    driver.free(0xbee0);
    driver.free(0xbad0);
    driver.reallocate(0xbee0, 16, 8, 1);
    let tails: Vec<_> =
        lines(&recorder).into_iter().map(|line| line.replacen(&format!(",{},1", current_thread()), "", 1)).collect();
    assert_eq!(
        tails,
        ["a,1,8,8,1", "a,0,8,8,1", "b,1", "r,1,0,80,8,1", "f,1", "f,1", "f,?1", "f,?2", "f,?1", "b,?2", "r,?2,0,16,8,1", "z,13"]
    );
}

#[test]
fn commands_owners_and_phases_are_written_where_they_happened() {
    let memory = system();
    let recorder = Recorder::new(&memory).expect("memory");
    recorder.phase("setup");
    recorder.owner(1, 0, "VkInstance");
    recorder.owner(2, 1, "VkBuffer, the large one");
    recorder.enter_for(2, "vkCreateBuffer");
    recorder.enter("vkGetBufferMemoryRequirements");
    recorder.leave(0);
    recorder.leave(-1);
    let me = current_thread();
    assert_eq!(
        lines(&recorder),
        [
            "p,setup".to_owned(),
            "o,1,0,VkInstance".to_owned(),
            "o,2,1,VkBuffer, the large one".to_owned(),
            format!("e,{me},2,vkCreateBuffer"),
            format!("e,{me},0,vkGetBufferMemoryRequirements"),
            format!("l,{me},0"),
            format!("l,{me},-1"),
            "z,9".to_owned(),
        ]
    );
}

#[test]
fn an_address_given_away_during_a_reallocation_keeps_the_two_blocks_apart() {
    let (model, memory) = (Model::default(), system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 1, model.callbacks()).expect("memory");
    let first = driver.allocate(8, 16, 1);
    let other = std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let raw = Driver(driver.0);
        // Another thread is given the old address before the reallocation has returned.
        let meanwhile = move || {
            let theirs = std::thread::spawn(move || (raw.allocate(4, 16, 1), current_thread())).join().expect("no panic");
            send.send(theirs).expect("the test waits");
        };
        *model.meanwhile.lock().expect("no panic") = Some(Box::new(meanwhile));
        scope.spawn(|| ()).join().expect("no panic");
        let moved = driver.reallocate(first, 80, 16, 1);
        let (theirs, other) = receive.recv().expect("it ran");
        assert_eq!(theirs, first, "the model must give the address again, or this proves nothing");
        driver.free(theirs);
        driver.free(moved);
        other
    });
    let me = current_thread();
    assert_eq!(
        lines(&recorder),
        [
            format!("a,{me},1,1,8,16,1"),
            format!("b,{me},1,1"),
            format!("a,{other},1,2,4,16,1"),
            format!("r,{me},1,1,3,80,16,1"),
            format!("f,{me},1,2"),
            format!("f,{me},1,3"),
            "z,8".to_owned(),
        ]
    );
}

#[test]
fn a_recorder_with_live_blocks_does_not_close() {
    let (model, memory) = (Model::default(), Witness::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let one = tap(&recorder, 1, model.callbacks()).expect("memory");
    let two = tap(&recorder, 2, model.callbacks()).expect("memory");
    let block = one.allocate(8, 8, 1);
    let in_use = recorder.close().expect_err("a block is live");
    assert_eq!(in_use.live_blocks, 1);
    let recorder = in_use.recorder;
    two.free(block); // through a compatible tap
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");

    let memory = Witness::system();
    let recorder = Recorder::new(&memory).expect("memory");
    tap(&recorder, 1, model.callbacks()).expect("memory").allocate(8, 8, 1);
    // SAFETY: nobody calls the tap any more.
    unsafe { recorder.close_anyway() };
    memory.assert_empty("after close_anyway");
}

#[test]
#[cfg(not(miri))] // it leaks on purpose, which miri reports
fn a_recorder_dropped_with_live_blocks_stays_callable() {
    let (model, memory) = (Model::default(), Witness::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let tap_of = tap(&recorder, 1, model.callbacks()).expect("memory");
    let block = tap_of.allocate(8, 8, 1);
    drop(recorder);
    assert!(memory.total().live_bytes > 0, "leaked, so that the tap stays callable");
    tap_of.free(block);
}

// --- programs -----------------------------------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate {
        tap: usize,
        size: usize,
        scope: i32,
    },
    /// `pick` chooses among the addresses ever seen, live or not.
    Reallocate {
        tap: usize,
        pick: usize,
        size: usize,
        taken_meanwhile: bool,
    },
    Free {
        tap: usize,
        pick: usize,
        other_thread: bool,
    },
    FreeUnknown {
        at: usize,
    },
    Refuse(bool),
    Command(i32),
}

fn op() -> impl Strategy<Value = Op> {
    let tap = || 0..2_usize;
    prop_oneof![
        4 => (tap(), 0..100_usize, 0..5_i32).prop_map(|(tap, size, scope)| Op::Allocate { tap, size, scope }),
        3 => (tap(), any::<usize>(), prop_oneof![Just(0_usize), 1..200_usize], any::<bool>())
            .prop_map(|(tap, pick, size, taken_meanwhile)| Op::Reallocate { tap, pick, size, taken_meanwhile }),
        3 => (tap(), any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(tap, pick, other_thread)| Op::Free { tap, pick, other_thread }),
        1 => (1..4_usize).prop_map(|n| Op::FreeUnknown { at: 0xf_0000 + n }),
        1 => any::<bool>().prop_map(Op::Refuse),
        1 => any::<i32>().prop_map(Op::Command),
    ]
}

/// What the trace must say, from what the driver knows: written beside the recorder, shares nothing with it.
#[derive(Default)]
struct Expected {
    events: Vec<TraceEvent<'static>>,
    at: BTreeMap<usize, Pointer>,
    given: u64,
    unknown: u64,
    seen: Vec<usize>,
}

impl Expected {
    fn given(&mut self, at: usize) -> Pointer {
        if at == 0 {
            return Pointer::Null;
        }
        self.given += 1;
        self.at.insert(at, Pointer::Block(self.given));
        self.seen.push(at);
        Pointer::Block(self.given)
    }
    fn known(&mut self, at: usize) -> Pointer {
        if at == 0 {
            return Pointer::Null;
        }
        *self.at.entry(at).or_insert_with(|| {
            self.unknown += 1;
            Pointer::Unknown(self.unknown)
        })
    }
    /// NULL now and then.
    fn pick(&self, pick: usize) -> usize {
        match pick % (self.seen.len() + 1) {
            0 => 0,
            n => self.seen[n - 1],
        }
    }
}

fn run(ops: &[Op]) {
    let (model, memory) = (Model::default(), Witness::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let drivers = [tap(&recorder, 1, model.callbacks()), tap(&recorder, 2, model.callbacks())].map(|tap| tap.expect("memory"));
    let me = current_thread();
    let mut expected = Expected::default();
    let by = |tap: usize, thread| Caller { thread, owner: tap as u64 + 1 };
    for op in ops {
        match *op {
            Op::Allocate { tap, size, scope } => {
                let at = drivers[tap].allocate(size, 8, scope);
                let block = expected.given(at);
                let asked = Request { size: size as u64, align: 8, scope };
                expected.events.push(TraceEvent::Allocate { by: by(tap, me), block, asked });
            }
            Op::Reallocate { tap, pick, size, taken_meanwhile } => {
                let at = expected.pick(pick);
                let old = expected.known(at);
                expected.events.push(TraceEvent::ReallocateBegin { by: by(tap, me), old });
                let (send, receive) = std::sync::mpsc::channel();
                if taken_meanwhile {
                    let driver = drivers[1 - tap];
                    let meanwhile = move || {
                        send.send(driver.allocate(1, 8, 0)).expect("the test waits");
                    };
                    *model.meanwhile.lock().expect("no panic") = Some(Box::new(meanwhile));
                }
                let new = drivers[tap].reallocate(at, size, 8, 1);
                if let Ok(theirs) = receive.try_recv() {
                    let block = expected.given(theirs);
                    let asked = Request { size: 1, align: 8, scope: 0 };
                    expected.events.push(TraceEvent::Allocate { by: by(1 - tap, me), block, asked });
                }
                let new = expected.given(new);
                let asked = Request { size: size as u64, align: 8, scope: 1 };
                expected.events.push(TraceEvent::Reallocate { by: by(tap, me), old, new, asked });
            }
            Op::Free { tap, pick, other_thread } => {
                let at = expected.pick(pick);
                let block = expected.known(at);
                let free = move || {
                    drivers[tap].free(at);
                    current_thread()
                };
                let thread = if other_thread { std::thread::spawn(free).join().expect("no panic") } else { free() };
                expected.events.push(TraceEvent::Free { by: by(tap, thread), block });
            }
            Op::FreeUnknown { at } => {
                drivers[0].free(at);
                let block = expected.known(at);
                expected.events.push(TraceEvent::Free { by: by(0, me), block });
            }
            Op::Refuse(refuse) => model.with(|state| state.refuse = refuse),
            Op::Command(result) => {
                recorder.enter("vkX");
                recorder.leave(result);
                let by = Caller { thread: me, owner: 0 };
                expected.events.extend([TraceEvent::Enter { by, command: "vkX" }, TraceEvent::Leave { by, result }]);
            }
        }
    }
    let (text, written) = trace(&recorder);
    let read: Vec<_> = TraceReader::new(&text).expect("own header").map(|item| item.expect("own lines").1).collect();
    assert_eq!(read, expected.events);
    assert_eq!(written.events, read.len() as u64);
    replays(&text);
    // SAFETY: the program is over.
    unsafe { recorder.close_anyway() };
    memory.assert_empty("after the recorder");
}

proptest! {
    #[test]
    fn the_trace_says_what_the_driver_did(ops in prop::collection::vec(op(), 0..60)) {
        run(&ops);
    }
}

/// Collects findings; blocks come from a witness.
struct Ears(Witness, Vec<Finding>);

impl ReplayTarget for Ears {
    type Sink = Witness;
    fn sink(&mut self, _: u64) -> Witness {
        self.0.clone()
    }
    fn finding(&mut self, _: u64, finding: Finding) {
        self.1.push(finding);
    }
}

fn replays(text: &str) -> (Totals, Vec<Finding>) {
    let mut ears = Ears(Witness::system(), Vec::new());
    let mut replay = Replay::new(Scoped::new(system(), Scope::Object));
    let totals = replay.run(TraceReader::new(text).expect("own header"), &mut ears).expect("own lines");
    ears.0.assert_empty("after the replay");
    (totals, ears.1)
}

// --- threads, over real memory ------------------------------------------------------------------------------------------

/// C callbacks over the system's allocator, with a header for the size; counts what it was asked, beside the recorder.
#[derive(Default)]
struct Malloc {
    calls: AtomicU64,
    bytes: AtomicU64,
    frees: AtomicU64,
    live: AtomicU64,
}

const HEADER: usize = 16;

impl Malloc {
    fn callbacks(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(malloc_allocation),
            pfn_reallocation: Some(malloc_reallocation),
            pfn_free: Some(malloc_free),
            pfn_internal_allocation: None,
            pfn_internal_free: None,
        }
    }
    fn of<'a>(user_data: *mut c_void) -> &'a Self {
        // SAFETY: the tests pass back what `callbacks` gave, and keep it until the end.
        unsafe { &*user_data.cast::<Self>() }
    }
    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size + HEADER, HEADER).expect("small")
    }
    fn told(&self) -> (u64, u64, u64, u64) {
        (self.calls.load(SeqCst), self.bytes.load(SeqCst), self.frees.load(SeqCst), self.live.load(SeqCst))
    }
}

unsafe extern "system" fn malloc_allocation(user_data: *mut c_void, size: usize, _: usize, _: i32) -> *mut c_void {
    let malloc = Malloc::of(user_data);
    malloc.calls.fetch_add(1, SeqCst);
    malloc.bytes.fetch_add(size as u64, SeqCst);
    malloc.live.fetch_add(size as u64, SeqCst);
    let base = system().allocate(Malloc::layout(size), Scope::Object).expect("memory").as_ptr();
    // SAFETY: the block begins with a header.
    unsafe { base.cast::<usize>().write(size) };
    // SAFETY: within the block.
    unsafe { base.add(HEADER) }.cast()
}

unsafe extern "system" fn malloc_reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: forwarded. A move frees the old block before it returns, so others are given its address.
    let new = unsafe { malloc_allocation(user_data, size, align, scope) };
    // SAFETY: forwarded.
    unsafe { malloc_free(user_data, old) };
    Malloc::of(user_data).frees.fetch_sub(1, SeqCst);
    new
}

unsafe extern "system" fn malloc_free(user_data: *mut c_void, block: *mut c_void) {
    let malloc = Malloc::of(user_data);
    malloc.frees.fetch_add(1, SeqCst);
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return };
    // SAFETY: the driver frees only what it took: the block has a header before it.
    let base = unsafe { block.sub(HEADER) };
    // SAFETY: the header was written when the block was taken.
    let size = unsafe { base.cast::<usize>().read() };
    malloc.live.fetch_sub(size as u64, SeqCst);
    // SAFETY: taken with this layout.
    unsafe { system().deallocate(base, Malloc::layout(size), Scope::Object) };
}

/// Addresses of real blocks go over the C boundary with their provenance here.
fn churn(driver: Driver, seed: u64, steps: u32, swap: &Mutex<Vec<usize>>) {
    let (raw, user_data) = driver.raw();
    let at = |address: usize| ptr::with_exposed_provenance_mut::<c_void>(address);
    let mut random = seed;
    for _ in 0..steps {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (choice, size) = ((random >> 60) as u32, (random >> 33) as usize % 300);
        let mine = if choice < 8 { None } else { swap.lock().expect("no panic").pop() };
        match mine {
            // SAFETY: a block that some thread took and nobody else has.
            Some(block) if choice < 11 => unsafe { raw.pfn_free.expect("set")(user_data, at(block)) },
            other => {
                let block = match other {
                    // SAFETY: as above.
                    Some(old) => unsafe { raw.pfn_reallocation.expect("set")(user_data, at(old), size + 1, 8, 1) },
                    // SAFETY: the recorder and what is behind it are there.
                    None => unsafe { raw.pfn_allocation.expect("set")(user_data, size, 8, 1) },
                };
                swap.lock().expect("no panic").push(block.expose_provenance());
            }
        }
    }
}

fn drain(driver: Driver, swap: &Mutex<Vec<usize>>) {
    let (raw, user_data) = driver.raw();
    for block in swap.lock().expect("no panic").drain(..) {
        // SAFETY: a live block that nobody else has.
        unsafe { raw.pfn_free.expect("set")(user_data, ptr::with_exposed_provenance_mut(block)) };
    }
}

#[test]
fn v24_four_threads_that_free_each_others_blocks_are_written_down_to_the_last_call() {
    let steps = if cfg!(miri) { 60 } else { 5_000 };
    let (malloc, memory) = (Malloc::default(), Witness::system());
    let recorder = Recorder::new(&memory).expect("memory");
    let driver = tap(&recorder, 1, malloc.callbacks()).expect("memory");
    let swap = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let swap = &swap;
            scope.spawn(move || churn(driver, seed, steps, swap));
        }
        // A trace taken meanwhile is a whole one of what had happened by then.
        for _ in 0..3 {
            let (_, findings) = replays(&trace(&recorder).0);
            let leftovers = |finding: &Finding| matches!(finding, Finding::StillLive { .. });
            assert!(findings.iter().all(leftovers), "{findings:?}");
        }
    });
    drain(driver, &swap);
    let (text, written) = trace(&recorder);
    let (totals, findings) = replays(&text);
    assert_eq!(findings, []);
    assert_eq!(written.lost, 0);
    let (calls, bytes) = (totals.allocations + totals.reallocations, totals.allocate_bytes + totals.reallocate_bytes);
    assert_eq!((calls, bytes, totals.frees, totals.all().live_bytes), malloc.told());
    assert!(totals.other_thread_frees > 0 && totals.reallocations > 0);
    assert_eq!(totals.reallocations_begun, totals.reallocations);
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");
}

// --- the recorder's own memory ------------------------------------------------------------------------------------------

/// Refuses the chosen request; then gives again, or not.
struct Picky {
    inner: Witness,
    asked: Cell<u32>,
    refuse: u32,
    for_ever: bool,
}

// SAFETY: used on one thread only.
unsafe impl Sync for Picky {}

// SAFETY: blocks are the witness's own and go back to it as they came.
unsafe impl HostAllocator for Picky {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let asked = self.asked.get();
        self.asked.set(asked + 1);
        if asked == self.refuse || (self.for_ever && asked > self.refuse) {
            return Err(AllocError);
        }
        self.inner.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }
}

#[test]
fn v9_a_recorder_without_memory_loses_events_and_refuses_the_driver_nothing() {
    let steps = if cfg!(miri) { 400 } else { 4_000 };
    let calm = {
        let (malloc, memory) = (Malloc::default(), system());
        let recorder = Recorder::new(&memory).expect("memory");
        let driver = tap(&recorder, 1, malloc.callbacks()).expect("memory");
        let swap = Mutex::new(Vec::new());
        churn(driver, 9, steps, &swap);
        drain(driver, &swap);
        let (text, written) = trace(&recorder);
        assert_eq!(written.lost, 0);
        (malloc.told(), written.events, replays(&text).0)
    };
    let mut lossy = 0;
    for (refuse, for_ever) in (0..if cfg!(miri) { 4 } else { 20 }).flat_map(|refuse| [(refuse, false), (refuse, true)]) {
        let malloc = Malloc::default();
        let memory = Picky { inner: Witness::system(), asked: Cell::new(0), refuse, for_ever };
        let Ok(recorder) = Recorder::new(&memory) else {
            assert_eq!(refuse, 0);
            memory.inner.assert_empty("after a refused recorder");
            continue;
        };
        let Ok(driver) = tap(&recorder, 1, malloc.callbacks()) else {
            assert_eq!(refuse, 1);
            drop(recorder);
            memory.inner.assert_empty("after a refused tap");
            continue;
        };
        let swap = Mutex::new(Vec::new());
        churn(driver, 9, steps, &swap);
        drain(driver, &swap);
        assert_eq!(malloc.told(), calm.0, "refused {refuse}");
        let mut text = String::new();
        match recorder.write("model", &mut text) {
            Ok(written) => {
                assert_eq!(written.events + written.lost, calm.1, "refused {refuse}");
                let (totals, findings) = replays(&text);
                assert_eq!(totals.lost, written.lost);
                if written.lost == 0 {
                    assert_eq!(totals, calm.2);
                } else {
                    lossy += 1;
                    assert!(findings.iter().any(|finding| matches!(finding, Finding::Lost { .. })));
                }
            }
            // The numbering found no memory: said so, and the next try does it.
            Err(error) => {
                assert!(matches!(error, CallbackError::Host(_)), "{error}");
                if !for_ever {
                    let mut text = String::new();
                    let written = recorder.write("model", &mut text).expect("memory again");
                    assert_eq!((written.events, written.lost), (calm.1, 0));
                    assert_eq!(replays(&text).0, calm.2);
                }
            }
        }
        recorder.close().expect("nothing is live");
        memory.inner.assert_empty("after close");
    }
    assert!(lossy >= 2, "{lossy}: a chunk must have been refused, or this proves nothing");
}

struct Panics;

// SAFETY: gives nothing out.
unsafe impl HostAllocator for Panics {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert!(layout.size() < 4096, "a chunk");
        system().allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { system().deallocate(block, layout, scope) }
    }
}

#[test]
fn v8_a_panic_in_the_recorders_memory_does_not_reach_the_driver() {
    let model = Model::default();
    let recorder = Recorder::new(&Panics).expect("memory");
    let driver = tap(&recorder, 1, model.callbacks()).expect("memory");
    let block = driver.allocate(8, 8, 1);
    assert_eq!(block, 16);
    driver.free(block);
    let (text, written) = trace(&recorder);
    assert_eq!((written.events, written.lost), (0, 2));
    assert_eq!(text, "# steward host trace 2\n# driver: model\nx,2\nz,3\n");
    recorder.close().expect("nothing is live");
}

#[test]
fn an_output_that_fails_is_an_error_and_the_log_stays() {
    struct Full(usize);
    impl std::fmt::Write for Full {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
            Ok(())
        }
    }
    let memory = Witness::system();
    let recorder = Recorder::new(&memory).expect("memory");
    recorder.phase("one");
    let whole = trace(&recorder).0.len();
    for room in 0..whole {
        assert_eq!(recorder.write("model", &mut Full(room)), Err(CallbackError::Output), "{room} bytes");
    }
    assert_eq!(recorder.write("model", &mut Full(whole)).map(|written| written.events), Ok(1));
    recorder.close().expect("nothing is live");
    memory.assert_empty("after close");
}
