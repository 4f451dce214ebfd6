//! The driver's shared library in a process that opens it, as a loader does: no thread makes it take memory of the C
//! library. A process of its own, with one test, since it reads what `malloc` has given to all.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::{ptr, thread};

use ash::vk::{self, SystemAllocationScope as Scope};

/// The application's memory: nothing is freed, and nothing of it comes from `malloc`.
static ARENA: [AtomicU8; 1 << 20] = [const { AtomicU8::new(0) }; 1 << 20];
static USED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn allocation(_: *mut c_void, size: usize, align: usize, _: Scope) -> *mut c_void {
    let first = ARENA.as_ptr().addr();
    let end = |used: usize| (first + used).next_multiple_of(align) - first + size;
    let before = USED.fetch_update(SeqCst, SeqCst, |used| Some(end(used)).filter(|end| *end <= ARENA.len()));
    before.map_or(ptr::null_mut(), |used| ARENA.as_ptr().wrapping_byte_add(end(used) - size).cast_mut().cast())
}

unsafe extern "system" fn reallocation(
    data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: Scope,
) -> *mut c_void {
    // SAFETY: the user data of these callbacks, as the driver passes it.
    let new = unsafe { allocation(data, size, align, scope) };
    if !new.is_null() && !old.is_null() {
        // SAFETY: what lies behind the old block is of the arena, too, up to the new one's end.
        unsafe { new.cast::<u8>().copy_from(old.cast(), size) };
    }
    new
}

unsafe extern "system" fn free(_: *mut c_void, _: *mut c_void) {}

fn callbacks() -> vk::AllocationCallbacks<'static> {
    vk::AllocationCallbacks::default()
        .pfn_allocation(Some(allocation))
        .pfn_reallocation(Some(reallocation))
        .pfn_free(Some(free))
}

/// Bytes that `malloc` has given to all threads and that were not freed.
fn allocated() -> usize {
    // SAFETY: it has no argument.
    unsafe { libc::mallinfo2() }.uordblks
}

/// The library, opened and asked as a loader asks.
fn open() -> ash::Entry {
    type Negotiate = unsafe extern "system" fn(*mut u32) -> vk::Result;
    let test = std::env::current_exe().expect("a path");
    let library = test.with_file_name("libreference_driver.so");
    let library = CString::new(library.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: cargo has built it for this test.
    let opened = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!opened.is_null(), "{library:?}");
    let find = |name: &CStr| {
        // SAFETY: the library stays open.
        let found = unsafe { libc::dlsym(opened, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    };
    let negotiate = find(c"vk_icdNegotiateLoaderICDInterfaceVersion");
    // SAFETY: a function of this name has this type.
    let negotiate = unsafe { std::mem::transmute::<*mut c_void, Negotiate>(negotiate) };
    let mut version = 5;
    // SAFETY: a local.
    assert_eq!(unsafe { negotiate(&raw mut version) }, vk::Result::SUCCESS);
    let get = find(c"vk_icdGetInstanceProcAddr");
    // SAFETY: the library's symbol of this name has this type; the library stays open.
    let get_instance_proc_addr = unsafe { std::mem::transmute::<*mut c_void, vk::PFN_vkGetInstanceProcAddr>(get) };
    // SAFETY: the driver's own function; the library stays open.
    unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) }
}

/// Creates a pool and records: what children hold is counted in a context of the pool.
fn record(device: &ash::Device) -> vk::Result {
    let (handle, table, callbacks) = (device.handle(), device.fp_v1_0(), callbacks());
    let (mut pool, mut commands) = (vk::CommandPool::null(), vk::CommandBuffer::null());
    let info = vk::CommandPoolCreateInfo::default();
    // SAFETY: the one family.
    let result = unsafe { (table.create_command_pool)(handle, &raw const info, &raw const callbacks, &raw mut pool) };
    assert_eq!(result, vk::Result::SUCCESS);
    let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
    // SAFETY: a live pool.
    let result = unsafe { (table.allocate_command_buffers)(handle, &raw const info, &raw mut commands) };
    assert_eq!(result, vk::Result::SUCCESS);
    for _ in 0..20 {
        // SAFETY: recording; the work is never submitted.
        unsafe { (table.cmd_dispatch)(commands, 1, 1, 1) };
    }
    // SAFETY: recording; the work is never submitted.
    let result = unsafe { (table.end_command_buffer)(commands) };
    // SAFETY: it and its command buffer are not used any more.
    unsafe { (table.destroy_command_pool)(handle, pool, &raw const callbacks) };
    result
}

/// A library's thread-local storage would be allocated by the dynamic linker, past all callbacks, on each thread's
/// first call.
#[test]
fn rd12_no_thread_of_a_loaded_driver_takes_a_byte_of_malloc() {
    let (entry, callbacks) = (open(), callbacks());
    // SAFETY: a plain instance.
    let instance =
        unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), Some(&callbacks)) }.expect("memory");
    // SAFETY: the instance lives.
    let physical = unsafe { instance.enumerate_physical_devices() }.expect("one")[0];
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
    // SAFETY: the one family, one queue.
    let device = unsafe { instance.create_device(physical, &info, Some(&callbacks)) }.expect("memory");
    for _ in 0..2 {
        let on_thread = || {
            // The thread's own first block is malloc's bookkeeping.
            drop(std::hint::black_box(Box::new(0_u64)));
            let before = allocated();
            let (used, result) = (USED.load(SeqCst), record(&device));
            let taken = (USED.load(SeqCst) - used, allocated().abs_diff(before));
            // It would be noticed.
            let block = std::hint::black_box(Box::new([0_u8; 4000]));
            let noticed = allocated() - before;
            drop(block);
            (result, taken, noticed)
        };
        let (result, (asked, past), noticed) =
            thread::scope(|threads| threads.spawn(on_thread).join().expect("no panic"));
        assert_eq!(result, vk::Result::SUCCESS);
        assert!(asked > 1000 && noticed >= 4000, "{asked} {noticed}");
        assert_eq!(past, 0, "bytes past the callbacks");
    }
    // SAFETY: nothing of it is left.
    unsafe { device.destroy_device(Some(&callbacks)) };
    // SAFETY: nothing of it is left.
    unsafe { instance.destroy_instance(Some(&callbacks)) };
}
