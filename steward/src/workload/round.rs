use ash::vk;
use vk::{AccessFlags as Access, ImageLayout as Layout, PipelineBindPoint as Point, PipelineStageFlags as Stage};

use super::commands::{Commands, Recorder};
use super::descriptors::Descriptors;
use super::device::Device;
use super::error::WorkloadError;
use super::expect::{Inputs, SIDE, WORDS};
use super::pipelines::Pipelines;
use super::resources::{Buffers, DRAWN_BYTES, FILL_BYTES, HASH_BYTES, Images, Samplers};
use super::suballocation::{Suballocator, Transfers};
use super::submit::InFlight;
use super::sync::Sync;
use vk_report::report::DeviceMemory;

const GROUP: u32 = 64;

pub(super) struct Done {
    pub(super) comparisons: u64,
    pub(super) device_memory: DeviceMemory,
}

/// All objects are destroyed when this returns, in reverse order, on every path: the guards are locals.
pub(super) fn run(device: &Device<'_>, round: u32, inputs: Inputs, expected: Inputs) -> Result<Done, WorkloadError> {
    let phases = device.phases();
    phases.begin("resources");
    let buffers = Buffers::new(device, inputs.scale)?;
    let images = Images::new(device)?;
    let samplers = Samplers::new(device)?;
    let descriptors = Descriptors::new(device, &buffers, &images, &samplers)?;
    let sync = Sync::new(device)?;

    phases.begin("sub-allocation");
    let suballocator = Suballocator::new(device)?;
    let transfers = Transfers::new(&suballocator, device, inputs)?;

    phases.begin("pipelines");
    let pipelines = Pipelines::new(device, &descriptors, *images.target_view)?;

    phases.begin("recording");
    let commands = Commands::new(device)?;
    let [compute, draw] = commands.all();
    // SAFETY: new command buffers of this device; the objects they use are declared above and outlive `in_flight`.
    unsafe {
        Recorder::record(device, compute, |to| {
            record_compute(to, inputs, &buffers, &descriptors, &pipelines, &sync);
            transfers.record_out(to);
        })
    }?;
    // SAFETY: new command buffers of this device; the objects they use are declared above and outlive `in_flight`.
    unsafe {
        Recorder::record(device, draw, |to| {
            transfers.record_back(to);
            record_draw(to, inputs, &buffers, &images, &descriptors, &pipelines, &sync);
        })
    }?;

    phases.begin("submit");
    // SAFETY: both are recorded; the objects they use are declared above and dropped after `in_flight`.
    let in_flight = unsafe { InFlight::submit(device, &commands, &sync) }?;
    in_flight.finish()?;
    let check = Check { round, expected };
    let words = buffers.read(device, |words| check.words(words))?;
    check.one("event", u32::from(sync.was_filled(device)?), 1)?;
    check.one("samples passed", sync.samples_passed(device)?.min(1), 1)?;
    let through =
        transfers.read(&suballocator, |what, index, found| check.at(what, index, found, expected.uploaded(index)))?;
    let device_memory = suballocator.memory_report();
    drop(transfers);
    suballocator.close()?;
    Ok(Done { comparisons: words.saturating_add(2).saturating_add(through), device_memory })
}

