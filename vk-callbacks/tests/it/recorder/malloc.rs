//! What an application was told, and a driver that churns its memory.

use super::*;

/// Allocations and reallocations, their bytes, frees, and the live bytes, as the application counts them.
pub(crate) fn told(app: &App) -> (u64, u64, u64, u64) {
    let (mut calls, mut bytes, mut frees) = (0, 0, 0);
    for call in app.calls() {
        match call {
            Call::Alloc { size, .. } | Call::Realloc { size, .. } => {
                calls += 1;
                bytes += size as u64;
            }
            Call::Free | Call::FreeNull => frees += 1,
            Call::Internal { .. } => {}
        }
    }
    (calls, bytes, frees, app.heap.live_bytes())
}

/// Addresses of real blocks go over the C boundary with their provenance here.
pub(crate) fn churn(driver: ModelDriver, seed: u64, steps: u32, swap: &Mutex<Vec<usize>>) {
    let (raw, user_data) = driver.raw();
    let at = |address: usize| ptr::with_exposed_provenance_mut::<c_void>(address);
    let mut random = seed;
    for _ in 0..steps {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (choice, size) = ((random >> 60) as u32, 1 + (random >> 33) as usize % 300);
        let mine = if choice < 8 { None } else { swap.lock().expect("no panic").pop() };
        match mine {
            // SAFETY: a block of some thread that no other thread uses.
            Some(block) if choice < 11 => unsafe { raw.pfn_free.expect("set")(user_data, at(block)) },
            other => {
                let block = match other {
                    // SAFETY: a block of some thread that no other thread uses.
                    Some(old) => unsafe { raw.pfn_reallocation.expect("set")(user_data, at(old), size + 1, 8, 1) },
                    // SAFETY: the recorder and what is behind it are there.
                    None => unsafe { raw.pfn_allocation.expect("set")(user_data, size, 8, 1) },
                };
                swap.lock().expect("no panic").push(block.expose_provenance());
            }
        }
    }
}

pub(crate) fn drain(driver: ModelDriver, swap: &Mutex<Vec<usize>>) {
    let (raw, user_data) = driver.raw();
    for block in swap.lock().expect("no panic").drain(..) {
        // SAFETY: a live block that no other thread uses.
        unsafe { raw.pfn_free.expect("set")(user_data, ptr::with_exposed_provenance_mut(block)) };
    }
}
