//! Law 1 with a third pair of eyes: the C library's own heap. This process's `malloc` and its kin count, and every
//! public operation over the mock device, its host memory in a static array, asks none of them.
//!
//! Only where the C library is glibc: there its functions have second names, which the counting ones call.

#![allow(unreachable_pub, reason = "nothing of a test is for others")]

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
#[path = "malloc_meter/counting.rs"]
mod counting;
#[path = "it/fake_vulkan/mod.rs"]
mod fake_vulkan;
#[path = "it/operations/mod.rs"]
mod operations;

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
fn main() {
    use operations::{GpuOperation, table};
    use testkit::{Once, STILL};

    assert_eq!(counting::during(|| drop(std::hint::black_box(Box::new(1_u64)))), 1, "the meter sees a block");
    let operations: Vec<GpuOperation<Once>> = table();
    // A thread's first destructor of thread-local storage is a small block of the C library's own; the first of a kind
    // each.
    let first = counting::during(|| operations.iter().for_each(|operation| operation.run(&Once)));
    assert!(first <= 2, "{first} blocks for a thread's destructors");
    let requests = STILL.requests();
    for operation in &operations {
        let asked = counting::during(|| operation.run(&Once));
        assert_eq!(asked, 0, "{} asked the C library", operation.name);
    }
    assert!(STILL.requests() > requests + 100 && STILL.live() == 0);
    println!("{} operations, no block of the C library's ({first} for the thread before)", operations.len());
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
fn main() {
    println!("SKIPPED malloc_meter: only glibc's functions have second names");
}
