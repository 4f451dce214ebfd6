//! Recorders whose application, memory or sink calls back.

use super::*;

#[test]
fn a_recorder_that_is_closed_or_dropped_as_the_application_reenters_stays() {
    for closes in [true, false] {
        let bridge = bare();
        let behind = bridge.as_ref().raw();
        let slot = RefCell::new(Some(Recorder::new(&HOST).expect("memory")));
        // SAFETY: the bridge stays as long as the tap is used.
        let tap = unsafe { slot.borrow().as_ref().expect("there").tap(1, application(&behind)) }.expect("memory");
        let driver = Driver(*tap.raw());
        let came_back = Cell::new(false);
        let hook = |request| {
            let Some(recorder) = is_request(request).then(|| slot.take()).flatten() else {
                return;
            };
            if let Err(in_use) = if closes {
                recorder.close()
            } else {
                drop(recorder);
                Ok(())
            } {
                came_back.set(true);
                slot.replace(Some(in_use.value));
            }
        };
        let block = with_hook(1, &hook, || driver.alloc(100, 8, Scope::Object));
        driver.free(block);
        assert_eq!(came_back.get(), closes);
        if closes {
            let recorder = slot.take().expect("it came back");
            let mut trace = String::new();
            assert_eq!(recorder.write("d", &mut trace).expect("memory").events, 2, "{trace}");
            recorder.close().map_err(|in_use| in_use.error).expect("nothing is live, and no callback runs");
        }
    }
}

/// Writes nothing, and has each piece recorded.
struct Recording<'r>(&'r Recorder<'static>, usize);

impl fmt::Write for Recording<'_> {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        self.0.phase("while it is written");
        self.1 += 1;
        if self.1 > 10_000 { Err(fmt::Error) } else { Ok(()) }
    }
}

#[test]
fn a_sink_that_reenters_the_recorder_is_given_what_was_there_before() {
    let recorder = Recorder::new(&HOST).expect("memory");
    (1..=3).for_each(|owner| recorder.owner(owner, 0, "VkBuffer"));
    let written = recorder.write("d", &mut Recording(&recorder, 0)).expect("the trace has an end");
    assert_eq!((written.events, written.lost), (3, 0));
    assert!(recorder.write("d", &mut String::new()).expect("memory").events > 3, "the rest is in the next trace");
}
