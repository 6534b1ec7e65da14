//! Available memory, on systems that report it.

use std::fs;

/// Returns the bytes that new work can use without swapping. Linux only.
pub(crate) fn available_bytes() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the value of the line `MemAvailable:     1234 kB`; the kernel's kB are KiB.
fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_kibibytes_or_unknown() {
        assert_eq!(available_in("MemFree:\t  10 kB\nMemAvailable:\t     1234 kB\n"), Some(1_263_616));
        assert_eq!([available_in("MemFree:\t  10 kB\n"), available_in("MemAvailable: x\n")], [None, None]);
    }
}
