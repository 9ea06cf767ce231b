//! A file system of a size of one's own, for what cannot be had otherwise: a full disk, a read-only
//! one. Mounting takes root.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
}

impl Mounted {
    pub(crate) fn tmpfs(at: &Path, mebibytes: u32) -> Self {
        let options = format!("size={mebibytes}m");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], at);
        Self {
            at: at.to_path_buf(),
        }
    }

    pub(crate) fn make_read_only(&self) {
        mount(&["-o", "remount,ro"], &self.at);
    }

    /// Takes all the space that is left; gives it back when the file is removed.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.at.join("filler");
        let mut file = File::create(&path).expect("a file that fills the disk");
        let mut step = vec![1_u8; 1 << 20];
        while !step.is_empty() {
            if file.write_all(&step).is_err() {
                let half = step.len() / 2;
                step.truncate(half);
            }
        }
        path
    }
}

fn mount(arguments: &[&str], at: &Path) {
    let done = Command::new("mount")
        .args(arguments)
        .arg(at)
        .output()
        .expect("the program mount");
    assert!(
        done.status.success(),
        "this test mounts a tmpfs, which takes root (in a container --cap-add=SYS_ADMIN): {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
