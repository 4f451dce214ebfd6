//! Declared here: a guard imports no crate for the system's functions.

use core::ffi::c_void;

pub(super) const MEM_COMMIT: u32 = 0x1000;
pub(super) const MEM_RESERVE: u32 = 0x2000;
pub(super) const MEM_DECOMMIT: u32 = 0x4000;
pub(super) const MEM_RELEASE: u32 = 0x8000;
pub(super) const MEM_FREE: u32 = 0x1_0000;
pub(super) const MEM_MAPPED: u32 = 0x4_0000;
pub(super) const MEM_IMAGE: u32 = 0x100_0000;
pub(super) const PAGE_NOACCESS: u32 = 1;
pub(super) const PAGE_READWRITE: u32 = 4;
pub(super) const PAGE_GUARD: u32 = 0x100;

pub(super) const ACCESS_VIOLATION: u32 = 0xC000_0005;
/// A page of a file could not be read.
pub(super) const IN_PAGE_ERROR: u32 = 0xC000_0006;
/// The access took [`PAGE_GUARD`] away.
pub(super) const GUARD_PAGE_VIOLATION: u32 = 0x8000_0001;
pub(super) const CONTINUE_EXECUTION: i32 = -1;
pub(super) const CONTINUE_SEARCH: i32 = 0;

/// `MemoryMappedFilenameInformation`.
pub(super) const FILE_NAME: u32 = 2;
/// `ThreadNameInformation`.
pub(super) const THREAD_NAME: u32 = 38;
/// `THREAD_QUERY_LIMITED_INFORMATION`.
pub(super) const QUERY_THREAD: u32 = 0x800;

pub(super) const STANDARD_OUTPUT: u32 = -11_i32 as u32;
pub(super) const STANDARD_ERROR: u32 = -12_i32 as u32;

/// `MEMORY_BASIC_INFORMATION`.
#[repr(C)]
#[derive(Default)]
pub(super) struct MemoryInformation {
    pub(super) base: usize,
    pub(super) allocation_base: usize,
    allocation_protection: u32,
    partition: u16,
    pub(super) bytes: usize,
    pub(super) state: u32,
    pub(super) protection: u32,
    pub(super) kind: u32,
}

impl MemoryInformation {
    pub(super) fn is_readable(&self) -> bool {
        self.state == MEM_COMMIT && self.protection & (PAGE_NOACCESS | PAGE_GUARD) == 0
    }
}

/// `MEMORYSTATUSEX`.
#[repr(C)]
#[derive(Default)]
pub(super) struct MemoryStatus {
    length: u32,
    load: u32,
    pub(super) total_physical: u64,
    others: [u64; 6],
}

impl MemoryStatus {
    /// The system wants to see the length.
    pub(super) fn new() -> Self {
        Self { length: size_of::<Self>() as u32, ..Self::default() }
    }
}

/// `SYSTEM_INFO`.
#[repr(C)]
#[derive(Default)]
pub(super) struct SystemInformation {
    processor: u32,
    pub(super) page_size: u32,
    others: [u64; 5],
}

/// `EXCEPTION_RECORD`.
#[repr(C)]
pub(super) struct ExceptionRecord {
    pub(super) code: u32,
    flags: u32,
    nested: *mut Self,
    address: usize,
    count: u32,
    /// Of an access violation: its kind and its address.
    pub(super) information: [usize; 15],
}

/// `EXCEPTION_POINTERS`.
#[repr(C)]
pub(super) struct ExceptionPointers {
    pub(super) record: *mut ExceptionRecord,
    pub(super) context: *mut ThreadContext,
}

pub(super) type VectoredHandler = unsafe extern "system" fn(*mut ExceptionPointers) -> i32;

/// `CONTEXT` of x86-64: the registers of a thread.
#[repr(C, align(16))]
pub(super) struct ThreadContext {
    home: [u64; 6],
    flags: u32,
    control: u32,
    segments: [u16; 6],
    processor_flags: u32,
    debug: [u64; 6],
    /// From rax to r15, as instructions number them.
    integer: [usize; 16],
    pub(super) pc: usize,
    others: [u64; 122],
}

const _: () = assert!(size_of::<ThreadContext>() == 1232);
const _: () = assert!(core::mem::offset_of!(ThreadContext, pc) == 0xF8);

const STACK_POINTER: usize = 4;
const FRAME_POINTER: usize = 5;

impl ThreadContext {
    pub(super) const ZERO: Self = Self {
        home: [0; 6],
        flags: 0,
        control: 0,
        segments: [0; 6],
        processor_flags: 0,
        debug: [0; 6],
        integer: [0; 16],
        pc: 0,
        others: [0; 122],
    };

