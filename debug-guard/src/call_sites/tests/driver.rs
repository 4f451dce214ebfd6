//! A library in C, compiled as drivers are: without frame pointers, and with something else in their register.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::hint::black_box;
use std::ffi::CString;
use std::process::Command;
use std::vec::Vec;
use std::{env, fs, process};

use super::*;
use crate::call_sites::CommandMark;

/// `outer` calls `inner` calls back; in the register of the frame pointer stands a number, or the address of something on the stack
/// that looks like a frame: a pointer upwards and a word that no call returns to.
const SOURCE: &str = r#"
typedef unsigned long (*call)(void *);
__attribute__((noinline)) unsigned long inner(call f, void *data, unsigned long value) {
    register unsigned long kept __asm__("rbp") = value;
    __asm__ volatile("" : "+r"(kept));
    unsigned long answer = f(data);
    __asm__ volatile("" : "+r"(kept));
    return answer + (kept - value);
}
__attribute__((noinline)) unsigned long outer(call f, void *data, unsigned long astray) {
    struct { unsigned long next, back; } __attribute__((aligned(16))) volatile frames[4] = {{0}};
    frames[0].next = (unsigned long)&frames[2];
    frames[0].back = (unsigned long)&inner;
    frames[2].back = 0x41414141;
    unsigned long answer = inner(f, data, astray ? (unsigned long)&frames[0] : 0x1235);
    return answer + frames[1].next;
}
"#;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Call = extern "C" fn(*mut c_void) -> usize;
type Outer = extern "C" fn(Call, *mut c_void, usize) -> usize;

struct SiteDriver {
    outer: Outer,
    inner: usize,
}

impl SiteDriver {
    /// `None` where there is no C compiler.
    fn open(test: &str) -> Option<Self> {
        let directory =
            env::temp_dir().join(std::format!("steward-sites-{}-{test}", process::id()));
        fs::create_dir_all(&directory).expect("there is room");
        let (source, library) = (directory.join("driver.c"), directory.join("libdriver.so"));
        fs::write(&source, SOURCE).expect("there is room");
        let done = Command::new("cc")
            .args([
                "-O2",
                "-fomit-frame-pointer",
                "-fno-optimize-sibling-calls",
                "-shared",
                "-fPIC",
                "-Wl,-Bsymbolic",
                "-o",
            ])
            .args([&library, &source])
            .output();
        let Ok(done) = done else {
            testkit::skip("cc", test, "there is no C compiler");
            return None;
        };
        assert!(
            done.status.success(),
            "{}",
            std::string::String::from_utf8_lossy(&done.stderr)
        );
        let path = CString::new(library.to_str().expect("plain")).expect("plain");
        // SAFETY: a name that ends in 0; what the library does at its start is nothing.
        let opened = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!opened.is_null());
        fs::remove_dir_all(&directory).expect("ours");
        // SAFETY: an open library, a name that ends in 0.
        let [outer, inner] =
            [c"outer", c"inner"].map(|name| unsafe { dlsym(opened, name.as_ptr()) });
        assert!(!outer.is_null() && !inner.is_null());
        // SAFETY: that is its type in the source above.
        let outer = unsafe { core::mem::transmute::<*mut c_void, Outer>(outer) };
        Some(Self {
            outer,
            inner: inner.addr(),
        })
    }

    /// Runs `back`, called back by the driver, in a command.
    #[inline(never)]
    fn command(&self, astray: bool, back: &mut dyn FnMut(CommandMark)) {
        extern "C" fn callback(data: *mut c_void) -> usize {
            // SAFETY: the closure and the mark of the frame below, which wait.
            let (back, mark) =
                unsafe { &mut *data.cast::<(&mut dyn FnMut(CommandMark), CommandMark)>() };
            back(*mark);
            0
        }
        let frame = 0_u8;
        let mark = CommandMark {
            name: "vkDriver",
            serial: 1,
            stack: black_box(&raw const frame).addr(),
        };
        let mut data = (back, mark);
        assert_eq!(
            (self.outer)(callback, (&raw mut data).cast(), usize::from(astray)),
            0
        );
        black_box(&frame);
    }
}

