#![forbid(unsafe_code)]

use alloc_core::ScopeUsage;
use vk_report::state_file::{MAX_HEAPS, MAX_KINDS};

use crate::accounts::{Accounts, all_accounts};
use crate::commands::{kind_bit, known_row, places};
use crate::count::get;
use crate::foreign::ForeignOwner;

pub(super) type KindNumbers = [u64; 8];
pub(super) type HeapNumbers = [u64; 7];

const ALLOCATE_MEMORY: usize = known_row("vkAllocateMemory");

pub(super) struct Sums {
    pub(super) kinds: [Option<KindNumbers>; MAX_KINDS],
    pub(super) heaps: [Option<HeapNumbers>; MAX_HEAPS],
}

impl Sums {
    /// Heaps are read only if the kind of device memory is among the kinds. `None` instead of waiting for a number: the
    /// next update has it.
    pub(super) fn of(bits: u64) -> Option<Self> {
        let mut sums = Self { kinds: [None; MAX_KINDS], heaps: [None; MAX_HEAPS] };
        for accounts in all_accounts() {
            for place in places(accounts.used_kinds() & bits) {
                let sum = sums.kinds.get_mut(place)?.get_or_insert_default();
                add_all(sum, kind_numbers(accounts, place)?);
            }
            if bits & kind_bit(ALLOCATE_MEMORY) != 0 {
                add_heaps(&mut sums.heaps, accounts);
            }
        }
        Some(sums)
    }
}

/// `None` where a number would have to be waited for.
fn kind_numbers(accounts: &Accounts, place: usize) -> Option<KindNumbers> {
    let Some(kind) = accounts.kind_at(place) else {
        return Some([0; 8]);
    };
    let own = match kind.owner() {
        Some(owner) => owner.try_usage()?.total(),
        None => ScopeUsage::default(),
    };
    let foreign = kind.foreign().map(ForeignOwner::usage);
    let usage = own.plus(&foreign.unwrap_or_default());
    Some([
        usage.live_bytes,
        usage.live_blocks,
        usage.peak_bytes,
        usage.total_bytes,
        usage.total_blocks,
        kind.created.get(),
        kind.ended.get(),
        get(&kind.foreign_commands),
    ])
}

fn add_heaps(heaps: &mut [Option<HeapNumbers>; MAX_HEAPS], accounts: &Accounts) {
    for (sum, count) in heaps.iter_mut().zip(&accounts.device_memory.heaps) {
        let numbers = count.numbers();
        let [.., total_blocks, refusals, size] = numbers;
        if total_blocks | refusals != 0 {
            let sum = sum.get_or_insert_default();
            let largest = sum[6].max(size);
            add_all(sum, numbers);
            sum[6] = largest;
        }
    }
}

fn add_all<const N: usize>(sum: &mut [u64; N], numbers: [u64; N]) {
    for (sum, number) in sum.iter_mut().zip(numbers) {
        *sum = sum.saturating_add(number);
    }
}
