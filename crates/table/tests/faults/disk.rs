//! A disk in memory that loses data like a real one, and fails as planned.
//!
//! Written bytes are in a cache until they are synced, and names are in a journal until their directory is synced.
//! After a power cut, the cache is lost in whole or in part, and only the first entries of the journal have taken
//! effect. In particular, a rename may have taken effect before the file's data reached the disk. A failed sync drops
//! the bytes that it could not write, and the next one succeeds, as on Linux.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use sstfilter::{KeyHash, RandomAccess};
use sstfilter_table::{FileSystem, WritableFile};

/// One operation of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create,
    Write,
    Sync,
    Persist,
    SyncDirectory,
    Remove,
    Open,
    Length,
    Read,
}

/// A fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails with this system error; later operations succeed.
    Once(i32),
    /// It and all later operations, including the removal of files, fail with this error.
    Lasting(i32),
    /// Writes: half of the bytes are written, and then the disk is full.
    ShortWrite,
    /// Writes: nothing is written, and no error returned.
    WriteZero,
    /// Writes: a signal interrupts once.
    Interrupted,
    /// The power fails directly before it.
    PowerCut,
    /// Reads: the file is shorter than it was.
    EndOfFile,
    /// Reads: other bytes are returned than were written.
    WrongBytes,
    /// The length is wrong by this difference.
    WrongLength(i64),
}

pub(crate) const EIO: i32 = 5;
pub(crate) const ENOSPC: i32 = 28;

impl Fault {
    fn befalls(self, op: Op) -> bool {
        match self {
            Self::Once(_) | Self::Lasting(_) | Self::PowerCut => true,
            Self::ShortWrite | Self::WriteZero | Self::Interrupted => op == Op::Write,
            Self::EndOfFile | Self::WrongBytes => op == Op::Read,
            Self::WrongLength(_) => op == Op::Length,
        }
    }
}

/// What remains of unsynced data after a power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unsynced {
    Nothing,
    All,
    /// The first half.
    Prefix,
    /// The length, and zeros.
    Zeros,
    /// The length, and about half of the sectors of 512 bytes.
    TornSectors(u64),
}

const UNSYNCED: [Unsynced; 6] = [
    Unsynced::Nothing,
    Unsynced::All,
    Unsynced::Prefix,
    Unsynced::Zeros,
    Unsynced::TornSectors(1),
    Unsynced::TornSectors(2),
];

const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
struct Inode {
    /// The bytes as reads see them.
    cached: Vec<u8>,
    /// The bytes on the platter.
    durable: Vec<u8>,
    /// Offset of the first unsynced byte.
    unsynced_from: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Add(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

type Names = BTreeMap<PathBuf, usize>;

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    durable_names: Names,
    journal: Vec<Change>,
    trace: Vec<Op>,
    fault: Option<(usize, Fault)>,
    /// The operation that met with the fault.
    befallen: Option<Op>,
}

/// A handle on the disk; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// Returns a disk with durable files.
    pub(crate) fn with_files(files: &[(&str, &[u8])]) -> Self {
        let disk = Self::default();
        for (path, bytes) in files {
            let mut state = disk.state();
            state.inodes.push(Inode { cached: bytes.to_vec(), durable: bytes.to_vec(), unsynced_from: bytes.len() });
            let inode = state.inodes.len() - 1;
            state.names.insert(path.into(), inode);
            state.durable_names.insert(path.into(), inode);
        }
        disk
    }

    /// Plans `fault` for operation number `at`, counted from now.
    pub(crate) fn plan(&self, at: usize, fault: Fault) {
        let mut state = self.state();
        state.trace.clear();
        (state.fault, state.befallen) = (Some((at, fault)), None);
    }

