#![forbid(unsafe_code)]

use fxprof_processed_profile::{
    CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle,
};
use vk_report::report::origins::CommandSpan;
use vk_report::report::{Phase, one_line};

pub(super) trait Schema {
    const TYPE: &'static str;
    const DESCRIPTION: &'static str;
    const TABLE: &'static str;
    const FIGURES: &'static [StaticSchemaMarkerField];
}

#[derive(Clone, Copy, Debug)]
pub(super) enum VulkanCommand {}

#[derive(Clone, Copy, Debug)]
pub(super) enum PhaseOfRun {}

/// A name, and the figures of its schema, in that order.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanMarker<S> {
    name: StringHandle,
    figures: [f64; 4],
    schema: std::marker::PhantomData<S>,
}

impl SpanMarker<VulkanCommand> {
    pub(super) fn command(profile: &mut Profile, command: &CommandSpan) -> Self {
        Self::new(profile, &command.name, [command.blocks, command.bytes, 0, 0])
    }
}

impl SpanMarker<PhaseOfRun> {
    pub(super) fn phase(profile: &mut Profile, phase: &Phase) -> Self {
        let figures = [phase.commands, phase.blocks, phase.live_bytes, phase.peak_bytes];
        Self::new(profile, &phase.name, figures)
    }
}

impl<S> SpanMarker<S> {
    fn new(profile: &mut Profile, name: &str, figures: [u64; 4]) -> Self {
        Self {
            name: profile.intern_string(&one_line(name)),
            figures: figures.map(|figure| figure as f64),
            schema: std::marker::PhantomData,
        }
    }
}

const fn field(key: &'static str, label: &'static str, format: MarkerFieldFormat) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField { key, label, format, flags: MarkerFieldFlags::empty() }
}

impl Schema for VulkanCommand {
    const TYPE: &'static str = "VulkanCommand";
    const DESCRIPTION: &'static str = "A Vulkan command, from its call to its return";
    const TABLE: &'static str = "{marker.data.blocks} blocks, {marker.data.bytes}";
    const FIGURES: &'static [StaticSchemaMarkerField] = &[
        field("blocks", "Blocks allocated", MarkerFieldFormat::Integer),
        field("bytes", "Bytes allocated", MarkerFieldFormat::Bytes),
    ];
}

impl Schema for PhaseOfRun {
    const TYPE: &'static str = "Phase";
    const DESCRIPTION: &'static str = "A phase of the run";
    const TABLE: &'static str = "{marker.data.live} live at its end, peak {marker.data.peak}";
    const FIGURES: &'static [StaticSchemaMarkerField] = &[
        field("commands", "Commands", MarkerFieldFormat::Integer),
        field("blocks", "Blocks allocated", MarkerFieldFormat::Integer),
        field("live", "Live bytes at its end", MarkerFieldFormat::Bytes),
        field("peak", "Most bytes live", MarkerFieldFormat::Bytes),
    ];
}

impl<S: Schema + 'static> StaticSchemaMarker for SpanMarker<S> {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = S::TYPE;
    const DESCRIPTION: Option<&'static str> = Some(S::DESCRIPTION);
    // Also in the overview, where the track would be empty otherwise.
    const LOCATIONS: MarkerLocations =
        MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE).union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some(S::TABLE);
    const FIELDS: &'static [StaticSchemaMarkerField] = S::FIGURES;

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
        let field = usize::try_from(field).unwrap_or(usize::MAX);
        self.figures.get(field).copied().unwrap_or(f64::NAN)
    }
}
