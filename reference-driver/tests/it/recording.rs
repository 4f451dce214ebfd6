//! What is recorded, and what is not after a refusal.

use ash::vk;

use crate::application::{Heap, HeapCallbacks, Running};

/// A pool with one command buffer.
pub(crate) struct Commands<'d> {
    device: &'d ash::Device,
    pool: vk::CommandPool,
    buffer: vk::CommandBuffer,
    callbacks: Option<vk::AllocationCallbacks<'d>>,
}

impl<'d> Commands<'d> {
    pub(crate) fn new(device: &'d ash::Device, callbacks: Option<vk::AllocationCallbacks<'d>>) -> Self {
        let info = vk::CommandPoolCreateInfo::default();
        // SAFETY: the one family.
        let pool = unsafe { device.create_command_pool(&info, callbacks.as_ref()) };
        let pool = pool.expect("memory");
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: a live pool.
        let buffer = unsafe { device.allocate_command_buffers(&info) }.expect("memory")[0];
        Self { device, pool, buffer, callbacks }
    }

    /// What `vkEndCommandBuffer` answers.
    pub(crate) fn record(&self, commands: impl FnOnce(vk::CommandBuffer)) -> Result<(), vk::Result> {
        let info = vk::CommandBufferBeginInfo::default();
        // SAFETY: it is not pending.
        unsafe { self.device.begin_command_buffer(self.buffer, &info) }?;
        commands(self.buffer);
        // SAFETY: it is recording.
        unsafe { self.device.end_command_buffer(self.buffer) }
    }

    pub(crate) fn submit(&self, fence: vk::Fence) -> Result<(), vk::Result> {
        let buffers = [self.buffer];
        let info = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the one queue.
        let queue = unsafe { self.device.get_device_queue(0, 0) };
        // SAFETY: what is recorded lives, and nobody else uses the queue.
        unsafe { self.device.queue_submit(queue, &[info], fence) }
    }

    pub(crate) fn end(self) {
        // SAFETY: its work has ended.
        unsafe { self.device.destroy_command_pool(self.pool, self.callbacks.as_ref()) };
    }
}

/// An image of words, bound to memory of its own.
pub(crate) struct Bound<'d> {
    device: &'d ash::Device,
    pub(crate) image: vk::Image,
    memory: vk::DeviceMemory,
    words: *mut u32,
    count: usize,
}

impl<'d> Bound<'d> {
    pub(crate) fn new(device: &'d ash::Device, depth: u32, layers: u32) -> Self {
        let side = 4;
        let info = vk::ImageCreateInfo::default()
            .image_type(if depth > 1 { vk::ImageType::TYPE_3D } else { vk::ImageType::TYPE_2D })
            .format(vk::Format::R32_UINT)
            .extent(vk::Extent3D { width: side, height: side, depth })
            .mip_levels(1)
            .array_layers(layers);
        // SAFETY: a small image.
        let image = unsafe { device.create_image(&info, None) }.expect("memory");
        let count = (side * side * depth * layers) as usize;
        let info = vk::MemoryAllocateInfo::default().allocation_size(4 * count as u64);
        // SAFETY: the one type of memory.
        let memory = unsafe { device.allocate_memory(&info, None) }.expect("memory");
        // SAFETY: both live, and the image is not bound.
        unsafe { device.bind_image_memory(image, memory, 0) }.expect("no failure");
        // SAFETY: it is not mapped.
        let words = unsafe { device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        Self { device, image, memory, words: words.expect("inside").cast(), count }
    }

    fn words(&self) -> Vec<u32> {
        let all = 0..self.count;
        // SAFETY: so many words are mapped, and no work is pending.
        all.map(|at| unsafe { self.words.wrapping_add(at).read() }).collect()
    }

    pub(crate) fn end(self) {
        // SAFETY: not used any more.
        unsafe { self.device.destroy_image(self.image, None) };
        // SAFETY: not used any more.
        unsafe { self.device.free_memory(self.memory, None) };
    }
}

fn range(first: u32, count: u32) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .level_count(1)
        .base_array_layer(first)
        .layer_count(count)
}