fn record_compute(
    to: &Recorder<'_>,
    inputs: Inputs,
    buffers: &Buffers<'_>,
    descriptors: &Descriptors<'_>,
    pipelines: &Pipelines<'_>,
    sync: &Sync<'_>,
) {
    let filled = (Stage::TRANSFER, Access::TRANSFER_WRITE);
    let read = (Stage::COMPUTE_SHADER | Stage::TRANSFER, Access::SHADER_READ | Access::TRANSFER_READ);
    to.fill(*buffers.texels, inputs.fill);
    to.set_event(*sync.filled, filled.0);
    to.wait_event(*sync.filled, filled, read);
    let (layout, set) = (*descriptors.hash_layout, descriptors.sets.hash());
    to.bind(Point::COMPUTE, vk::ShaderStageFlags::COMPUTE, layout, set, inputs.seed);
    for half in &pipelines.hash {
        to.bind_pipeline(Point::COMPUTE, **half);
        to.dispatch(WORDS / GROUP);
    }
    to.memory_barrier((Stage::COMPUTE_SHADER, Access::SHADER_WRITE), (Stage::TRANSFER, Access::TRANSFER_READ));
    to.copy_buffer((*buffers.texels, 0), (*buffers.read_back, 0), FILL_BYTES);
    to.copy_buffer((*buffers.hashes, 0), (*buffers.read_back, FILL_BYTES), HASH_BYTES);
    to.memory_barrier((Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
}

fn record_draw(
    to: &Recorder<'_>,
    inputs: Inputs,
    buffers: &Buffers<'_>,
    images: &Images<'_>,
    descriptors: &Descriptors<'_>,
    pipelines: &Pipelines<'_>,
    sync: &Sync<'_>,
) {
    let cleared = (Stage::TRANSFER, Access::TRANSFER_WRITE, Layout::TRANSFER_DST_OPTIMAL);
    to.image_barrier(*images.texture, (Stage::TOP_OF_PIPE, Access::empty(), Layout::UNDEFINED), cleared);
    to.clear(*images.texture, inputs.clear);
    to.image_barrier(
        *images.texture,
        cleared,
        (Stage::FRAGMENT_SHADER, Access::SHADER_READ, Layout::SHADER_READ_ONLY_OPTIMAL),
    );
    to.reset_queries(*sync.samples);
    to.render_pass(&pipelines.graphics, *sync.samples, |to| {
        to.bind_pipeline(Point::GRAPHICS, *pipelines.graphics.pipeline);
        let (layout, set) = (*descriptors.draw_layout, descriptors.sets.draw());
        to.bind(Point::GRAPHICS, vk::ShaderStageFlags::FRAGMENT, layout, set, inputs.seed);
        to.draw(3);
    });
    to.copy_image(*images.target, *buffers.read_back, FILL_BYTES + HASH_BYTES);
    to.memory_barrier((Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
}

pub(super) struct Check {
    pub(super) round: u32,
    pub(super) expected: Inputs,
}

impl Check {
    fn words(&self, found: &[u32]) -> Result<u64, WorkloadError> {
        let (hash_words, drawn_words) = (2 * WORDS, SIDE * SIDE);
        debug_assert_eq!(found.len() as u64 * 4, FILL_BYTES + HASH_BYTES + DRAWN_BYTES);
        let mut found = found.iter().copied();
        let mut part = |what, words: u32, expected: &dyn Fn(u32) -> u32| {
            (0..words).zip(&mut found).try_for_each(|(index, found)| self.at(what, index, found, expected(index)))
        };
        part("fill", WORDS, &|_| self.expected.fill)?;
        part("dispatch", hash_words, &|index| self.expected.hashed(index))?;
        part("draw", drawn_words, &|index| self.expected.drawn(index))?;
        Ok(u64::from(WORDS) + u64::from(hash_words) + u64::from(drawn_words))
    }

    fn one(&self, what: &'static str, found: u32, expected: u32) -> Result<(), WorkloadError> {
        self.at(what, 0, found, expected)
    }

    pub(super) fn at(&self, what: &'static str, index: u32, found: u32, expected: u32) -> Result<(), WorkloadError> {
        let round = self.round;
        if found == expected { Ok(()) } else { Err(WorkloadError::Mismatch { what, round, index, expected, found }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_wrong_word_is_found() {
        let expected = Inputs::new(7, 3);
        let mut right: Vec<u32> = vec![expected.fill; WORDS as usize];
        right.extend((0..2 * WORDS).map(|index| expected.hashed(index)));
        right.extend((0..SIDE * SIDE).map(|index| expected.drawn(index)));
        let check = Check { round: 3, expected };
        assert_eq!(check.words(&right), Ok(right.len() as u64));
        for position in 0..right.len() {
            right[position] ^= 1 << (position % 32);
            assert!(matches!(check.words(&right), Err(WorkloadError::Mismatch { round: 3, .. })), "word {position}");
            right[position] ^= 1 << (position % 32);
        }
    }
}
