//! Contexts on an application's device: over the mock, and over ash's tables.

use alloc_core::{Context, ContextHandle, ContextOptions, TryVec};
use ash::vk;
use gpu_suballoc::ash::{
    AshContext, AshContextInfo, AshContexts, AshOptions, KernelInfo, KernelPipeline,
    physical_device_identity,
};
use gpu_suballoc::cache::{CacheLimits, CompiledShader, ShaderKey, StoreIdentity};
use gpu_suballoc::context::{
    ContextDevice, ContextError, ContextTable, DeviceContext, DeviceContextId, VulkanHandles,
};
use gpu_suballoc::{AllocatorOptions, DeviceContexts, RegionOptions};
use testkit::{MemoryUse, Stage};

use super::facade::{Mock, mock, needs};
use super::{GpuOperation, NONE, operation};
use crate::fake_vulkan::{Fake, get_instance_proc_addr, set, vulkan};

type Home = DeviceContexts<u64, u8>;
type Owned<'m> = DeviceContext<&'m Mock, u64, u8>;

const HANDLES: VulkanHandles = VulkanHandles {
    instance: 1,
    physical_device: 2,
    device: 3,
};

/// A root over the stage's memory, which ends after what is made in it.
fn with_root<S: Stage>(stage: &S, run: impl FnOnce(ContextHandle)) {
    // SAFETY: the stage's memory outlives the root.
    let root = unsafe { Context::root(stage.host(), ContextOptions::new("contexts")) }
        .expect("refused nothing");
    run(root.handle());
    root.close_root()
        .map_err(|refused| refused.error)
        .expect("everything was given back");
}

fn acquire<'m>(
    home: &Home,
    memory: &ContextHandle,
    mock: &'m Mock,
) -> Result<Owned<'m>, ContextError> {
    // SAFETY: what is asked here is valid; the mock outlives it.
    unsafe {
        home.acquire(HANDLES, memory.clone(), AllocatorOptions::default(), |_| {
            Ok(mock)
        })
    }
}

