//! Commands on the client's own connection.

use super::{Call, Outcome, Refusal, SYNTAX, integer, quote, wrong_number};
use crate::resp::{Command, Protocol};

/// Bytes of a client's name, library or version at most: they are kept for each connection.
const NAME_MAX: usize = 256;

pub(super) fn ping(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    match (command.get(1), command.len()) {
        (None, _) => call.reply.simple("PONG"),
        (Some(text), 2) => call.reply.bulk(text),
        _ => return Err(wrong_number("ping")),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    call.reply.bulk(command.get(1).unwrap_or_default());
    Ok(())
}

pub(super) fn select(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    match integer(command.get(1).unwrap_or_default()) {
        Some(0) => call.reply.simple("OK"),
        Some(_) => return Err("ERR DB index is out of range".into()),
        None => return Err("ERR value is not an integer or out of range".into()),
    }
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_, '_>, _: Command<'_>) -> Outcome {
    call.reply.simple("OK");
    *call.close = true;
    Ok(())
}

/// `HELLO [version [SETNAME name]]`: all of it, or nothing.
pub(super) fn hello(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let protocol = match command.get(1).map(integer) {
        None => call.reply.protocol(),
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(None) => {
            return Err("ERR Protocol version is not an integer or out of range".into());
        }
        Some(Some(_)) => return Err("NOPROTO unsupported protocol version".into()),
    };
    let mut name = None;
    let mut options = command.from(2);
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"SETNAME" => name = Some(valid_name(options.next().ok_or(SYNTAX)?)?),
            b"AUTH" => return Err("ERR AUTH is not supported: this server has no users".into()),
            _ => {
                return Err(format!("ERR Syntax error in HELLO option '{}'", quote(option)).into());
            }
        }
    }
    if let Some(name) = name {
        call.session.name = name.to_vec();
    }
    call.reply.set_protocol(protocol);
    describe(call);
    Ok(())
}

fn describe(call: &mut Call<'_, '_>) {
    let reply = &mut *call.reply;
    reply.map(7);
    for (key, value) in [
        ("server", "ioserver"),
        ("version", env!("CARGO_PKG_VERSION")),
    ] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(match reply.protocol() {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    });
    reply.bulk(b"id");
    reply.integer(i64::try_from(call.session.id).unwrap_or(i64::MAX));
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

pub(super) fn client(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let which = command.get(1).unwrap_or_default().to_ascii_uppercase();
    match (which.as_slice(), command.len()) {
        (b"SETNAME", 3) => {
            call.session.name = valid_name(command.get(2).unwrap_or_default())?.to_vec();
            call.reply.simple("OK");
        }
        (b"GETNAME", 2) => match call.session.name.as_slice() {
            [] => call.reply.null(),
            name => call.reply.bulk(name),
        },
        (b"SETINFO", 4) => set_info(call, command)?,
        (b"ID", 2) => {
            let id = i64::try_from(call.session.id).unwrap_or(i64::MAX);
            call.reply.integer(id);
        }
        (b"INFO", 2) => {
            let session = &*call.session;
            let protocol = match call.reply.protocol() {
                Protocol::Resp2 => 2,
                Protocol::Resp3 => 3,
            };
            let line = format!(
                "id={} addr={} name={} lib-name={} lib-ver={} resp={protocol}\n",
                session.id,
                session.address,
                quote(&session.name),
                quote(&session.library),
                quote(&session.library_version),
            );
            call.reply.text(&line);
        }
        (b"SETNAME" | b"GETNAME" | b"SETINFO" | b"ID" | b"INFO", _) => {
            let name = String::from_utf8_lossy(&which).to_ascii_lowercase();
            return Err(wrong_number(&format!("client|{name}")));
        }
        _ => {
            return Err(format!(
                "ERR CLIENT {} is not supported by this server, SETNAME, GETNAME, SETINFO, ID and INFO are",
                quote(&which)
            )
            .into());
        }
    }
    Ok(())
}

fn set_info(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let value = valid_name(command.get(3).unwrap_or_default())?.to_vec();
    let attribute = command.get(2).unwrap_or_default();
    match attribute.to_ascii_lowercase().as_slice() {
        b"lib-name" => call.session.library = value,
        b"lib-ver" => call.session.library_version = value,
        _ => return Err(format!("ERR Unrecognized option '{}'", quote(attribute)).into()),
    }
    call.reply.simple("OK");
    Ok(())
}

/// Names are shown in lines of words.
fn valid_name(name: &[u8]) -> Result<&[u8], Refusal> {
    if name.len() > NAME_MAX {
        return Err(format!("ERR Client names have at most {NAME_MAX} bytes").into());
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters.".into(),
        );
    }
    Ok(name)
}
