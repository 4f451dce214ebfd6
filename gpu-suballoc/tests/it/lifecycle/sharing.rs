//! What outlives its context. That contexts of a device share is in `lifecycle_model`.

use super::*;

#[test]
fn hw26_a_kernel_that_outlives_its_context_goes_with_the_callbacks_it_was_made_with() {
    let host = SceneHost::new();
    application!(memory, driver, home);
    let context = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap();
    let held = kernel(&context, 1).into_work_ref();
    assert_eq!(context.release_forced().released.held, 1);
    assert!(host.live() > 0);
    thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!((host.live(), driver.live(), memory.bytes()[1]), (0, 0, 0));
}
