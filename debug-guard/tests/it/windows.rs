//! What a guard does on Windows (`docs/contracts/windows.md`). The matrix of mistakes runs there too.

#![cfg(all(windows, target_arch = "x86_64"))]

use std::alloc::{Layout, System};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Mutex;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{BackEnd, Guard, GuardError, GuardOptions, Mode, OnReport, OsRefusal, Report, StackSupport, Stacks};
use testkit::Child;

type Guarded = Guard<FromGlobalAlloc<System>>;

/// Handlers are the whole process's: each test has one of its own.
fn alone(test: &str, body: impl FnOnce()) {
    if Child::is_child(test) {
        return body();
    }
    Child::this_test(test).run().assert_code(0);
}

fn guard(options: GuardOptions) -> Guarded {
    Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard")
}

const LAYOUT: Layout = Layout::new::<[u8; 100]>();

#[inline(never)]
fn takes(guard: &Guarded) -> NonNull<u8> {
    black_box(guard.allocate(LAYOUT, Scope::Object).expect("a block"))
}

#[inline(never)]
fn frees(guard: &Guarded, block: NonNull<u8>) {
    // SAFETY: taken by the caller with this layout.
    unsafe { guard.deallocate(block, LAYOUT, Scope::Object) };
    black_box(());
}

#[inline(never)]
fn touches(block: NonNull<u8>) {
    // SAFETY: broken on purpose: the guard stops it, and lets it land.
    black_box(unsafe { block.read_volatile() });
}

/// Text, JSON, and the frames of access, allocation and free.
static SEEN: Mutex<Vec<(String, [Vec<usize>; 3])>> = Mutex::new(Vec::new());

fn see(report: &Report<'_>) {
    let mut json = String::new();
    report.write_json(&mut json).expect("a text takes all");
    let block = report.block.expect("a known block");
    let freed = block.freed.map(|freed| freed.stack.frames.to_vec());
    let frames = [report.by.stack.frames.to_vec(), block.allocated.stack.frames.to_vec(), freed.unwrap_or_default()];
    let mut seen = SEEN.lock().expect("no panic");
    seen.push((format!("{report}\n{json}"), frames));
}

fn names(frames: &[usize]) -> String {
    let mut names = String::new();
    for frame in frames {
        let before = std::ptr::without_provenance_mut::<c_void>(frame - 1);
        backtrace::resolve(before, |symbol| {
            names.extend(symbol.name().map(|name| format!("{name:#} ")));
            let file = symbol.filename().and_then(|file| file.file_name());
            names.extend(file.map(|file| format!("{}\n", file.display())));
        });
    }
    names
}

#[test]
fn wn4_stacks_of_all_three_name_functions_and_files_without_frame_pointers() {
    alone("wn4_stacks_of_all_three_name_functions_and_files_without_frame_pointers", || {
        let support = StackSupport::of_this_process();
        assert!(support.full, "{support}");
        let options = GuardOptions::new(Mode::Strict).stacks(Stacks::Full).on_report(OnReport::Call(see));
        let guard = guard(options);
        let block = takes(&guard);
        frees(&guard, block);
        touches(block);
        let seen = SEEN.lock().expect("no panic");
        let [(text, stacks)] = &seen[..] else { panic!("one report: {seen:?}") };
        for (frames, function) in stacks.iter().zip(["touches", "takes", "frees"]) {
            let names = names(frames);
            assert!(
                names.contains(function) && names.contains("wn4_stacks_of_all_three") && names.contains("windows.rs"),
                "{function}: {names}\n{text}"
            );
        }
        // What the report itself says of a frame: the module and the offset in it.
        let module = std::env::current_exe().expect("a path");
        let file = module.file_name().expect("a name").to_string_lossy();
        assert!(text.contains(&format!("{file}+0x")), "{text}");
        assert!(text.contains("PDB"), "{text}");
    });
}

#[test]
fn wn5_reports_name_the_back_end_and_give_no_advice_of_another_system() {
    alone("wn5_reports_name_the_back_end_and_give_no_advice_of_another_system", || {
        let options = GuardOptions::new(Mode::Fence).on_report(OnReport::Call(see));
        let guard = guard(options);
        let block = takes(&guard);
        // SAFETY: broken on purpose: the guard stops it, and lets it land.
        touches(unsafe { block.add(LAYOUT.size()) });
        frees(&guard, block);
        let seen = SEEN.lock().expect("no panic");
        let (text, _) = seen.first().expect("a report");
        assert!(text.contains("back end virtual-alloc"), "{text}");
        assert!(text.contains("\"back_end\":\"virtual-alloc\""), "{text}");
        let support = StackSupport::of_this_process();
        let all = format!("{text}{support}{}", guard.stats());
        for word in [
            "mprotect",
            "userfaultfd",
            "guard-markers",
            "Linux",
            "max_map_count",
            "-fno-omit-frame-pointer",
            "steward symbols",
        ] {
            assert!(!all.contains(word), "{word}: {all}");
        }
    });
}

#[test]
fn wn5_a_back_end_of_another_system_is_refused() {
    let options = GuardOptions::new(Mode::Strict).back_end(BackEnd::Mprotect);
    let refused = Guard::new(FromGlobalAlloc::SYSTEM, options).err();
    assert_eq!(
        refused.map(|refused| refused.error),
        Some(GuardError::NotOffered { back_end: BackEnd::Mprotect, refusal: OsRefusal::Unavailable })
    );
}

/// Under Wine the mappings of Linux are a limit, of 65,530 by default; two a block.
#[test]
fn wn5_no_block_is_unguarded_for_want_of_mappings() {
    const BLOCKS: u64 = 20_000;
    let options = GuardOptions::new(Mode::Strict).stacks(Stacks::Off).max_guarded_bytes(1 << 30);
    let guard = guard(options);
    let blocks: Vec<_> = (0..BLOCKS).map(|_| takes(&guard)).collect();
    let stats = guard.stats();
    assert_eq!((stats.live_blocks, stats.guarded, stats.unguarded), (BLOCKS, BLOCKS, 0), "{stats}");
    blocks.into_iter().for_each(|block| frees(&guard, block));
    guard.close().expect("nothing is live");
}

#[test]
fn wn2_a_list_at_exit_ends_the_process_with_its_code() {
    const NAME: &str = "wn2_a_list_at_exit_ends_the_process_with_its_code";
    if Child::is_child(NAME) {
        let guard = guard(GuardOptions::new(Mode::Fence).exit_leaks(24));
        let block = takes(&guard);
        std::mem::forget(guard);
        black_box(block);
        // SAFETY: C's own end.
        unsafe { libc::exit(0) }
    }
    let ended = Child::this_test(NAME).run();
    ended.assert_code(24);
    assert!(ended.stderr.contains("leak: 1 block, 100 bytes"), "{ended}");
}

#[test]
fn wn2_other_descriptors_than_the_standard_error_are_refused() {
    let options = GuardOptions::new(Mode::Fence).report_to(3);
    assert_eq!(options.check(), Err(GuardError::OneDescriptorHere));
}
