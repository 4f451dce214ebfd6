//! Objects of a driver whose application calls back.

use super::*;

#[test]
fn objects_of_a_driver_whose_application_reenters_it_keep_their_values_and_names() {
    let bridge = bare();
    let behind = bridge.as_ref().raw();
    // SAFETY: the application keeps Vulkan's rules while the objects live.
    let callbacks = unsafe { CallbackAllocator::from_raw(&application(&behind)) }.expect("whole");
    let chain = FallbackChain::new(&SYSTEM).device(Some(&callbacks));
    let times = Cell::new(0);
    let make = |name: &str| {
        let mut object = Object::create(&chain, [7_u64; 4]).map_err(|refused| refused.error).expect("memory");
        for name in [name, "another", name] {
            // SAFETY: the one chain.
            unsafe { object.set_name(&chain, name) }.expect("memory");
            assert_eq!((object.get(), object.name()), (&[7; 4], Some(name)));
        }
        let mut plan = MultiAlloc::new();
        let numbers = plan.array::<u64>(9).expect("small");
        let mut block = plan.allocate_zeroed(&chain, Scope::Object).expect("memory");
        assert_eq!(block.slice_mut(numbers).len(), 9);
        drop(block);
        // SAFETY: the chain that it was created with.
        let value = unsafe { object.destroy(&chain) }.map_err(|refused| refused.error).expect("the same chain");
        assert_eq!(value, [7; 4]);
    };
    let hook = |request: Request| {
        if matches!(request.call, Call::Other(_)) {
            times.set(times.get() + 1);
            make("within");
        }
    };
    with_hook(1, &hook, || make("without"));
    assert!(times.get() >= 8, "{times:?}");
    assert_eq!(bridge.counters().faults(), 0);
}