    /// Cancels all faults, and counts operations from 0 again.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.trace.clear();
        (state.fault, state.befallen) = (None, None);
    }

    /// Returns the operation that met with the planned fault.
    pub(crate) fn befallen(&self) -> Option<Op> {
        self.state().befallen
    }

    pub(crate) fn names(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    /// Returns all states of the disk after a power cut.
    pub(crate) fn remounted(&self) -> Vec<Self> {
        let changes = 0..=self.state().journal.len();
        changes.flat_map(|changes| UNSYNCED.map(|unsynced| self.after_power_cut(changes, unsynced))).collect()
    }

    /// Returns the disk after a power cut, with the first `changes` of the journal in effect.
    pub(crate) fn after_power_cut(&self, changes: usize, unsynced: Unsynced) -> Self {
        let state = self.state();
        let mut names = state.durable_names.clone();
        state.journal.iter().take(changes).for_each(|change| apply(&mut names, change));
        let inodes = state.inodes.iter().map(|inode| inode.after_power_cut(unsynced)).collect();
        Self(Arc::new(Mutex::new(State { inodes, durable_names: names.clone(), names, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

/// What a run met with.
pub(crate) struct Met {
    /// The operation with the fault, if there was one.
    pub(crate) befallen: Option<Op>,
    /// The operations after it.
    pub(crate) then: Vec<Op>,
    pub(crate) story: String,
}

/// Runs `step` on fresh disks whose first operation fails, then the second, and so on, until a run ends before the
/// fault. Passes each disk without further faults, and the result, to `check`. Returns how many runs met the fault.
pub(crate) fn at_every_operation<T>(
    fault: Fault,
    fresh: impl Fn() -> Disk,
    step: impl Fn(&Disk) -> T,
    mut check: impl FnMut(&Disk, T, &Met),
) -> usize {
    let (mut at, mut points) = (0, 0);
    loop {
        let disk = fresh();
        disk.plan(at, fault);
        let result = step(&disk);
        let (befallen, trace) = (disk.befallen(), disk.state().trace.clone());
        let then = trace.get(at + 1..).unwrap_or_default().to_vec();
        disk.heal();
        check(&disk, result, &Met { befallen, then, story: format!("{fault:?} at {at}, {befallen:?}") });
        if at >= trace.len() {
            return points;
        }
        points += usize::from(befallen.is_some());
        at += 1;
    }
}

fn apply(names: &mut Names, change: &Change) {
    match change {
        Change::Add(path, inode) => drop(names.insert(path.clone(), *inode)),
        Change::Remove(path) => drop(names.remove(path)),
        Change::Rename(from, to) => {
            // The name may have been lost with an earlier directory entry.
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

impl Inode {
    fn after_power_cut(&self, unsynced: Unsynced) -> Self {
        let (from, to) = (self.unsynced_from, self.cached.len());
        let mut durable = self.durable.clone();
        let length = match unsynced {
            Unsynced::Nothing => from,
            Unsynced::Prefix => from + (to - from) / 2,
            Unsynced::All | Unsynced::Zeros | Unsynced::TornSectors(_) => to,
        };
        if length > from {
            durable.resize(length, 0);
            for (number, sector) in (0..).zip(self.cached[from..length].chunks(SECTOR)) {
                let is_written = match unsynced {
                    Unsynced::Zeros | Unsynced::Nothing => false,
                    Unsynced::All | Unsynced::Prefix => true,
                    Unsynced::TornSectors(seed) => KeyHash::mix(seed << 32 | number).get() & 1 == 0,
                };
                if is_written {
                    let start = from + usize::try_from(number).unwrap() * SECTOR;
                    durable[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        }
        Self { unsynced_from: durable.len(), cached: durable.clone(), durable }
    }
}

impl State {
    /// Counts an operation, and returns its fault.
    fn begin(&mut self, op: Op) -> io::Result<Option<Fault>> {
        let number = self.trace.len();
        self.trace.push(op);
        let Some((at, fault)) = self.fault else { return Ok(None) };
        if self.befallen.is_some() {
            return match fault {
                Fault::Lasting(code) => Err(io::Error::from_raw_os_error(code)),
                Fault::PowerCut => Err(io::Error::from_raw_os_error(EIO)),
                Fault::ShortWrite if op == Op::Write => Err(io::Error::from_raw_os_error(ENOSPC)),
                _ => Ok(None),
            };
        }
        if number != at || !fault.befalls(op) {
            return Ok(None);
        }
        self.befallen = Some(op);
        match fault {
            Fault::Once(code) | Fault::Lasting(code) => {
                self.drop_unsynced(op);
                Err(io::Error::from_raw_os_error(code))
            }
            Fault::PowerCut => Err(io::Error::from_raw_os_error(EIO)),
            Fault::Interrupted => Err(io::ErrorKind::Interrupted.into()),
            Fault::EndOfFile => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Some(fault)),
        }
    }

    /// Drops unsynced data: a failed sync marks it as written.
    fn drop_unsynced(&mut self, op: Op) {
        if op == Op::Sync {
            for inode in &mut self.inodes {
                inode.unsynced_from = inode.cached.len();
            }
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.journal.push(change);
    }

    fn inode_of(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl FileSystem for Disk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        let mut state = self.state();
        state.begin(Op::Open)?;
        let inode = state.inode_of(path)?;
        Ok(Box::new(OpenFile { disk: self.clone(), inode }))
    }

    fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>> {
        let mut state = self.state();
        state.begin(Op::Create)?;
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        let path = directory.join(format!("{inode}.tmp"));
        state.change(Change::Add(path.clone(), inode));
        Ok(Box::new(Pending { disk: self.clone(), inode, path: Some(path) }))
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin(Op::SyncDirectory)?;
        state.durable_names = state.names.clone();
        state.journal.clear();
        Ok(())
    }
}

/// A file with a temporary name, which is removed unless it is persisted.
#[derive(Debug)]
struct Pending {
    disk: Disk,
    inode: usize,
    path: Option<PathBuf>,
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let length = match state.begin(Op::Write)? {
            Some(Fault::ShortWrite) => bytes.len() / 2,
            Some(Fault::WriteZero) => 0,
            _ => bytes.len(),
        };
        state.inodes[self.inode].cached.extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WritableFile for Pending {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin(Op::Sync)?;
        let inode = &mut state.inodes[self.inode];
        let from = inode.unsynced_from;
        // Bytes that an earlier failed sync dropped read as zeros.
        inode.durable.resize(from, 0);
        inode.durable.extend_from_slice(&inode.cached[from..]);
        inode.unsynced_from = inode.cached.len();
        Ok(())
    }

    fn persist(mut self: Box<Self>, path: &Path) -> io::Result<()> {
        let disk = self.disk.clone();
        disk.state().begin(Op::Persist)?;
        if let Some(from) = self.path.take() {
            // Only in the journal until the directory is synced.
            disk.state().change(Change::Rename(from, path.to_owned()));
        }
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        let mut state = self.disk.state();
        // A removal that fails leaves the file, as on a real disk.
        if state.begin(Op::Remove).is_ok() {
            state.change(Change::Remove(path));
        }
    }
}

struct OpenFile {
    disk: Disk,
    inode: usize,
}

impl RandomAccess for OpenFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        let fault = state.begin(Op::Length)?;
        let length = state.inodes[self.inode].cached.len() as u64;
        Ok(if let Some(Fault::WrongLength(by)) = fault { length.saturating_add_signed(by) } else { length })
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.begin(Op::Read)?;
        let start = usize::try_from(offset).unwrap();
        let found = state.inodes[self.inode].cached.get(start..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        if fault == Some(Fault::WrongBytes) {
            let middle = buf.len() / 2;
            buf[middle] ^= 0x10;
        }
        Ok(())
    }
}
