//! COMMAND: what commands there are. redis-cli asks for it when a person types, for its hints.

use super::table::{SPECS, Spec, find};
use super::{Call, Outcome, quote, wrong_number};
use crate::resp::{Command, Reply};

pub(super) fn command(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let Some(which) = command.get(1) else {
        all(call.reply);
        return Ok(());
    };
    match (which.to_ascii_uppercase().as_slice(), command.len()) {
        (b"COUNT", 2) => call.reply.integer(SPECS.len() as i64),
        (b"LIST", 2) => {
            call.reply.array(SPECS.len());
            for spec in SPECS {
                call.reply.bulk(spec.name.as_bytes());
            }
        }
        (b"INFO", 2) => all(call.reply),
        (b"INFO", _) => {
            call.reply.array(command.len() - 2);
            for name in command.from(2) {
                match find(name) {
                    Some(spec) => describe(call.reply, spec),
                    None => call.reply.null(),
                }
            }
        }
        (b"DOCS", _) => docs(call.reply, command),
        (b"COUNT" | b"LIST", _) => return Err(wrong_number("command")),
        (other, _) => {
            return Err(format!(
                "ERR COMMAND {} is not supported by this server, COUNT, DOCS, INFO and LIST are",
                quote(other)
            )
            .into());
        }
    }
    Ok(())
}

fn all(reply: &mut Reply) {
    reply.array(SPECS.len());
    for spec in SPECS {
        describe(reply, spec);
    }
}

/// The first six elements of Redis's description; the later ones are of access lists and clusters.
fn describe(reply: &mut Reply, spec: &Spec) {
    reply.array(6);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity);
    reply.array(spec.flags.len());
    for flag in spec.flags {
        reply.simple(flag);
    }
    let (first, last, step) = spec.keys;
    for number in [first, last, step] {
        reply.integer(number);
    }
}

/// Of the named commands, or of all; unknown names are left out, as in Redis.
fn docs(reply: &mut Reply, command: Command<'_>) {
    let named: Vec<&Spec> = if command.len() == 2 {
        SPECS.iter().collect()
    } else {
        command.from(2).filter_map(find).collect()
    };
    reply.map(named.len());
    for spec in named {
        reply.bulk(spec.name.as_bytes());
        reply.map(2);
        for (key, value) in [("summary", spec.summary), ("group", spec.group)] {
            reply.bulk(key.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}
