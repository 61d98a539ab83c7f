//! The commands there are: a table, which also answers COMMAND.

use super::{Call, Outcome, connection, introspect, server, strings};
use crate::resp::Command;

/// What a command is, in the words of COMMAND.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// How many arguments it has, its name included; if negative, at least so many.
    pub(super) arity: i64,
    pub(super) flags: &'static [&'static str],
    /// Number of the first key, of the last (from the end if negative), and from one to the next; zeros without keys.
    pub(super) keys: (i64, i64, i64),
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) run: fn(&mut Call<'_, '_>, Command<'_>) -> Outcome,
}

impl Spec {
    /// Whether it can have so many arguments.
    pub(super) fn takes(&self, n: usize) -> bool {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        if self.arity < 0 {
            n >= -self.arity
        } else {
            n == self.arity
        }
    }

    /// Whether it may need more memory for keys and values.
    pub(super) fn grows(&self) -> bool {
        self.flags.contains(&"denyoom")
    }
}

/// The command of a name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Spec> {
    SPECS
        .iter()
        .find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

const fn spec(
    name: &'static str,
    arity: i64,
    group: &'static str,
    summary: &'static str,
    run: fn(&mut Call<'_, '_>, Command<'_>) -> Outcome,
) -> Spec {
    Spec {
        name,
        arity,
        flags: &["fast"],
        keys: (0, 0, 0),
        group,
        summary,
        run,
    }
}

/// The same of a command with keys.
const fn keyed(spec: Spec, flags: &'static [&'static str], keys: (i64, i64, i64)) -> Spec {
    Spec {
        flags,
        keys,
        ..spec
    }
}

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const DROP: &[&str] = &["write"];

/// The most frequent first: they are looked for in this order.
#[rustfmt::skip]
pub(super) const SPECS: &[Spec] = &[
    keyed(spec("get", 2, "string", "Returns the value of a key.", strings::get), READ, (1, 1, 1)),
    keyed(spec("set", -3, "string", "Sets the value of a key; NX, XX and GET are the options.", strings::set), WRITE, (1, 1, 1)),
    keyed(spec("incr", 2, "string", "Adds one to the integer of a key.", strings::incr), WRITE, (1, 1, 1)),
    keyed(spec("mget", -2, "string", "Returns the values of keys.", strings::mget), READ, (1, -1, 1)),
    keyed(spec("mset", -3, "string", "Sets the values of keys.", strings::mset), WRITE, (1, -1, 2)),
    keyed(spec("del", -2, "generic", "Deletes keys; returns how many there were.", strings::del), DROP, (1, -1, 1)),
    keyed(spec("exists", -2, "generic", "Returns how many of the keys exist.", strings::exists), READ, (1, -1, 1)),
    spec("ping", -1, "connection", "Returns PONG, or its argument.", connection::ping),
    spec("echo", 2, "connection", "Returns its argument.", connection::echo),
    spec("hello", -1, "connection", "Chooses the protocol version, and tells about the server.", connection::hello),
    spec("client", -2, "connection", "SETNAME, GETNAME, SETINFO, ID and INFO of this connection.", connection::client),
    spec("select", 2, "connection", "Takes 0, the one database there is.", connection::select),
    spec("quit", -1, "connection", "Closes the connection.", connection::quit),
    spec("info", -1, "server", "Tells about the server, in sections.", server::info),
    spec("config", -2, "server", "GET of settings, and RESETSTAT.", server::config),
    spec("command", -1, "server", "COUNT, DOCS, INFO and LIST of the commands there are.", introspect::command),
    spec("dbsize", 1, "server", "Returns how many keys there are.", server::dbsize),
    keyed(spec("flushdb", 1, "server", "Deletes all keys.", server::flush), DROP, (0, 0, 0)),
    keyed(spec("flushall", 1, "server", "Deletes all keys.", server::flush), DROP, (0, 0, 0)),
    spec("shutdown", -1, "server", "Ends the server.", server::shutdown),
];
