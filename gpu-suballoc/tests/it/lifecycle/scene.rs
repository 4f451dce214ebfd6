//! An application: its memory, its callbacks, a home for contexts, and what it does with one.

use super::*;

use std::alloc::alloc;
use std::alloc::dealloc;

pub static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Blocks that a driver has of an application's callbacks; their user data.
pub struct SceneHost(AtomicI64);

const FRONT: usize = 16;

unsafe extern "system" fn take(user: *mut c_void, size: usize, _: usize, _: vk::SystemAllocationScope) -> *mut c_void {
    // SAFETY: every set of callbacks here is made with a host.
    unsafe { &*user.cast::<SceneHost>() }.0.fetch_add(1, SeqCst);
    assert_eq!(size, 32, "what the fake asks for");
    // SAFETY: not empty.
    unsafe { alloc(Layout::from_size_align(size + FRONT, FRONT).unwrap()) }.cast()
}

unsafe extern "system" fn give(user: *mut c_void, block: *mut c_void) {
    // SAFETY: the user data is the scene's host, which outlives its blocks.
    unsafe { &*user.cast::<SceneHost>() }.0.fetch_sub(1, SeqCst);
    // SAFETY: taken above with this layout.
    unsafe { dealloc(block.cast(), Layout::from_size_align(32 + FRONT, FRONT).unwrap()) }
}

impl SceneHost {
    pub fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    pub fn live(&self) -> i64 {
        self.0.load(SeqCst)
    }

    pub fn callbacks(&self) -> vk::AllocationCallbacks<'static> {
        vk::AllocationCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: Some(take),
            pfn_free: Some(give),
            ..Default::default()
        }
    }
}

/// The application's memory: one context for what is shared, one for what is acquired.
pub struct SceneMemory {
    pub shared: Context,
    pub own: Context,
    root: Option<Context>,
}

impl SceneMemory {
    pub fn new() -> Self {
        Self::over(Context::root_static(&SYSTEM, ContextOptions::new("application")).unwrap())
    }

    /// # Safety
    /// The allocator outlives it.
    pub unsafe fn on(host: &(impl HostAllocator + Sync)) -> Self {
        // SAFETY: the host outlives the context.
        Self::over(unsafe { Context::root(host, ContextOptions::new("application")) }.unwrap())
    }

    fn over(root: Context) -> Self {
        Self { shared: root.child("shared").unwrap(), own: root.child("contexts").unwrap(), root: Some(root) }
    }

    pub fn home(&self) -> AshContexts {
        AshContexts::new(self.shared.handle(), CacheLimits::NONE).unwrap()
    }

    pub fn table(&self) -> AshContextTable {
        AshContextTable::new(self.shared.handle())
    }

    /// Live bytes: shared, of contexts.
    pub fn bytes(&self) -> [u64; 2] {
        [&self.shared, &self.own].map(|context| context.usage().total().live_bytes)
    }

    /// Requests so far of both.
    pub fn requests(&self) -> u64 {
        [&self.shared, &self.own].iter().map(|context| context.usage().total().total_blocks).sum()
    }

    pub fn end(mut self) {
        assert_eq!(self.bytes(), [0, 0]);
        let root = self.root.take().unwrap();
        drop((self.shared, self.own));
        root.close_root().unwrap();
    }
}

pub fn handles(driver: &LifecycleDriver) -> VulkanHandles {
    use ash::vk::Handle;
    VulkanHandles {
        instance: driver.instance().as_raw(),
        physical_device: driver.physical_device().as_raw(),
        device: driver.device().as_raw(),
    }
}

pub fn info<'a>(memory: &SceneMemory, driver: &LifecycleDriver, host: Option<&SceneHost>) -> AshContextInfo<'a> {
    AshContextInfo {
        get_instance_proc_addr,
        instance: driver.instance(),
        physical_device: driver.physical_device(),
        device: driver.device(),
        options: AshOptions { callbacks: host.map(SceneHost::callbacks), ..AshOptions::new(vk::API_VERSION_1_0) },
        allocator: AllocatorOptions::default(),
        memory: memory.own.handle(),
        pipeline_cache_data: &[],
    }
}

pub fn try_acquire(home: &AshContexts, info: AshContextInfo<'_>) -> Result<AshContext, ContextError> {
    // SAFETY: the fake lives as long as the test; nothing runs on it.
    unsafe { home.acquire_ash(info) }
}

pub fn acquire(home: &AshContexts, memory: &SceneMemory, driver: &LifecycleDriver) -> AshContext {
    try_acquire(home, info(memory, driver, None)).expect("the fake agrees")
}

pub const CODE: &[u32] = &[0x0723_0203, 1, 2, 3];

/// The kernel of a number: two sets, two pipelines.
pub fn try_kernel(
    context: &AshContext,
    number: u64,
) -> Result<ShaderRef<'_, CompiledKernel, GpuError>, CacheError<GpuError>> {
    let sets = [vk::DescriptorSetLayoutCreateInfo::default(); 2];
    let main = KernelPipeline { name: c"main", specialization: None };
    let info = KernelInfo {
        code: CODE,
        set_layouts: &sets,
        push_constant_ranges: &[],
        pipelines: &[main, main],
        keep_code: true,
    };
    let shaders = context.shaders();
    // SAFETY: the fake looks at nothing.
    shaders.get_or_compile(ShaderKey::kernel(shaders.device(), number), || unsafe { context.compile(&info) })
}

pub fn kernel(context: &AshContext, number: u64) -> ShaderRef<'_, CompiledKernel, GpuError> {
    try_kernel(context, number).expect("it compiles")
}

pub fn try_buffer(context: &AshContext) -> Result<Region, GpuError> {
    let info = BufferInfo::new(4000, BufferUsage::STORAGE_BUFFER);
    context.allocator().create_buffer(&info, &RegionOptions::new().name("a buffer"))
}

pub fn buffer(context: &AshContext) -> Region {
    try_buffer(context).expect("the fake has memory")
}
