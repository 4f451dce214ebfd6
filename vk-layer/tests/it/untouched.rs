//! What a program hands over reaches the driver as it is, over the fake driver.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr;

use vk_callbacks::raw::RawCallbacks;

use crate::driver::{CreateInfo, LINK, Layer, Link, LinkInfo, VoidFunction, last_info};

const NONE: *const RawCallbacks = ptr::null();

/// A struct of a chain: what the layer knows nothing of, or one of the loader's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chained {
    s_type: i32,
    p_next: *const c_void,
    words: [usize; 4],
}

/// A chain of six, as a loader and a program make it, with the link in the middle. `link` is the loader's struct type.
fn chain(link: i32, next: &Link) -> Vec<Chained> {
    let private_data = 1_000_295_001;
    let features = 1_000_059_000;
    let callback = if link == 47 { 3 } else { 1 };
    let of = |s_type, words| Chained { s_type, p_next: ptr::null(), words };
    let mut chain = vec![
        of(0x7777, [usize::MAX, 1, 2, 3]),
        // The loader's functions that create devices for layers, or set what belongs to the loader in new objects.
        of(link, [callback, 0x1110, 0x2220, 4]),
        of(private_data, [5, 6, 7, 8]),
        of(link, [0, ptr::from_ref(next).expose_provenance(), 9, 10]),
        of(features, [usize::MAX; 4]),
        of(link, [callback, 0x3330, 0x4440, 11]),
    ];
    let at = chain.as_ptr();
    for (number, one) in chain.iter_mut().enumerate().take(5) {
        one.p_next = at.wrapping_add(number + 1).cast();
    }
    chain
}

#[test]
fn ly8_chains_private_data_and_features_reach_the_driver_untouched_but_for_the_link() {
    type CreateInstance = unsafe extern "system" fn(*const c_void, *const RawCallbacks, *mut *mut c_void) -> i32;
    type CreateDevice =
        unsafe extern "system" fn(*mut c_void, *const c_void, *const RawCallbacks, *mut *mut c_void) -> i32;
    type CreateBuffer = unsafe extern "system" fn(*mut c_void, *const c_void, *const RawCallbacks, *mut u64) -> i32;
    let layer = Layer::new();
    let link = LINK;
    // The info of each, with words for whatever extensions and layers it names.
    let info = |chain: &[Chained]| Chained { s_type: 1, p_next: chain.as_ptr().cast(), words: [0, 0, 0, 0] };
    // A create info is longer than a struct of the chain: what follows is 0.
    let padded = |info: Chained| [info; 1].map(|info| (info, [0_usize; 8]))[0];
    let same_but_for_the_link = |before: &[Chained], after: &[Chained]| {
        for (number, (before, after)) in before.iter().zip(after).enumerate() {
            let mut expected = *before;
            if number == 3 {
                // The next layer's link: there is none.
                expected.words[1] = 0;
            }
            assert_eq!(*after, expected, "struct {number}");
        }
    };

    let create = layer.of_instance(ptr::null_mut(), c"vkCreateInstance");
    // SAFETY: the command has this signature.
    let create = unsafe { transmute::<VoidFunction, CreateInstance>(create.expect("a hook")) };
    let of_instance = chain(47, &link);
    let before = of_instance.clone();
    let given = padded(info(&of_instance));
    let mut instance = ptr::null_mut();
    // SAFETY: as the loader calls a layer.
    let result = unsafe { create((&raw const given).cast(), NONE, &raw mut instance) };
    assert_eq!((result, last_info()), (0, (&raw const given).addr()));
    assert_eq!(given, padded(info(&of_instance)));
    same_but_for_the_link(&before, &of_instance);

    let create = layer.of_instance(instance, c"vkCreateDevice");
    // SAFETY: the command has this signature.
    let create = unsafe { transmute::<VoidFunction, CreateDevice>(create.expect("a hook")) };
    let of_device = chain(48, &link);
    let before = of_device.clone();
    let given = padded(info(&of_device));
    let mut device = ptr::null_mut();
    // SAFETY: as the loader calls a layer; the instance stands for its physical device.
    let result = unsafe { create(instance, (&raw const given).cast(), NONE, &raw mut device) };
    assert_eq!((result, last_info()), (0, (&raw const given).addr()));
    assert_eq!(given, padded(info(&of_device)));
    same_but_for_the_link(&before, &of_device);

    // A layer above creates devices through the loader's function: another chain, and the same hook.
    let mut other = LinkInfo::new(48, &link);
    let given = CreateInfo::new(&mut other);
    let mut second = ptr::null_mut();
    // SAFETY: as the loader calls a layer; the instance stands for its physical device.
    let result = unsafe { create(instance, (&raw const given).cast(), NONE, &raw mut second) };
    assert_eq!((result, last_info()), (0, (&raw const given).addr()));
    layer.destroy_device(second, NONE);

    for name in [c"vkCreateBuffer", c"vkAllocateMemory"] {
        let create = layer.of_device(device, name).expect("a hook");
        // SAFETY: the command has this signature.
        let create = unsafe { transmute::<VoidFunction, CreateBuffer>(create) };
        let all = chain(48, &link);
        let before = all.clone();
        let mut given = info(&all);
        given.words = [4096, 0, 1, 2];
        let mut object = 0;
        // SAFETY: a live device, and structs that are valid.
        let result = unsafe { create(device, (&raw const given).cast(), NONE, &raw mut object) };
        assert_eq!((result, last_info()), (0, (&raw const given).addr()));
        assert_eq!((given.words, given.p_next), ([4096, 0, 1, 2], all.as_ptr().cast()));
        assert_eq!(all, before, "{name:?}");
        let destroy = if name == c"vkCreateBuffer" { c"vkDestroyBuffer" } else { c"vkFreeMemory" };
        let destroy = layer.of_device(device, destroy).expect("a hook");
        crate::driver::destroy_object(destroy, device, object, NONE);
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
}
