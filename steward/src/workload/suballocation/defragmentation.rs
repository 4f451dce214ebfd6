//! ```text
//!  before   |a.....b.....|   |c.....d.....|   |e.....f.....|   |g.....h.....|     four blocks, a sixth of each in use
//!  after    |acdefgbh....|                                                        one block; three are freed
//! ```

use ash::vk;
use gpu_suballoc::allocator::{DefragmentationOptions, MoveOutcome};
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{BufferUsage as Usage, MemoryPreference, PropertyFlags, RegionOptions};

use super::{Suballocator, between_copies, copy, handle, refused_by};
use crate::workload::commands::{Commands, Recorder};
use crate::workload::device::Device;
use crate::workload::error::WorkloadError;
use crate::workload::expect::Inputs;
use crate::workload::memory::device_local;
use crate::workload::round::Check;
use crate::workload::submit::InFlight;
use vk_report::report::Defragmentation;

use vk::{AccessFlags as Access, PipelineStageFlags as Stage};

const BYTES: u64 = 8 << 10;
const BLOCK: u64 = 12 * BYTES;
/// Created buffers, and of how many one is kept.
const BUFFERS: usize = 48;
const ONE_OF: usize = 6;
/// Moves of a pass: few enough for more than one pass.
const MOVES: usize = 4;

pub(in crate::workload) struct Moved {
    pub(in crate::workload) comparisons: u64,
    pub(in crate::workload) report: Defragmentation,
}

pub(in crate::workload) fn run(
    device: &Device<'_>,
    round: u32,
    inputs: Inputs,
    expected: Inputs,
) -> Result<Moved, WorkloadError> {
    let memory = MemoryOptions { first_block: Some(BLOCK), max_block: Some(BLOCK), ..MemoryOptions::default() };
    device.phases().keep("defragmentation", || {
        let by = Suballocator::with(device, memory)?;
        let moved = scatter_and_gather(&by, device, inputs, &Check { round, expected })?;
        by.close()?;
        Ok(moved)
    })
}

fn scatter_and_gather<'d>(
    by: &Suballocator<'d>,
    device: &'d Device<'d>,
    inputs: Inputs,
    check: &Check,
) -> Result<Moved, WorkloadError> {
    let both = Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
    // A mapped region would keep its block from being emptied.
    let staged = RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE)).pinned();
    let size = (BUFFERS / ONE_OF) as u64 * BYTES;
    let staging = by.buffer(("staging", size, both), staged)?;
    let fast = RegionOptions::new().preference(device_local()).dedicated(DedicatedPolicy::Never);
    let mut kept =
        (0..BUFFERS).map(|_| by.buffer(("a moved buffer", BYTES, both), fast)).collect::<Result<Vec<_>, _>>()?;
    let mut number = 0..;
    kept.retain(|_| number.next().is_some_and(|number: usize| number.is_multiple_of(ONE_OF)));

    by.write(&staging, |index| inputs.uploaded(index))?;
    submit(device, |to| {
        for (region, at) in kept.iter().zip((0..).step_by(BYTES as usize)) {
            copy(to, (&staging, at), (region, 0), BYTES);
        }
    })?;
    // Without the zeros the read-back could find the uploaded words.
    by.write(&staging, |_| 0)?;

    let mut report = Defragmentation { before: by.memory_report(), ..Defragmentation::default() };
    let refused = |error| refused_by("a defragmentation", error);
    let limits = DefragmentationOptions::new().max_moves_per_pass(MOVES);
    let mut defragmentation = by.allocator.defragment(limits).map_err(refused)?;
    loop {
        let mut pass = defragmentation.next_pass().map_err(refused)?;
        if pass.is_empty() {
            break;
        }
        for index in 0..pass.moves().len() {
            pass.make_buffer(index).map_err(refused)?;
        }
        report.most_moving_bytes = report.most_moving_bytes.max(by.allocator.stats().total.moving_bytes);
        submit(device, |to| {
            for one in pass.moves() {
                let [old, new] = [one.old_buffer(), one.new_buffer()].map(handle);
                to.copy_buffer((old, 0), (new, 0), one.size());
            }
        })?;
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, _| {});
    }
    let totals = defragmentation.totals();
    drop(defragmentation);
    for region in &mut kept {
        region.refresh().map_err(refused)?;
    }
    submit(device, |to| {
        for (region, at) in kept.iter().zip((0..).step_by(BYTES as usize)) {
            copy(to, (region, 0), (&staging, at), BYTES);
        }
    })?;
    let comparisons = by.read(&staging, &[(0, size)], |_, index, found| {
        check.at("moved", index, found, check.expected.uploaded(index))
    })?;
    report.passes = totals.passes;
    report.moves = totals.moves;
    report.moved_bytes = totals.moved_bytes;
    report.freed_blocks = totals.freed_blocks;
    report.freed_bytes = totals.freed_bytes;
    report.after = by.memory_report();
    Ok(Moved { comparisons, report })
}

fn submit(device: &Device<'_>, record: impl FnOnce(&Recorder<'_>)) -> Result<(), WorkloadError> {
    let commands = Commands::new(device)?;
    // SAFETY: no flags, no chain.
    let fence = unsafe { device.create(&vk::FenceCreateInfo::default()) }?;
    let [copies] = commands.all();
    // SAFETY: a new command buffer of this device; the buffers live until the work has ended: this function waits for
    // it.
    unsafe {
        Recorder::record(device, copies, |to| {
            between_copies(to);
            record(to);
            to.memory_barrier((Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
        })
    }?;
    // SAFETY: recorded above; a new fence.
    unsafe { InFlight::submit_one(device, &commands, &fence) }?.finish()
}
