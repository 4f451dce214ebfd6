//! Callbacks over made-up addresses, and a driver that calls them.

use super::*;

/// Hands out made-up addresses, the lowest free one first, so that each is used again at once. Nobody touches the
/// memory.
#[derive(Default)]
pub(crate) struct RecorderModel {
    state: Mutex<DriverState>,
    /// Called in the middle of a reallocation, when the old address is free and the call has not returned.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[derive(Default)]
pub(crate) struct DriverState {
    /// Address to the number of its block.
    live: BTreeMap<usize, u64>,
    given: u64,
    pub(crate) refuse: bool,
    /// Every call as it came.
    pub(crate) seen: Vec<(usize, usize, usize, i32)>,
}

impl DriverState {
    fn give(&mut self, size: usize, align: usize) -> usize {
        if self.refuse || size as u64 > 1 << 40 {
            return 0;
        }
        let step = if align.is_power_of_two() { align.clamp(16, 4096) } else { 16 };
        let at = (1..).map(|n| n * step).find(|at| !self.live.contains_key(at)).unwrap_or(0);
        self.given += 1;
        self.live.insert(at, self.given);
        at
    }
}

impl RecorderModel {
    pub(crate) fn callbacks(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(model_allocation),
            pfn_reallocation: Some(model_reallocation),
            pfn_free: Some(model_free),
            pfn_internal_allocation: Some(model_notice),
            pfn_internal_free: Some(model_notice),
        }
    }

    fn of<'a>(user_data: *mut c_void) -> &'a Self {
        // SAFETY: the tests pass back what `callbacks` gave, and keep the model until the end.
        unsafe { &*user_data.cast::<Self>() }
    }

    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut DriverState) -> R) -> R {
        look(&mut self.state.lock().expect("no panic under the lock"))
    }
}

unsafe extern "system" fn model_allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    RecorderModel::of(user_data).with(|state| {
        state.seen.push((0, size, align, scope));
        ptr::without_provenance_mut(state.give(size, align))
    })
}

unsafe extern "system" fn model_reallocation(
    user_data: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    let model = RecorderModel::of(user_data);
    let meanwhile = model.meanwhile.lock().expect("no panic under the lock").take();
    let new = model.with(|state| {
        state.seen.push((old.addr(), size, align, scope));
        let new = if size == 0 { 0 } else { state.give(size, align) };
        if new != 0 || size == 0 {
            state.live.remove(&old.addr());
        }
        new
    });
    if let Some(meanwhile) = meanwhile {
        meanwhile();
    }
    ptr::without_provenance_mut(new)
}

unsafe extern "system" fn model_free(user_data: *mut c_void, block: *mut c_void) {
    RecorderModel::of(user_data).with(|state| {
        state.seen.push((block.addr(), 0, 0, -1));
        state.live.remove(&block.addr());
    });
}

unsafe extern "system" fn model_notice(user_data: *mut c_void, size: usize, kind: i32, scope: i32) {
    RecorderModel::of(user_data).with(|state| state.seen.push((0, size, kind.unsigned_abs() as usize, scope)));
}

/// A driver's calls through a tap.
#[derive(Clone, Copy)]
pub(crate) struct ModelDriver(pub(crate) Tap);

impl ModelDriver {
    pub(crate) fn raw(&self) -> (&RawCallbacks, *mut c_void) {
        (self.0.raw(), self.0.raw().p_user_data)
    }
    pub(crate) fn allocate(self, size: usize, align: usize, scope: i32) -> usize {
        let (raw, user_data) = self.raw();
        // SAFETY: the recorder and what is behind the tap are there.
        unsafe { raw.pfn_allocation.expect("set")(user_data, size, align, scope) }.addr()
    }
    pub(crate) fn reallocate(self, old: usize, size: usize, align: usize, scope: i32) -> usize {
        let (raw, user_data) = self.raw();
        // SAFETY: the recorder and what is behind the tap are there, and bear any address.
        unsafe { raw.pfn_reallocation.expect("set")(user_data, ptr::without_provenance_mut(old), size, align, scope) }
            .addr()
    }
    pub(crate) fn free(self, block: usize) {
        let (raw, user_data) = self.raw();
        // SAFETY: the recorder and what is behind the tap are there, and bear any address.
        unsafe { raw.pfn_free.expect("set")(user_data, ptr::without_provenance_mut(block)) }
    }
    pub(crate) fn notice(self, size: usize, kind: i32, scope: i32) {
        let (raw, user_data) = self.raw();
        // SAFETY: the recorder and what is behind the tap are there.
        unsafe { raw.pfn_internal_allocation.expect("set")(user_data, size, kind, scope) }
    }
}
