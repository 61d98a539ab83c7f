//! The file of the history: SQLite, one transaction for each comparison.
//!
//! Two writers wait for each other; a full disk, a power cut or a kill leaves what was there before. A file that is something
//! else, is damaged, or was made by a newer hitm is not touched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// "hitm": how a file says that it is ours (`PRAGMA application_id`).
const APPLICATION: i32 = 0x6869_746d;
/// Grows when tables change; older files are brought up to it.
const VERSION: i32 = 1;
/// A writer that needs longer than this has stopped.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(30);

/// What is kept. Ratios are natural logarithms of B over A; values are in the metric's unit; times are seconds, but for
/// `saved_at`: milliseconds since 1970.
const TABLES: &str = "
CREATE TABLE comparison (
    id INTEGER PRIMARY KEY,
    saved_at INTEGER NOT NULL,
    hitm TEXT NOT NULL,
    machine TEXT NOT NULL,
    machine_key TEXT NOT NULL,
    a TEXT NOT NULL,
    b TEXT NOT NULL,
    aa INTEGER NOT NULL,
    rows_asked INTEGER NOT NULL
) STRICT;
CREATE TABLE row (
    id INTEGER PRIMARY KEY,
    comparison INTEGER NOT NULL REFERENCES comparison (id),
    name TEXT NOT NULL,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    outcome TEXT NOT NULL,
    decided_by TEXT,
    mechanism TEXT,
    refusals TEXT NOT NULL,
    forced INTEGER NOT NULL,
    ended TEXT,
    pairs INTEGER NOT NULL,
    floor REAL,
    effect REAL,
    low REAL,
    high REAL,
    p REAL,
    adjusted_p REAL
) STRICT;
CREATE INDEX row_by_name ON row (name);
CREATE TABLE side (
    row INTEGER NOT NULL REFERENCES row (id),
    side TEXT NOT NULL CHECK (side IN ('a', 'b')),
    command TEXT NOT NULL,
    server TEXT NOT NULL,
    variables TEXT NOT NULL,
    directory TEXT,
    program TEXT,
    sha256 TEXT,
    build_id TEXT,
    git_commit TEXT,
    dirty INTEGER,
    median REAL,
    PRIMARY KEY (row, side)
) STRICT, WITHOUT ROWID;
CREATE TABLE trial (
    row INTEGER NOT NULL REFERENCES row (id),
    measurement INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    pair INTEGER NOT NULL,
    side TEXT NOT NULL,
    first INTEGER NOT NULL,
    value REAL NOT NULL,
    wall REAL NOT NULL,
    cpu REAL NOT NULL,
    max_rss INTEGER NOT NULL,
    stolen REAL,
    others REAL,
    queued REAL,
    involuntary_switches INTEGER NOT NULL,
    megahertz REAL,
    left_behind INTEGER NOT NULL,
    disturbed TEXT NOT NULL,
    PRIMARY KEY (row, measurement, purpose, pair, side)
) STRICT, WITHOUT ROWID;
";

/// An open history.
#[derive(Debug)]
pub(crate) struct Store {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
}

impl Store {
    /// Opens a history to save in, and makes it if there is none.
    ///
    /// # Errors
    /// If it cannot be made, or is no history.
    pub(crate) fn open_or_make(asked: Option<&Path>) -> anyhow::Result<Self> {
        let path = super::place::chosen(asked)?;
        if asked.is_none()
            && let Some(folder) = path.parent()
        {
            std::fs::create_dir_all(folder).with_context(|| {
                format!(
                    "cannot make {} (give the history another place: --save=FILE)",
                    folder.display()
                )
            })?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Self::open(&path, flags)?;
        store
            .make()
            .map_err(|error| cannot(&store.path, "make", &error))?;
        store.check()?;
        Ok(store)
    }

    /// Opens a history that is there.
    ///
    /// # Errors
    /// If there is none, or the file is something else.
    pub(super) fn open_existing(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            bail!(
                "there is no history at {} (make one: hitm compare … --save, or say where it is: --file FILE)",
                path.display()
            );
        }
        let store = Self::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        store.check()?;
        Ok(store)
    }

    fn open(path: &Path, flags: OpenFlags) -> anyhow::Result<Self> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)
            .map_err(|error| cannot(path, "open", &error))?;
        connection
            .busy_timeout(WAIT_FOR_OTHERS)
            .and_then(|()| connection.pragma_update(None, "foreign_keys", true))
            .map_err(|error| cannot(path, "open", &error))?;
        Ok(Self {
            path: path.to_owned(),
            connection,
        })
    }

    /// Makes the tables in a file that has none; two that come at once make them once.
    fn make(&mut self) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let tables: i64 =
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let owner: i32 =
            transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if tables == 0 && owner == 0 {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.commit()
    }

    /// Whether it is a whole history of a version that is known.
    fn check(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        let number = |name: &str| -> anyhow::Result<i32> {
            self.connection
                .pragma_query_value(None, name, |row| row.get(0))
                .map_err(|error| cannot(&self.path, "read", &error))
        };
        if number("application_id")? != APPLICATION {
            bail!(
                "{shown} is a database, but no history of hitm; it was not touched (give another place: --save=FILE, --file FILE)"
            );
        }
        let version = number("user_version")?;
        if version != VERSION {
            bail!(
                "{shown} has version {version} of the history, this hitm knows {VERSION}; it was not touched (use the hitm that made it, or another place)"
            );
        }
        let state: String = self
            .connection
            .pragma_query_value(None, "quick_check", |row| row.get(0))
            .map_err(|error| cannot(&self.path, "read", &error))?;
        if state != "ok" {
            bail!("{}", damaged(&self.path, &state));
        }
        Ok(())
    }
}

fn damaged(path: &Path, why: &str) -> String {
    format!(
        "{} is damaged, or no history of hitm; it was not touched: {why} (move it away to begin a new one, or try: sqlite3 FILE .recover)",
        path.display()
    )
}

/// What SQLite says, and what to do.
pub(super) fn cannot(path: &Path, what: &str, error: &rusqlite::Error) -> anyhow::Error {
    let shown = path.display();
    let remedy = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            return anyhow::anyhow!("{}", damaged(path, &error.to_string()));
        }
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
            "nothing of this comparison was saved, and nothing else is lost; make room, or --save=FILE elsewhere"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has held it for too long; again, or --save=FILE elsewhere"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "may you write there? give another place: --save=FILE, --file FILE"
        }
        _ => "give another place: --save=FILE, --file FILE",
    };
    anyhow::anyhow!("cannot {what} the history {shown}: {error} ({remedy})")
}
