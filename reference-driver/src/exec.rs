use core::sync::atomic::Ordering::{Relaxed, Release};

use ash::vk;
use vk_callbacks::Object;

use crate::bytes::Bytes;
use crate::device::Queue;
use crate::draw;
use crate::edge::{Items, answer, commands, get, raw, slice};
use crate::images::Surface;
use crate::interpreter;
use crate::invocation::InvocationWorld;
use crate::objects::{Event, Fence, UNAVAILABLE, is_up};
use crate::pipeline_state::State;
use crate::pools::CommandBuffer;
use crate::spirv::Module;

pub(crate) const MAX_SETS: usize = 4;
pub(crate) const MAX_PUSH: usize = 128;

/// The resources are already looked up.
#[derive(Clone, Copy)]
pub(crate) enum Cmd {
    Fill(Bytes, u32),
    Copy(Bytes, Bytes),
    /// Between a surface and rows of a buffer: surface, area, bytes, texels of a row, whether the buffer is written.
    Image(Surface, vk::Rect2D, Bytes, u32, bool),
    Clear(Surface, vk::Rect2D, [u32; 4]),
    Event(u64, bool),
    ResetQueries(u64, u32, u32),
    Query(u64, u32),
    EndQuery,
    Target(Surface),
    Pipeline(vk::PipelineBindPoint, u64),
    Set(vk::PipelineBindPoint, u32, u64),
    Push(u32, u32),
    Dispatch([u32; 3]),
    /// Vertices and instances.
    Draw(u32, u32),
}

pub(crate) struct Bound {
    pub(crate) compute: PointBound,
    pub(crate) graphics: PointBound,
    pub(crate) push: [u32; MAX_PUSH / 4],
    pub(crate) target: Surface,
    query: Option<(u64, u32)>,
}

/// After a failed submit the device does no more work.
const LOST: vk::Result = vk::Result::ERROR_DEVICE_LOST;

pub(crate) struct PointBound {
    pipeline: u64,
    pub(crate) sets: [u64; MAX_SETS],
}

impl PointBound {
    const NONE: Self = Self { pipeline: 0, sets: [0; MAX_SETS] };

    fn pipeline<'a>(&self) -> Result<(&'a State, &'a [u32]), vk::Result> {
        // SAFETY: valid usage: bound objects outlive the work.
        unsafe { Items::<(State, u32)>::get(self.pipeline) }.ok_or(LOST)
    }
}

impl Bound {
    fn new() -> Self {
        Self {
            compute: PointBound::NONE,
            graphics: PointBound::NONE,
            push: [0; MAX_PUSH / 4],
            target: Surface::NONE,
            query: None,
        }
    }

    fn run(&mut self, command: Cmd) -> Result<(), vk::Result> {
        match command {
            Cmd::Fill(to, word) => to.fill(word),
            Cmd::Copy(from, to) => from.copy_to(to),
            Cmd::Image(surface, area, bytes, row, to_buffer) => {
                copy_rows(surface, area, bytes, row, to_buffer);
            }
            Cmd::Clear(surface, area, words) => clear(surface, area, words),
            Cmd::Event(event, set) => {
                // SAFETY: valid usage: recorded objects outlive the work.
                if let Some(event) = unsafe { Object::<Event>::borrow_handle(event) } {
                    event.get().0.store(set, Relaxed);
                }
            }
            Cmd::ResetQueries(pool, first, count) => {
                (first..first.saturating_add(count)).for_each(|index| set_query(pool, index, UNAVAILABLE));
            }
            Cmd::Query(pool, index) => {
                set_query(pool, index, 0);
                self.query = Some((pool, index));
            }
            Cmd::EndQuery => self.query = None,
            Cmd::Target(surface) => self.target = surface,
            Cmd::Pipeline(point, pipeline) => self.point(point).pipeline = pipeline,
            Cmd::Set(point, index, set) => {
                if let Some(bound) = self.point(point).sets.get_mut(index as usize) {
                    *bound = set;
                }
            }
            Cmd::Push(offset, word) => {
                if let Some(place) = self.push.get_mut((offset / 4) as usize) {
                    *place = word;
                }
            }
            Cmd::Dispatch(groups) => self.dispatch(groups)?,
            Cmd::Draw(vertices, instances) => self.draw(vertices, instances)?,
        }
        Ok(())
    }

    fn point(&mut self, point: vk::PipelineBindPoint) -> &mut PointBound {
        match point {
            vk::PipelineBindPoint::COMPUTE => &mut self.compute,
            _ => &mut self.graphics,
        }
    }

