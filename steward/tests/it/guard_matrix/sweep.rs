//! GV25: every request of a whole program fails once.

use debug_guard::{FailingAllocator, Fault};
use fake_driver::FakeProgram;
use vk_callbacks::VK_ERROR_OUT_OF_HOST_MEMORY;
use vk_callbacks::check::RuleLevel;

use super::application::Application;
use super::checking::run_checked;
use super::common::{Lab, On, each, note};

const PROGRAM: FakeProgram = FakeProgram { defect: None, rounds: 1, habits: false };

#[test]
fn gv25_out_of_host_memory_at_every_request() {
    fn case(lab: &Lab) {
        let failing = FailingAllocator::new(&lab.guard, Fault::Never);
        let application = Application::new(&failing, "fake application");
        let before = (failing.live_bytes(), lab.guard.stats().live_blocks);
        let sound = |said: &[String]| said.iter().all(|said| said.starts_with(RuleLevel::Note.name()));
        failing.arm(Fault::Never);
        let (answer, found) = run_checked(&application, PROGRAM, |stage| PROGRAM.run(stage));
        assert!(answer.is_ok() && sound(&found), "{found:?}");
        let requests = failing.requests();
        note("requests", requests as usize);
        let mut refused = 0;
        for n in 0..requests {
            failing.arm(Fault::Nth(n));
            let (answer, found) = run_checked(&application, PROGRAM, |stage| PROGRAM.run(stage));
            assert!(answer == Ok(()) || answer == Err(VK_ERROR_OUT_OF_HOST_MEMORY), "{n}: {answer:?}");
            refused += usize::from(answer.is_err());
            assert!(sound(&found), "{n}: {found:?}");
            failing.disarm();
            assert_eq!((failing.live_bytes(), lab.guard.stats().live_blocks), before, "{n}: what was taken came back");
            assert_eq!(lab.guard.stats().reports, 0, "{n}");
        }
        note("refused", refused);
        assert_eq!(lab.guard.check_all(), 0);
        application.close();
    }
    each(On::FENCE_RIGHT.and(On::STRICT_RIGHT).and(On::COOKIE), case, |seen| {
        let requests = seen.note("requests");
        seen.quiet(requests);
        assert!(requests > 100 && seen.note("refused") > requests / 2, "{requests} {}", seen.note("refused"));
    });
}
