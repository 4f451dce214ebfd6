//! Profiles of a guard at work: read back, and every sum against a count that the test keeps itself.

use std::alloc::{Layout, System};
use std::collections::HashSet;
use std::ptr::NonNull;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostAllocator, Scope, TryVec};
use debug_guard::{
    CommandMark, Guard, GuardOptions, Measure, Mode, OnReport, Rule, Stacks, Weight,
};
use serde_json::Value;

type Under = Guard<FromGlobalAlloc<System>>;

const MODES: [Mode; 3] = [Mode::Cookie, Mode::Fence, Mode::Strict];

fn guard(options: GuardOptions) -> Under {
    Guard::new(
        FromGlobalAlloc::SYSTEM,
        options.profile(true).on_report(OnReport::Abort),
    )
    .expect("a guard")
}

/// The file, after what its viewer asks of it.
fn dhat(guard: &Under) -> Value {
    let mut text = String::new();
    guard
        .write_dhat(&mut text, "a test", None)
        .expect("a string takes it");
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(file["dhatFileVersion"], 2);
    let frames = file["ftbl"].as_array().expect("a list").len() as u64;
    let mut locations = HashSet::new();
    for pp in file["pps"].as_array().expect("a list") {
        let fs = pp["fs"].as_array().expect("a list");
        assert!(
            fs.iter()
                .all(|place| (1..frames).contains(&place.as_u64().expect("a place"))),
            "{pp}"
        );
        assert!(locations.insert(fs.clone()), "a repeated location: {pp}");
    }
    file
}

fn sum(file: &Value, field: &str) -> u64 {
    file["pps"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|pp| pp[field].as_u64().expect("a number"))
        .sum()
}

/// The file's totals, live at the end, at the peak; blocks and bytes.
fn sums(file: &Value) -> [(u64, u64); 3] {
    [("tbk", "tb"), ("ebk", "eb"), ("gbk", "gb")]
        .map(|(blocks, bytes)| (sum(file, blocks), sum(file, bytes)))
}

#[test]
fn all_that_a_guard_gives_and_takes_is_in_its_profile() {
    for mode in MODES {
        // Small blocks pass with a header only: they are told of all the same.
        for options in [
            GuardOptions::new(mode),
            GuardOptions::new(mode).rule(Rule::new(Mode::Off).size(0, 32)),
        ] {
            let guard = guard(options.stacks(Stacks::Full));
            let mut live: Vec<(NonNull<u8>, Layout)> = Vec::new();
            let (mut total, mut most) = ((0, 0), (0, 0));
            let mut random = 7u64;
            for _ in 0..600 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let pick = (random >> 33) as usize;
                let layout = Layout::from_size_align(1 + pick / 8 % 100, 1 << (pick / 4096 % 5))
                    .expect("a layout");
                match pick % 8 {
                    0..4 => {
                        live.push((
                            guard.allocate(layout, Scope::Object).expect("memory"),
                            layout,
                        ));
                        total = (total.0 + 1, total.1 + layout.size() as u64);
                    }
                    4..6 if !live.is_empty() => {
                        let (block, old) = live.swap_remove(pick / 512 % live.len());
                        let new = Layout::from_size_align(old.size() + layout.size(), old.align())
                            .expect("a layout");
                        // SAFETY: a live block with its layout; the new size is larger.
                        let block = unsafe { guard.resize(block, old, new, Scope::Object) }
                            .expect("memory");
                        live.push((block, new));
                        total = (total.0 + 1, total.1 + new.size() as u64);
                        // For a moment both are there.
                        let now = live.iter().map(|block| block.1.size() as u64).sum::<u64>()
                            + old.size() as u64;
                        if now > most.1 {
                            most = (live.len() as u64 + 1, now);
                        }
                    }
                    _ if !live.is_empty() => {
                        let (block, layout) = live.swap_remove(pick / 512 % live.len());
                        // SAFETY: a live block with its layout.
                        unsafe { guard.deallocate(block, layout, Scope::Object) };
                    }
                    _ => {}
                }
                let now = live.iter().map(|block| block.1.size() as u64).sum();
                if now > most.1 {
                    most = (live.len() as u64, now);
                }
            }
            let left = (
                live.len() as u64,
                live.iter().map(|block| block.1.size() as u64).sum::<u64>(),
            );
            let file = dhat(&guard);
            assert_eq!(sums(&file), [total, left, most], "{mode:?}");
            for (block, layout) in live {
                // SAFETY: a live block with its layout.
                unsafe { guard.deallocate(block, layout, Scope::Object) };
            }
            assert_eq!(sums(&dhat(&guard)), [total, (0, 0), most], "{mode:?}");
            let stats = guard.stats();
            assert_eq!((stats.lost_sites, stats.reports), (0, 0));
            assert!(
                stats.unwound > 0 && stats.unwound < 40,
                "each stack once: {stats:?}"
            );
            guard.close().expect("nothing is live");
        }
    }
}

