//! Ctrl-C and requests to end: a build that is told to end leaves the tables that it has completed, and nothing else.
//!
//! One thread waits for the signals. While files are being written it only sets a flag, which the writer looks at after
//! each entry: the writer then fails, and removes what it was at. Otherwise, such as while a pipe is read that never
//! ends, there is nothing to remove but new directories without files; the waiting thread does that and ends the
//! process.

use core::fmt;
use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use crate::output::note;

/// The number of the signal that asked for the end, 0 before.
static REQUESTED: AtomicI32 = AtomicI32::new(0);

/// Held while files are being written.
static WRITING: Mutex<()> = Mutex::new(());

/// Directories that this process made, the innermost first.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The number of a signal, after which a process has the exit code 128 + the number.
type SignalNumber = i32;

/// A build was told to end.
#[derive(Debug)]
pub struct Interrupted {
    signal: SignalNumber,
    /// What it leaves.
    remains: String,
}

impl Interrupted {
    /// The exit code that shells give to processes that a signal ended.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        exit_code(self.signal)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted; {}", self.remains)
    }
}

impl std::error::Error for Interrupted {}

fn exit_code(signal: SignalNumber) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Fails when the process was told to end, and says what `remains` of its work.
pub(crate) fn check(remains: impl FnOnce() -> String) -> Result<(), Interrupted> {
    match REQUESTED.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Interrupted { signal, remains: remains() }),
    }
}

/// Begins the writing of files: until the guard is dropped, only [`check`] ends it.
pub(crate) fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the writing of files before something that may take forever, and the process if it was told to end meanwhile.
pub(crate) fn pause(writing: MutexGuard<'static, ()>) {
    let made = made();
    drop(writing);
    let signal = REQUESTED.load(Ordering::Relaxed);
    if signal != 0 {
        end(&made, signal);
    }
}

/// Directories that this process made; those that stay without files go when this is dropped, or at an interruption.
#[derive(Debug, Default)]
pub(crate) struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// `directories` from the innermost to the outermost, each of which is empty but for the one before.
    pub(crate) fn new(directories: Vec<PathBuf>) -> Self {
        made().extend(directories.iter().cloned());
        Self(directories)
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        made().retain(|directory| !self.0.contains(directory));
        remove_empty(&self.0);
    }
}

fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_empty(directories: &[PathBuf]) {
    for directory in directories {
        // The system refuses to remove a directory that holds something: that is how full ones stay.
        let _ = fs::remove_dir(directory);
    }
}

/// From now on the process ends in order when it is told to. To be called before it has other threads.
pub fn end_in_order() {
    // Where signals cannot be waited for, they end the process as they always do.
    if let Some(next_signal) = platform::signals() {
        let wait = move || {
            while let Some(signal) = next_signal() {
                requested(signal);
            }
        };
        drop(thread::Builder::new().name("signals".to_owned()).spawn(wait));
    }
}

fn requested(signal: SignalNumber) {
    // Held by `pause`, too: either the writing is seen to be over here, or the flag is seen there.
    let made = made();
    let is_first = REQUESTED.swap(signal, Ordering::Relaxed) == 0;
    match WRITING.try_lock() {
        // The writer sees the flag. Whoever asks again does not want to wait for it.
        Err(TryLockError::WouldBlock) if is_first => {}
        // With the lock, nothing can begin to be written.
        _nothing_is_written => end(&made, signal),
    }
}

fn end(made: &[PathBuf], signal: SignalNumber) -> ! {
    remove_empty(made);
    note("interrupted");
    process::exit(exit_code(signal).into())
}

#[cfg(unix)]
mod platform {
    use std::fs;

    use nix::sys::signal::{SigSet, Signal};

    use super::SignalNumber;

    /// Blocks the signals that ask for the end, in this thread and in those that it starts, and gives the function that
    /// waits for the next one.
    pub(super) fn signals() -> Option<impl Fn() -> Option<SignalNumber>> {
        let mut signals = SigSet::empty();
        wanted().into_iter().for_each(|signal| signals.add(signal));
        signals.thread_block().ok()?;
        Some(move || signals.wait().ok().map(|signal| signal as SignalNumber))
    }

    /// All but those that the process was started to ignore, as `nohup` and shells that start a job in the background
    /// want it. Where that cannot be told, the end of a terminal may be one of these.
    fn wanted() -> Vec<Signal> {
        let ignored = fs::read_to_string("/proc/self/status").ok().and_then(|status| ignored(&status));
        let candidates: &[_] = match ignored {
            Some(_) => &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP],
            None => &[Signal::SIGINT, Signal::SIGTERM],
        };
        let is_ignored = |signal: Signal| ignored.unwrap_or(0) >> (signal as SignalNumber - 1) & 1 == 1;
        candidates.iter().copied().filter(|&signal| !is_ignored(signal)).collect()
    }

    /// The signals that a process ignores, as bits from 0 for signal 1 (`proc_pid_status(5)`).
    fn ignored(status: &str) -> Option<u64> {
        let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(digits.trim(), 16).ok()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn ignored_signals_are_the_bits_of_their_line() {
            assert_eq!(ignored("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001003\n"), Some(0x1003));
            assert_eq!(ignored("SigBlk:\t0000000000000001\n"), None);
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use std::sync::mpsc;

    use super::SignalNumber;

    /// What Ctrl-C is on Unix.
    const INTERRUPT: SignalNumber = 2;

    /// Gives the function that waits for the next Ctrl-C.
    pub(super) fn signals() -> Option<impl Fn() -> Option<SignalNumber>> {
        let (sender, receiver) = mpsc::channel();
        ctrlc::set_handler(move || drop(sender.send(INTERRUPT))).ok()?;
        Some(move || receiver.recv().ok())
    }
}
