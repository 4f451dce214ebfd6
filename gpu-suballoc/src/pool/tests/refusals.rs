//! Every call to the host and to the driver may be refused: then nothing has changed, and the next try succeeds.

use std::vec::Vec;

use super::*;
use crate::device::DeviceError;
use crate::device::mock::MockFault;
use crate::error::GpuMisuse;
use crate::id::RegionSlot;
use crate::pool::PoolOptions;
use crate::request::{Lifetime, ResourceKind};

/// Something of everything; what it took stays in `live`.
fn everything(bed: &Bed, live: &mut Vec<RegionSlot>) -> Result<(), GpuError> {
    let lifetimes = [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent];
    for (turn, lifetime) in lifetimes.into_iter().cycle().take(9).enumerate() {
        let kind = if turn % 2 == 0 {
            ResourceKind::Linear
        } else {
            ResourceKind::Optimal
        };
        live.push(
            bed.place(&AllocationRequest {
                lifetime,
                kind,
                ..AllocationRequest::new(700 + turn as u64 * 900, 16)
            })?
            .at,
        );
    }
    live.push(
        bed.place(&AllocationRequest {
            dedicated: DedicatedPolicy::Required,
            ..AllocationRequest::new(KIB, 1)
        })?
        .at,
    );
    live.push(bed.place(&shared(20 * MIB))?.at);
    let region = bed.place(&visible(KIB))?;
    live.push(region.at);
    bed.pools.map(bed.device_and_host(), region.at)?;
    let flushed = bed.pools.flush(bed.device_and_host(), region.at, 0, KIB);
    bed.pools.unmap(bed.device_and_host(), region.at)?;
    flushed?;
    let (index, generation) = bed.pools.create_pool(
        bed.device_and_host(),
        &PoolOptions {
            min_blocks: 1,
            ..PoolOptions::new(region.memory_type)
        },
    )?;
    bed.pools
        .destroy_pool(bed.device_and_host(), index, generation)?;
    Ok(())
}

/// Refuses the first call, then the second, until none is refused; `fail` plants it, `heal` takes it away.
fn sweep(fail: impl Fn(&Bed, u64), heal: impl Fn(&Bed), allowed: impl Fn(GpuError) -> bool) {
    for profile in MockProfile::ALL {
        println!("profile: {}", profile.name());
        let mut refused = 0u64;
        for nth in 1..400u64 {
            let bed = Bed::new(profile.config(), &MemoryOptions::default());
            let mut live = Vec::new();
            fail(&bed, nth);
            let outcome = everything(&bed, &mut live);
            heal(&bed);
            bed.check();
            // All that was taken is there, and all of it can be done again.
            for at in &live {
                bed.pools.find(*at).unwrap();
            }
            everything(&bed, &mut live).unwrap();
            bed.check();
            for at in live {
                bed.pools.free(bed.device_and_host(), at).unwrap();
            }
            bed.close();
            match outcome {
                Ok(()) if nth > 30 => break,
                Ok(()) => {}
                Err(error) => {
                    assert!(allowed(error), "{error:?}");
                    refused += 1;
                }
            }
            assert!(nth < 399, "it never ends");
        }
        assert!(refused >= 5, "only {refused} refusals were seen");
    }
}

#[test]
fn every_host_call_may_be_refused() {
    sweep(
        |bed, nth| bed.host.fuse.store(nth as i64 - 1, Ordering::Relaxed),
        |bed| bed.host.fuse.store(-1, Ordering::Relaxed),
        |error| matches!(error, GpuError::Host(_)),
    );
}

#[test]
fn every_driver_call_may_be_refused() {
    let error = DeviceError::DeviceLost;
    sweep(
        |bed, nth| assert!(bed.mock.plant(MockFault::nth(nth).with(error))),
        |bed| bed.mock.clear_faults(),
        |seen| seen == error.into(),
    );
}

#[test]
fn one_refusal_for_want_of_memory_is_none_to_the_user() {
    for profile in MockProfile::ALL {
        println!("profile: {}", profile.name());
        for nth in 1..6 {
            let bed = Bed::new(profile.config(), &MemoryOptions::default());
            bed.mock
                .plant(MockFault::nth(nth).of(crate::device::mock::MockCall::Allocate));
            let mut live = Vec::new();
            let alone_only = everything(&bed, &mut live).is_err();
            bed.mock.clear_faults();
            // Only what must be alone, and what asks for one type, has no other way.
            assert!(
                !alone_only || bed.mock.properties().types.len() == 1 || live.len() >= 9,
                "{} of nth {nth}",
                live.len()
            );
            for at in live {
                bed.pools.free(bed.device_and_host(), at).unwrap();
            }
            bed.close();
        }
    }
}