#[test]
fn owners_and_commands_are_what_a_profile_begins_with() {
    for mode in MODES {
        let frame = 0_u8;
        STACK.store(
            (&raw const frame).addr(),
            std::sync::atomic::Ordering::Relaxed,
        );
        let guard = guard(
            GuardOptions::new(mode)
                .stacks(Stacks::Full)
                .command(command),
        );
        // SAFETY: the guard outlives the root.
        let root = unsafe { Context::root(&guard, ContextOptions::new("root")) }.expect("memory");
        let textures = root.child("textures").expect("memory");
        let mut vec: TryVec<u64, &Context> = TryVec::new_in(&textures);
        vec.try_reserve_exact(125).expect("memory");
        let mut text = String::new();
        guard
            .write_collapsed(&mut text, Weight::Live, Measure::Bytes, None)
            .expect("a string takes it");
        let line = text
            .lines()
            .find(|line| line.starts_with("textures "))
            .unwrap_or_else(|| panic!("{text}"));
        let (stack, bytes) = line.rsplit_once(' ').expect("a number");
        assert_eq!(bytes, "1000");
        let mut frames = stack.split(';');
        assert!(
            frames.next().expect("an owner").ends_with(", instance"),
            "{line}"
        );
        assert_eq!(frames.next(), Some("vkTest"));
        assert!(
            frames.clone().count() > 3 && frames.all(|frame| frame.contains("+0x")),
            "{line}"
        );
        drop(vec);
        text.clear();
        guard
            .write_collapsed(&mut text, Weight::Live, Measure::Bytes, None)
            .expect("a string takes it");
        assert!(!text.lines().any(|line| line.ends_with(" 1000")), "{text}");
        guard
            .write_collapsed(&mut text, Weight::Total, Measure::Bytes, None)
            .expect("a string takes it");
        assert!(text.lines().any(|line| line.ends_with(" 1000")), "{text}");
        drop(textures);
        root.close_root().expect("nothing is left");
    }
}

static STACK: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn command() -> Option<CommandMark> {
    Some(CommandMark {
        name: "vkTest",
        serial: 1,
        stack: STACK.load(std::sync::atomic::Ordering::Relaxed),
    })
}

#[test]
fn threads_lose_nothing() {
    for mode in MODES {
        let guard = guard(GuardOptions::new(mode).stacks(Stacks::Full));
        let layout = Layout::from_size_align(24, 8).expect("a layout");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let [kept, gone] =
                            [0; 2].map(|_| guard.allocate(layout, Scope::Object).expect("memory"));
                        // SAFETY: a live block with its layout.
                        unsafe { guard.deallocate(gone, layout, Scope::Object) };
                        let _ = kept;
                    }
                });
            }
        });
        let [total, left, most] = sums(&dhat(&guard));
        assert_eq!(
            (total, left),
            ((2400, 2400 * 24), (1200, 1200 * 24)),
            "{mode:?}"
        );
        assert!(most >= left && most.0 <= left.0 + 4, "{most:?}");
    }
}
