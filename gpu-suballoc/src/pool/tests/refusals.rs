//! Every call to the host and to the driver may be refused: then nothing has changed, and the next try succeeds.

use std::vec::Vec;

use super::*;
use crate::device::DeviceError;
use crate::device::mock::MockFault;
use crate::id::RegionPlace;
use crate::pool::PoolOptions;
use crate::request::{Lifetime, ResourceKind};

/// Something of everything; what it took stays in `live`.
fn everything(bed: &Bed, live: &mut Vec<RegionPlace>) -> Result<(), GpuError> {
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
