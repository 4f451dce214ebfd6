//! Contexts as the list sees them, over mock devices and a host allocator of which one request can be refused.

use super::*;

use debug_guard::Fault as HostFault;

pub type Mock = MockDevice;
type Own = DeviceContext<SubjectDriver, SubjectShader, ()>;
pub type Table = ContextTable<SubjectDriver, SubjectShader, ()>;
type Numbers = Arc<Mutex<BTreeSet<u64>>>;

/// What `load` answers: a device that several contexts use.
type SubjectDriver = Arc<Mock>;

/// A shader that is in the set for as long as it exists.
pub struct SubjectShader {
    number: u64,
    exist: Numbers,
}

impl Drop for SubjectShader {
    fn drop(&mut self) {
        assert_eq!(alloc_core::held_state_locks(), 0, "no destructor runs with a lock held");
        assert!(self.exist.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number), "destroyed once");
        if let Some(around) = AROUND.get() {
            around.call_back();
        }
    }
}

enum SubjectPlace {
    Own(Box<Own>),
    Numbered(DeviceContextId),
}

struct KnownContext {
    number: CacheDevice,
    mock: Arc<Mock>,
    /// Its calls when it was lost: there are no more.
    calls: Option<u64>,
    /// What it calls back, which goes with the subject.
    hook: Option<MockHook>,
}

static MEMORY: FailingAllocator<FromGlobalAlloc<System>> =
    FailingAllocator::new(FromGlobalAlloc::SYSTEM, HostFault::Never);

/// One subject at a time: what is refused is refused to whoever asks.
static ALONE: Mutex<()> = Mutex::new(());

/// The subject. Once it is dropped, all host memory was given back.
pub struct LifecycleSubject {
    pieces: [Option<Region>; 24],
    holds: [Option<WorkRef<SubjectShader, ()>>; 8],
    places: [Option<SubjectPlace>; 6],
    gone: Vec<DeviceContextId>,
    devices: Vec<KnownContext>,
    without_a_command: bool,
    exist: Numbers,
    table: Option<&'static Table>,
    home: Option<&'static DeviceContexts<SubjectShader, ()>>,
    around: &'static Around,
    root: Option<Context>,
    _alone: MutexGuard<'static, ()>,
}

impl LifecycleSubject {
    /// A home and a table without contexts. Devices, handlers and destructors do what they are there for.
    pub fn new() -> Self {
        let subject = Self::calling_back();
        AROUND.set(None);
        subject
    }

    /// As [`new`](Self::new); and they call back.
    pub fn calling_back() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Context::root_static(&MEMORY, ContextOptions::new("contexts")).expect("memory of the system");
        let home = DeviceContexts::new(root.handle(), CacheLimits::NONE).expect("memory of the system");
        let (home, table) = (&*Box::leak(Box::new(home)), &*Box::leak(Box::new(ContextTable::new(root.handle()))));
        let around = &*Box::leak(Box::new(Around { table, home, ids: Mutex::default() }));
        AROUND.set(Some(around));
        Self {
            pieces: [const { None }; 24],
            holds: [const { None }; 8],
            places: [const { None }; 6],
            gone: Vec::new(),
            devices: Vec::new(),
            without_a_command: false,
            exist: Numbers::default(),
            table: Some(table),
            home: Some(home),
            around,
            root: Some(root),
            _alone: alone,
        }
    }

    fn table(&self) -> &'static Table {
        self.table.expect("there until the end")
    }

    fn with<R>(&self, context: usize, run: impl FnOnce(&Own) -> R) -> R {
        match self.places[context].as_ref().expect("the program uses what it acquired") {
            SubjectPlace::Own(own) => run(own),
            SubjectPlace::Numbered(id) => self.table().with(*id, run).expect("nobody releases it"),
        }
    }

    fn index(&self, id: DeviceContextId) -> usize {
        let of = |place: &Option<SubjectPlace>| matches!(place, Some(SubjectPlace::Numbered(there)) if *there == id);
        self.places.iter().position(of).expect("a context that was acquired")
    }

    fn piece(&self, piece: usize) -> &Region {
        self.pieces[piece].as_ref().expect("the program has it")
    }

    fn device(&self, number: CacheDevice) -> u64 {
        self.devices.iter().position(|known| known.number == number).expect("its driver was loaded") as u64 + 1
    }
}

