//! Compute, textures, a churn of buffers, and four threads over two devices: a digest of every byte that comes back,
//! then the time of `create_buffer`, the bytes reserved at the peak, and the host memory of a buffer.

use std::fmt;
use std::time::{Duration, Instant};

use wgpu::util::DeviceExt as _;
use wgpu::{
    Backends, Buffer, BufferDescriptor, BufferUsages, Device, Extent3d, Instance, InstanceDescriptor, MapMode,
    PollType, Queue, TextureDescriptor, TextureDimension, TextureFormat, TextureUsages,
};

const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    values[at.x] = values[at.x] * 2654435761u + at.x;
}";

/// Bytes that the program and the driver have from the C library now.
fn host_bytes() -> usize {
    // SAFETY: reads the C library's own numbers, under its own locks.
    let now = unsafe { libc::mallinfo2() };
    now.uordblks + now.hblkhd
}

/// FNV-1a.
#[derive(Clone, Copy, PartialEq)]
struct Digest(u64);

impl Digest {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}

struct Gpu {
    device: Device,
    queue: Queue,
}

impl Gpu {
    fn open() -> Self {
        let instance = Instance::new(InstanceDescriptor {
            backends: Backends::VULKAN,
            ..InstanceDescriptor::new_without_display_handle()
        });
        let adapters = pollster::block_on(instance.enumerate_adapters(Backends::VULKAN));
        let adapter = adapters.into_iter().next().expect("a Vulkan driver");
        eprintln!("{}", adapter.get_info().name);
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        }))
        .expect("a device");
        Self { device, queue }
    }

    fn reserved(&self) -> u64 {
        self.device.generate_allocator_report().map_or(0, |report| report.total_reserved_bytes)
    }

    fn buffer(&self, size: u64, usage: BufferUsages) -> Buffer {
        self.device.create_buffer(&BufferDescriptor { label: Some("program"), size, usage, mapped_at_creation: false })
    }

    fn read(&self, from: &Buffer, digest: &mut Digest) {
        let back = self.buffer(from.size(), BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        let mut commands = self.device.create_command_encoder(&Default::default());
        commands.copy_buffer_to_buffer(from, 0, &back, 0, from.size());
        self.queue.submit([commands.finish()]);
        self.add_mapped(&back, digest);
    }

    fn add_mapped(&self, back: &Buffer, digest: &mut Digest) {
        back.slice(..).map_async(MapMode::Read, |mapped| mapped.expect("it can be mapped"));
        self.device.poll(PollType::wait_indefinitely()).expect("the device works");
        digest.add(&back.slice(..).get_mapped_range().expect("it is mapped"));
        back.unmap();
    }

    fn compute(&self, count: u32, digest: &mut Digest) {
        let values: Vec<u8> = (0..count).flat_map(u32::to_le_bytes).collect();
        let storage = self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: &values,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC,
        });
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: storage.as_entire_binding() }],
        });
        let mut commands = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = commands.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(count / 64, 1, 1);
        }
        self.queue.submit([commands.finish()]);
        self.read(&storage, digest);
    }

    /// All textures live at once.
    fn textures(&self, digest: &mut Digest) -> u64 {
        let mut random = Random(7);
        let textures: Vec<_> = (0..120)
            .map(|_| {
                // Rows of 256 bytes need no padding in a buffer.
                let size = Extent3d {
                    width: 64 * (1 + random.below(6) as u32),
                    height: 1 + random.below(300) as u32,
                    depth_or_array_layers: 1 + random.below(3) as u32,
                };
                let texture = self.device.create_texture(&TextureDescriptor {
                    label: Some("texture"),
                    size,
                    mip_level_count: 1,
                    sample_count: 1,
                    dimension: TextureDimension::D2,
                    format: TextureFormat::Rgba8Unorm,
                    usage: TextureUsages::COPY_SRC | TextureUsages::COPY_DST | TextureUsages::TEXTURE_BINDING,
                    view_formats: &[],
                });
                let bytes = size.width as usize * 4 * (size.height * size.depth_or_array_layers) as usize;
                let texels: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
                self.queue.write_texture(texture.as_image_copy(), &texels, rows_of(size), size);
                (texture, size, bytes as u64)
            })
            .collect();
        self.queue.submit([]);
        for (texture, size, bytes) in &textures {
            let back = self.buffer(*bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
            let mut commands = self.device.create_command_encoder(&Default::default());
            let to = wgpu::TexelCopyBufferInfo { buffer: &back, layout: rows_of(*size) };
            commands.copy_texture_to_buffer(texture.as_image_copy(), to, *size);
            self.queue.submit([commands.finish()]);
            self.add_mapped(&back, digest);
        }
        self.reserved()
    }

    /// The driver's, wgpu's and the allocator's bytes, for `count` buffers that live at once.
    fn host_bytes_a_buffer(&self, count: usize) -> usize {
        let mut live = Vec::with_capacity(count);
        let before = host_bytes();
        live.extend((0..count).map(|_| self.buffer(4096, BufferUsages::STORAGE)));
        host_bytes().saturating_sub(before) / count
    }

    /// Keeps 200 buffers while one after the other is replaced. Returns the mean time of `create_buffer`.
    fn churn(&self, rounds: u32, digest: &mut Digest) -> (Duration, u64) {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let mut random = Random(99);
        let mut live: Vec<Option<Buffer>> = (0..200).map(|_| None).collect();
        let (mut spent, mut peak) = (Duration::ZERO, 0);
        for round in 0..rounds {
            let place = random.below(200) as usize;
            live[place] = None;
            let most = 1 << (4 + random.below(13));
            let size = 4 * (1 + random.below(most));
            let began = Instant::now();
            let buffer = self.buffer(size, usage);
            spent += began.elapsed();
            let word = round.to_le_bytes();
            let bytes: Vec<u8> = word.iter().copied().cycle().take(size as usize).collect();
            self.queue.write_buffer(&buffer, 0, &bytes);
            live[place] = Some(buffer);
            if round % 50 == 0 {
                self.queue.submit([]);
                self.device.poll(PollType::Poll).expect("the device works");
                peak = peak.max(self.reserved());
            }
        }
        live.iter().flatten().for_each(|buffer| self.read(buffer, digest));
        (spent / rounds, peak)
    }
}

