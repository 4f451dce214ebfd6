//! A host request and a device command refused within one call, 2500 sampled pairs: an error or a way round it, never
//! half of what was asked for, and the next try succeeds.

use crate::*;

use debug_guard::Fault as HostFault;

use crate::operations::asks::{asks, seen, whole};

type Mock = MockDevice;
type Host = FailingAllocator<RecordingAllocator>;

#[test]
fn pairs_of_refusals() {
    let mut rng = Rng::new(3);
    let (mut refused, mut survived, mut both) = (0, 0, 0);
    for number in 0..2_500 {
        let profile = MockProfile::ALL[number % MockProfile::ALL.len()];
        let asks = asks();
        let ask = &asks[rng.below(asks.len() as u64) as usize];
        let mock = Mock::new(profile);
        let host = Host::new(RecordingAllocator::system(), HostFault::Never);
        let gpu = over(&mock, &host);
        let whole = Some(whole(&gpu));
        let before = seen(&gpu);

        // Half of them begin with full tables, so that growth is refused as well.
        let warm = if number % 2 == 0 { 0 } else { rng.below(200) };
        let warm: Vec<Region> = (0..warm).map(|_| gpu.crop(whole.as_ref().unwrap(), 0, 16, 16).unwrap()).collect();
        let begun = seen(&gpu);
        let (n, m) = (rng.below(10), rng.below(4));
        host.arm(HostFault::Nth(n));
        assert!(mock.plant(MockFault::nth(m + 1)));
        let calls = mock.calls_that_can_fail();
        let first = ask.run(&gpu, &whole);
        let (host_hit, device_hit) = (host.refused() > 0, mock.calls_that_can_fail() > calls + m);
        host.disarm();
        mock.clear_faults();
        let what = format!("{} on {profile:?}, host request {n} and device command {m}", ask.name);
        let held = match first {
            Ok(held) => {
                survived += u32::from(host_hit || device_hit);
                held
            }
            Err(error) => {
                assert!(host_hit || device_hit, "{what} fails although nothing was refused: {error:?}");
                let ours = matches!(
                    error,
                    GpuError::Host(_) | GpuError::Device(_) | GpuError::AfterAllocation(_) | GpuError::Limit(_)
                );
                assert!(ours, "{what}: {error:?}");
                assert_eq!(seen(&gpu), begun, "{what}");
                refused += 1;
                ask.run(&gpu, &whole).unwrap_or_else(|error| panic!("{what}, the next try: {error:?}"))
            }
        };
        both += u32::from(host_hit && device_hit);
        held.free(&gpu);
        warm.into_iter().for_each(|region| gpu.free(region).unwrap());
        // What is kept for the next one goes too.
        gpu.trim(u64::MAX);
        assert_eq!(seen(&gpu), before, "{what}, after everything was given back");
        gpu.free_batch(&mut [whole]).unwrap();
        end(gpu);
        assert!(mock.violations().is_empty(), "{what}: {}", mock.violations());
        assert_eq!(mock.live_counts(), MockLiveCounts::default(), "{what}");
        host.inner().assert_empty(&what);
    }
    println!("2500 pairs: {refused} errors, {survived} got over, {both} with both refused");
    assert!(refused > 500 && survived > 25 && both > 5);
}