    fn dispatch(&self, groups: [u32; 3]) -> Result<(), vk::Result> {
        let stage = vk::ShaderStageFlags::COMPUTE;
        let (state, words) = self.compute.pipeline()?;
        let module = Module::new(words, stage, state.names[0].as_bytes()).map_err(|_| LOST)?;
        let ([x, y, z], [width, height, depth]) = (groups, module.local_size);
        let [x, y, z] = [(x, width), (y, height), (z, depth)].map(|(groups, size)| groups.saturating_mul(size));
        for (z, y, x) in (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| (z, y, x)))) {
            let builtin = [x, y, z, 0];
            let mut world = InvocationWorld { bound: self, stage, builtin, position: [0; 4], color: [0; 4] };
            interpreter::run(&module, &mut world).map_err(|_| LOST)?;
        }
        Ok(())
    }

    /// Instances are alike: no shader reads their number or stores (the feature is absent), and there is no blending.
    /// So one is drawn, and all are counted.
    fn draw(&self, vertices: u32, instances: u32) -> Result<(), vk::Result> {
        if instances == 0 {
            return Ok(());
        }
        let (state, words) = self.graphics.pipeline()?;
        let passed = draw::triangles(self, state, words, vertices).ok_or(LOST)?;
        if let Some((pool, index)) = self.query {
            let before = query(pool, index).unwrap_or(0);
            let passed = passed.saturating_mul(instances.into());
            set_query(pool, index, before.saturating_add(passed));
        }
        Ok(())
    }
}

fn copy_rows(surface: Surface, area: vk::Rect2D, bytes: Bytes, row: u32, to_buffer: bool) {
    let (offset, extent) = (area.offset, area.extent);
    let (left, top) = (offset.x.max(0).cast_unsigned(), offset.y.max(0).cast_unsigned());
    for y in 0..extent.height {
        let size = u64::from(extent.width) * surface.texel;
        let Some(at) = surface.offset(left, top.saturating_add(y)) else {
            continue;
        };
        let of_image = surface.bytes.part(at, size);
        let skip = u64::from(y).saturating_mul(row.into()).saturating_mul(surface.texel);
        let of_buffer = bytes.part(skip, size);
        if to_buffer {
            of_image.copy_to(of_buffer);
        } else {
            of_buffer.copy_to(of_image);
        }
    }
}

/// Recording refuses images of other than 32-bit texels.
fn clear(surface: Surface, area: vk::Rect2D, [word, ..]: [u32; 4]) {
    let end = |from: i32, size: u32| i64::from(from) + i64::from(size);
    for y in i64::from(area.offset.y)..end(area.offset.y, area.extent.height) {
        for x in i64::from(area.offset.x)..end(area.offset.x, area.extent.width) {
            let at = u32::try_from(x).ok().zip(u32::try_from(y).ok());
            if let Some(offset) = at.and_then(|(x, y)| surface.offset(x, y)) {
                surface.bytes.set_word(offset, word);
            }
        }
    }
}

pub(crate) fn query(pool: u64, index: u32) -> Option<u64> {
    // SAFETY: valid usage: a live pool, whose results are atomic.
    let (_, results) = unsafe { Items::<((), core::sync::atomic::AtomicU64)>::get(pool) }?;
    results.get(index as usize).map(|result| result.load(Relaxed))
}

fn set_query(pool: u64, index: u32, value: u64) {
    // SAFETY: valid usage: a live pool, whose results are atomic.
    let results = unsafe { Items::<((), core::sync::atomic::AtomicU64)>::get(pool) };
    if let Some(result) = results.and_then(|(_, results)| results.get(index as usize)) {
        result.store(value, Relaxed);
    }
}

fn run_buffer(buffer: vk::CommandBuffer) -> Result<(), vk::Result> {
    // SAFETY: valid usage: a live, unchanging command buffer.
    let buffer = unsafe { get::<CommandBuffer>(raw(buffer)) };
    let mut bound = Bound::new();
    buffer.ok_or(LOST)?.commands.iter().try_for_each(|command| bound.run(*command))
}

commands! {
    fn queue_submit(queue: vk::Queue as object Queue, count: u32, submits: *const vk::SubmitInfo<'_>, fence: vk::Fence) -> vk::Result {
        if is_up(&queue.lost) {
            return LOST;
        }
        // SAFETY: valid usage: so many submits.
        let submits = unsafe { slice(submits, count) };
        let done = submits.iter().try_for_each(|submit| {
            // SAFETY: valid usage: so many command buffers.
            let buffers = unsafe { slice(submit.p_command_buffers, submit.command_buffer_count) };
            buffers.iter().try_for_each(|buffer| run_buffer(*buffer))
        });
        // A thread that waits for the fence sees all writes of the work.
        if done.is_err() {
            queue.lost.store(true, Release);
        // SAFETY: valid usage: a live fence, or 0.
        } else if let Some(fence) = unsafe { Object::<Fence>::borrow_handle(raw(fence)) } {
            fence.get().0.store(true, Release);
        }
        answer(done)
    }
}
