//! A copy of the user's tree to build in, and the proof that the tree itself was left alone.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};

/// Of the free room, so much is left for what the builds make.
const ROOM_FOR_BUILDS: u64 = 64 << 20;
/// Files of which is told that they changed.
const SHOWN: usize = 5;

/// A tree and where its copy is.
#[derive(Debug)]
pub(super) struct Tree {
    /// The user's.
    original: PathBuf,
    copy: PathBuf,
    /// Where hitm was started, within the tree.
    inside: PathBuf,
    before: BTreeMap<PathBuf, Stamp>,
}

/// What shows that a file was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            mode: metadata.mode(),
            // That of a directory is not about its entries alone.
            size: if metadata.is_dir() { 0 } else { metadata.len() },
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Tree {
    /// Looks at a tree that contains the current directory, and will be copied to `copy`.
    pub(super) fn look(tree: &Path, copy: PathBuf) -> anyhow::Result<Self> {
        let shown = tree.display();
        let original = tree
            .canonicalize()
            .with_context(|| format!("cannot find the tree {shown}"))?;
        let here = std::env::current_dir()?.canonicalize()?;
        let Ok(inside) = here.strip_prefix(&original) else {
            bail!(
                "the tree {shown} does not contain the directory that hitm runs in (go there first: cd {shown})"
            );
        };
        if copy.starts_with(&original) {
            bail!(
                "the tree {shown} contains the directory for temporary files, and cannot be copied there (give another \
                 place: TMPDIR=DIR hitm shake …, or only the project: --tree DIR)"
            );
        }
        let before = stamps(&original)?;
        Ok(Self {
            inside: inside.to_owned(),
            original,
            copy,
            before,
        })
    }

    /// Where commands run.
    pub(super) fn directory(&self) -> PathBuf {
        self.copy.join(&self.inside)
    }

    /// A path of the copy as the user knows it: from where hitm runs, or from the root of the tree.
    pub(super) fn shown(&self, path: &Path) -> String {
        let known = path
            .strip_prefix(self.directory())
            .or_else(|_| path.strip_prefix(&self.copy));
        known.unwrap_or(path).display().to_string()
    }

    /// Where cargo puts what it builds, unless it is told otherwise: beside the manifest of the workspace, which is taken to be
    /// the topmost one.
    pub(super) fn cargo_target(&self) -> PathBuf {
        let here = self.directory();
        let above = here
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.copy));
        let with_manifest = above.filter(|folder| folder.join("Cargo.toml").exists());
        with_manifest.last().unwrap_or(&here).join("target")
    }

    /// A path that the user gave, in the copy.
    pub(super) fn in_copy(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix(&self.original);
        match inside {
            Ok(inside) => self.copy.join(inside),
            Err(_) => self.directory().join(path),
        }
    }

    /// Makes the copy, or makes it anew.
    pub(super) fn copy(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        super::place::remove(&self.copy)
            .with_context(|| format!("cannot remove {}", self.copy.display()))?;
        let needed: u64 = self.before.values().map(|stamp| stamp.size).sum();
        let within = self.copy.parent().unwrap_or(Path::new("/"));
        if let Ok(room) = nix::sys::statvfs::statvfs(within) {
            let free = room.blocks_available().saturating_mul(room.fragment_size());
            if free < needed.saturating_add(ROOM_FOR_BUILDS) {
                bail!(
                    "the copy of the tree takes {} MiB and the builds at least {}, and {} has {} MiB left (give another place: \
                     TMPDIR=DIR hitm shake …)",
                    needed >> 20,
                    ROOM_FOR_BUILDS >> 20,
                    within.display(),
                    free >> 20
                );
            }
        }
        self.copy_folder(&self.original, &self.copy, stop)
    }

    fn copy_folder(&self, from: &Path, to: &Path, stop: &AtomicBool) -> anyhow::Result<()> {
        fs::create_dir(to).with_context(|| cannot("make", to))?;
        for (path, metadata) in entries(from).with_context(|| cannot("read", from))? {
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let name = path.file_name().unwrap_or_default();
            let target = to.join(name);
            if metadata.is_dir() {
                if !is_left_out(&path) {
                    self.copy_folder(&path, &target, stop)?;
                }
            } else if metadata.is_symlink() {
                self.copy_link(&path, &target)
                    .with_context(|| cannot("copy", &path))?;
            } else if metadata.is_file() {
                copy_file(&path, &target, &metadata).with_context(|| cannot("copy", &path))?;
            }
            // A socket or a device is no part of a build.
        }
        let metadata = fs::metadata(from).with_context(|| cannot("read", from))?;
        let folder = fs::File::open(to).with_context(|| cannot("read", to))?;
        set_time(&folder, &metadata).with_context(|| cannot("set the time of", to))
    }

    /// A link within the tree leads to the copy, or the build would write through it; one that leads outside still does.
    fn copy_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let target = fs::read_link(from)?;
        let folder = from.parent().unwrap_or(Path::new("/"));
        let meant = normal(&folder.join(&target));
        let new = match meant.strip_prefix(&self.original) {
            Ok(inside) if target.is_absolute() => self.copy.join(inside),
            Ok(_) => target,
            Err(_) => meant,
        };
        symlink(new, to)
    }

    /// What in the user's tree is not as it was, a few of them; empty if all is.
    pub(super) fn changed(&self) -> Vec<String> {
        let after = match stamps(&self.original) {
            Ok(after) => after,
            Err(error) => return vec![format!("{error:#}")],
        };
        let differs = |path: &&PathBuf| self.before.get(*path) != after.get(*path);
        let mut changed: Vec<String> = self
            .before
            .keys()
            .chain(after.keys().filter(|path| !self.before.contains_key(*path)))
            .filter(differs)
            .map(|path| path.display().to_string())
            .collect();
        changed.truncate(SHOWN);
        changed
    }
}

