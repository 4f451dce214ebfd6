//! The table of commands.

use alloc_core::Scope;
use testkit::{Sink, Stage};
use vk_callbacks::CommandRow;
use vk_callbacks::commands::{AllocatorSource, ScopeMask};

use super::{Ground, Operation, nothing};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![nothing(
        &[
            "CommandRow::all",
            "CommandRow::creates",
            "CommandRow::destroys",
            "CommandRow::has_allocator_parameter",
            "CommandRow::is_of_cache",
            "CommandRow::index_of",
            "CommandRow::of",
            "CommandRow::source",
            "ScopeMask::contains",
            "ScopeMask::with",
        ],
        "the table is constant",
        looked_up::<S>,
    )]
}

fn looked_up<S: Stage>(stage: &S, _: &Ground<'_>) {
    stage.attempt_plainly(|| {
        for row in CommandRow::all() {
            assert_eq!(CommandRow::of(row.name), row);
            assert!(CommandRow::index_of(row.name).is_some());
            assert!(row.has_allocator_parameter() || !(row.creates() || row.destroys()));
            assert!(!(row.creates() && row.destroys()) && Sink::debug(row) > 0);
        }
        let cache = CommandRow::of("vkMergePipelineCaches");
        assert!(cache.is_of_cache() && cache.source(Scope::Object) == AllocatorSource::Cache);
        assert!(ScopeMask::NONE.with(Scope::Cache).contains(Scope::Cache));
    });
}
