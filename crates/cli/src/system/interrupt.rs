//! Ctrl-C and termination signals: an interrupted build leaves the tables that it has completed and nothing else.
//!
//! One thread waits for the signals. While files are being written, it only sets a flag that the writer checks after
//! each entry; the writer then fails and removes the unfinished file. At other times, such as while the program reads
//! an endless pipe, there is nothing to remove except new empty directories; the waiting thread removes them and ends
//! the process.

use core::fmt;
use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;

use crate::print::{is_printing, note};

/// The number of the signal that was received, or 0.
static REQUESTED: AtomicI32 = AtomicI32::new(0);

/// Held while files are being written.
static WRITING: Mutex<()> = Mutex::new(());

/// Directories that this process created, the innermost first.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What the work so far leaves, for the message of an interruption.
static REMAINS: Mutex<String> = Mutex::new(String::new());

/// Prints the message of an interruption as a result.
static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// The number of a signal. A process that it ends has the exit code 128 + the number.
type SignalNumber = i32;

/// A signal interrupted a build.
#[derive(Debug)]
pub struct Interrupted {
    signal: SignalNumber,
    /// Describes what the build leaves.
    remains: String,
}

impl Interrupted {
    /// Returns the exit code that shells show for a process that a signal ended.
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
    // Signals have numbers up to 64, so the default is never used.
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Fails if a signal was received, with a message about what `remains` of the work.
pub(crate) fn check(remains: impl FnOnce() -> String) -> Result<(), Interrupted> {
    match REQUESTED.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Interrupted { signal, remains: remains() }),
    }
}

/// Says what `remains` if a signal ends the process from now on.
pub(crate) fn remains(remains: String) {
    *REMAINS.lock().unwrap_or_else(PoisonError::into_inner) = remains;
}

/// Begins the writing of files: until the guard is dropped, only [`check`] stops it.
pub(crate) fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the writing of files before work that may take forever. Exits the process if a signal arrived in the meantime.
pub(crate) fn pause(writing: MutexGuard<'static, ()>) {
    let made = made();
    drop(writing);
    let signal = REQUESTED.load(Ordering::Relaxed);
    if signal != 0 {
        end(&made, signal);
    }
}

/// Directories that this process created. Empty ones are removed when this is dropped, or at an interruption.
#[derive(Debug, Default)]
pub(crate) struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// Takes `directories` from the innermost to the outermost; each contains only the one before.
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
        // The system refuses to remove a directory that is not empty, so directories with files stay.
        let _ = fs::remove_dir(directory);
    }
}

/// Makes signals end the process in order from now on, with `say` for the message unless results were printed. Call it
/// before the process starts other threads.
pub fn end_in_order(say: fn(&str)) {
    let _ = SAY.set(say);
    // If waiting for signals is not possible, they keep their default action.
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
    // `pause` also holds this lock: either this thread sees that the writing is over, or `pause` sees the flag.
    let made = made();
    let is_first = REQUESTED.swap(signal, Ordering::Relaxed) == 0;
    match WRITING.try_lock() {
        // The writer will see the flag. A second signal means that the user does not want to wait for that.
        Err(TryLockError::WouldBlock) if is_first => {}
        // While this thread holds the lock, no writing can begin.
        _nothing_is_written => end(&made, signal),
    }
}

fn end(made: &[PathBuf], signal: SignalNumber) -> ! {
    remove_empty(made);
    let message = match REMAINS.lock().unwrap_or_else(PoisonError::into_inner).as_str() {
        "" => "interrupted".to_owned(),
        remains => format!("interrupted; {remains}"),
    };
    // Of an object that is being printed, the end would be missing whatever follows.
    if !is_printing() {
        SAY.get().into_iter().for_each(|say| say(&message));
    }
    note(&message);
    process::exit(exit_code(signal).into())
}

#[cfg(unix)]
mod platform {
    use std::fs;

    use nix::sys::signal::{SigSet, Signal};

    use super::SignalNumber;

    /// Blocks the termination signals in this thread and in the threads that it starts, and returns a function that
    /// waits for the next one.
    pub(super) fn signals() -> Option<impl Fn() -> Option<SignalNumber>> {
        let mut signals = SigSet::empty();
        wanted().into_iter().for_each(|signal| signals.add(signal));
        signals.thread_block().ok()?;
        Some(move || signals.wait().ok().map(|signal| signal as SignalNumber))
    }

    /// Returns the termination signals, except those that the process was started to ignore, as `nohup` and shells with
    /// background jobs request. If that is unknown, SIGHUP is left out, because it may be ignored.
    fn wanted() -> Vec<Signal> {
        let ignored = fs::read_to_string("/proc/self/status").ok().and_then(|status| ignored(&status));
        let candidates: &[_] = match ignored {
            // SIGHUP only if it is known not to be ignored.
            Some(_) => &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP],
            None => &[Signal::SIGINT, Signal::SIGTERM],
        };
        let is_ignored = |signal: Signal| ignored.unwrap_or(0) >> (signal as SignalNumber - 1) & 1 == 1;
        candidates.iter().copied().filter(|&signal| !is_ignored(signal)).collect()
    }

    /// Returns the signals that a process ignores, as bits; bit 0 is signal 1 (`proc_pid_status(5)`).
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

    /// The number of Ctrl-C's signal on Unix.
    const INTERRUPT: SignalNumber = 2;

    /// Returns a function that waits for the next Ctrl-C.
    pub(super) fn signals() -> Option<impl Fn() -> Option<SignalNumber>> {
        let (sender, receiver) = mpsc::channel();
        ctrlc::set_handler(move || drop(sender.send(INTERRUPT))).ok()?;
        Some(move || receiver.recv().ok())
    }
}
