use std::alloc::System;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use alloc_core::{FromGlobalAlloc, HostError, Scope};
use debug_guard::{ModuleFinder, StackDepot, StackId};
use vk_callbacks::CallbackSink;
use vk_callbacks::command::current_thread;
use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest};

use super::{BlockOrigin, Moment, SiteRecorder};
use crate::command_mark::command_mark;
use crate::report::LeakFrame;

/// Records each block with its stack, in the system's memory, which is in no account.
pub struct StackCapture {
    depot: StackDepot<FromGlobalAlloc<System>>,
    began: Instant,
    state: Mutex<CapturedSites>,
}

impl std::fmt::Debug for StackCapture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackCapture").finish_non_exhaustive()
    }
}

/// The lock of the records is not held over a call of a driver or of a caller's allocator.
struct CapturedSites {
    recorder: SiteRecorder,
    /// The frames of a stack are looked up when it is new, while their files are mapped.
    stacks: HashMap<StackId, usize>,
    modules: ModuleFinder,
}

impl StackCapture {
    /// An empty capture that writes to `recorder`.
    ///
    /// # Errors
    /// [`HostError::OutOfHostMemory`]: no memory for stacks.
    pub fn new(recorder: SiteRecorder) -> Result<Arc<Self>, HostError> {
        let no_memory = |_| HostError::OutOfHostMemory { bytes: 0, scope: Scope::Command };
        Ok(Arc::new(Self {
            depot: StackDepot::new(FromGlobalAlloc::SYSTEM).map_err(no_memory)?,
            began: Instant::now(),
            state: Mutex::new(CapturedSites { recorder, stacks: HashMap::new(), modules: ModuleFinder::new() }),
        }))
    }

    /// Callbacks around `inner` that record the blocks of `context`. They are valid while the box is, wherever it is
    /// moved.
    #[must_use]
    pub fn around(self: &Arc<Self>, inner: RawCallbacks, context: &'static str) -> Box<SiteCallbacks> {
        Box::new(SiteCallbacks { inner, context, capture: Arc::clone(self) })
    }

    /// Runs `work` on the records; it must not call callbacks.
    pub fn with<R>(&self, work: impl FnOnce(&mut SiteRecorder) -> R) -> R {
        work(&mut self.lock().recorder)
    }

    /// Now, on this thread.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { at: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX), thread: current_thread() }
    }

    fn lock(&self) -> MutexGuard<'_, CapturedSites> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocated(&self, block: *mut c_void, context: &str, request: RawRequest) {
        let mark = command_mark().unwrap_or_default();
        let command = mark.name;
        let stack = self.depot.capture_within(mark);
        let moment = self.moment();
        let mut state = self.lock();
        let stack = stack.map(|stack| state.place(&self.depot, stack));
        if stack.is_none() {
            state.recorder.lose();
        }
        let origin =
            BlockOrigin { context, command, scope: u32::try_from(request.scope).ok().and_then(Scope::from_raw), stack };
        state.recorder.allocate(number(block), origin, request.size as u64, moment);
    }
}

impl CapturedSites {
    fn place(&mut self, depot: &StackDepot<FromGlobalAlloc<System>>, stack: StackId) -> usize {
        if let Some(place) = self.stacks.get(&stack) {
            return *place;
        }
        let (modules, recorder) = (&mut self.modules, &mut self.recorder);
        let frames = depot.get(stack).map_or(&[][..], |(_, stack)| stack.frames);
        let place = recorder.add_stack(frames.iter().map(|address| {
            let (module, offset) = modules.find(*address).unwrap_or_default();
            LeakFrame {
                address: format!("{address:#x}"),
                module: module.to_owned(),
                offset: format!("{offset:#x}"),
                ..LeakFrame::default()
            }
        }));
        self.stacks.insert(stack, place);
        place
    }
}

fn number(block: *mut c_void) -> u64 {
    block.addr() as u64
}

/// Callbacks around others; see [`StackCapture::around`].
pub struct SiteCallbacks {
    inner: RawCallbacks,
    context: &'static str,
    capture: Arc<StackCapture>,
}

impl std::fmt::Debug for SiteCallbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SiteCallbacks").field("context", &self.context).finish_non_exhaustive()
    }
}

impl SiteCallbacks {
    /// The callbacks, valid while `self` stays where it is and the inner ones are valid.
    #[must_use]
    pub fn raw(&self) -> RawCallbacks {
        let here = std::ptr::from_ref(self).cast_mut().cast();
        RawCallbacks::of_sink::<Self>(here).only_those_of(&self.inner)
    }
}

impl CallbackSink for SiteCallbacks {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        // SAFETY: the same call.
        let block = unsafe { self.inner.allocation(request) };
        if !block.is_null() {
            self.capture.allocated(block, self.context, request);
        }
        block
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // The old block's number may be another block's before the inner call returns.
        let moment = self.capture.moment();
        let before = self.capture.with(|recorder| recorder.begin_resize(number(original), moment));
        // SAFETY: the same call.
        let block = unsafe { self.inner.reallocation(original, request) };
        match before {
            // Freed: a size of 0.
            Some(live) if block.is_null() && request.size == 0 => {
                self.capture.with(|recorder| recorder.end_free(live));
            }
            Some(live) if block.is_null() => self.capture.with(|recorder| {
                recorder.end_resize(live, number(original), live.bytes, moment);
            }),
            Some(live) => self.capture.with(|recorder| {
                recorder.end_resize(live, number(block), request.size as u64, moment);
            }),
            None if block.is_null() => {}
            None => self.capture.allocated(block, self.context, request),
        }
        block
    }

    unsafe fn free(&self, block: *mut c_void) {
        let moment = self.capture.moment();
        self.capture.with(|recorder| recorder.free(number(block), moment));
        // SAFETY: the same call.
        unsafe { self.inner.free(block) };
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: the same call.
        unsafe { self.inner.notification(notice) };
    }
}
