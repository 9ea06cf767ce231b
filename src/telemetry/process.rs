//! What the machine says of this process.

/// Memory in bytes; 0 where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Of the machine.
    pub total: u64,
    /// Of this process, in RAM.
    pub resident: u64,
}

/// Reads `/proc`.
pub fn memory() -> Memory {
    let kibibytes = |file: &str, name: &str| -> u64 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Memory {
        total: kibibytes("/proc/meminfo", "MemTotal:") * 1024,
        resident: kibibytes("/proc/self/status", "VmRSS:") * 1024,
    }
}
