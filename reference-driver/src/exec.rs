//! What a command buffer holds, and what the submit does with it, in the caller's thread (RD11).

use core::sync::atomic::Ordering::Relaxed;

use ash::vk;
use vk_callbacks::{DispatchableObject, Object};

use crate::bytes::Bytes;
use crate::descriptors::{Descriptor, Slot};
use crate::draw;
use crate::edge::{Items, answer, commands, raw, slice};
use crate::images::Surface;
use crate::interpreter::{self, Output, World};
use crate::objects::{Event, Fence, UNAVAILABLE};
use crate::pipelines::{State, has_builtin};
use crate::pools::CommandBuffer;
use crate::spirv::Module;

/// Sets that can be bound at once.
pub(crate) const MAX_SETS: usize = 4;
/// Bytes of push constants.
pub(crate) const MAX_PUSH: usize = 128;

/// One recorded command, with what it works on already looked up.
#[derive(Clone, Copy)]
pub(crate) enum Cmd {
    Fill(Bytes, u32),
    Copy(Bytes, Bytes),
    /// Rectangle of a surface from and to a buffer's rows: surface, area, bytes, texels of a row, whether the buffer is written.
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
    Draw(u32),
}

/// What commands before have bound.
pub(crate) struct Bound {
    pipelines: [u64; 2],
    sets: [[u64; MAX_SETS]; 2],
    push: [u32; MAX_PUSH / 4],
    pub(crate) target: Surface,
    query: Option<(u64, u32)>,
}

/// Of the two bind points, in which place what is bound is kept.
fn place(point: vk::PipelineBindPoint) -> usize {
    usize::from(point == vk::PipelineBindPoint::GRAPHICS)
}

/// The world of one invocation.
pub(crate) struct Invocation<'b> {
    pub(crate) bound: &'b Bound,
    pub(crate) stage: vk::ShaderStageFlags,
    pub(crate) builtin: [u32; 4],
    pub(crate) position: [u32; 4],
    pub(crate) color: [u32; 4],
}

impl Invocation<'_> {
    fn descriptor(&self, binding: u32) -> Descriptor {
        let point = usize::from(self.stage != vk::ShaderStageFlags::COMPUTE);
        let sets = self
            .bound
            .sets
            .get(point)
            .and_then(|sets| sets.get((binding >> 16) as usize));
        // SAFETY: valid usage: what is bound lives until the work has ended, and is not written meanwhile.
        let slots = sets.and_then(|set| unsafe { Items::<((), Slot)>::look(*set) });
        let found = slots.and_then(|(_, slots)| {
            slots
                .iter()
                .find(|slot| slot.binding == binding & 0xFFFF && slot.element == 0)
        });
        found.map_or(Descriptor::None, |slot| slot.descriptor)
    }

    fn bytes(&self, binding: u32) -> Bytes {
        match self.descriptor(binding) {
            Descriptor::Bytes(bytes) => bytes,
            _ => Bytes::NONE,
        }
    }
}

impl World for Invocation<'_> {
    fn builtin(&self, number: u32) -> Option<[u32; 4]> {
        has_builtin(self.stage, number).then_some(self.builtin)
    }
    fn push_constant(&self, offset: u32) -> u32 {
        let word = self.bound.push.get((offset / 4) as usize);
        word.copied().unwrap_or(0)
    }
    fn load(&self, binding: u32, offset: u32) -> u32 {
        self.bytes(binding).word(offset.into())
    }
    fn store(&mut self, binding: u32, offset: u32, word: u32) {
        self.bytes(binding).set_word(offset.into(), word);
    }
    fn fetch(&self, binding: u32, index: u32) -> u32 {
        self.bytes(binding).word(4 * u64::from(index))
    }
    fn sample(&self, binding: u32, [x, y]: [f32; 2]) -> u32 {
        let Descriptor::Picture(surface, [u, v]) = self.descriptor(binding) else {
            return 0;
        };
        let at = (wrap(x, surface.width, u), wrap(y, surface.height, v));
        let offset = match at {
            (Some(x), Some(y)) => surface.offset(x, y),
            // Outside, at the border: transparent black.
            _ => None,
        };
        offset.map_or(0, |offset| surface.bytes.word(offset))
    }
    fn output(&mut self, output: Output, words: [u32; 4]) {
        match output {
            Output::Position => self.position = words,
            Output::Location(0) => self.color = words,
            Output::Location(_) => {}
        }
    }
}

/// The texel that a coordinate from 0 to 1 falls on; `None` on a border.
fn wrap(at: f32, size: u32, mode: vk::SamplerAddressMode) -> Option<u32> {
    let (texel, size) = ((at * size as f32).floor() as i64, i64::from(size).max(1));
    let texel = match mode {
        vk::SamplerAddressMode::REPEAT => texel.rem_euclid(size),
        vk::SamplerAddressMode::MIRRORED_REPEAT => {
            let twice = texel.rem_euclid(2 * size);
            twice.min(2 * size - 1 - twice)
        }
        vk::SamplerAddressMode::CLAMP_TO_EDGE => texel.clamp(0, size - 1),
        _ => texel,
    };
    u32::try_from(texel)
        .ok()
        .filter(|texel| i64::from(*texel) < size)
}

/// What goes wrong in a submit: the device does no more work.
const LOST: vk::Result = vk::Result::ERROR_DEVICE_LOST;

