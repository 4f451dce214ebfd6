#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Where the requests came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", try_from = "Fields")]
pub enum Source {
    /// A driver that ran the workload.
    Driver {
        /// The driver's name.
        name: String,
        /// The driver's description of its version.
        version: String,
        /// The device's name.
        device: String,
        /// The seed of the workload.
        seed: u32,
        /// Rounds that ran.
        rounds: u32,
        /// Commands called.
        commands: u64,
        /// Values that were read back and compared.
        comparisons: u64,
        /// Kinds of created objects, with their numbers.
        objects: Vec<(String, u32)>,
    },
    /// A recorded trace.
    Trace {
        /// The file, or the name of a bundled one.
        file: String,
        /// The driver that was recorded.
        driver: String,
        /// The reason why no driver ran, if the program searched for a driver.
        no_driver: Option<String>,
        /// Lines read.
        lines: u64,
    },
    /// A program that ran with the Vulkan layer.
    Program {
        /// The name of its executable.
        executable: String,
        /// Its arguments, with the layer's setting `arguments`.
        arguments: Option<Vec<String>>,
        /// The number of the process.
        process: u32,
        /// Commands that the layer hooked.
        commands: u64,
        /// The file of the Vulkan loader.
        #[serde(default)]
        loader: Option<String>,
        /// The other layers that the program or `VK_INSTANCE_LAYERS` names, whether the loader found them or not.
        #[serde(default)]
        layers: Vec<String>,
        /// The files of the layers between Steward's and the driver, the next one first: what they create counts as the
        /// driver's.
        #[serde(default)]
        layers_below: Vec<String>,
        /// Each device that it created, with its driver's version.
        #[serde(default)]
        devices: Vec<String>,
        /// The drivers of these devices, with their versions, as `steward drivers` shows them; empty if nothing was to
        /// be compared with what is known of them.
        #[serde(default)]
        drivers: Vec<String>,
    },
}

/// The flat form from which [`Source`] is deserialized, so that an error names the field. Fields of the other kinds
/// stay empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    kind: String,
    name: Option<String>,
    version: Option<String>,
    device: Option<String>,
    seed: Option<u32>,
    rounds: Option<u32>,
    commands: Option<u64>,
    comparisons: Option<u64>,
    objects: Option<Vec<(String, u32)>>,
    file: Option<String>,
    driver: Option<String>,
    no_driver: Option<String>,
    lines: Option<u64>,
    executable: Option<String>,
    arguments: Option<Vec<String>>,
    process: Option<u32>,
    loader: Option<String>,
    layers: Option<Vec<String>>,
    layers_below: Option<Vec<String>>,
    devices: Option<Vec<String>>,
    drivers: Option<Vec<String>>,
}

impl TryFrom<Fields> for Source {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        match fields.kind.as_str() {
            "driver" => Ok(Self::Driver {
                name: there(fields.name, "name")?,
                version: there(fields.version, "version")?,
                device: there(fields.device, "device")?,
                seed: there(fields.seed, "seed")?,
                rounds: there(fields.rounds, "rounds")?,
                commands: there(fields.commands, "commands")?,
                comparisons: there(fields.comparisons, "comparisons")?,
                objects: there(fields.objects, "objects")?,
            }),
            "trace" => Ok(Self::Trace {
                file: there(fields.file, "file")?,
                driver: there(fields.driver, "driver")?,
                no_driver: fields.no_driver,
                lines: there(fields.lines, "lines")?,
            }),
            "program" => Ok(Self::Program {
                executable: there(fields.executable, "executable")?,
                arguments: fields.arguments,
                process: there(fields.process, "process")?,
                commands: there(fields.commands, "commands")?,
                loader: fields.loader,
                layers: fields.layers.unwrap_or_default(),
                layers_below: fields.layers_below.unwrap_or_default(),
                devices: fields.devices.unwrap_or_default(),
                drivers: fields.drivers.unwrap_or_default(),
            }),
            other => Err(format!("unknown kind {other:?}, expected \"driver\", \"trace\" or \"program\"")),
        }
    }
}

impl Source {
    /// Says whether the bytes of contexts and phases are charged or, in a trace, requested.
    #[must_use]
    pub const fn bytes_note(&self) -> &'static str {
        match self {
            Self::Trace { .. } => "requested bytes; a run of “drive” is charged 16 more for each block, its header",
            Self::Program { .. } => "charged bytes, also in leftovers: requested, and a header of 16 for each block",
            Self::Driver { .. } => {
                "charged bytes, here and in phases: requested, and a header of 16 for each block; leftovers: requested"
            }
        }
    }
}

fn there<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("missing field `{name}`"))
}
