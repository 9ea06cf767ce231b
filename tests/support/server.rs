//! The program as a child process on a data directory of its own. It is killed when dropped.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::wait_for;

/// A running `eurekad`.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    /// The child is another program that runs the server.
    is_wrapped: bool,
    log: PathBuf,
    /// Where this life begins in the log; those before stay, for whoever reads a failure.
    log_start: u64,
    port: u16,
}

impl Server {
    /// Starts it on `dir` and waits until it serves.
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut server = Self::spawn(dir, arguments);
        server.wait_until_serving();
        server
    }

    /// Starts it without waiting for anything.
    pub(crate) fn spawn(dir: &Path, arguments: &[&str]) -> Self {
        Self::spawn_under(&[], dir, arguments)
    }

    /// The same under another program, such as a tracer.
    pub(crate) fn spawn_under(wrapper: &[&str], dir: &Path, arguments: &[&str]) -> Self {
        let log = dir.with_extension("log");
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the log beside the data directory");
        let log_start = output.metadata().expect("the log's length").len();
        let mut words = wrapper
            .iter()
            .copied()
            .chain([env!("CARGO_BIN_EXE_eurekad")]);
        let program = words.next().expect("the server at least");
        let child = Command::new(program)
            .args(words)
            .arg(format!("--data-dir={}", dir.display()))
            .args(["--server.port=0", "--server.address=127.0.0.1"])
            .args(arguments)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        Self {
            child,
            dir: dir.to_path_buf(),
            is_wrapped: !wrapper.is_empty(),
            log,
            log_start,
            port: 0,
        }
    }

    pub(crate) fn wait_until_serving(&mut self) {
        self.port = wait_for("the server to serve", || {
            if let Some(status) = self.child.try_wait().expect("the state of the child") {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            self.logged_port()
        });
    }

    fn logged_port(&self) -> Option<u16> {
        let log = self.log();
        let (_, rest) = log.split_once("serving on port ")?;
        rest.split_once(',')?.0.parse().ok()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the server itself, which it writes into its lock file.
    pub(crate) fn pid(&self) -> u32 {
        if self.is_wrapped {
            self.pid_of_wrapped().expect("the pid in the lock file")
        } else {
            self.child.id()
        }
    }

    fn pid_of_wrapped(&self) -> Option<u32> {
        let text = fs::read_to_string(self.dir.join("lock")).ok()?;
        text.trim().parse().ok()
    }

    /// What this life has logged.
    pub(crate) fn log(&self) -> String {
        let mut bytes = Vec::new();
        File::open(&self.log)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(self.log_start))?;
                file.read_to_end(&mut bytes)
            })
            .expect("the log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Nothing in the log may be a panic, and the process must live.
    pub(crate) fn assert_well(&mut self) {
        let log = self.log();
        assert!(!log.contains("panicked"), "a panic:\n{log}");
        let ended = self.child.try_wait().expect("the state of the child");
        assert!(ended.is_none(), "the server ended with {ended:?}:\n{log}");
    }

    /// Memory in use, KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("the state of the child");
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok())
            .expect("VmRSS")
    }

    /// `kill -9`, whatever it is doing.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Asks it to stop, with SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        assert!(signal(name, self.pid()), "SIG{name} was not sent");
    }

    /// Waits until it ends by itself; what it ended with, and its log.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = wait_for("the server to end", || {
            self.child.try_wait().expect("the state of the child")
        });
        (status, self.log())
    }

    fn end(&mut self) {
        // It may have ended already.
        let is_running = matches!(self.child.try_wait(), Ok(None));
        if is_running
            && self.is_wrapped
            && let Some(pid) = self.pid_of_wrapped()
        {
            // A tracer that is killed lets go of what it traces.
            signal("KILL", pid);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal; says whether there was somebody to send it to.
fn signal(name: &str, pid: u32) -> bool {
    Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4000);
            let tail = (tail..log.len()).find(|at| log.is_char_boundary(*at));
            println!("log of the server:\n{}", &log[tail.unwrap_or(0)..]);
        }
    }
}