fn with_context<S: Stage>(stage: &S, run: impl FnOnce(&Home, Owned<'_>)) {
    with_root(stage, |memory| {
        let mock = mock();
        let home = Home::new(memory.clone(), CacheLimits::NONE).expect("refused nothing");
        let context = acquire(&home, &memory, &mock).expect("refused nothing");
        run(&home, context);
        assert!(
            mock.violations().is_empty() && mock.live_counts().memory == 0,
            "{}",
            mock.violations()
        );
    });
}

fn with_table<S: Stage>(
    stage: &S,
    run: impl FnOnce(&ContextTable<&Mock, u64, u8>, DeviceContextId),
) {
    with_root(stage, |memory| {
        let mock = mock();
        let home = Home::new(memory.clone(), CacheLimits::NONE).expect("refused nothing");
        let table = ContextTable::new(memory.clone());
        let id = table
            .acquire(None, HANDLES, || acquire(&home, &memory, &mock))
            .expect("refused nothing");
        run(&table, id);
        drop(table);
    });
}

/// Over the functions of this process.
fn ash_info<'a>(memory: &ContextHandle) -> AshContextInfo<'a> {
    let (_, instance, device) = vulkan();
    AshContextInfo {
        get_instance_proc_addr,
        instance: instance.handle(),
        physical_device: vk::Handle::from_raw(7),
        device: device.handle(),
        options: AshOptions::new(vk::API_VERSION_1_0),
        allocator: AllocatorOptions::default(),
        memory: memory.clone(),
        pipeline_cache_data: &[],
    }
}

fn with_ash<S: Stage>(stage: &S, run: impl FnOnce(AshContext, &ContextHandle)) {
    with_root(stage, |memory| {
        set(Fake::NEW);
        let home = AshContexts::new(memory.clone(), CacheLimits::NONE).expect("refused nothing");
        // SAFETY: the fake looks at no handle.
        let context = unsafe { home.acquire_ash(ash_info(&memory)) }.expect("refused nothing");
        run(context, &memory);
    });
}

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    let mut all: Vec<GpuOperation<S>> = vec![
        operation(
            &["DeviceContexts::new", "DeviceContexts::cache"],
            "",
            MemoryUse::Memory,
            |stage| {
                with_root(stage, |memory| {
                    let home =
                        stage.attempt(|| (), || Home::new(memory.clone(), CacheLimits::NONE));
                    assert_eq!(home.cache().stats().entries, 0);
                });
            },
        ),
        operation(
            &[
                "DeviceContexts::acquire",
                "DeviceContext::device",
                "DeviceContext::device_state",
                "DeviceState::cache_device",
                "DeviceState::is_lost",
                "LossAwareDevice::device",
                "ContextDevice::memory",
            ],
            "the first",
            MemoryUse::Memory,
            |stage| {
                with_root(stage, |memory| {
                    let mock = mock();
                    let home =
                        Home::new(memory.clone(), CacheLimits::NONE).expect("refused nothing");
                    let context = stage.attempt(
                        || mock.live_counts().memory,
                        || acquire(&home, &memory, &mock),
                    );
                    let state = context.device_state();
                    assert!(state.cache_device() == context.shaders().device() && !state.is_lost());
                    let there: &Mock = context.device().memory();
                    assert!(core::ptr::eq(there, *context.allocator().device().device()));
                });
            },
        ),
        operation(
            &[
                "DeviceContext::release",
                "DeviceContext::allocator",
                "DeviceContext::release_blockers",
                "ContextOutstanding::is_any",
            ],
            "refused, then done",
            MemoryUse::Nothing("what goes is given back"),
            |stage| {
                with_context(stage, |_, context| {
                    let region = context
                        .allocator()
                        .allocate(&needs(64), &RegionOptions::new())
                        .expect("refused nothing");
                    let (mut context, mut region) = (Some(context), Some(region));
                    stage.attempt_plainly(|| {
                        let refused = context
                            .take()
                            .expect("it is there")
                            .release()
                            .expect_err("a region lives");
                        assert!(
                            refused.error.is_any() && refused.value.release_blockers().count() == 1
                        );
                        let there = refused.value;
                        there
                            .allocator()
                            .free(region.take().expect("it is there"))
                            .expect("live");
                        assert!(there.release().is_ok());
                    });
                });
            },
        ),
        operation(
            &[
                "DeviceContext::release_forced",
                "DeviceContext::shaders",
                "CacheOwner::held_keys",
                "CacheOwner::in_use",
            ],
            "with a region and a held shader",
            MemoryUse::Nothing("what goes is given back"),
            |stage| {
                with_context(stage, |_, context| {
                    let region = context
                        .allocator()
                        .allocate(&needs(64), &RegionOptions::new())
                        .expect("refused nothing");
                    let key = ShaderKey::kernel(context.shaders().device(), 1);
                    let made = context
                        .shaders()
                        .get_or_compile(key, || Ok(CompiledShader { value: 5, bytes: 8 }));
                    let held = made.expect("refused nothing").into_work_ref();
                    let mut context = Some(context);
                    stage.attempt_plainly(|| {
                        let there = context.take().expect("it is there");
                        assert!(
                            there.shaders().in_use() == 1 && there.shaders().held_keys().eq([key])
                        );
                        assert_eq!(there.release_forced().outstanding.regions, 1);
                    });
                    assert_eq!((*held, region.size()), (5, 256));
                });
            },
        ),
        operation(
            &["DeviceContext::device_lost"],
            "",
            MemoryUse::Nothing("what goes is given back"),
            |stage| {
                with_context(stage, |home, context| {
                    stage.attempt_plainly(|| context.device_lost());
                    let state = context.device_state().clone();
                    assert!(state.is_lost() && home.cache().stats().entries == 0);
                    assert!(context.release().expect("nothing is refused").device_lost);
                });
            },
        ),
        operation(
            &[
                "DeviceContext::acquire_again",
                "DeviceContext::id",
                "DeviceContext::dispatch",
                "DeviceContextId::as_raw",
            ],
            "",
            MemoryUse::Nothing("a lock, and numbers"),
            |stage| {
                with_context(stage, |_, context| {
                    stage.attempt_plainly(|| {
                        assert_eq!(context.acquire_again(HANDLES), Ok(()));
                        assert_eq!(
                            context.dispatch(|running| running.id().as_raw()),
                            Ok(context.id().as_raw())
                        );
                    });
                });
            },
        ),
        operation(
            &["ContextTable::new", "ContextTable::acquire"],
            "",
            MemoryUse::Memory,
            |stage| {
                with_root(stage, |memory| {
                    let mock = mock();
                    let home =
                        Home::new(memory.clone(), CacheLimits::NONE).expect("refused nothing");
                    let table = ContextTable::new(memory.clone());
                    let make = || table.acquire(None, HANDLES, || acquire(&home, &memory, &mock));
                    let id = stage.attempt(|| mock.live_counts().memory, make);
                    assert_eq!(
                        table.acquire(Some(id), HANDLES, || Err(ContextError::InUse)),
                        Ok(id)
                    );
                });
            },
        ),
        operation(
            &[
                "ContextTable::with",
                "ContextTable::dispatch",
                "ContextTable::set_default",
                "ContextTable::set_context_handlers",
                "ContextTable::release",
            ],
            "",
            MemoryUse::Nothing("what goes is given back"),
            |stage| {
                with_table(stage, |table, id| {
                    stage.attempt_plainly(|| {
                        assert_eq!(table.with(id, |context| context.id()), Ok(id));
                        assert_eq!(table.set_default(Some(id)), Ok(None));
                        assert!(
                            table
                                .set_context_handlers(None)
                                .is_ok_and(|before| before.is_none())
                        );
                        assert_eq!(
                            table
                                .dispatch(core::ptr::null_mut(), true, |context| context.is_some()),
                            Ok(true)
                        );
                        assert!(
                            table
                                .release(Some(id), HANDLES)
                                .is_ok_and(|released| released.is_some())
                        );
                    });
                });
            },
        ),
        operation(&["DeviceContextId::from_raw"], "", NONE, |stage| {
            stage.attempt_plainly(|| assert_eq!(DeviceContextId::from_raw(9).as_raw(), 9))
        }),
    ];
    all.extend(over_ash());
    all
}