fn rows_of(size: Extent3d) -> wgpu::TexelCopyBufferLayout {
    wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(size.width * 4), rows_per_image: Some(size.height) }
}

fn main() {
    let gpu = Gpu::open();
    let (mut compute, mut textures, mut churn) = (Digest::new(), Digest::new(), Digest::new());
    gpu.compute(4096, &mut compute);
    println!("digest compute {compute}");
    let of_textures = gpu.textures(&mut textures);
    println!("digest textures {textures}");
    let (mean, of_churn) = gpu.churn(4000, &mut churn);
    println!("digest churn {churn}");
    let host = gpu.host_bytes_a_buffer(2000);

    let devices = [Gpu::open(), Gpu::open()];
    let together = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u32)
            .map(|nth| {
                let gpu = &devices[nth as usize % 2];
                scope.spawn(move || {
                    let mut digest = Digest::new();
                    gpu.compute(1024 * (nth + 1), &mut digest);
                    gpu.churn(400, &mut digest);
                    digest
                })
            })
            .collect();
        let mut all = Digest::new();
        for thread in threads {
            all.add(&thread.join().expect("no panic").0.to_le_bytes());
        }
        all
    });
    println!("digest threads {together}");
    println!(
        "create_buffer {:.1} us, reserved at the peak {:.1} MB, host memory {host} bytes a buffer",
        mean.as_secs_f64() * 1e6,
        of_textures.max(of_churn) as f64 / 1e6
    );
}