impl Drop for LifecycleSubject {
    fn drop(&mut self) {
        AROUND.set(None);
        self.devices.iter().for_each(|known| known.mock.set_hook(None));
        self.holds.iter_mut().for_each(|hold| drop(hold.take()));
        self.places.iter_mut().for_each(|place| drop(place.take()));
        let (table, home) = (self.table.take().expect("there until now"), self.home.take().expect("there until now"));
        // SAFETY: leaked in `new`; nobody calls back any more.
        drop(unsafe { Box::from_raw(ptr::from_ref(table).cast_mut()) });
        // SAFETY: leaked in `new`; nobody calls back any more.
        drop(unsafe { Box::from_raw(ptr::from_ref(home).cast_mut()) });
        for hook in self.devices.iter().filter_map(|known| known.hook) {
            // SAFETY: leaked where its device was loaded, which calls it no more.
            drop(unsafe { Box::from_raw(ptr::from_ref(hook).cast_mut()) });
        }
        // SAFETY: leaked in `calling_back`; hooks and handlers that used it are gone or no longer set.
        drop(unsafe { Box::from_raw(ptr::from_ref(self.around).cast_mut()) });
        let closed = self.root.take().expect("there until the end").close_root();
        assert!(closed.is_ok() || std::thread::panicking(), "host memory was not given back");
    }
}

/// What the handlers answer and count; their user data.
struct Switch {
    answer: Result<Option<DeviceContextId>, ContextError>,
    acquired: Cell<u32>,
    released: Cell<u32>,
}

fn acquire_context(user: *mut c_void, _: bool) -> Result<Option<DeviceContextId>, ContextError> {
    assert_eq!(alloc_core::held_state_locks(), 0, "no handler is called with a lock held");
    // SAFETY: every dispatch here is asked with a switch.
    let switch = unsafe { &*user.cast::<Switch>() };
    if let Some(around) = AROUND.get() {
        around.call_back();
    }
    switch.acquired.set(switch.acquired.get() + u32::from(switch.answer.is_ok()));
    switch.answer
}

fn release_context(user: *mut c_void, id: Option<DeviceContextId>) {
    assert_eq!(alloc_core::held_state_locks(), 0, "no handler is called with a lock held");
    // SAFETY: every dispatch here is asked with a switch.
    let switch = unsafe { &*user.cast::<Switch>() };
    assert_eq!(Ok(id), switch.answer, "the one that was acquired");
    switch.released.set(switch.released.get() + 1);
}

impl LifecycleSubject {
    pub fn acquire(&mut self, context: usize, handles: HandleValues, numbered: bool) -> Result<u64, Denied> {
        let Self { home, table, root, devices, without_a_command, around, .. } = self;
        let (home, table, around) = (home.expect("there until the end"), table.expect("there until the end"), *around);
        let memory = root.as_ref().expect("there until the end").handle();
        let (handles, missing) = (values(handles), *without_a_command);
        // Small, so that several blocks are made.
        let options =
            MemoryOptions { first_block: Some(1 << 16), max_block: Some(1 << 18), ..MemoryOptions::default() };
        let options = AllocatorOptions { memory: options, ..AllocatorOptions::default() };
        let acquire = || {
            let load = |state: &DeviceState| {
                let nulls = [handles.instance, handles.physical_device, handles.device].contains(&0);
                assert!(!nulls, "a null handle is refused before anything is asked");
                if missing {
                    return Err(ContextError::MissingCommand { level: CommandSource::Device, name: c"vkFreeMemory" });
                }
                let number = state.cache_device();
                let there = devices.iter().find(|known| known.number == number).map(|known| Arc::clone(&known.mock));
                let mock = there.unwrap_or_else(|| {
                    let profile = [MockProfile::Lavapipe, MockProfile::Nvidia, MockProfile::IntelUma]
                        [(handles.device % 3) as usize];
                    let mock = Arc::new(MockDevice::new(profile));
                    let hook = AROUND.get().map(|around| {
                        &*Box::leak(Box::new(move |call| {
                            // Its facts never change: nothing is under way where they are asked for.
                            if call != MockCall::Properties {
                                around.call_back();
                            }
                        })) as MockHook
                    });
                    mock.set_hook(hook);
                    devices.push(KnownContext { number, mock: Arc::clone(&mock), calls: None, hook });
                    mock
                });
                Ok(mock)
            };
            // SAFETY: the mock stays until the last context on it goes, and whatever is done with it is no harm.
            unsafe { home.acquire(handles, memory, options, load) }
        };
        let place = if numbered {
            let id = table.acquire(None, handles, acquire).map_err(denied)?;
            around.ids.lock().expect("no panic").push(id);
            SubjectPlace::Numbered(id)
        } else {
            SubjectPlace::Own(Box::new(acquire().map_err(denied)?))
        };
        self.places[context] = Some(place);
        Ok(self.describe(context).device)
    }

