//! What the machine says of this process.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

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

/// What the system has counted of this process; 0 where it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub memory: Memory,
    /// Of all threads, in user and kernel mode.
    pub cpu_seconds: f64,
    /// Files, sockets and the like that are open.
    pub open_files: u64,
    /// How many may be; 0 if there is no bound.
    pub max_files: u64,
}

/// Reads `/proc` and asks the system.
pub fn usage() -> Usage {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = Duration::try_from(cpu).unwrap_or_default();
    let open_files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    Usage {
        memory: memory(),
        cpu_seconds: cpu.as_secs_f64(),
        open_files: open_files as u64,
        max_files: getrlimit(Resource::Nofile).current.unwrap_or(0),
    }
}
