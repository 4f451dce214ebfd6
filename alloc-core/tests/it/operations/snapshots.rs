//! `Snapshot`.

use alloc_core::support::Json;
use alloc_core::{Budget, ContextOptions, Scope, Snapshot};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(
            &["Snapshot::capture"],
            "of a tree with labels, into the tree itself",
            take::<S>,
        ),
        takes(
            &["ContextHandle::snapshot"],
            "of a tree into itself",
            take_own::<S>,
        ),
        nothing(
            &[
                "Snapshot::label",
                "Snapshot::nodes",
                "Snapshot::subtree",
                "Snapshot::total",
                "Snapshot::write_json",
            ],
            "reads the copy and writes into a sink",
            read::<S>,
        ),
        nothing(
            &[
                "Json::list",
                "Json::list_at",
                "Json::new",
                "Json::object",
                "Json::object_at",
                "Json::plain",
                "Json::plain_or_null",
                "Json::string",
                "Json::string_or_null",
                "Json::text",
            ],
            "writes into a sink",
            json::<S>,
        ),
    ]
}

fn take<S: Stage>(stage: &S, ground: &Ground) {
    let labelled = ContextOptions::new("labelled")
        .label("label")
        .scope(Scope::Command);
    let labelled = ground
        .context()
        .child_with(labelled)
        .expect("refused nothing");
    let budgeted = labelled
        .child_with(ContextOptions::new("budgeted").budget(Budget::exact(1000)))
        .expect("refused nothing");
    let snapshot = stage.attempt(
        || ground.picture(),
        || Snapshot::capture(&labelled, ground.context().handle()),
    );
    assert_eq!(snapshot.nodes().len(), 2);
    drop((snapshot, budgeted, labelled));
}

fn take_own<S: Stage>(stage: &S, ground: &Ground) {
    let labelled = ContextOptions::new("labelled").label("label");
    let labelled = ground
        .context()
        .child_with(labelled)
        .expect("refused nothing");
    let snapshot = stage.attempt(|| ground.picture(), || ground.context().snapshot());
    assert_eq!(snapshot.label(&snapshot.nodes()[1]), Some("label"));
    drop((snapshot, labelled));
}

fn read<S: Stage>(stage: &S, ground: &Ground) {
    let child = ground
        .context()
        .child_with(ContextOptions::new("a \"name\"").label("label"))
        .expect("refused nothing");
    let snapshot = Snapshot::capture(ground.context(), &child).expect("refused nothing");
    stage.attempt_plainly(|| {
        assert_eq!(
            (snapshot.nodes().len(), snapshot.label(&snapshot.nodes()[1])),
            (2, Some("label"))
        );
        assert_eq!(snapshot.subtree(0), snapshot.total());
        let mut sink = Sink::default();
        snapshot.write_json(&mut sink).expect("the sink takes all");
        std::fmt::write(&mut sink, format_args!("{snapshot}")).expect("the sink takes all");
        assert!(sink.bytes > 100 && Sink::debug(&snapshot) > 0);
    });
}

fn json<S: Stage>(stage: &S, _: &Ground) {
    stage.attempt_plainly(|| {
        let mut sink = Sink::default();
        let written = Json::new(&mut sink).list(|json| {
            json.text("text")?;
            json.object(|json| {
                json.plain("number", 1)?;
                json.plain_or_null("none", None::<u8>)?;
                json.string("string", "text")?;
                json.string_or_null("some", Some("text"))?;
                json.list_at("list", |_| Ok(()))?;
                json.object_at("object", |_| Ok(()))
            })
        });
        assert_eq!(written, Ok(()));
        assert!(sink.bytes > 50);
    });
}
