//! Where hitm works: a temporary directory that is gone at the end, however the end comes.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::janitor::Janitor;

/// The variable that all processes of an experiment have: by it those are found that must not be left behind.
pub(super) const MARK: &str = "HITM_SHAKE_DIR";

/// What is where below the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The copy of the user's tree.
    pub(super) fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// The wrappers of compilers.
    pub(super) fn compilers(&self) -> PathBuf {
        self.root.join("cc")
    }

    /// The wrappers of linkers.
    pub(super) fn linkers(&self) -> PathBuf {
        self.root.join("ld")
    }

    /// What was recorded of links.
    pub(super) fn links(&self) -> PathBuf {
        self.root.join("links")
    }

    /// `TMPDIR` of the builds.
    pub(super) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// What the wrapper of the linker is to change.
    pub(super) fn edit(&self) -> PathBuf {
        self.root.join("edit")
    }

    /// A build's program and what was made for it.
    pub(super) fn variant(&self, name: &str) -> PathBuf {
        self.root.join("variants").join(name)
    }
}

/// The directory; it is removed when this is dropped, and by the janitor if hitm is killed.
#[derive(Debug)]
pub(super) struct Place {
    layout: Layout,
    janitor: Janitor,
    keep: bool,
}

impl Place {
    pub(super) fn new(keep: bool) -> anyhow::Result<Self> {
        let within = std::env::temp_dir();
        let cannot = || {
            let shown = within.display();
            format!(
                "cannot make a directory in {shown} (give another place: TMPDIR=DIR hitm shake …)"
            )
        };
        let folder = tempfile::Builder::new()
            .prefix("hitm-shake-")
            .tempdir_in(&within)
            .with_context(cannot)?;
        let root = folder.path().canonicalize().with_context(cannot)?;
        anyhow::ensure!(
            root.to_str().is_some_and(|path| !path.contains([':', ','])),
            "{} has characters that lists of directories may not have (give another place: TMPDIR=DIR hitm shake …)",
            root.display()
        );
        let layout = Layout::at(&root);
        for part in [
            layout.compilers(),
            layout.linkers(),
            layout.links(),
            layout.tmp(),
        ] {
            fs::create_dir(&part).with_context(cannot)?;
        }
        let janitor = Janitor::start(&root, keep)?;
        // From here on the janitor and we ourselves see to it.
        let _ = folder.keep();
        Ok(Self {
            layout,
            janitor,
            keep,
        })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where everything is, if it stays.
    pub(super) fn kept(&self) -> Option<String> {
        self.keep.then(|| self.layout.root.display().to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep || remove(&self.layout.root).is_ok() {
            self.janitor.is_not_needed();
        }
        // Else the janitor tries again.
    }
}

/// Removes a directory, read-only ones in it too.
pub(super) fn remove(root: &Path) -> io::Result<()> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => {
            make_writable(root);
            fs::remove_dir_all(root)
        }
        Ok(()) => Ok(()),
    }
}

fn make_writable(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}