    pub fn acquire_again(&mut self, context: usize, handles: HandleValues) -> Result<(), Denied> {
        let handles = values(handles);
        match self.places[context].as_ref().expect("the program uses what it acquired") {
            SubjectPlace::Own(own) => own.acquire_again(handles).map_err(denied),
            SubjectPlace::Numbered(id) => {
                let again = self.table().acquire(Some(*id), handles, || panic!("nothing is made"));
                again.map(|same| assert_eq!(same, *id)).map_err(denied)
            }
        }
    }

    pub fn stale(&mut self, nth: usize, handles: HandleValues) -> Vec<Result<(), Denied>> {
        let Some(id) = self.gone.get(nth % self.gone.len().max(1)).copied() else {
            return Vec::new();
        };
        let (table, handles) = (self.table(), values(handles));
        let tried = [
            table.acquire(Some(id), handles, || panic!("nothing is made")).map(|_| ()),
            table.with(id, |_| ()),
            table.release(Some(id), handles).map(|_| ()),
            table.set_default(Some(id)).map(|_| ()),
        ];
        tried.map(|tried| tried.map_err(denied)).into()
    }

    pub fn release(&mut self, context: usize, handles: HandleValues) -> Result<ReleaseOutcome, Denied> {
        match self.places[context].take().expect("the program releases what it acquired") {
            SubjectPlace::Own(own) => match own.release() {
                Ok(released) => Ok(gone(released, ContextRemains::default())),
                Err(back) => {
                    let left = left(back.error);
                    assert_eq!(
                        back.value.release_blockers().count() as u64,
                        left.regions + left.crops + left.shaders,
                        "each is listed once"
                    );
                    self.places[context] = Some(SubjectPlace::Own(Box::new(back.value)));
                    Err(Denied::Outstanding(left))
                }
            },
            SubjectPlace::Numbered(id) => match self.table().release(Some(id), values(handles)) {
                Ok(released) => {
                    self.around.ids.lock().expect("no panic").retain(|there| *there != id);
                    self.gone.push(id);
                    Ok(gone(released.expect("it was a context"), ContextRemains::default()))
                }
                Err(error) => {
                    self.places[context] = Some(SubjectPlace::Numbered(id));
                    Err(denied(error))
                }
            },
        }
    }

    pub fn end(&mut self, context: usize, ending: Ending) -> Option<ReleaseOutcome> {
        let Some(SubjectPlace::Own(own)) = self.places[context].take() else { panic!("the table ends its own") };
        if ending == Ending::Drop {
            drop(own);
            return None;
        }
        let report = own.release_forced();
        Some(gone(report.released, left(report.outstanding)))
    }

    pub fn lose(&mut self, context: usize) {
        let number = self.with(context, |own| own.shaders().device());
        let known = self.devices.iter_mut().find(|known| known.number == number).expect("its driver was loaded");
        known.calls.get_or_insert(calls(&known.mock));
        self.with(context, Own::device_lost);
    }

    pub fn allocate(&mut self, context: usize, piece: usize) -> Result<(), Denied> {
        let info = BufferInfo::new(1000 << (piece % 5), BufferUsage::STORAGE_BUFFER);
        let options = RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
        let taken = self.with(context, |own| own.allocator().create_buffer(&info, &options)).map_err(refused)?;
        self.pieces[piece] = Some(taken);
        Ok(())
    }

    pub fn crop(&mut self, context: usize, of: usize, piece: usize) -> Result<(), Denied> {
        let cut = self.with(context, |own| own.allocator().crop(self.piece(of), 256, 64, 4)).map_err(refused)?;
        self.pieces[piece] = Some(cut);
        Ok(())
    }

    pub fn map(&mut self, context: usize, piece: usize) -> Result<(), Denied> {
        let id = self.piece(piece).id();
        self.with(context, |own| {
            let first = own.allocator().map_id(id).map_err(refused)?;
            if !own.device_state().is_lost() {
                // SAFETY: mapped, and larger than a byte.
                unsafe { first.write(0xA5) };
            }
            Ok(())
        })
    }

    pub fn unmap(&mut self, context: usize, piece: usize) -> Result<(), Denied> {
        let id = self.piece(piece).id();
        self.with(context, |own| own.allocator().unmap_id(id)).map_err(refused)
    }

    pub fn free(&mut self, context: usize, piece: usize) -> Result<(), Denied> {
        let region = self.pieces[piece].take().expect("the program has it");
        let given = self.with(context, |own| own.allocator().free(region));
        given.map_err(|back| {
            self.pieces[piece] = Some(back.value);
            refused(back.error)
        })
    }

