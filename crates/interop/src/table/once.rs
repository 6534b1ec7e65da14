//! Values that are read from the file once and then kept.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::Error;

/// A value that is loaded on first use, by one thread at a time.
///
/// The result is kept, also an error about the bytes, because the same bytes would fail again. A failed read is not
/// kept.
#[derive(Debug)]
pub(crate) struct LoadOnce<T> {
    loaded: OnceLock<Result<T, Error>>,
    loading: Mutex<()>,
}

impl<T> Default for LoadOnce<T> {
    fn default() -> Self {
        Self { loaded: OnceLock::new(), loading: Mutex::new(()) }
    }
}

impl<T> LoadOnce<T> {
    pub(crate) fn get_or_load(&self, load: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
        if let Some(kept) = self.loaded.get() {
            return kept.as_ref().map_err(Clone::clone);
        }
        // The lock guards no data, so a panic in another thread leaves nothing inconsistent.
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.loaded.get() {
            return kept.as_ref().map_err(Clone::clone);
        }
        match load() {
            // A read error may pass, so the next probe tries again.
            Err(error @ Error::Io { .. }) => Err(error),
            result => self.loaded.get_or_init(|| result).as_ref().map_err(Clone::clone),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::LoadOnce;
    use crate::error::{Error, Part};

    #[test]
    fn a_failed_read_is_tried_again_and_a_damaged_part_is_not() {
        let once = LoadOnce::default();
        let io = Error::Io { part: Part::Filter, kind: ErrorKind::TimedOut, message: "later".into() };
        assert_eq!(once.get_or_load(|| Err(io.clone())), Err(io));
        assert_eq!(once.get_or_load(|| Err::<u8, _>(Error::NoFilter)), Err(Error::NoFilter));
        assert_eq!(once.get_or_load(|| Ok(1)), Err(Error::NoFilter));
    }
}
