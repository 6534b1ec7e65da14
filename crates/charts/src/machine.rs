//! The machine and date of a measurement.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The environment that a figure depends on, apart from the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU's name, family and model.
    pub cpu: String,
    /// Logical cores.
    pub cores: usize,
    /// Sizes of the first core's caches, the nearest first.
    pub caches: Vec<String>,
    /// The CPU's instruction sets that filters can use.
    pub instruction_sets: Vec<String>,
    /// The instruction set of sstfilter's kernels.
    pub kernels: String,
    /// The operating system and architecture.
    pub system: String,
    /// The compiler that built this program.
    pub rustc: String,
}

/// Flags of `/proc/cpuinfo` that are reported.
const FLAGS: [&str; 10] = [
    "sse4_1",
    "bmi2",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vpopcntdq",
    "avx512_bitalg",
    "avx512_vbmi",
    "asimd",
];

impl Machine {
    /// Describes this machine; sstfilter's kernels use the instruction set `kernels` on it.
    #[must_use]
    pub fn this(kernels: &str) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        // `flags` on x86, `Features` on Arm.
        let flags = field(&cpuinfo, "flags").or_else(|| field(&cpuinfo, "Features")).unwrap_or_default();
        let has = |flag: &&str| flags.split_whitespace().any(|word| word == *flag);
        Self {
            cpu: cpu_name(&cpuinfo),
            cores: cores(&cpuinfo),
            caches: caches(),
            instruction_sets: FLAGS.into_iter().filter(has).map(str::to_owned).collect(),
            kernels: kernels.to_owned(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            rustc: env!("SSTFILTER_CHARTS_RUSTC").to_owned(),
        }
    }
}

/// Returns the number of the machine's cores.
fn cores(cpuinfo: &str) -> usize {
    // Not `available_parallelism` first, which is 1 if the process is pinned to one core.
    match cpuinfo.lines().filter(|line| line.starts_with("processor")).count() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores,
    }
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.split_once(':').filter(|(key, _)| key.trim() == name).map(|(_, value)| value);
    cpuinfo.lines().find_map(value).map(str::trim)
}

fn cpu_name(cpuinfo: &str) -> String {
    let name = field(cpuinfo, "model name").unwrap_or("unknown CPU");
    match (field(cpuinfo, "cpu family"), field(cpuinfo, "model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name.to_owned(),
    }
}

/// Returns the data caches as Linux lists them: `L1 32K`, `L2 512K`, `L3 32768K`.
fn caches() -> Vec<String> {
    let read = |index: u32, file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    };
    let describe = |index| {
        let of_data = read(index, "type")? != "Instruction";
        of_data.then(|| Some(format!("L{} {}", read(index, "level")?, read(index, "size")?)))?
    };
    (0..5).filter_map(describe).collect()
}

/// Returns today's date in UTC as `YYYY-MM-DD`.
#[must_use]
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    civil_date(seconds / 86_400)
}

/// Returns the Gregorian date `days` days after 1970-01-01.
fn civil_date(days: u64) -> String {
    // Years begin on 1 March, counted from the year 0, so that a leap day is the last day of its year.
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
        for (days, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
        ] {
            assert_eq!(civil_date(days), date);
        }
    }

    #[test]
    fn all_cores_of_the_machine_count() {
        assert_eq!(cores("processor\t: 0\nmodel name\t: X\n\nprocessor\t: 1\n"), 2);
        assert!(cores("") >= 1);
    }

    #[test]
    fn a_cpu_without_family_still_has_a_name() {
        assert_eq!(cpu_name("model name : X\ncpu family\t: 25\nmodel\t\t: 1\n"), "X (family 25, model 1)");
        assert_eq!(cpu_name("processor : 0\n"), "unknown CPU");
    }
}
