//! Shared test machinery.
