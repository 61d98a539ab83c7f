//! Commands on keys and their values.

use super::{Call, Outcome, SYNTAX, integer, quote, wrong_number};
use crate::resp::Command;
use crate::stats::bump;

/// The options of SET that would change what it does, and that this server does not have.
const UNSUPPORTED: [&str; 6] = ["EX", "PX", "EXAT", "PXAT", "KEEPTTL", "IFEQ"];

pub(super) fn get(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    look_up(call, key(command));
    Ok(())
}

/// Replies with a key's value, and counts whether there was one.
fn look_up(call: &mut Call<'_, '_>, key: &[u8]) {
    let server = &call.executor.stats.server;
    if let Some(value) = call.executor.keys.get(key) {
        call.reply.bulk(value);
        bump(&server.stat_keyspace_hits);
    } else {
        call.reply.null();
        bump(&server.stat_keyspace_misses);
    }
}

pub(super) fn mget(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    call.reply.array(command.len() - 1);
    for key in command.from(1) {
        look_up(call, key);
        if call.reply.overflowed() {
            break;
        }
    }
    Ok(())
}

/// Which of SET's options are there.
#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_old: bool,
    get: bool,
}

impl SetOptions {
    fn of(command: Command<'_>) -> Result<Self, super::Refusal> {
        let mut options = Self::default();
        for word in command.from(3) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => options.only_new = true,
                b"XX" => options.only_old = true,
                b"GET" => options.get = true,
                upper if UNSUPPORTED.iter().any(|name| name.as_bytes() == upper) => {
                    return Err(format!(
                        "ERR SET option '{}' is not supported by this server, NX, XX and GET are",
                        quote(upper)
                    )
                    .into());
                }
                _ => return Err(SYNTAX),
            }
        }
        if options.only_new && options.only_old {
            return Err(SYNTAX);
        }
        Ok(options)
    }
}

pub(super) fn set(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let (key, value) = (key(command), command.get(2).unwrap_or_default());
    let options = SetOptions::of(command)?;
    let exists = call.executor.keys.get(key).is_some();
    let allowed = !(options.only_new && exists || options.only_old && !exists);
    if options.get {
        look_up(call, key);
    } else if allowed {
        call.reply.simple("OK");
    } else {
        call.reply.null();
    }
    if allowed {
        call.executor.keys.set(key, value);
    }
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    if command.len().is_multiple_of(2) {
        return Err(wrong_number("mset"));
    }
    for i in (1..command.len()).step_by(2) {
        if let (Some(key), Some(value)) = (command.get(i), command.get(i + 1)) {
            call.executor.keys.set(key, value);
        }
    }
    call.reply.simple("OK");
    Ok(())
}

pub(super) fn incr(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let key = key(command);
    let old = match call.executor.keys.get(key) {
        Some(text) => integer(text).ok_or("ERR value is not an integer or out of range")?,
        None => 0,
    };
    let new = old
        .checked_add(1)
        .ok_or("ERR increment or decrement would overflow")?;
    call.executor.keys.set(key, new.to_string().as_bytes());
    call.reply.integer(new);
    Ok(())
}

pub(super) fn del(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let keys = &mut call.executor.keys;
    let removed = command.from(1).filter(|key| keys.remove(key)).count();
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let keys = &call.executor.keys;
    let found = command
        .from(1)
        .filter(|key| keys.get(key).is_some())
        .count();
    call.reply.integer(found as i64);
    Ok(())
}

fn key<'a>(command: Command<'a>) -> &'a [u8] {
    command.get(1).unwrap_or_default()
}
