//! Each row of the table of commands has the generic function of its signature, with the row's index built in.

use vk_callbacks::commands::CommandSignature;

use super::{deferred, generic, instance_device};
use crate::chain::VoidFunction;
use crate::commands::{ROWS, known_row, row};

const PLACES: usize = 512;
const _: () = assert!(ROWS <= PLACES);

pub(super) fn hook(index: usize) -> Option<VoidFunction> {
    HOOKS.get(index).copied().flatten()
}

macro_rules! void {
    ($function:expr) => {{
        let function = $function as *const ();
        // SAFETY: a function's address; its caller casts it.
        Some(unsafe { std::mem::transmute::<*const (), VoidFunction>(function) })
    }};
}

const fn hook_at<const ROW: usize>() -> Option<VoidFunction> {
    use CommandSignature as Sig;
    if ROW >= ROWS {
        return None;
    }
    let Some(signature) = row(ROW).signature else {
        return None;
    };
    match signature {
        Sig::CreateInstance => void!(instance_device::create_instance),
        Sig::Create if ROW == known_row("vkCreateDevice") => void!(instance_device::create_device),
        Sig::Create => void!(generic::create::<ROW>),
        Sig::CreateWithoutInfo => void!(generic::create_without_info::<ROW>),
        Sig::CreateForDisplay => void!(generic::create_for_display::<ROW>),
        Sig::CreateMany => void!(generic::create_many::<ROW>),
        Sig::CreateList => void!(generic::create_list::<ROW>),
        Sig::CreatePipelines => void!(generic::create_pipelines::<ROW>),
        Sig::CreateDeferredPipelines => void!(deferred::create_pipelines::<ROW>),
        Sig::Destroy => void!(generic::destroy::<ROW>),
        Sig::Release => void!(generic::release::<ROW>),
        Sig::DestroyParent => void!(instance_device::destroy_parent::<ROW>),
    }
}

static HOOKS: [Option<VoidFunction>; PLACES] = hooks!(
    hook_at:
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);
