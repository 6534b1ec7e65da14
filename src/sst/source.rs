//! Where a table's bytes come from.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

/// Bytes that can be read at any offset, by many threads at once.
///
/// Implemented for files and for [`Bytes`]; an engine implements it for its own environment (a
/// cached file, an object store) and passes it to [`Table::open_source`](super::Table::open_source). The
/// bytes must not change while a table is open on them.
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
#[expect(clippy::len_without_is_empty, reason = "a length in bytes that can fail; nothing asks for emptiness")]
pub trait RandomAccess: Send + Sync {
    /// All bytes there are.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn len(&self) -> io::Result<u64>;

    /// Fills `buf` from byte `offset` on.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] when there are fewer bytes; otherwise what the system says.
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
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl RandomAccess for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.as_ref().len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let found = self.as_ref().get(start..).and_then(|rest| rest.get(..buf.len()));
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn check(source: &impl RandomAccess) {
        assert_eq!(source.len().unwrap(), 5);
        let mut three = [0; 3];
        source.read_exact_at(&mut three, 2).unwrap();
        assert_eq!(&three, b"cde");
        source.read_exact_at(&mut [], 5).unwrap();
        for offset in [3, 5, 6, u64::MAX] {
            let error = source.read_exact_at(&mut three, offset).unwrap_err();
            assert!(matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput), "{offset}");
        }
    }

    #[test]
    fn files_bytes_and_pointers_to_them_read_alike() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abcde").unwrap();
        check(&file);
        let bytes = Bytes::from_static(b"abcde");
        check(&bytes);
        check(&Arc::new(bytes.clone()));
        check(&(Box::new(bytes) as Box<dyn RandomAccess>));
    }
}
