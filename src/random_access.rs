//! Sources of bytes that are read at any offset.

use alloc::boxed::Box;
use alloc::sync::Arc;
use std::fs::File;
use std::io;

use bytes::Bytes;

/// Bytes that many threads can read at any offset, such as those of a table.
///
/// Implemented for files and for [`Bytes`]. An engine implements it for its own environment (a cached file, an object
/// store). The bytes must not change while a table is open on them.
///
/// ```
/// use bytes::Bytes;
/// use sstfilter::RandomAccess;
///
/// let source = Bytes::from_static(b"0123456789");
/// let mut two = [0; 2];
/// source.read_exact_at(&mut two, 7)?;
/// assert_eq!((RandomAccess::len(&source)?, &two), (10, b"78"));
/// assert!(source.read_exact_at(&mut two, 9).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[expect(clippy::len_without_is_empty, reason = "a length in bytes that can fail; no caller needs emptiness")]
pub trait RandomAccess: Send + Sync {
    /// Returns the total number of bytes.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn len(&self) -> io::Result<u64>;

    /// Fills `buf` from byte `offset` on.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if there are fewer bytes; otherwise the system's error.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

impl RandomAccess for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buf, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            // Windows can read at an offset, but has no call that fills the buffer: `seek_read` may return fewer bytes.
            match std::os::windows::fs::FileExt::seek_read(self, buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buf = buf.get_mut(read..).unwrap_or_default();
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(not(any(unix, windows)))]
    fn read_exact_at(&self, _buf: &mut [u8], _offset: u64) -> io::Result<()> {
        // A seek would move the cursor that all threads share, so there is no portable fallback.
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl RandomAccess for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.as_ref().len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let found = self.get(start..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<T: RandomAccess + ?Sized> RandomAccess for Arc<T> {
    fn len(&self) -> io::Result<u64> {
        self.as_ref().len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_ref().read_exact_at(buf, offset)
    }
}

impl<T: RandomAccess + ?Sized> RandomAccess for Box<T> {
    fn len(&self) -> io::Result<u64> {
        self.as_ref().len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_ref().read_exact_at(buf, offset)
    }
}
