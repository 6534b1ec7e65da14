//! A bar on standard error for work that takes over a second, and nothing for work that does not.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long work may take unseen.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many steps pass between two looks at the clock.
const STEPS_PER_UPDATE: u64 = 1_024;

/// Counts the steps of one piece of work.
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    steps: u64,
    is_shown: bool,
}

impl Progress {
    /// Work of `total` steps, called `task`. Shown on a terminal only.
    pub(crate) fn new(task: &'static str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len} ({per_sec}, {eta} left)");
        let bar = if let Ok(style) = style { bar.with_style(style) } else { bar };
        Self { bar: bar.with_message(task), begun: Instant::now(), steps: 0, is_shown: false }
    }

    /// Counts one step.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_UPDATE) {
            self.update();
        }
    }

    fn update(&mut self) {
        if !self.is_shown && self.begun.elapsed() > PATIENCE {
            self.is_shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.is_shown {
            self.bar.set_position(self.steps);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Less than this is read, sorted or checked within a second.
const QUICK_BYTES: u64 = 64 << 20;

/// Tick of a bar whose work does not report in small steps.
const TICK: Duration = Duration::from_millis(200);

/// Counts the bytes of work that reports seldom, such as once per file.
pub(crate) struct BytesProgress {
    bar: ProgressBar,
}

impl BytesProgress {
    /// Work on `total_bytes`, called `task`. Shown from the start if it is much, on a terminal only.
    pub(crate) fn new(task: &'static str, total_bytes: u64) -> Self {
        let is_shown = total_bytes > QUICK_BYTES;
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {bytes} of {total_bytes} ({elapsed})");
        let bar = if let Ok(style) = style { bar.with_style(style) } else { bar };
        let bar = bar.with_message(task);
        if is_shown {
            bar.enable_steady_tick(TICK);
        }
        Self { bar }
    }

    /// Counts `bytes` more as done.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Drop for BytesProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Counts the steps of work whose steps take long, and says what the step at hand is.
pub(crate) struct Stages {
    bar: ProgressBar,
}

impl Stages {
    /// Work of `total` steps. Shown from the start, on a terminal only.
    pub(crate) fn new(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {bar:24} {pos} of {len} ({elapsed})");
        let bar = if let Ok(style) = style { bar.with_style(style) } else { bar };
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Says what is done now.
    pub(crate) fn at(&self, task: String) {
        self.bar.set_message(task);
    }

    /// Counts one step as done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
