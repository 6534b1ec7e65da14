//! Progress bars on standard error: drawn only on a terminal, and cleared when their value is dropped.

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};
use sstfilter::RandomAccess;
use sstfilter_table::{FileSystem, LocalFileSystem, WritableFile};

use crate::print::is_quiet;
use crate::words::units;

/// Time that work of many small steps runs before its bar is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Steps between two updates of the bar: reading the clock for every key would slow a build down.
const STEPS_PER_UPDATE: u64 = 1_024;

/// Fewer bytes than this are read, sorted or checked within a second.
const QUICK_BYTES: u64 = 64 << 20;

/// Tick of a bar whose work does not report in small steps.
const TICK: Duration = Duration::from_millis(200);

fn bar(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
        // A failure to draw the bar must not fail the command.
        let _ = text.write_str(&rate(state.per_sec()));
    });
    // Hidden at first, so that short work shows no bar.
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
    bar.with_style(style).with_finish(ProgressFinish::AndClear)
}

fn show(bar: &ProgressBar) {
    if !is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
}

fn show_now(bar: &ProgressBar) {
    show(bar);
    bar.enable_steady_tick(TICK);
}

/// Formats steps per second as a whole number.
fn rate(per_second: f64) -> String {
    units::grouped(units::whole(per_second.round()))
}

/// Returns a bar for `total_bytes` of work that reports rarely, such as once per file. It is shown from the start if
/// the bytes are many.
pub(crate) fn bytes(task: &'static str, total_bytes: u64) -> ProgressBar {
    let bar = bar(total_bytes, "{spinner} {msg} {wide_bar} {bytes} of {total_bytes} ({elapsed})").with_message(task);
    if total_bytes > QUICK_BYTES {
        show_now(&bar);
    }
    bar
}

/// A bar for the bytes of files, advanced by each read.
#[derive(Clone, Debug)]
pub(crate) struct ReadProgress {
    bar: ProgressBar,
    /// End of the current file on the bar. Bytes that are read more than once do not move the bar beyond it.
    end: Arc<AtomicU64>,
}

impl ReadProgress {
    pub(crate) fn new(task: &'static str, total_bytes: u64) -> Self {
        Self { bar: bytes(task, total_bytes), end: Arc::default() }
    }

    /// Ends the previous file and begins one of this length.
    pub(crate) fn begin(&self, bytes: u64) {
        self.bar.set_position(self.end.fetch_add(bytes, Ordering::Relaxed));
    }

    pub(crate) fn advance(&self, bytes: u64) {
        // Relaxed, because the bar is only an estimate.
        let left = self.end.load(Ordering::Relaxed).saturating_sub(self.bar.position());
        self.bar.inc(bytes.min(left));
    }

    /// Wraps `source` so that its reads move the bar.
    pub(crate) fn watch(&self, source: Box<dyn RandomAccess>) -> Box<dyn RandomAccess> {
        Box::new(Watched { source, progress: self.clone() })
    }
}

struct Watched {
    source: Box<dyn RandomAccess>,
    progress: ReadProgress,
}

impl RandomAccess for Watched {
    fn len(&self) -> io::Result<u64> {
        self.source.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.progress.advance(buf.len() as u64);
        self.source.read_exact_at(buf, offset)
    }
}

/// The local file system; its reads move the bar.
impl FileSystem for ReadProgress {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        Ok(self.watch(LocalFileSystem.open(path)?))
    }

    fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>> {
        LocalFileSystem.create(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        LocalFileSystem.sync_directory(directory)
    }
}

/// Returns a bar for `total` long steps; its message names the current one. It is shown from the start.
pub(crate) fn stages(total: u64) -> ProgressBar {
    let bar = bar(total, "{spinner} {wide_msg} {bar:24} {pos} of {len} ({elapsed})");
    show_now(&bar);
    bar
}

/// A bar for work of many steps, shown once the work has run for a second.
pub(crate) struct Progress {
    bar: ProgressBar,
    steps: u64,
}

impl Progress {
    /// Returns a bar for `total` units of `task`.
    pub(crate) fn new(task: &'static str, total: u64) -> Self {
        let bar = bar(total, "{msg} {wide_bar} {human_pos} of {human_len} ({rate}/s, {eta} left)");
        Self { bar: bar.with_message(task), steps: 0 }
    }

    /// Counts one small step.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_UPDATE) {
            self.advance(STEPS_PER_UPDATE);
        }
    }

    /// Counts units of which each step has many. Any thread may do so.
    pub(crate) fn advance(&self, units: u64) {
        if self.bar.is_hidden() && self.bar.elapsed() > PATIENCE {
            show(&self.bar);
        }
        self.bar.inc(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_move_the_bar_within_their_file_and_not_beyond_it() {
        let progress = ReadProgress::new("reading", 100);
        let source = progress.watch(Box::new(bytes::Bytes::from_static(&[0; 60])));
        progress.begin(60);
        let read = |offset| source.read_exact_at(&mut [0; 25], offset).unwrap();
        let positions = [0, 25, 0, 0].map(|offset| {
            read(offset);
            progress.bar.position()
        });
        assert_eq!(positions, [25, 50, 60, 60]);
        progress.begin(40);
        read(0);
        assert_eq!(progress.bar.position(), 85);
        progress.begin(0);
        assert_eq!(progress.bar.position(), 100);
    }

    #[test]
    fn rates_have_no_decimals() {
        assert_eq!([5_723_776.459_4, 0.6, 0.0, f64::NAN].map(rate), ["5,723,776", "1", "0", "0"]);
    }
}