#[test]
fn rd18_a_clear_reaches_all_slices_of_a_layer_and_no_layer_more() {
    let running = Running::new(None);
    let device = &running.device;
    let commands = Commands::new(device, None);
    let all = vk::REMAINING_ARRAY_LAYERS;
    // Slices, layers, the range, and the words that are cleared.
    for (depth, layers, range, cleared) in [
        (3, 1, range(0, 1), 0..48),
        (3, 1, range(0, all), 0..48),
        (1, 3, range(1, 1), 16..32),
        (1, 3, range(1, all), 16..48),
    ] {
        let image = Bound::new(device, depth, layers);
        let color = vk::ClearColorValue { uint32: [9; 4] };
        let layout = vk::ImageLayout::GENERAL;
        // SAFETY: recording; a live image.
        let recorded = commands.record(|to| unsafe {
            device.cmd_clear_color_image(to, image.image, layout, &color, &[range]);
        });
        assert_eq!(recorded, Ok(()));
        assert_eq!(commands.submit(vk::Fence::null()), Ok(()));
        let expected: Vec<u32> = (0..48).map(|at| if cleared.contains(&at) { 9 } else { 0 }).collect();
        assert_eq!(image.words(), expected, "{depth} {layers} {range:?}");
        image.end();
    }
    commands.end();
}

/// Memory for each instance would be gigabytes.
#[test]
fn rd9_a_draw_of_many_instances_takes_the_memory_of_one() {
    let heap = Heap::default();
    let callbacks = HeapCallbacks::new(&heap);
    let running = Running::new(None);
    let device = &running.device;
    let asked = [1, u32::MAX].map(|instances| {
        let commands = Commands::new(device, Some(callbacks.raw()));
        callbacks.drain();
        // A driver that takes more is stopped soon.
        callbacks.refuse.set(Some(4));
        // SAFETY: recording; the work is never submitted.
        let draw = |to| unsafe { device.cmd_draw(to, 3, instances, 0, 0) };
        assert_eq!(commands.record(draw), Ok(()), "{instances}");
        callbacks.refuse.set(None);
        let (asked, _) = callbacks.drain();
        commands.end();
        asked
    });
    assert_eq!(asked[0], asked[1]);
    drop(running);
    assert_eq!(heap.live(), 0);
}

/// It would go on for each of 2^32 layers.
#[test]
fn rd9_nothing_is_recorded_after_a_refusal() {
    let heap = Heap::default();
    let callbacks = HeapCallbacks::new(&heap);
    let running = Running::new(None);
    let device = &running.device;
    let image = Bound::new(device, 1, 1);
    let region = vk::BufferImageCopy::default().image_subresource(
        vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(u32::MAX),
    );
    let commands = Commands::new(device, Some(callbacks.raw()));
    callbacks.refuse.set(Some(1));
    // SAFETY: recording; the work is never submitted. More layers than the image has are no valid usage: the driver
    // stops all the same.
    let recorded = commands.record(|to| unsafe {
        let (layout, none) = (vk::ImageLayout::GENERAL, vk::Buffer::null());
        device.cmd_copy_image_to_buffer(to, image.image, layout, none, &[region]);
    });
    assert_eq!(recorded, Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY));
    commands.end();
    image.end();
    drop(running);
    assert_eq!(heap.live(), 0);
}

/// Sets past those that can be bound are passed over; their numbers do not overflow.
#[test]
fn descriptor_sets_of_the_last_numbers_are_passed_over() {
    let running = Running::new(None);
    let device = &running.device;
    let commands = Commands::new(device, None);
    let sets = [vk::DescriptorSet::null(); 2];
    let (point, layout) = (vk::PipelineBindPoint::COMPUTE, vk::PipelineLayout::null());
    // SAFETY: recording; sets of 0 are never looked at.
    let recorded = commands.record(|to| unsafe {
        device.cmd_bind_descriptor_sets(to, point, layout, u32::MAX, &sets, &[]);
    });
    assert_eq!(recorded, Ok(()));
    assert_eq!(commands.submit(vk::Fence::null()), Ok(()));
    commands.end();
}
