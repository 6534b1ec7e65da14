//! Files: which ones a command is about, what they are, and how they are opened and replaced.

pub(crate) mod key_list;
pub(crate) mod replace;
