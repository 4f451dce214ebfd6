//! Reading and writing traces.

use testkit::{Sink, Stage};
use vk_callbacks::bridge::Callback;
use vk_callbacks::trace::TraceWriter;
use vk_callbacks::{CallbackError, TraceReader};

use super::{Ground, Operation, nothing};

const TEXT: &str = "# steward host trace 2\n# driver: example\na,1,0,1,100,8,1\na,1,0,2,200,8,1\nf,1,0,1\nz,5\n";

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        nothing(
            &[
                "TraceReader::new",
                "TraceReader::from_bytes",
                "TraceReader::driver",
                "TraceWriter::new",
                "TraceWriter::event",
                "TraceWriter::finish",
            ],
            "events borrow from the text, and are written straight into the sink",
            there_and_back::<S>,
        ),
        nothing(&["CallbackError::vk_result"], "values on the stack", errors::<S>),
    ]
}

fn there_and_back<S: Stage>(stage: &S, _: &Ground<'_>) {
    stage.attempt_plainly(|| {
        let reader = TraceReader::from_bytes(TEXT.as_bytes()).expect("a trace");
        assert_eq!(reader.driver(), "example");
        let mut sink = Sink::default();
        let mut writer = TraceWriter::new(&mut sink, reader.driver()).expect("the sink takes all");
        for item in TraceReader::new(TEXT).expect("a trace") {
            writer.event(&item.expect("a line").1).expect("the sink takes all");
        }
        assert_eq!(writer.finish(), Ok(6));
        assert_eq!(sink.bytes, TEXT.len());
        assert!(TraceReader::new("no trace").is_err_and(|error| Sink::debug(error) > 0));
    });
}

fn errors<S: Stage>(stage: &S, _: &Ground<'_>) {
    stage.attempt_plainly(|| {
        let error = CallbackError::MissingFunction(Callback::Free);
        assert!(error.vk_result() < 0);
        let mut sink = Sink::default();
        std::fmt::write(&mut sink, format_args!("{error} {error:?}")).expect("the sink takes all");
        assert!(sink.bytes > 0);
    });
}
