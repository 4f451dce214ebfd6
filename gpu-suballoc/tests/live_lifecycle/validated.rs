//! The validation layer hears an intended error, made through a context's own functions, and then nothing, whatever
//! contexts do.

use crate::*;

use crate::cycles::{copied, filled, info, kernel};
use crate::layer::{Missing, on_each_driver, said, watched};
use crate::live::{CALLBACKS, Live, imported, live_blocks};

const NAME: &str = "the_validation_layer_is_silent_after_it_was_heard";
const CYCLES: u8 = 50;

/// Runs the test on each driver that is there.
pub fn run() {
    on_each_driver(NAME, |driver, which| {
        let intended = heard(driver, which)?;
        let driver = silent(driver, which)?;
        Ok(format!("{driver}: {intended} intended messages, then none in {CYCLES} cycles"))
    });
}

/// The application's memory, with a home for contexts in it.
fn with_home<R>(run: impl FnOnce(&AshContexts, &Context) -> R) -> R {
    let (witness, before) = (RecordingAllocator::system(), live_blocks());
    // SAFETY: the witness outlives it.
    let root = unsafe { Context::root(&witness, ContextOptions::new("application")) }.unwrap();
    let memory = root.child("contexts").unwrap();
    let home = AshContexts::new(memory.handle(), CacheLimits::NONE).unwrap();
    let answer = run(&home, &memory);
    drop((home, memory));
    root.close_root().unwrap();
    witness.assert_empty("after all contexts");
    assert_eq!(live_blocks(), before, "the layer and the driver gave all back");
    answer
}

fn acquire(live: &Live, home: &AshContexts, memory: &Context) -> AshContext {
    let info = info(live, memory, live.entry.static_fn().get_instance_proc_addr);
    // SAFETY: all of one another, and alive while `live` is.
    unsafe { home.acquire_ash(info) }.unwrap()
}

/// A wrong info, and a buffer that is there when its device goes: both by the functions that the context loaded.
fn heard(driver: &'static str, which: fn(&str) -> bool) -> Result<usize, Missing> {
    let live = watched(driver, which)?;
    let silence = said();
    assert!(silence.is_empty(), "{silence:#?}");
    let left = with_home(|home, memory| {
        let context = acquire(&live, home, memory);
        let commands = context.device().commands();
        let reserved = vk::SemaphoreCreateInfo::default().flags(vk::SemaphoreCreateFlags::from_raw(1));
        let mut semaphore = vk::Semaphore::null();
        let device = live.device.handle();
        // SAFETY: not valid usage, on purpose: a flag that is reserved, and has no meaning to any driver.
        let made = unsafe { (commands.create_semaphore)(device, &raw const reserved, ptr::null(), &raw mut semaphore) };
        assert_eq!(made, vk::Result::SUCCESS);
        // SAFETY: made above.
        unsafe { (commands.destroy_semaphore)(device, semaphore, ptr::null()) };
        let buffer = vk::BufferCreateInfo::default().size(64).usage(vk::BufferUsageFlags::TRANSFER_DST);
        let mut left = vk::Buffer::null();
        // SAFETY: a valid info.
        let made = unsafe { (commands.create_buffer)(device, &raw const buffer, ptr::null(), &raw mut left) };
        context.release().unwrap();
        (made, left)
    });
    assert!(left.0 == vk::Result::SUCCESS && left.1 != vk::Buffer::null());
    let wrong = said();
    assert!(wrong.iter().any(|message| message.contains("VkSemaphoreCreateInfo")), "{wrong:#?}");
    // The buffer goes with the device, which is what is wrong.
    drop(live);
    let at_the_end = said();
    let told = |message: &&String| message.contains("vkDestroyDevice") && message.contains("VkBuffer");
    assert!(at_the_end.iter().any(|message| told(&message)), "{at_the_end:#?}");
    Ok(wrong.len() + at_the_end.len())
}

fn silent(driver: &'static str, which: fn(&str) -> bool) -> Result<String, Missing> {
    let live = watched(driver, which)?;
    with_home(|home, memory| {
        for number in 0..CYCLES {
            cycle(&live, home, memory, number);
        }
        shared(&live, home, memory);
        let context = acquire(&live, home, memory);
        if let Err(lacks) = imported(&live, context.allocator()) {
            println!("{}: it lacks {lacks}", live.driver);
        }
        context.release().unwrap();
    });
    let driver = live.driver.clone();
    // The device's end is heard as well: what a context had left would be told there.
    drop(live);
    let silence = said();
    assert!(silence.is_empty(), "{} messages: {silence:#?}", silence.len());
    Ok(driver)
}