fn over_ash<S: Stage>() -> [GpuOperation<S>; 4] {
    [
        operation(
            &["AshContexts::acquire_ash", "LoadedDevice::commands"],
            "over a fake driver",
            MemoryUse::Memory,
            |stage| {
                with_root(stage, |memory| {
                    set(Fake::NEW);
                    let home = AshContexts::new(memory.clone(), CacheLimits::NONE)
                        .expect("refused nothing");
                    // SAFETY: the fake looks at no handle.
                    let context = stage.attempt(
                        || home.cache().stats(),
                        || unsafe { home.acquire_ash(ash_info(&memory)) },
                    );
                    assert_ne!(context.device().commands().free_memory as usize, 0);
                });
            },
        ),
        operation(
            &[
                "AshContext::compile",
                "CompiledKernel::pipelines",
                "CompiledKernel::layout",
                "CompiledKernel::set_layouts",
                "CompiledKernel::module",
                "CompiledKernel::code",
            ],
            "over a fake driver",
            MemoryUse::Memory,
            |stage| {
                with_ash(stage, |context, _| {
                    let info = KernelInfo {
                        code: &[1],
                        set_layouts: &[vk::DescriptorSetLayoutCreateInfo::default()],
                        push_constant_ranges: &[],
                        pipelines: &[KernelPipeline {
                            name: c"main",
                            specialization: None,
                        }],
                        keep_code: true,
                    };
                    // SAFETY: the fake looks at nothing.
                    let kernel = stage
                        .attempt(|| (), || unsafe { context.compile(&info) })
                        .value;
                    assert_eq!(
                        (
                            kernel.pipelines().len(),
                            kernel.set_layouts().len(),
                            kernel.code()
                        ),
                        (1, 1, Some(&[1, 0, 0, 0][..]))
                    );
                    assert!(
                        kernel.layout() != vk::PipelineLayout::null()
                            && kernel.module() != vk::ShaderModule::null()
                    );
                });
            },
        ),
        operation(
            &["AshContext::pipeline_cache_data"],
            "over a fake driver",
            MemoryUse::Memory,
            |stage| {
                with_ash(stage, |context, memory| {
                    let mut data = TryVec::new_in(memory.clone());
                    stage.attempt(|| (), || context.pipeline_cache_data(&mut data));
                    assert_eq!(data.len(), 64);
                });
            },
        ),
        operation(
            &["physical_device_identity"],
            "over a fake driver",
            NONE,
            |stage| {
                set(Fake::NEW);
                let (_, instance, _) = vulkan();
                stage.attempt_plainly(|| {
                    // SAFETY: the fake looks at no handle; of 1.0 no more is asked.
                    let mine = unsafe {
                        physical_device_identity(
                            &instance,
                            vk::PhysicalDevice::null(),
                            vk::API_VERSION_1_0,
                            4,
                        )
                    };
                    let StoreIdentity {
                        format,
                        device_uuid,
                        ..
                    } = mine;
                    assert_eq!((format, device_uuid), (4, [0; 16]));
                });
            },
        ),
    ]
}
