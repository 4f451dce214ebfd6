//! The recorder between a driver and callbacks: what passes is unchanged, and the trace says what passed.

mod calls;
mod malloc;
mod memory;
mod model;
mod programs;
mod threads;

use std::alloc::{Layout, System};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};
use proptest::prelude::*;
use testkit::RecordingAllocator;
use vk_callbacks::command::current_thread;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::recorder::{Tap, Written};
use vk_callbacks::trace::{Caller, Pointer, Request};
use vk_callbacks::{CallbackError, Recorder, TraceEvent, TraceReader};

use crate::common::{App, Call, sums};
use malloc::{churn, drain, told};
use model::{ModelDriver, RecorderModel};

fn system() -> FromGlobalAlloc<System> {
    FromGlobalAlloc::SYSTEM
}

fn tap(recorder: &Recorder<'_>, owner: u64, inner: RawCallbacks) -> Result<ModelDriver, CallbackError> {
    // SAFETY: the tests keep what is behind the tap until the recorder is gone, and call nothing afterwards.
    unsafe { recorder.tap(owner, inner) }.map(ModelDriver)
}

fn trace(recorder: &Recorder<'_>) -> (String, Written) {
    let mut text = String::new();
    let written = recorder.write("model", &mut text).expect("memory for the numbers");
    assert_eq!(written.lines, text.lines().count() as u64);
    (text, written)
}

fn lines(recorder: &Recorder<'_>) -> Vec<String> {
    trace(recorder).0.lines().skip(2).map(str::to_owned).collect()
}
