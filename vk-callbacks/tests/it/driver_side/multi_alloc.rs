//! Several arrays in one block.

use super::*;

#[test]
fn m30_empty_set_is_refused_and_asks_nobody() {
    let app = App::default();
    let host = of(&app);
    let chain = FallbackChain::new(&OWN).object(Some(&host));
    let mut plan = MultiAlloc::new();
    let _ = plan.array::<u32>(0).expect("small");
    assert_eq!(plan.allocate(&chain, Scope::Object).err(), Some(CallbackError::EmptySet));
    assert_eq!(MultiAlloc::new().allocate_zeroed(&chain, Scope::Object).err(), Some(CallbackError::EmptySet));
    assert_eq!(app.calls(), []);
}

#[test]
fn m30_overflow_is_an_error_and_a_hundred_members_are_not() {
    let mut plan = MultiAlloc::new();
    let members: Vec<_> = (0..100).map(|i| plan.array::<u16>(i).expect("small")).collect();
    let units = plan.array::<()>(9).expect("small");
    let before = plan.layout();
    let too_large = Some(CallbackError::Host(HostError::TooLarge));
    assert_eq!(plan.array::<u64>(usize::MAX).err(), too_large);
    assert_eq!(plan.array::<u8>(isize::MAX as usize).err(), too_large, "the whole overflows, not the array");
    assert_eq!(plan.layout(), before);
    let mut block = plan.allocate(&FallbackChain::new(&OWN), Scope::Object).expect("memory");
    assert_eq!((block.get(members[0]), block.get(units)), (None, None));
    for (i, member) in members.iter().enumerate() {
        let slice = block.slice_mut(*member);
        assert_eq!(slice.len(), i);
        slice.iter_mut().for_each(|value| {
            value.write(i as u16);
        });
    }
    for (i, member) in members.iter().enumerate().skip(1) {
        assert!(
            // SAFETY: all were written above; nothing overlaps.
            unsafe { block.get(*member).expect("there").as_ref() }.iter().all(|value| usize::from(*value) == i)
        );
    }
}

#[test]
fn m30_the_whole_is_one_allocation_and_one_free() {
    let app = App::default();
    let host = of(&app);
    let chain = FallbackChain::new(&OWN).device(Some(&host));
    let mut plan = MultiAlloc::new();
    let first = plan.array::<u8>(5).expect("small");
    let second = plan.array::<u64>(2).expect("small");
    let block = plan.allocate_zeroed(&chain, Scope::Device).expect("memory");
    assert_eq!(app.calls(), [Call::Alloc { size: 24, align: align_of::<u64>(), scope: raw(Scope::Device) }]);
    // SAFETY: the block is zeroed.
    assert_eq!(unsafe { block.get(first).expect("there").as_ref() }, [0; 5]);
    assert_eq!(
        // SAFETY: the block is zeroed.
        unsafe { block.get(second).expect("there").as_ref() },
        [0; 2]
    );
    let other = MultiAlloc::new().array::<u8>(5).expect("small");
    assert_eq!(block.get(other), None, "a member of another plan");
    // SAFETY: the same chain.
    unsafe { block.store().free(&chain) }.expect("given back");
    assert_eq!((app.calls().len(), app.heap.live()), (2, 0));
}
