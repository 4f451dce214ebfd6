//! The driver without a loader: its commands by name, its objects, and its reader of shaders. Whole programs on it, and
//! the loader, are in `steward/tests`.

mod application;
mod commands;
mod device;
mod drawing;
mod kinds;
mod recording;
mod shader_reader;
mod shaders;
mod template;
mod waiting;
