//! Where and when the figures were measured.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// What a figure depends on beside the code.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    /// The CPU's name, where the system tells it.
    pub(super) cpu: String,
    /// Logical cores.
    pub(super) cores: usize,
    /// The instruction set that the filters used.
    pub(super) instruction_set: &'static str,
    /// The operating system and architecture.
    pub(super) system: String,
}

impl Machine {
    /// This one.
    pub(super) fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: cpu_name(&cpuinfo),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            instruction_set: sstfilter::simd::selected().name(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

fn cpu_name(cpuinfo: &str) -> String {
    let field = |name| {
        let value = |line: &str| {
            line.split_once(':').filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        cpuinfo.lines().find_map(value)
    };
    let name = field("model name").unwrap_or_else(|| "unknown CPU".to_owned());
    match (field("cpu family"), field("model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    }
}

/// Today in UTC, as `YYYY-MM-DD`.
pub(super) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    civil_date(seconds / 86_400)
}

/// The date `days` days after 1970-01-01, by the Gregorian calendar.
fn civil_date(days: u64) -> String {
    // Days and years are counted from 1 March of the year 0, so that leap days come last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year_of_era + next_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates_over_leap_years_and_centuries() {
        for (days, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_453, "2025-12-31")] {
            assert_eq!(civil_date(days), date);
        }
    }

    #[test]
    fn a_cpu_without_family_still_has_a_name() {
        assert_eq!(cpu_name("model name : X\ncpu family\t: 25\nmodel\t\t: 1\n"), "X (family 25, model 1)");
        assert_eq!(cpu_name("processor : 0\n"), "unknown CPU");
    }
}
