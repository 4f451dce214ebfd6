use std::ffi::{c_char, c_void};
use std::mem::transmute;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use alloc_core::support::floor_char_boundary;
use vk_callbacks::commands::CommandLevel;
use vk_callbacks::{CommandRow, OwnerId, Owners};

use crate::accounts::Accounts;
use crate::chain::{GetProcAddr, VoidFunction};
use crate::commands::{ROWS, row};
use crate::device_memory::MemoryBlocks;
use crate::handle_map::HandleMap;
use crate::hooks::{DeferredOperations, SLOTS, known_commands};
use crate::physical_device::PhysicalDeviceCommands;

pub(crate) struct Parent {
    pub(crate) handle: usize,
    pub(crate) get_proc_addr: GetProcAddr,
    next: [Option<VoidFunction>; ROWS],
    others: [AtomicPtr<()>; SLOTS],
    pub(crate) accounts: &'static Accounts,
    /// `None` for the program's own.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) instance_owner: Option<OwnerId>,
    pub(crate) physical: PhysicalDeviceCommands,
    pub(crate) memory: Option<MemoryBlocks>,
    pub(crate) deferred: DeferredOperations,
}

/// The instances; physical devices begin with the same word.
pub(crate) static INSTANCES: HandleMap<Parent> = HandleMap::new();
/// The devices; queues and command buffers begin with the same word.
pub(crate) static DEVICES: HandleMap<Parent> = HandleMap::new();

impl Parent {
    /// Only commands of its level are looked up, since the loader has few places for commands of devices that it is
    /// asked for with an instance.
    ///
    /// # Safety
    /// Inside the command that creates the instance or device: `get_proc_addr` is the layer's below, and may be called
    /// with `handle`.
    pub(crate) unsafe fn new(
        level: CommandLevel,
        handle: *mut c_void,
        get_proc_addr: GetProcAddr,
        accounts: &'static Accounts,
        owner: Option<OwnerId>,
    ) -> Self {
        let next = std::array::from_fn(|index| {
            if row(index).level != level || !row(index).has_allocator_parameter() {
                return None;
            }
            let name = CommandName::of(index);
            // SAFETY: inside the command that creates `handle`; the name ends with 0.
            unsafe { get_proc_addr(handle, name.as_ptr()) }
        });
        Self {
            handle: handle.expose_provenance(),
            get_proc_addr,
            next,
            others: [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS],
            accounts,
            owner,
            instance_owner: None,
            physical: PhysicalDeviceCommands::default(),
            memory: None,
            deferred: DeferredOperations::new(),
        }
    }

    pub(crate) fn next(&self, index: usize) -> Option<VoidFunction> {
        self.next.get(index).copied().flatten()
    }

    /// A layer above may keep the hook that it got for another instance or device.
    ///
    /// # Safety
    /// Inside the command that creates the instance or device.
    pub(crate) unsafe fn look_up_known(&self, level: CommandLevel) {
        for (slot, name) in known_commands(level) {
            // SAFETY: inside the command that creates it; the name ends with 0.
            if let Some(function) = unsafe { self.look_up(name.as_ptr()) } {
                self.set_other(slot, function);
            }
        }
    }

    /// # Safety
    /// The instance or device is live.
    pub(crate) unsafe fn other(&self, slot: usize, name: &CommandName) -> Option<VoidFunction> {
        let place = self.others.get(slot)?;
        let known = place.load(Ordering::Relaxed);
        if !known.is_null() {
            // SAFETY: a function's address, stored below.
            return Some(unsafe { transmute::<*mut (), VoidFunction>(known) });
        }
        // For an instance the loader now returns the first layer's function, which leads back here.
        if !self.is_device() {
            return None;
        }
        // SAFETY: the device is live; the name ends with 0.
        let function = unsafe { self.look_up(name.as_ptr()) }?;
        self.set_other(slot, function);
        Some(function)
    }

    /// # Safety
    /// The name ends with 0, and the instance or device is live.
    pub(crate) unsafe fn look_up(&self, name: *const c_char) -> Option<VoidFunction> {
        let handle = ptr::with_exposed_provenance_mut(self.handle);
        // SAFETY: the layer's below, with its own handle.
        unsafe { (self.get_proc_addr)(handle, name) }
    }

    /// The first function is kept: later the loader returns the first layer's.
    pub(crate) fn set_other(&self, slot: usize, function: VoidFunction) {
        if let Some(place) = self.others.get(slot) {
            let none = ptr::null_mut();
            let function = function as *mut ();
            let _ = place.compare_exchange(none, function, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_device(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn owners(&self) -> Owners {
        let is_device = self.is_device();
        Owners {
            device: self.owner.filter(|_| is_device),
            instance: if is_device { self.instance_owner } else { self.owner },
            ..Owners::default()
        }
    }

    /// # Safety
    /// `handle` is NULL or a handle that the command may be called on. The answer is not used once that command has
    /// returned.
    pub(crate) unsafe fn of<'c>(row: &CommandRow, handle: *mut c_void) -> Option<&'c Self> {
        let parents = match row.level {
            CommandLevel::Device => &DEVICES,
            CommandLevel::Instance | CommandLevel::BeforeInstance => &INSTANCES,
        };
        // SAFETY: NULL, or a handle of a command, which begins with the loader's word.
        let parent = parents.get(unsafe { dispatch_key(handle) })?;
        // SAFETY: freed by the command that destroys it, which no other command runs beside.
        Some(unsafe { parent.as_ref() })
    }
}

/// Returns 0 for NULL.
///
/// # Safety
/// `handle` is NULL or a live dispatchable handle.
pub(crate) unsafe fn dispatch_key(handle: *mut c_void) -> usize {
    NonNull::new(handle.cast::<usize>()).map_or(0, |handle| {
        // SAFETY: the first word of every dispatchable handle is the loader's, written before the program had the
        // handle; `in_process` writes it as an atomic.
        unsafe { AtomicUsize::from_ptr(handle.as_ptr()) }.load(Ordering::Relaxed)
    })
}

pub(crate) struct CommandName {
    bytes: [u8; CommandName::CAPACITY],
    length: usize,
}

impl CommandName {
    pub(crate) const CAPACITY: usize = 96;

    pub(crate) fn of(index: usize) -> Self {
        Self::new(row(index).name)
    }

    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; Self::CAPACITY];
        let length = floor_char_boundary(name, Self::CAPACITY - 1);
        for (to, from) in bytes.iter_mut().zip(name.bytes().take(length)) {
            *to = from;
        }
        Self { bytes, length }
    }

    pub(crate) fn as_str(&self) -> &str {
        let name = self.bytes.get(..self.length).unwrap_or_default();
        // SAFETY: a string, cut at the end of a character.
        unsafe { std::str::from_utf8_unchecked(name) }
    }

    pub(crate) const fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

/// A 0 follows every name.
const _: () = {
    let mut index = 0;
    while index < ROWS {
        assert!(row(index).name.len() < CommandName::CAPACITY);
        index += 1;
    }
};
