//! What is measured in a process of its own, which knows nothing of the layer.

use std::fs;
use std::hint::black_box;

use ash::vk;

use crate::support::clock::{pinned, thread_ns};
use crate::support::rounds::amount;

/// The figures of the work "commands", in this order.
pub(crate) const CASES: [&str; 5] = ["pair-0", "pair-100", "begin-end", "submit", "viewport"];

const ALIVE: usize = 100;
const BATCHES: usize = 15;

/// Does the work and prints its figures.
pub(crate) fn run(work: &str) {
    let vulkan = Vulkan::new();
    match work {
        "commands" => {
            for figure in pinned(|| vulkan.commands()) {
                println!("{figure}");
            }
        }
        "start" => println!("{}", resident_kib()),
        _ => panic!("no such work: {work}"),
    }
    vulkan.destroy();
}

/// The most that was resident.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    words.expect("a line VmHWM").parse().expect("a number")
}

struct Vulkan {
    _entry: ash::Entry,
    instance: ash::Instance,
    device: ash::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
}

impl Vulkan {
    fn new() -> Self {
        // SAFETY: the loader's library, whose start-up code may run.
        let entry = unsafe { ash::Entry::load() }.expect("a Vulkan loader");
        let info = vk::InstanceCreateInfo::default();
        // SAFETY: a valid info without chains.
        let instance = unsafe { entry.create_instance(&info, None) }.expect("an instance");
        // SAFETY: a live instance.
        let devices = unsafe { instance.enumerate_physical_devices() }.expect("devices");
        let physical = *devices.first().expect("a device");
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: a device of the instance; family 0 is there.
        let device = unsafe { instance.create_device(physical, &info, None) }.expect("a device");
        // SAFETY: the queue that was asked for.
        let queue = unsafe { device.get_device_queue(0, 0) };
        let info = vk::CommandPoolCreateInfo::default().flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: a valid info of a live device.
        let pool = unsafe { device.create_command_pool(&info, None) }.expect("a pool");
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: a live pool of the device.
        let commands = unsafe { device.allocate_command_buffers(&info) }.expect("a buffer");
        Self { _entry: entry, instance, device, queue, pool, commands: commands[0] }
    }

    fn destroy(self) {
        // SAFETY: nothing is in use.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
        // SAFETY: its objects are gone.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: its device is gone.
        unsafe { self.instance.destroy_instance(None) };
    }

    fn commands(&self) -> [f64; CASES.len()] {
        let pair = || self.destroy_buffer(self.create_buffer());
        let none_alive = least(2000, pair);
        let alive: Vec<_> = (0..ALIVE).map(|_| self.create_buffer()).collect();
        let some_alive = least(2000, pair);
        alive.into_iter().for_each(|buffer| self.destroy_buffer(buffer));
        let begin_end = least(2000, || {
            self.begin();
            self.end();
        });
        // SAFETY: the device's queue, used by this thread alone.
        let submit = || unsafe { self.device.queue_submit(self.queue, &[], vk::Fence::null()) };
        let submit = least(2000, || submit().expect("an empty submit"));
        self.begin();
        let viewport = [vk::Viewport::default().width(8.0).height(8.0)];
        let set = || {
            // SAFETY: the buffer is being recorded.
            unsafe { self.device.cmd_set_viewport(self.commands, 0, black_box(&viewport)) }
        };
        let viewport = least(500, set);
        self.end();
        [none_alive, some_alive, begin_end, submit, viewport]
    }

    fn create_buffer(&self) -> vk::Buffer {
        let info = vk::BufferCreateInfo::default().size(4096).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        // SAFETY: a valid info of a live device.
        unsafe { self.device.create_buffer(black_box(&info), None) }.expect("a buffer")
    }

    fn destroy_buffer(&self, buffer: vk::Buffer) {
        // SAFETY: a live buffer that nobody uses.
        unsafe { self.device.destroy_buffer(buffer, None) };
    }

    fn begin(&self) {
        let info = vk::CommandBufferBeginInfo::default();
        // SAFETY: the buffer is not in use, and its pool allows the reset that this is.
        let begun = unsafe { self.device.begin_command_buffer(self.commands, &info) };
        begun.expect("recording");
    }

    fn end(&self) {
        // SAFETY: it is being recorded.
        unsafe { self.device.end_command_buffer(self.commands) }.expect("recorded");
    }
}

/// ns a run of `once` on this thread: the least of the batches.
fn least(operations: usize, mut once: impl FnMut()) -> f64 {
    let operations = amount(operations);
    let mut batch = || {
        let before = thread_ns();
        for _ in 0..operations {
            once();
        }
        (thread_ns() - before) as f64 / operations as f64
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}
