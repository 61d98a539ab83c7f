//! Executes commands: finds each in the table, checks what the table says of it, and runs it. On the main thread only.

mod connection;
mod introspect;
mod server;
mod strings;
mod table;

use crate::config::Config;
use crate::keyspace::Keyspace;
use crate::resp::{Command, Reply};
use crate::stats::{Stats, add_own, bump};
use crate::turn::{Session, Turn};

/// How much of a client's text an error repeats.
const QUOTED_BYTES: usize = 64;

/// The state that commands work on.
#[derive(Debug)]
pub(crate) struct Executor<'s> {
    pub(crate) stats: &'s Stats,
    /// As given, with what the system made of it: the port, the most clients.
    config: Config,
    keys: Keyspace,
    stop: bool,
}

/// What a command may use: the server's state, and the client it is for.
struct Call<'a, 's> {
    executor: &'a mut Executor<'s>,
    session: &'a mut Session,
    reply: &'a mut Reply,
    close: &'a mut bool,
}

/// Why a command was not executed: the text of an error reply, its code first.
type Refusal = std::borrow::Cow<'static, str>;
type Outcome = Result<(), Refusal>;

impl<'s> Executor<'s> {
    pub(crate) fn new(stats: &'s Stats, config: Config) -> Self {
        Self {
            stats,
            config,
            keys: Keyspace::default(),
            stop: false,
        }
    }

    /// Whether a client asked for the server's end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop
    }

    /// Executes a client's commands in order, until one closes the connection or the replies do not fit any more.
    pub(crate) fn execute(&mut self, turn: &mut Turn) {
        for command in turn.commands.iter() {
            if turn.close || turn.reply.overflowed() {
                break;
            }
            bump(&self.stats.server.stat_numcommands);
            let mut call = Call {
                executor: self,
                session: &mut turn.session,
                reply: &mut turn.reply,
                close: &mut turn.close,
            };
            if let Err(refusal) = call.run(command) {
                turn.reply.error(&refusal);
            }
        }
        let n_errors = turn.reply.take_n_errors();
        if n_errors > 0 {
            add_own(&self.stats.server.stat_total_error_replies, n_errors);
        }
    }
}

impl Call<'_, '_> {
    fn run(&mut self, command: Command<'_>) -> Outcome {
        let name = command.name();
        let Some(spec) = table::find(name) else {
            // What a browser sends when a page makes it talk to us: nothing of it may be executed.
            if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
                *self.close = true;
            }
            return Err(unknown(command));
        };
        if !spec.takes(command.len()) {
            return Err(wrong_number(spec.name));
        }
        let most = self.executor.config.limits.maxmemory;
        if spec.grows() && self.executor.keys.used_bytes() >= most {
            return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        (spec.run)(self, command)
    }
}

fn unknown(command: Command<'_>) -> Refusal {
    let mut text = format!("ERR unknown command '{}'", quote(command.name()));
    let mut before = ", with args beginning with: ";
    for argument in command.from(1) {
        if text.len() > 2 * QUOTED_BYTES {
            break;
        }
        text.push_str(&format!("{before}'{}'", quote(argument)));
        before = " ";
    }
    text.into()
}

fn wrong_number(name: &str) -> Refusal {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

const SYNTAX: Refusal = std::borrow::Cow::Borrowed("ERR syntax error");

/// A client's text, cut and without what would end a line.
fn quote(text: &[u8]) -> String {
    let text = text.get(..QUOTED_BYTES).unwrap_or(text);
    let lossy = String::from_utf8_lossy(text);
    lossy
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// An integer as Redis takes it: no plus sign, no blanks, no leading zeros.
fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}
