//! Two drivers in one process: each context's functions are its own driver's, whatever the other does between.

use std::ffi::{CStr, c_char, c_int, c_void};

use alloc_core::{Context, ContextOptions};
use gpu_suballoc::ash::{AshContext, AshContexts};
use gpu_suballoc::cache::CacheLimits;
use testkit::RecordingAllocator;

use crate::cycles::{copied, filled, info, kernel};
use crate::live::{Live, is_selected, live_blocks};

const NAME: &str = "hw25_two_drivers_interleaved";

#[repr(C)]
struct Found {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    /// Of the C library: which file an address is in.
    safe fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
}

fn module(address: *const c_void) -> String {
    let mut found = Found {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    if dladdr(address, &raw mut found) == 0 {
        return "no file".to_owned();
    }
    // SAFETY: a file's name, as long as it is loaded.
    let file = unsafe { CStr::from_ptr(found.file) }
        .to_string_lossy()
        .into_owned();
    file.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The modules of what a context calls, each once.
fn modules(context: &AshContext) -> Vec<String> {
    let table = context.device().commands();
    let all = [
        table.allocate_memory as *const c_void,
        table.bind_buffer_memory as *const c_void,
        table.create_image as *const c_void,
        table.create_shader_module as *const c_void,
        table.create_compute_pipelines as *const c_void,
        table.destroy_pipeline_cache as *const c_void,
    ];
    let mut modules: Vec<String> = all.into_iter().map(module).collect();
    modules.sort();
    modules.dedup();
    modules
}

/// Runs the test, where both drivers are there.
pub(crate) fn run() {
    if !is_selected(NAME) {
        return;
    }
    let (lavapipe, swiftshader) = (
        Live::of(|driver| driver == "llvmpipe"),
        Live::of(|driver| driver.contains("SwiftShader")),
    );
    match (lavapipe, swiftshader) {
        (Ok(lavapipe), Ok(swiftshader)) => interleaved(&[lavapipe, swiftshader]),
        (Err(reason), _) => testkit::skip("lavapipe", NAME, &reason),
        (_, Err(reason)) => testkit::skip("swiftshader", NAME, &reason),
    }
}

fn interleaved(drivers: &[Live; 2]) {
    println!(
        "test {NAME} on {} and {}",
        drivers[0].driver, drivers[1].driver
    );
    let (witness, before) = (RecordingAllocator::system(), live_blocks());
    // SAFETY: the witness outlives it.
    let root = unsafe { Context::root(&witness, ContextOptions::new("application")) }.unwrap();
    let memory = root.child("contexts").unwrap();
    let home = AshContexts::new(memory.handle(), CacheLimits::NONE).unwrap();
    let acquire = |live: &Live| {
        let info = info(live, &memory, live.entry.static_fn().get_instance_proc_addr);
        // SAFETY: all of one another, and alive while `live` is.
        unsafe { home.acquire_ash(info) }.unwrap()
    };
    for round in 0..10u8 {
        let contexts = drivers.each_ref().map(acquire);
        let [first, second] = contexts.each_ref().map(modules);
        assert!(
            first.len() == 1 && second.len() == 1 && first != second,
            "{first:?} {second:?}"
        );
        if round == 0 {
            println!(
                "  all of one context's functions are in {}, all of the other's in {}",
                first[0], second[0]
            );
        }
        assert!(
            first[0].contains("lvp") && second[0].contains("swiftshader"),
            "{first:?} {second:?}"
        );
        let mut regions = [Vec::new(), Vec::new()];
        // Each step on both, one after the other.
        for value in 1..8 {
            for (context, regions) in contexts.iter().zip(&mut regions) {
                drop(kernel(context, u64::from(value)));
                regions.push(filled(context, value));
            }
            for (index, context) in contexts.iter().enumerate() {
                let to = filled(context, 0);
                copied(
                    &drivers[index],
                    context,
                    &regions[index][usize::from(value) - 1],
                    &to,
                    value,
                );
                context.allocator().free(to).unwrap();
            }
        }
        for (context, regions) in contexts.iter().zip(regions) {
            regions
                .into_iter()
                .for_each(|region| context.allocator().free(region).unwrap());
        }
        let [a, b] = contexts;
        // One goes, and the other one goes on: its functions are not lost with the first's.
        let (goes, stays, on) = if round % 2 == 0 {
            (a, b, &drivers[1])
        } else {
            (b, a, &drivers[0])
        };
        assert_eq!(goes.release().unwrap().shaders, 7);
        drop(kernel(&stays, 100));
        let [from, to] = [filled(&stays, 1), filled(&stays, 2)];
        copied(on, &stays, &from, &to, 1);
        [from, to]
            .into_iter()
            .for_each(|region| stays.allocator().free(region).unwrap());
        assert_eq!(stays.release().unwrap().shaders, 8);
    }
    assert_eq!(live_blocks(), before, "the drivers hold host memory");
    drop((home, memory));
    root.close_root().unwrap();
    witness.assert_empty("after both");
    println!("test {NAME} ... ok");
}
