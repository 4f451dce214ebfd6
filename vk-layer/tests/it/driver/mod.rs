//! A loader and a driver that are made up: they note what reaches them, and allocate through the callbacks that they
//! get.

mod blocks;
mod budgets;
mod commands;
mod layer;
mod names;
mod objects;
mod pipelines;
mod reports;

use std::cell::RefCell;
use std::ffi::{c_char, c_void};

use vk_callbacks::raw::RawCallbacks;

pub(crate) use budgets::BUDGETS_READ;
pub(crate) use commands::{draw, unknown};
pub(crate) use layer::{CreateInfo, LINK, Layer, Link, LinkInfo, create_object, destroy, destroy_object, interface};
pub(crate) use names::{next_device_proc_addr, next_instance_proc_addr};
pub(crate) use pipelines::{BinaryList, VALIDATION_FAILED, join};
pub(crate) use reports::ReportEvent;

pub(crate) type VoidFunction = unsafe extern "system" fn();
pub(crate) type GetProcAddr = unsafe extern "system" fn(*mut c_void, *const c_char) -> Option<VoidFunction>;
type Callbacks = *const RawCallbacks;
type Handle = *mut c_void;

/// One command that reached the driver, with the user data of its callbacks: `None` for NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) command: &'static str,
    pub(crate) user_data: Option<usize>,
}

#[derive(Default)]
struct DriverNotes {
    seen: Vec<Seen>,
    fail_creation: bool,
    /// Instances and devices have no table of the loader, and so cannot be found.
    has_no_table: bool,
    /// The table of the next instance or device, where it is not one of its own.
    table: Option<usize>,
    /// What was looked up with an instance, and with which one.
    looked_up: Vec<(String, usize)>,
    /// The callbacks of the device and of the command pool that were created last.
    device: Option<RawCallbacks>,
    pool: Option<RawCallbacks>,
    /// What was deferred: the callbacks, as they came, and the array of so many handles.
    deferred: Option<(Callbacks, usize, *mut u64)>,
    /// What the last command without callbacks was called with.
    arguments: Vec<u64>,
    /// The address of the last create info.
    info: usize,
    /// Done once, by the next command that creates an object.
    meanwhile: Option<Box<dyn FnOnce()>>,
}

thread_local! {
    /// Each test has a thread, and a driver on it.
    static DRIVER: RefCell<DriverNotes> = RefCell::default();
}

/// What reached the driver since the last time.
pub(crate) fn seen() -> Vec<Seen> {
    DRIVER.with_borrow_mut(|driver| std::mem::take(&mut driver.seen))
}

/// The callbacks that the last device was created with.
pub(crate) fn device_callbacks() -> Option<RawCallbacks> {
    DRIVER.with_borrow(|driver| driver.device)
}

pub(crate) fn fail_creation(fail: bool) {
    DRIVER.with_borrow_mut(|driver| driver.fail_creation = fail);
}

pub(crate) fn create_without_table(without: bool) {
    DRIVER.with_borrow_mut(|driver| driver.has_no_table = without);
}

/// The next instance or device of this thread gets the table that another one had, as if the loader had freed that.
pub(crate) fn create_with_table_of(other: Handle) {
    DRIVER.with_borrow_mut(|driver| driver.table = Some(other.addr()));
}

/// The next command of this thread that creates an object does this before it is back.
pub(crate) fn do_meanwhile(work: impl FnOnce() + 'static) {
    DRIVER.with_borrow_mut(|driver| driver.meanwhile = Some(Box::new(work)));
}

/// The address of the create info that reached the driver last.
pub(crate) fn last_info() -> usize {
    DRIVER.with_borrow(|driver| driver.info)
}

fn note_info(info: *const c_void) {
    DRIVER.with_borrow_mut(|driver| driver.info = info.addr());
}

/// What the last command without callbacks was called with.
pub(crate) fn arguments() -> Vec<u64> {
    DRIVER.with_borrow_mut(|driver| std::mem::take(&mut driver.arguments))
}

/// What was looked up with an instance since the last time: the command and the instance.
pub(crate) fn looked_up() -> Vec<(String, usize)> {
    DRIVER.with_borrow_mut(|driver| std::mem::take(&mut driver.looked_up))
}

/// Notes the command. Says whether it is to fail.
fn note(command: &'static str, callbacks: Callbacks) -> bool {
    // SAFETY: NULL or live callbacks, as the driver gets them.
    let user_data = unsafe { callbacks.as_ref() }.map(|callbacks| callbacks.p_user_data.addr());
    DRIVER.with_borrow_mut(|driver| {
        driver.seen.push(Seen { command, user_data });
        driver.fail_creation
    })
}