    pub fn forget(&mut self, piece: usize) {
        self.pieces[piece] = None;
    }

    pub fn get_or_compile(
        &mut self,
        context: usize,
        key: u64,
        number: u64,
        hold: Option<usize>,
    ) -> Result<u64, Denied> {
        let exist = &self.exist;
        let asked = self.with(context, |own| {
            let asked = own.shaders().get_or_compile(ShaderKey::kernel(own.shaders().device(), key), || {
                if own.device_state().is_lost() {
                    return Err(());
                }
                exist.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                Ok(CompiledShader { value: SubjectShader { number, exist: Arc::clone(exist) }, bytes: 10 })
            });
            asked.map(|found| (found.number, hold.map(|_| found.into_work_ref())))
        });
        let (found, work) = asked.map_err(|error| match error {
            CacheError::Host(_) => Denied::Host,
            CacheError::Compile(()) => Denied::Lost,
            error => panic!("{error:?}"),
        })?;
        if let Some(hold) = hold {
            self.holds[hold] = work;
        }
        Ok(found)
    }

    pub fn release_shader(&mut self, hold: usize) {
        self.holds[hold] = None;
    }

    pub fn set_handlers(&mut self, own: bool) -> Result<bool, Denied> {
        let handlers = own.then_some(ContextHandlers { acquire_context, release_context });
        self.table().set_context_handlers(handlers).map(|before| before.is_some()).map_err(denied)
    }

    pub fn set_default(&mut self, context: Option<usize>) -> Result<Option<usize>, Denied> {
        let id = context.map(|context| match self.places[context] {
            Some(SubjectPlace::Numbered(id)) => id,
            _ => panic!("the default has a number"),
        });
        let before = self.table().set_default(id).map_err(denied)?;
        Ok(before.map(|id| self.index(id)))
    }

    pub fn dispatch(&mut self, answer: SubjectAnswer, create: bool) -> Dispatched {
        let answer = match answer {
            SubjectAnswer::Context(context) => Ok(Some(self.with(context, DeviceContext::id))),
            SubjectAnswer::Stale => Ok(Some(self.gone.last().copied().unwrap_or(DeviceContextId::from_raw(u64::MAX)))),
            SubjectAnswer::Nothing => Ok(None),
            SubjectAnswer::Refuses => Err(REFUSES),
        };
        let switch = Switch { answer, acquired: Cell::new(0), released: Cell::new(0) };
        let table = self.table();
        let ran = table.dispatch(ptr::from_ref(&switch).cast_mut().cast(), create, |running| {
            let inside = [
                table.set_context_handlers(None).map(|_| ()),
                table.set_default(None).map(|_| ()),
                running.map_or(Ok(()), |own| table.release(Some(own.id()), values([1; 3])).map(|_| ())),
            ];
            (running.map(|own| own.id()), inside.map(|tried| tried.map_err(denied)))
        });
        assert_eq!(switch.acquired.get(), switch.released.get(), "each acquire has its release");
        Dispatched {
            with: ran.map(|(id, _)| id.map(|id| self.index(id))).map_err(denied),
            inside: ran.ok().map(|(_, inside)| inside),
        }
    }

    pub fn refuse(&mut self, refusal: Option<CallRefusal>) {
        MEMORY.arm(match refusal {
            Some(CallRefusal::Host(nth)) => HostFault::Nth(nth),
            _ => HostFault::Never,
        });
        self.without_a_command = refusal == Some(CallRefusal::Load);
        for known in self.devices.iter().filter(|known| known.calls.is_none()) {
            known.mock.clear_faults();
            if let Some(CallRefusal::Device(nth)) = refusal {
                known.mock.plant(MockFault::nth(nth));
            }
        }
    }

    pub fn describe(&self, context: usize) -> ContextSeen {
        self.with(context, |own| {
            let stats = own.shaders().stats();
            let state = own.device_state();
            assert_eq!(own.shaders().device(), state.cache_device());
            ContextSeen {
                device: self.device(state.cache_device()),
                lost: state.is_lost(),
                shaders: [stats.entries, stats.dead],
            }
        })
    }

    pub fn driver(&self, device: u64) -> [u64; 2] {
        let live = self.devices[device as usize - 1].mock.live_counts();
        [live.buffers, live.memory]
    }

    pub fn exist(&self) -> Vec<u64> {
        for known in &self.devices {
            assert!(known.calls.is_none_or(|before| before == calls(&known.mock)), "a lost device was called");
            assert!(known.mock.violations().is_empty(), "{}", known.mock.violations());
        }
        self.exist.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
