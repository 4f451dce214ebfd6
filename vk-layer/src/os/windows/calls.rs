//! Declared here: the layer imports no crate for the system's functions.

use std::ffi::c_void;

pub(super) type Handle = *mut c_void;

pub(super) const STANDARD_ERROR: u32 = -12_i32 as u32;
pub(super) const PAGE_READWRITE: u32 = 4;
/// `FILE_MAP_READ | FILE_MAP_WRITE`.
pub(super) const MAP_READ_WRITE: u32 = 6;
pub(super) const FILE_SHARE_READ: u32 = 1;
pub(super) const FILE_SHARE_WRITE: u32 = 2;
pub(super) const LOCK_AT_ONCE: u32 = 1;
pub(super) const LOCK_EXCLUSIVELY: u32 = 2;
pub(super) const LOCK_VIOLATION: i32 = 33;
/// `GET_MODULE_HANDLE_EX_FLAG_PIN`.
pub(super) const PIN_MODULE: u32 = 1;
/// `GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT`.
pub(super) const COUNT_NO_REFERENCE: u32 = 2;
/// `GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS`.
pub(super) const OF_ADDRESS: u32 = 4;
/// `LDR_DLL_NOTIFICATION_REASON_UNLOADED`.
pub(super) const MODULE_UNLOADED: u32 = 2;

pub(super) const LOCAL_MACHINE: Handle = 0x8000_0002_u32 as i32 as isize as Handle;
pub(super) const CURRENT_USER: Handle = 0x8000_0001_u32 as i32 as isize as Handle;
/// `KEY_READ`.
pub(super) const READ_KEY: u32 = 0x2_0019;
pub(super) const REG_DWORD: u32 = 4;
/// `ERROR_MORE_DATA`.
pub(super) const MORE_DATA: i32 = 234;

/// `TOKEN_QUERY`.
pub(super) const QUERY_TOKEN: u32 = 8;
/// `TokenIntegrityLevel`.
pub(super) const INTEGRITY_LEVEL: u32 = 25;
/// `SECURITY_MANDATORY_MEDIUM_RID`.
pub(super) const MEDIUM_INTEGRITY: u32 = 0x2000;

/// `OVERLAPPED`: where in a file.
#[repr(C)]
pub(super) struct FilePlace {
    internal: [usize; 2],
    low: u32,
    high: u32,
    event: Handle,
}

impl FilePlace {
    pub(super) const fn new(at: u64) -> Self {
        Self {
            internal: [0; 2],
            low: at as u32,
            high: (at >> 32) as u32,
            event: std::ptr::null_mut(),
        }
    }
}

/// `TOKEN_MANDATORY_LABEL`, with room for the longest identifier.
#[repr(C)]
pub(super) struct IntegrityLabel {
    pub(super) identifier: *mut c_void,
    attributes: u32,
    room: [u32; 18],
}

impl IntegrityLabel {
    pub(super) const fn new() -> Self {
        Self {
            identifier: std::ptr::null_mut(),
            attributes: 0,
            room: [0; 18],
        }
    }
}

/// `PROCESS_MEMORY_COUNTERS`.
#[repr(C)]
#[derive(Default)]
pub(super) struct MemoryCounters {
    length: u32,
    faults: u32,
    others: [usize; 6],
    /// What the process has for itself alone.
    pub(super) page_file: usize,
    most_page_file: usize,
}

impl MemoryCounters {
    /// The system wants to see the length.
    pub(super) fn new() -> Self {
        Self {
            length: size_of::<Self>() as u32,
            ..Self::default()
        }
    }
}

pub(super) type ModuleNotice = unsafe extern "system" fn(u32, *const c_void, *mut c_void);

#[link(name = "kernel32")]
unsafe extern "system" {
    pub(super) fn GetStdHandle(which: u32) -> Handle;
    pub(super) fn WriteFile(
        file: Handle,
        bytes: *const u8,
        count: u32,
        written: *mut u32,
        overlapped: *mut c_void,
    ) -> i32;
    pub(super) fn LockFileEx(
        file: Handle,
        how: u32,
        reserved: u32,
        bytes_low: u32,
        bytes_high: u32,
        at: *mut FilePlace,
    ) -> i32;
    pub(super) fn CreateFileMappingW(
        file: Handle,
        security: *const c_void,
        protection: u32,
        bytes_high: u32,
        bytes_low: u32,
        name: *const u16,
    ) -> Handle;
    pub(super) fn MapViewOfFile(
        mapping: Handle,
        access: u32,
        at_high: u32,
        at_low: u32,
        bytes: usize,
    ) -> *mut c_void;
    pub(super) fn CloseHandle(handle: Handle) -> i32;
    pub(super) fn GetModuleHandleExW(
        how: u32,
        name_or_address: *const c_void,
        module: *mut Handle,
    ) -> i32;
    pub(super) fn GetModuleFileNameW(module: Handle, name: *mut u16, room: u32) -> u32;
    pub(super) fn RtlCaptureStackBackTrace(
        skipped: u32,
        room: u32,
        frames: *mut *mut c_void,
        hash: *mut u32,
    ) -> u16;
    pub(super) fn GetEnvironmentVariableW(name: *const u16, value: *mut u16, room: u32) -> u32;
    pub(super) fn GetEnvironmentStringsW() -> *mut u16;
    pub(super) fn FreeEnvironmentStringsW(strings: *mut u16) -> i32;
    pub(super) fn GetTickCount64() -> u64;
    pub(super) fn ProcessIdToSessionId(process: u32, session: *mut u32) -> i32;
    pub(super) fn GetCurrentProcess() -> Handle;
    pub(super) fn K32GetProcessMemoryInfo(
        process: Handle,
        counters: *mut MemoryCounters,
        bytes: u32,
    ) -> i32;
}

#[link(name = "advapi32")]
unsafe extern "system" {
    pub(super) fn RegOpenKeyExW(
        hive: Handle,
        name: *const u16,
        options: u32,
        access: u32,
        key: *mut Handle,
    ) -> i32;
    pub(super) fn RegEnumValueW(
        key: Handle,
        index: u32,
        name: *mut u16,
        name_units: *mut u32,
        reserved: *mut u32,
        kind: *mut u32,
        value: *mut u32,
        value_bytes: *mut u32,
    ) -> i32;
    pub(super) fn RegQueryValueExW(
        key: Handle,
        name: *const u16,
        reserved: *mut u32,
        kind: *mut u32,
        value: *mut u8,
        bytes: *mut u32,
    ) -> i32;
    pub(super) fn RegCloseKey(key: Handle) -> i32;
    pub(super) fn OpenProcessToken(process: Handle, access: u32, token: *mut Handle) -> i32;
    pub(super) fn GetTokenInformation(
        token: Handle,
        class: u32,
        about: *mut IntegrityLabel,
        bytes: u32,
        length: *mut u32,
    ) -> i32;
    pub(super) fn GetSidSubAuthorityCount(identifier: *mut c_void) -> *mut u8;
    pub(super) fn GetSidSubAuthority(identifier: *mut c_void, index: u32) -> *mut u32;
}

#[link(name = "ntdll")]
unsafe extern "system" {
    pub(super) fn LdrRegisterDllNotification(
        flags: u32,
        notice: ModuleNotice,
        context: *mut c_void,
        cookie: *mut *mut c_void,
    ) -> i32;
}

unsafe extern "C" {
    pub(super) fn atexit(call: extern "C" fn()) -> i32;
}
