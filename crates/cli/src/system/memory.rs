//! Available memory and peak usage, on systems that report them.

use std::fs;

/// Returns the bytes that new work can use without swapping. Linux only.
pub(crate) fn available_bytes() -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Returns the peak resident memory of this process in bytes. Linux only.
pub(crate) fn peak_bytes() -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Returns the value of a line such as `VmHWM:     1234 kB`; the kernel's kB are KiB.
fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kibibytes_and_missing_ones_are_none() {
        let text = "VmPeak:\t  10 kB\nVmHWM:\t     1234 kB\nThreads: x\n";
        assert_eq!(field_bytes(text, "VmHWM:"), Some(1_263_616));
        assert_eq!(field_bytes(text, "VmRSS:"), None);
        assert_eq!(field_bytes(text, "Threads:"), None);
    }
}