impl Bound {
    fn new() -> Self {
        Self {
            pipelines: [0; 2],
            sets: [[0; MAX_SETS]; 2],
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
                // SAFETY: valid usage: what is recorded lives until the work has ended.
                if let Some(event) = unsafe { Object::<Event>::borrow_handle(event) } {
                    event.get().0.store(set, Relaxed);
                }
            }
            Cmd::ResetQueries(pool, first, count) => {
                (first..first.saturating_add(count))
                    .for_each(|index| set_query(pool, index, UNAVAILABLE));
            }
            Cmd::Query(pool, index) => {
                set_query(pool, index, 0);
                self.query = Some((pool, index));
            }
            Cmd::EndQuery => self.query = None,
            Cmd::Target(surface) => self.target = surface,
            Cmd::Pipeline(point, pipeline) => self.pipelines[place(point)] = pipeline,
            Cmd::Set(point, index, set) => {
                if let Some(bound) = self.sets[place(point)].get_mut(index as usize) {
                    *bound = set;
                }
            }
            Cmd::Push(offset, word) => {
                if let Some(place) = self.push.get_mut((offset / 4) as usize) {
                    *place = word;
                }
            }
            Cmd::Dispatch(groups) => self.dispatch(groups)?,
            Cmd::Draw(vertices) => self.draw(vertices)?,
        }
        Ok(())
    }

    fn pipeline<'a>(&self, point: usize) -> Result<(&'a State, &'a [u32]), vk::Result> {
        let handle = self.pipelines.get(point).copied().unwrap_or(0);
        // SAFETY: valid usage: what is bound lives until the work has ended.
        unsafe { Items::<(State, u32)>::look(handle) }.ok_or(LOST)
    }

    fn dispatch(&self, groups: [u32; 3]) -> Result<(), vk::Result> {
        let stage = vk::ShaderStageFlags::COMPUTE;
        let (state, words) = self.pipeline(0)?;
        let module = Module::new(words, stage, state.names[0].as_bytes()).map_err(|_| LOST)?;
        let [x, y, z] =
            [0, 1, 2].map(|axis: usize| groups[axis].saturating_mul(module.local_size[axis]));
        for (z, y, x) in
            (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| (z, y, x))))
        {
            let builtin = [x, y, z, 0];
            let mut world = Invocation {
                bound: self,
                stage,
                builtin,
                position: [0; 4],
                color: [0; 4],
            };
            interpreter::run(&module, &mut world).map_err(|_| LOST)?;
        }
        Ok(())
    }

    fn draw(&self, vertices: u32) -> Result<(), vk::Result> {
        let (state, words) = self.pipeline(1)?;
        let passed = draw::triangles(self, state, words, vertices).ok_or(LOST)?;
        if let Some((pool, index)) = self.query {
            let before = query(pool, index).unwrap_or(0);
            set_query(pool, index, before.saturating_add(passed));
        }
        Ok(())
    }
}

fn copy_rows(surface: Surface, area: vk::Rect2D, bytes: Bytes, row: u32, to_buffer: bool) {
    let (offset, extent) = (area.offset, area.extent);
    let (left, top) = (
        offset.x.max(0).cast_unsigned(),
        offset.y.max(0).cast_unsigned(),
    );
    for y in 0..extent.height {
        let size = u64::from(extent.width) * surface.texel;
        let Some(at) = surface.offset(left, top.saturating_add(y)) else {
            continue;
        };
        let of_image = surface.bytes.part(at, size);
        let skip = u64::from(y)
            .saturating_mul(row.into())
            .saturating_mul(surface.texel);
        let of_buffer = bytes.part(skip, size);
        if to_buffer {
            of_image.copy_to(of_buffer);
        } else {
            of_buffer.copy_to(of_image);
        }
    }
}

/// Only images of words can be cleared: of others it is not recorded.
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

/// A query's result, or [`UNAVAILABLE`].
pub(crate) fn query(pool: u64, index: u32) -> Option<u64> {
    // SAFETY: valid usage: a live pool, shared; its results are atomic.
    let (_, results) = unsafe { Items::<((), core::sync::atomic::AtomicU64)>::look(pool) }?;
    results
        .get(index as usize)
        .map(|result| result.load(Relaxed))
}

fn set_query(pool: u64, index: u32, value: u64) {
    // SAFETY: as in `query`.
    let results = unsafe { Items::<((), core::sync::atomic::AtomicU64)>::look(pool) };
    if let Some(result) = results.and_then(|(_, results)| results.get(index as usize)) {
        result.store(value, Relaxed);
    }
}

fn run_buffer(buffer: vk::CommandBuffer) -> Result<(), vk::Result> {
    // SAFETY: valid usage: a live command buffer, which nobody changes while it is pending.
    let buffer = unsafe { DispatchableObject::<CommandBuffer>::borrow_handle(raw(buffer)) };
    let mut bound = Bound::new();
    buffer
        .ok_or(LOST)?
        .commands
        .iter()
        .try_for_each(|command| bound.run(*command))
}

commands! {
    fn queue_submit(_queue: vk::Queue, count: u32, submits: *const vk::SubmitInfo<'_>, fence: vk::Fence) -> vk::Result {
        // SAFETY: valid usage: so many submits.
        let submits = unsafe { slice(submits, count) };
        let done = submits.iter().try_for_each(|submit| {
            // SAFETY: valid usage: so many command buffers.
            let buffers = unsafe { slice(submit.p_command_buffers, submit.command_buffer_count) };
            buffers.iter().try_for_each(|buffer| run_buffer(*buffer))
        });
        // SAFETY: valid usage: a live fence, or 0.
        if let (Ok(()), Some(fence)) = (done, unsafe { Object::<Fence>::borrow_handle(raw(fence)) }) {
            fence.get().0.store(true, Relaxed);
        }
        answer(done)
    }
}
