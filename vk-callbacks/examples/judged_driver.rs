//! An application, a driver and a checker between them, in one program: `cargo run -p vk-callbacks --example
//! judged_driver`.
//!
//! ```text
//!  driver -> Checker -> Bridge -> Context "device" -> Context "application" -> system
//! ```

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope, TryString};
use ash::vk::{self, Handle as _};
use vk_callbacks::check::CheckedOwner;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{Bridge, CallbackAllocator, CheckOptions, Checker, Command, FallbackChain, Object, Owners};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Every command below runs in a bracket, as declared here and with each command: suspects become violations.
    let complete = BracketCoverage::Complete;
    let options = CheckOptions { coverage: complete, ..CheckOptions::default() };

    let application = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
    let device = application.child("device")?;
    // The device's context owns values of the application, which are dropped with it.
    let name = device.own(TryString::try_from_str_in("the first device", application.handle())?)?;

    // One context is the allocator of the checker, and the source of the list of findings.
    let records = application.child("records")?;
    let checker = Checker::new(&records, options)?;
    let bridge = Bridge::new(device.child("callbacks")?)?;
    // SAFETY: the bridge is closed after the checker.
    let checked = unsafe { checker.wrap(bridge.raw(), CheckedOwner::new(bridge.owner(), "VkDevice")) }?;
    let owners = Owners { device: Some(bridge.owner()), ..Owners::default() };

    // The driver's side, which has only the callbacks.
    // SAFETY: they stay valid until the checker is closed.
    let given = unsafe { CallbackAllocator::from_raw(checked.raw()) }?;
    let chain = FallbackChain::new(&SYSTEM).device(Some(&given));
    let buffer = checker.run(Command::new("vkCreateBuffer", owners, complete), |frame| {
        let buffer = Object::create(&chain, [0_u8; 64]);
        frame
            .returned(if buffer.is_ok() { vk::Result::SUCCESS } else { vk::Result::ERROR_OUT_OF_HOST_MEMORY }.as_raw());
        buffer
    })?;
    checker.created("VkBuffer", vk::Buffer::from_raw(1).as_raw(), None);
    println!("{} owns {} bytes\n", *device.get(name)?, bridge.live().scope(Scope::Object).bytes);
    println!("{}\n", application.snapshot()?);

    // Callbacks may come during a command only (V22), and this driver frees outside of any.
    // SAFETY: the chain of its creation.
    unsafe { buffer.destroy(&chain) }?;
    checker.destroyed("VkBuffer", 1, None, "vkDestroyBuffer");
    checker.finish();
    for found in checker.findings(&records)?.iter() {
        println!("{}: {found}", found.level());
    }
    assert_eq!(checker.findings(&records)?.len(), 1);

    checker.close().map_err(|in_use| in_use.to_string())?; // Err, with the checker, while a block is live
    bridge.close()?;
    Ok(())
}