#[test]
fn freeing_takes_no_memory() {
    on_every(
        &MemoryOptions {
            keep_empty: Some(0),
            ..MemoryOptions::default()
        },
        |bed| {
            let mut live = Vec::new();
            everything(bed, &mut live).unwrap();
            let more: Vec<_> = (0..500)
                .map(|n| bed.place(&shared(1 + n * 37)).unwrap().at)
                .collect();
            let calls = bed.host.calls.load(Ordering::Relaxed);
            bed.host.fuse.store(0, Ordering::Relaxed);
            for at in live.iter().chain(&more) {
                bed.pools.free(bed.device_and_host(), *at).unwrap();
            }
            bed.pools.trim(bed.device_and_host(), u64::MAX);
            assert_eq!(bed.host.calls.load(Ordering::Relaxed), calls);
            bed.host.fuse.store(-1, Ordering::Relaxed);
            assert_eq!(bed.native(), (0, 0));
        },
    );
}

#[test]
fn a_batch_is_placed_whole_or_not_at_all() {
    on_every(
        &MemoryOptions {
            max_bytes: 8 * MIB,
            ..MemoryOptions::default()
        },
        |bed| {
            let fits = [
                shared(MIB),
                shared(KIB),
                AllocationRequest {
                    lifetime: Lifetime::Transient,
                    ..shared(KIB)
                },
            ];
            let mut out = [None; 3];
            bed.pools
                .place_batch(bed.device_and_host(), &fits, &mut out)
                .unwrap();
            let at: Vec<_> = out.iter().map(|placed| placed.unwrap().at).collect();
            let before = bed.pools.live_regions();
            let mut none = [None; 3];
            assert!(
                bed.pools
                    .place_batch(
                        bed.device_and_host(),
                        &[shared(KIB), shared(KIB), shared(30 * MIB)],
                        &mut none
                    )
                    .is_err()
            );
            assert!(none.iter().all(Option::is_none));
            let mut short = [None; 1];
            assert_eq!(
                bed.pools
                    .place_batch(bed.device_and_host(), &fits, &mut short),
                Err(GpuMisuse::Outside.into())
            );
            assert_eq!(
                (short[0].is_none(), bed.pools.live_regions()),
                (true, before)
            );
            bed.check();
            let mut refused = Vec::new();
            bed.pools.free_batch(
                bed.device_and_host(),
                &[at[0], at[1], at[0], at[2]],
                &mut |index, misuse| refused.push((index, misuse)),
            );
            assert_eq!(refused, [(2, GpuMisuse::Stale)]);
        },
    );
}

#[test]
fn a_batch_given_back_leaves_what_one_by_one_leaves() {
    on_every(&MemoryOptions::default(), |bed| {
        let lifetimes = [
            Lifetime::Unknown,
            Lifetime::Unknown,
            Lifetime::Unknown,
            Lifetime::Transient,
            Lifetime::Persistent,
        ];
        let place = |n: u64| {
            bed.place(&AllocationRequest {
                lifetime: lifetimes[n as usize / 100 % 5],
                ..shared(100 + n * 31)
            })
            .unwrap()
            .at
        };
        let mut at: Vec<_> = (0..1000).map(place).collect();
        let recorded = bed
            .place(&AllocationRequest {
                user_data: 3,
                ..shared(KIB)
            })
            .unwrap()
            .at;
        // One twice, one that was never there, one with a record: they are told, the others go.
        at[70] = at[69];
        at.insert(
            500,
            RegionSlot {
                generation: 0,
                ..at[500]
            },
        );
        at.insert(600, recorded);
        let lost = at.len() - 3;
        let mut refused = Vec::new();
        let before = bed.pools.live_regions();
        bed.pools
            .free_batch(bed.device_and_host(), &at, &mut |index, misuse| {
                refused.push((index, misuse))
            });
        assert_eq!(
            refused,
            [
                (70, GpuMisuse::Stale),
                (500, GpuMisuse::Stale),
                (600, GpuMisuse::Held)
            ]
        );
        assert_eq!(before - bed.pools.live_regions(), lost as u64);
        bed.check();
        bed.pools
            .free_recorded(bed.device_and_host(), recorded, 3)
            .unwrap();
        // The one that was named twice instead of it.
        let mut left = Vec::new();
        bed.pools.walk(&mut |seen| {
            if let WalkItem::Region { at, .. } = seen {
                left.push(at);
            }
        });
        assert_eq!(left.len(), 1);
        bed.pools.free(bed.device_and_host(), left[0]).unwrap();
    });
}
