//! What stands on the time axis: commands and phases, with their figures.

#![forbid(unsafe_code)]

use fxprof_processed_profile::{
    CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, Profile, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle,
};
use vk_accounts::report::origins::CommandSpan;
use vk_accounts::report::{Phase, one_line};

/// A Vulkan command, with what was allocated in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandMarker {
    name: StringHandle,
    figures: [f64; 2],
}

/// A phase of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseMarker {
    name: StringHandle,
    figures: [f64; 4],
}

impl CommandMarker {
    pub(super) fn new(profile: &mut Profile, command: &CommandSpan) -> Self {
        Self {
            name: profile.intern_string(&one_line(&command.name)),
            figures: [command.blocks, command.bytes].map(|figure| figure as f64),
        }
    }
}

impl PhaseMarker {
    pub(super) fn new(profile: &mut Profile, phase: &Phase) -> Self {
        let figures = [
            phase.commands,
            phase.blocks,
            phase.live_bytes,
            phase.peak_bytes,
        ];
        Self {
            name: profile.intern_string(&one_line(&phase.name)),
            figures: figures.map(|figure| figure as f64),
        }
    }
}

const fn field(
    key: &'static str,
    label: &'static str,
    format: MarkerFieldFormat,
) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField {
        key,
        label,
        format,
        flags: MarkerFieldFlags::empty(),
    }
}

impl StaticSchemaMarker for CommandMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "VulkanCommand";
    const DESCRIPTION: Option<&'static str> = Some("A Vulkan command, from its call to its return");
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> =
        Some("{marker.data.blocks} blocks, {marker.data.bytes}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        field("blocks", "Blocks allocated", MarkerFieldFormat::Integer),
        field("bytes", "Bytes allocated", MarkerFieldFormat::Bytes),
    ];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.name
    }

    fn number_field_value(&self, field: u32) -> f64 {
        figure(&self.figures, field)
    }
}

impl StaticSchemaMarker for PhaseMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Phase";
    const DESCRIPTION: Option<&'static str> = Some("A phase of the run");
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> =
        Some("{marker.data.live} live at its end, peak {marker.data.peak}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        field("commands", "Commands", MarkerFieldFormat::Integer),
        field("blocks", "Blocks allocated", MarkerFieldFormat::Integer),
        field("live", "Live bytes at its end", MarkerFieldFormat::Bytes),
        field("peak", "Most bytes live", MarkerFieldFormat::Bytes),
    ];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.name
    }

    fn number_field_value(&self, field: u32) -> f64 {
        figure(&self.figures, field)
    }
}

/// Fields are numbered in the order of the schema.
fn figure(figures: &[f64], field: u32) -> f64 {
    let field = usize::try_from(field).unwrap_or(usize::MAX);
    figures.get(field).copied().unwrap_or(f64::NAN)
}