/// Runs a held kernel once.
fn dispatched(live: &Live, held: &WorkRef<CompiledKernel, GpuError>) {
    live.submit(|commands| {
        let compute = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: recording; the pipeline is held until the queue is idle.
        unsafe { live.device.cmd_bind_pipeline(commands, compute, held.pipelines()[0]) };
        // SAFETY: recording; the kernel uses no descriptors.
        unsafe { live.device.cmd_dispatch(commands, 1, 1, 1) };
    });
}

/// All that a context can have, then its end: every third time by force, with nearly all of it in use.
fn cycle(live: &Live, home: &AshContexts, memory: &Context, number: u8) {
    let context = acquire(live, home, memory);
    drop(kernel(&context, 1));
    let held = kernel(&context, 2).into_work_ref();
    dispatched(live, &held);
    let gpu = context.allocator();
    let [from, to] = [filled(&context, number), filled(&context, !number)];
    copied(live, &context, &from, &to, number);
    let crop = gpu.crop(&to, 256, 1024, 4).unwrap();
    let inner = gpu.crop(&crop, 64, 64, 4).unwrap();
    let kept = buffer(&context, Lifetime::Unknown);
    gpu.free(kept).unwrap();
    let image = ImageInfo::new_2d(R8G8B8A8, 64, 64, ImageUsage::SAMPLED | ImageUsage::TRANSFER_DST);
    let image = gpu
        .create_image(
            &image,
            &RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL)),
        )
        .unwrap();
    let few = Vec::from_iter((0..20).map(|_| buffer(&context, Lifetime::Transient)));
    // The application's own, which no release touches.
    let raw = vk::BufferCreateInfo::default().size(512).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    // SAFETY: a valid info; destroyed below.
    let own = unsafe { live.device.create_buffer(&raw, Some(&CALLBACKS)) }.unwrap();
    let handle = BufferHandle::from_raw(vk::Handle::as_raw(own));
    let wrapped = gpu.wrap(&WrapInfo::new(handle, 512)).unwrap();
    if number % 3 == 2 {
        let report = context.release_forced();
        assert!(report.outstanding.allocator.regions == 23 && report.outstanding.allocator.crops == 2, "{report:?}");
        assert_eq!((report.outstanding.allocator.wrapped, report.outstanding.shaders, report.released.held), (1, 1, 1));
        drop((from, to, crop, inner, image, few, wrapped));
        // What is held goes last, with the functions and callbacks of a context that is gone.
        drop(held);
    } else {
        drop(held);
        [inner, crop, wrapped, from, to, image].into_iter().chain(few).for_each(|region| gpu.free(region).unwrap());
        assert_eq!(context.release().unwrap().shaders, 2);
    }
    // SAFETY: made above, with these callbacks.
    unsafe { live.device.destroy_buffer(own, Some(&CALLBACKS)) };
}

const R8G8B8A8: u32 = vk::Format::R8G8B8A8_UNORM.as_raw() as u32;

fn buffer(context: &AshContext, lifetime: Lifetime) -> Region {
    let info = BufferInfo::new(3000, BufferUsage::STORAGE_BUFFER);
    context.allocator().create_buffer(&info, &RegionOptions::new().lifetime(lifetime)).unwrap()
}

/// Two contexts on one device, a thread each; one goes while the other compiles, and the other one goes on.
fn shared(live: &Live, home: &AshContexts, memory: &Context) {
    const KERNELS: u64 = 6;
    for _ in 0..5 {
        let [first, second] = [acquire(live, home, memory), acquire(live, home, memory)];
        let (queue, meet) = (Mutex::new(live), Barrier::new(2));
        let work = |context: &AshContext, own: u64| {
            (own..own + KERNELS).for_each(|number| drop(kernel(context, number)));
            meet.wait();
            for number in 0..2 * KERNELS {
                let held = kernel(context, number).into_work_ref();
                dispatched(&queue.lock().expect("nobody panics"), &held);
            }
            // Nobody holds the other's any more.
            meet.wait();
            let regions = Vec::from_iter((0..40).map(|_| buffer(context, Lifetime::Persistent)));
            regions.into_iter().for_each(|region| context.allocator().free(region).unwrap());
        };
        std::thread::scope(|threads| {
            threads.spawn(|| {
                work(&second, KERNELS);
                // While the other one goes.
                (100..100 + KERNELS).for_each(|number| drop(kernel(&second, number)));
            });
            work(&first, 0);
            assert_eq!(first.release().unwrap().shaders, KERNELS);
        });
        (0..2 * KERNELS).for_each(|number| drop(kernel(&second, number)));
        assert_eq!(second.release().unwrap().shaders, 3 * KERNELS);
    }
}
