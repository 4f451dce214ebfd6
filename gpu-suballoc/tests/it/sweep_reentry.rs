//! Law 2 with a device that calls back: each request of the host allocator is refused once, those that the calls from
//! within make among them. What is refused inside is no reason to fail outside, and the other way round; nothing is
//! lost either way.

use crate::*;

use crate::operations::asks::asks;
use crate::region_model::program::again::{Again, How, TIMES};

type Host = Counted<FailingAllocator<RecordingAllocator>>;
type Mock = MockDevice;
type Gpu = GpuAllocator<&'static Mock, &'static Host>;

#[test]
fn each_request_refused_alone_while_the_device_reenters() {
    // What is done at the first call: map, a buffer, by its id, a look.
    for (number, first) in (0..asks::<&Mock, &Host>().len()).flat_map(|ask| [3, 5, 6, 8].map(|first| (ask, first))) {
        let name = asks::<&Mock, &Host>()[number].name;
        let before = TIMES.load(Relaxed);
        let sweep = Sweep::new(
            |witness| FailingAllocator::new(witness, Fault::Never),
            |host: &FailingAllocator<RecordingAllocator>, n: Option<u64>| host.arm(n.map_or(Fault::Never, Fault::Nth)),
        );
        let swept = sweep.keeping().run(name, |trial| {
            let mock: &'static Mock = Box::leak(Box::new(MockDevice::new(Nvidia)));
            // SAFETY: the allocator is closed before the trial, which has the host, ends.
            let host: &'static Host = unsafe { NonNull::from(trial.host()).as_ref() };
            let mut options = AllocatorOptions::default();
            options.memory.map_policy = MapPolicy::Counted;
            let gpu = over_with(mock, host, options);
            let gpu = Box::new(gpu);
            // SAFETY: on the heap until it is closed, and the device calls back no more by then.
            let there: &'static Gpu = unsafe { NonNull::from(&*gpu).as_ref() };
            let again: &'static Again<_, _> = Box::leak(Box::new(Again::new(there, How::Clean(first))));
            let ask = &asks()[number];
            let buffer = ask.buffer(there);
            mock.set_hook(Some(Box::leak(Box::new(move |call| again.at(call)))));
            let observe = || {
                let total = there.stats().total;
                (total.regions, total.crops, mock.live_counts().buffers)
            };
            trial.attempt(observe, || ask.run(there, &buffer)).free(there);
            there.free_batch(&mut [buffer]).expect("nothing holds it any more");
            mock.set_hook(None);
            (*gpu).close().map_err(|refused| refused.error).unwrap();
            mock.assert_ended();
        });
        // A region's slot is made with it.
        assert!(name == "map" || swept.requests > 0 && swept.failed > 0, "{name}: {swept:?}");
        assert!(TIMES.load(Relaxed) > before, "{name}: nobody called back");
        println!("{name}: {swept:?}, called back {} times", TIMES.load(Relaxed) - before);
    }
}
