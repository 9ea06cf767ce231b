//! System calls of the running program, by strace: which request was read, which answer written and
//! which sync done, in what order.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The words that run a program under strace; the trace goes to `output`.
pub(crate) fn wrapper(output: &Path) -> Vec<String> {
    let probe = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stderr(Stdio::piped())
        .output()
        .unwrap_or_else(|error| {
            panic!("this test needs strace (`apt-get install strace`): {error}")
        });
    assert!(
        probe.status.success(),
        "strace cannot trace here; in a container it takes --cap-add=SYS_PTRACE: {}",
        String::from_utf8_lossy(&probe.stderr)
    );
    let calls = "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,fdatasync,fsync";
    let words = ["strace", "-f", "-y", "-s", "200", "-e", calls, "-o"];
    let output = output.display().to_string();
    words
        .into_iter()
        .map(str::to_owned)
        .chain([output])
        .collect()
}

/// What happened, as lines of the trace: a call that was under way for several has two.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Requests that were read: descriptor, and the line by which they had been read.
    pub(crate) read: Vec<(String, usize, String)>,
    /// Answers: descriptor, and the line at which their writing began.
    pub(crate) written: Vec<(String, usize, String)>,
    /// Successful syncs of the log: the lines of their beginning and of their end.
    pub(crate) synced: Vec<(usize, usize)>,
}

impl Trace {
    pub(crate) fn parse(text: &str) -> Self {
        let mut trace = Self::default();
        // Calls under way, by thread.
        let mut open: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let Some((thread, call)) = line.split_once(' ') else {
                continue;
            };
            let call = call.trim_start();
            if let Some(begun) = call.strip_suffix("<unfinished ...>") {
                trace.begin(number, begun);
                open.insert(thread, (number, begun));
            } else if call.starts_with("<... ") {
                if let Some((begin, begun)) = open.remove(thread) {
                    trace.end(begin, number, begun, call);
                }
            } else {
                trace.begin(number, call);
                trace.end(number, number, call, call);
            }
        }
        trace
    }

    fn begin(&mut self, number: usize, call: &str) {
        if let Some((name, descriptor, rest)) = split(call)
            && matches!(name, "write" | "writev" | "sendto" | "sendmsg")
            && rest.contains("HTTP/1.1 ")
        {
            self.written
                .push((descriptor.to_owned(), number, rest.to_owned()));
        }
    }

    fn end(&mut self, begin: usize, number: usize, begun: &str, ended: &str) {
        let Some((name, descriptor, _)) = split(begun) else {
            return;
        };
        let is_read = matches!(name, "read" | "readv" | "recvfrom" | "recvmsg");
        if is_read && ended.contains("\"POST ") {
            self.read
                .push((descriptor.to_owned(), number, ended.to_owned()));
        }
        let is_sync = matches!(name, "fdatasync" | "fsync") && descriptor.ends_with("/log/db>");
        if is_sync && ended.trim_end().ends_with("= 0") {
            self.synced.push((begin, number));
        }
    }

    /// Answers of this status that were written although no sync of the log had begun after the
    /// request was read and ended before the answer, and how many such answers there were in all.
    pub(crate) fn unsafe_answers(&self, status: &str) -> (usize, usize) {
        let (mut unsafe_ones, mut all) = (0, 0);
        for (descriptor, at, text) in &self.written {
            if !text.contains(&format!("HTTP/1.1 {status}")) {
                continue;
            }
            all += 1;
            let request = self
                .read
                .iter()
                .rfind(|(of, number, _)| of == descriptor && number < at);
            let (_, read, _) = request.expect("a request before its answer");
            let is_safe = self
                .synced
                .iter()
                .any(|(begin, end)| begin > read && end < at);
            unsafe_ones += usize::from(!is_safe);
        }
        (unsafe_ones, all)
    }
}

/// Name of a call, its descriptor with the file behind it, and the rest.
fn split(call: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = call.split_once('(')?;
    let end = rest.find('>')? + 1;
    Some((name, &rest[..end], &rest[end..]))
}
