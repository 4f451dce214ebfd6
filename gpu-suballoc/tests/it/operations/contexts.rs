//! Contexts on an application's device: over the mock, and over ash's tables.

use super::*;

use super::allocator::Mock;
use super::asks::needs;
use super::caches::with_root;
use crate::fake_vulkan::{Fake, get_instance_proc_addr, set, vulkan};

type Home = DeviceContexts<u64, u8>;

const HANDLES: VulkanHandles = VulkanHandles { instance: 1, physical_device: 2, device: 3 };

fn acquire<'m>(
    home: &Home,
    memory: &ContextHandle,
    mock: &'m Mock,
) -> Result<DeviceContext<&'m Mock, u64, u8>, ContextError> {
    // SAFETY: what is asked here is valid; the mock outlives it.
    unsafe { home.acquire(HANDLES, memory.clone(), AllocatorOptions::default(), |_| Ok(mock)) }
}

pub const CALLS: &str = "ContextTable::acquire ContextTable::dispatch ContextTable::new ContextTable::release \
    ContextTable::set_context_handlers ContextTable::set_default ContextTable::with \
    DeviceContext::acquire_again DeviceContext::device DeviceContext::device_lost DeviceContext::dispatch \
    DeviceContext::release DeviceContext::release_blockers DeviceContext::release_forced \
    DeviceContexts::acquire DeviceContexts::cache DeviceContexts::new DeviceState::cache_device \
    DeviceState::is_lost";

pub fn contexts<S: Stage>(stage: &S, _: usize) {
    with_root(stage, |root| {
        let (memory, mock) = (root.handle(), MockDevice::new(MockProfile::IntelUma));
        let home = stage.attempt(|| (), || Home::new(memory.clone(), CacheLimits::NONE));
        let live = || (mock.live_counts().memory, home.cache().stats().entries);
        let context = stage.attempt(live, || acquire(&home, &memory, &mock));
        let there: &Mock = context.device();
        assert!(core::ptr::eq(there, *context.allocator().device().device()));
        // A region is in the way, then a shader; by force both go.
        let [region, other] =
            [(); 2].map(|()| context.allocator().allocate(&needs(64), &RegionOptions::new()).expect("refused nothing"));
        let shaders = context.shaders();
        let made = shaders
            .get_or_compile(ShaderKey::kernel(shaders.device(), 1), || Ok(CompiledShader { value: 5, bytes: 8 }));
        let held = made.expect("refused nothing").into_work_ref();
        let (mut context, mut region) = (Some(context), Some(region));
        stage.attempt_without_memory(|| {
            let refused = context.take().expect("once").release().expect_err("regions live");
            assert!(refused.error.shaders > 0 && refused.value.release_blockers().count() == 3);
            let there = refused.value;
            assert_eq!(there.acquire_again(HANDLES), Ok(()));
            assert_eq!(there.dispatch(|running| running.id()), Ok(there.id()));
            there.allocator().free(region.take().expect("once")).unwrap();
            assert_eq!(there.release_forced().outstanding.allocator.regions, 1);
        });
        assert_eq!((*held, other.size()), (5, 64));
        drop(held);
        let mut lost = Some(acquire(&home, &memory, &mock).expect("refused nothing"));
        stage.attempt_without_memory(|| {
            let there = lost.take().expect("once");
            there.device_lost();
            let state = there.device_state();
            assert!(state.is_lost() && state.cache_device() == there.shaders().device());
            assert!(there.release().unwrap().device_lost);
        });
        // With a number.
        let table = ContextTable::new(memory.clone());
        let id = stage.attempt(live, || table.acquire(None, HANDLES, || acquire(&home, &memory, &mock)));
        stage.attempt_without_memory(|| {
            assert_eq!(table.acquire(Some(id), HANDLES, || Err(ContextError::InUse)), Ok(id));
            assert_eq!(table.with(id, DeviceContext::id), Ok(id));
            assert_eq!(table.set_default(Some(id)), Ok(None));
            assert!(table.set_context_handlers(None).is_ok_and(|before| before.is_none()));
            assert_eq!(table.dispatch(core::ptr::null_mut(), true, |context| context.is_some()), Ok(true));
            assert!(table.release(Some(id), HANDLES).is_ok_and(|released| released.is_some()));
        });
        drop((table, home));
        mock.assert_ended();
    });
}

pub const ASH_CALLS: &str = "AshContext::compile AshContext::pipeline_cache_data AshContexts::acquire_ash CompiledKernel::code \
    CompiledKernel::pipelines CompiledKernel::set_layouts LoadedDevice::commands";

pub fn over_ash<S: Stage>(stage: &S, _: usize) {
    with_root(stage, |root| {
        let memory = root.handle();
        set(Fake::NEW);
        let (_, instance, device) = vulkan();
        let home = AshContexts::new(memory.clone(), CacheLimits::NONE).expect("refused nothing");
        let info = || AshContextInfo {
            get_instance_proc_addr,
            instance: instance.handle(),
            physical_device: vk::Handle::from_raw(7),
            device: device.handle(),
            options: AshOptions::new(vk::API_VERSION_1_0),
            allocator: AllocatorOptions::default(),
            memory: memory.clone(),
            pipeline_cache_data: &[],
        };
        // SAFETY: the fake looks at no handle.
        let context = stage.attempt(|| home.cache().stats(), || unsafe { home.acquire_ash(info()) });
        assert_ne!(context.device().commands().free_memory as usize, 0);
        let kernel = KernelInfo {
            code: &[1],
            set_layouts: &[vk::DescriptorSetLayoutCreateInfo::default()],
            push_constant_ranges: &[],
            pipelines: &[KernelPipeline { name: c"main", specialization: None }],
            keep_code: true,
        };
        // SAFETY: the fake looks at nothing.
        let kernel = stage.attempt(|| (), || unsafe { context.compile(&kernel) }).value;
        assert_eq!((kernel.pipelines().len(), kernel.set_layouts().len()), (1, 1));
        assert_eq!(kernel.code(), Some(&[1, 0, 0, 0][..]));
        assert!(kernel.layout() != vk::PipelineLayout::null() && kernel.module() != vk::ShaderModule::null());
        let mut data = TryVec::new_in(memory.clone());
        stage.attempt(|| (), || context.pipeline_cache_data(&mut data));
        assert_eq!(data.len(), 64);
    });
}