/// What is not copied: caches of builds, which name the place where they are (CACHEDIR.TAG marks them, as of cargo's
/// `target`), directories that cmake made, for the same reason, and repositories.
fn is_left_out(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    has("CACHEDIR.TAG")
        || has("CMakeCache.txt")
        || folder.file_name().is_some_and(|name| name == ".git")
}

/// What is in a directory, by name.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        all.push((path, metadata));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

/// All files of a tree. Of caches and repositories, which are not copied, only the directories themselves; of what cmake
/// made all, as its makefiles write there from wherever they are.
fn stamps(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, Stamp>> {
    let mut all = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for (path, metadata) in entries(&folder).with_context(|| cannot("read", &folder))? {
            let made_by_cmake = || path.join("CMakeCache.txt").exists();
            if metadata.is_dir() && (!is_left_out(&path) || made_by_cmake()) {
                left.push(path.clone());
            }
            all.insert(path, Stamp::of(&metadata));
        }
    }
    Ok(all)
}

fn copy_file(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    fs::copy(from, to)?;
    // What is older than what was made of it stays so.
    let file = fs::File::open(to)?;
    set_time(&file, metadata)
}

fn set_time(file: &fs::File, metadata: &Metadata) -> io::Result<()> {
    file.set_times(fs::FileTimes::new().set_modified(metadata.modified()?))
}

/// A path without `.` and `..`, whether or not there is such a file.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

fn cannot(what: &str, path: &Path) -> String {
    format!(
        "cannot {what} {} (is it readable, is there room in TMPDIR?)",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn links_lead_into_the_copy_and_caches_stay_behind() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (original, copy) = (root.join("o"), root.join("c"));
        write(&original.join("src/a.c"), "int a;");
        write(&original.join("target/CACHEDIR.TAG"), "");
        write(&original.join("build/CMakeCache.txt"), "");
        write(&original.join(".git/HEAD"), "");
        write(&root.join("outside"), "o");
        symlink("src/a.c", original.join("relative")).unwrap();
        symlink(original.join("src/a.c"), original.join("absolute")).unwrap();
        symlink("../outside", original.join("out")).unwrap();
        let tree = Tree {
            before: stamps(&original).unwrap(),
            original: original.clone(),
            copy: copy.clone(),
            inside: PathBuf::from("src"),
        };
        tree.copy(&AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_to_string(copy.join("src/a.c")).unwrap(), "int a;");
        assert_eq!(
            fs::read_link(copy.join("relative")).unwrap(),
            Path::new("src/a.c")
        );
        assert_eq!(
            fs::read_link(copy.join("absolute")).unwrap(),
            copy.join("src/a.c")
        );
        assert_eq!(fs::read_to_string(copy.join("out")).unwrap(), "o");
        for left_out in ["target", "build", ".git"] {
            assert!(!copy.join(left_out).exists(), "{left_out}");
        }
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&copy.join("src/a.c")), time(&original.join("src/a.c")));
        assert_eq!(tree.directory(), copy.join("src"));
        assert_eq!(tree.in_copy(&original.join("x/p")), copy.join("x/p"));
        assert_eq!(tree.in_copy(Path::new("./p")), copy.join("src/p"));

        assert!(tree.changed().is_empty());
        write(&original.join("build/made"), "");
        assert!(
            tree.changed()
                .iter()
                .any(|path| path.ends_with("build/made"))
        );
    }
}