    pub(super) fn stack(&self) -> usize {
        self.register(STACK_POINTER)
    }

    pub(super) fn frame(&self) -> usize {
        self.register(FRAME_POINTER)
    }

    pub(super) fn set_stack(&mut self, stack: usize) {
        if let Some(place) = self.integer.get_mut(STACK_POINTER) {
            *place = stack;
        }
    }

    pub(super) fn register(&self, number: usize) -> usize {
        self.integer.get(number).copied().unwrap_or(0)
    }
}

/// `UNICODE_STRING`, and room for the text that it points to.
#[repr(C)]
pub(super) struct WideText<const ROOM: usize> {
    pub(super) bytes: u16,
    most: u16,
    text: *const u16,
    pub(super) room: [u16; ROOM],
}

impl<const ROOM: usize> WideText<ROOM> {
    pub(super) const fn new() -> Self {
        Self { bytes: 0, most: 0, text: core::ptr::null(), room: [0; ROOM] }
    }

    pub(super) fn units(&self) -> &[u16] {
        let units = self.room.get(..usize::from(self.bytes) / 2);
        units.unwrap_or_default()
    }
}

/// `RUNTIME_FUNCTION`: offsets in a module.
#[repr(C)]
pub(super) struct RuntimeFunction {
    begin: u32,
    end: u32,
    pub(super) unwind: u32,
}

#[link(name = "kernel32")]
unsafe extern "system" {
    pub(super) fn VirtualAlloc(address: *mut c_void, bytes: usize, kind: u32, protection: u32) -> *mut c_void;
    pub(super) fn VirtualFree(address: *mut c_void, bytes: usize, kind: u32) -> i32;
    pub(super) fn VirtualProtect(address: *mut c_void, bytes: usize, protection: u32, former: *mut u32) -> i32;
    pub(super) fn VirtualQuery(address: *const c_void, about: *mut MemoryInformation, bytes: usize) -> usize;
    pub(super) fn ReadProcessMemory(
        process: *mut c_void,
        from: *const c_void,
        to: *mut c_void,
        bytes: usize,
        read: *mut usize,
    ) -> i32;
    pub(super) fn GetCurrentProcess() -> *mut c_void;
    pub(super) fn GetCurrentProcessId() -> u32;
    pub(super) fn GetCurrentThreadId() -> u32;
    pub(super) fn TerminateProcess(process: *mut c_void, code: u32) -> i32;
    pub(super) fn OpenThread(rights: u32, inherit: i32, thread: u32) -> *mut c_void;
    pub(super) fn CloseHandle(handle: *mut c_void) -> i32;
    pub(super) fn Sleep(milliseconds: u32);
    pub(super) fn GetLastError() -> u32;
    pub(super) fn SetLastError(error: u32);
    pub(super) fn GetStdHandle(which: u32) -> *mut c_void;
    pub(super) fn WriteFile(
        file: *mut c_void,
        bytes: *const u8,
        count: u32,
        written: *mut u32,
        overlapped: *mut c_void,
    ) -> i32;
    pub(super) fn GetConsoleMode(console: *mut c_void, mode: *mut u32) -> i32;
    pub(super) fn GetSystemInfo(about: *mut SystemInformation);
    pub(super) fn GlobalMemoryStatusEx(about: *mut MemoryStatus) -> i32;
    pub(super) fn AddVectoredExceptionHandler(first: u32, handler: VectoredHandler) -> *mut c_void;
    pub(super) fn RtlCaptureContext(context: *mut ThreadContext);
    pub(super) fn RtlLookupFunctionEntry(pc: usize, base: *mut usize, history: *mut c_void) -> *const RuntimeFunction;
    pub(super) fn RtlVirtualUnwind(
        handler_kind: u32,
        base: usize,
        pc: usize,
        function: *const RuntimeFunction,
        context: *mut ThreadContext,
        data: *mut *mut c_void,
        establisher: *mut usize,
        pointers: *mut c_void,
    ) -> *mut c_void;
}

#[link(name = "ntdll")]
unsafe extern "system" {
    pub(super) fn NtQueryVirtualMemory(
        process: *mut c_void,
        address: *const c_void,
        class: u32,
        about: *mut c_void,
        bytes: usize,
        length: *mut usize,
    ) -> i32;
    pub(super) fn NtQueryInformationThread(
        thread: *mut c_void,
        class: u32,
        about: *mut c_void,
        bytes: u32,
        length: *mut u32,
    ) -> i32;
}

unsafe extern "C" {
    pub(super) fn atexit(call: extern "C" fn()) -> i32;
}