/// What a walk through the driver's frames begins with: a frame of its own, whatever this test was compiled with.
#[unsafe(naked)]
extern "C" fn framed(data: *mut c_void) -> usize {
    naked_asm!("push rbp", "mov rbp, rsp", "mov rsi, rsp", "mov rdx, rbp", "call {}", "pop rbp", "ret", sym walk)
}

extern "C" fn walk(data: *mut c_void, stack: usize, frame: usize) -> usize {
    // SAFETY: the `Found` and the mark of the test, which wait.
    let (found, mark) = unsafe { &mut *data.cast::<(WalkedStack, usize)>() };
    let bounds = thread_sites::with(|local| local.expect("std").bounds(stack));
    found.by_frames(Registers { stack, frame }, bounds.up_to(*mark));
    0
}

#[test]
fn frame_pointers_end_in_the_driver_and_the_unwinder_goes_through() {
    let Some(driver) =
        SiteDriver::open("frame_pointers_end_in_the_driver_and_the_unwinder_goes_through")
    else {
        return;
    };
    let inner = driver.inner..driver.inner + 128;
    let outer = driver.outer as usize..driver.outer as usize + 512;
    for astray in [false, true] {
        let frame = 0_u8;
        let mut data = (WalkedStack::nothing(), black_box(&raw const frame).addr());
        (driver.outer)(framed, (&raw mut data).cast(), usize::from(astray));
        let fast = data.0.frames();
        assert!(
            fast.len() == 1 && inner.contains(&fast[0]) && !data.0.whole,
            "{fast:x?}"
        );

        let memory = memory();
        let mut sites = depot(&memory);
        let mut ids = Vec::new();
        for _ in 0..10 {
            driver.command(astray, &mut |mark| {
                ids.push(sites.note(
                    &memory,
                    &RequesterInfo {
                        command: Some(mark),
                        ..who("x")
                    },
                    Stacks::Full,
                ));
            });
        }
        assert!(ids.windows(2).all(|two| two[0] == two[1]));
        assert_eq!(sites.stats().unwound, 1);
        let view = sites.get(ids[0]).expect("noted");
        assert!(view.whole, "{view:x?}");
        let through = view
            .frames
            .iter()
            .position(|frame| inner.contains(frame))
            .expect("the driver's inner function");
        assert!(outer.contains(&view.frames[through + 1]), "{view:x?}");
        let above = SiteDriver::command as fn(_, _, _) as usize;
        assert!(
            (above..above + 1024).contains(&view.frames[through + 2]),
            "{view:x?}"
        );
        assert_eq!(
            view.frames.len(),
            through + 3,
            "the command's frame is the last: {view:x?}"
        );
        sites.close(&memory);
    }
}

#[test]
fn fast_stacks_through_a_driver_are_short_and_few() {
    let Some(driver) = SiteDriver::open("fast_stacks_through_a_driver_are_short_and_few") else {
        return;
    };
    let memory = memory();
    let mut sites = depot(&memory);
    for astray in [false, true] {
        for _ in 0..100 {
            driver.command(astray, &mut |mark| {
                sites.note(
                    &memory,
                    &RequesterInfo {
                        command: Some(mark),
                        ..who("x")
                    },
                    Stacks::Fast,
                );
            });
        }
    }
    // Whatever the driver keeps in the register, the depot does not fill with it.
    assert!(sites.stats().sites <= 2, "{:?}", sites.stats());
    sites.for_each(&mut |_, site| {
        assert!(
            site.view()
                .frames
                .iter()
                .all(|frame| calls::returns_to(*frame))
        )
    });
    sites.close(&memory);
}
