//! What the program has from the system: its input, signals, memory, a terminal.

pub(crate) mod input;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod progress;
pub(crate) mod secret;
