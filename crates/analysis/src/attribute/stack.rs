//! Variables in the stack frames of threads, also of threads that sleep.
//!
//! The recorder read the owner's stack when threads first met on it; the frames with their canonical frame addresses
//! are in the recording. DWARF tells which variable of which frame holds the address.

use hitm_binary::debug::FramePlace;
use hitm_model::{Avma, Caveat, Object, ObjectKind, SpaceId, StackFrame, Svma, Tid};

use super::{Attribution, Attributor, path};
use crate::binaries::ModuleId;
use crate::lines::Part;

pub(super) fn attribute(
    attributor: &mut Attributor<'_, '_, '_>,
    space: SpaceId,
    address: Avma,
    part: &Part,
) -> Option<Attribution> {
    let (owner, thread) = attributor.world.stack_owner(space, address)?;
    let (owner_name, tid) = (thread.name.clone(), thread.tid);
    if thread.is_control_block(address) {
        return Some(control_block(&owner_name, tid, address));
    }
    let frame = frame_of(&thread.frames, address);
    let variable = frame.and_then(|frame| variable(attributor, space, frame, address, part));
    if let Some(variable) = variable {
        return Some(variable);
    }
    let why = match frame {
        None if thread.frames.is_empty() => Some("its frames were not read"),
        None => Some("the address is in none of the frames that could be unwound"),
        Some(_) => None,
    };
    if let Some(why) = why {
        let caveat = Caveat::StackUnreadable {
            thread: owner_name.clone(),
            why: why.to_owned(),
        };
        if !attributor.caveats.contains(&caveat) {
            attributor.caveats.push(caveat);
        }
    }
    let of = if owner == part.thread {
        "own stack"
    } else {
        "stack"
    };
    let place = frame
        .and_then(|frame| function_of(attributor, space, frame))
        .map_or_else(String::new, |function| format!(" in {function}()"));
    let name = format!("{of} of thread {owner_name} ({tid}){place}");
    let identity = format!("stack of {owner_name}{place}");
    Some(Attribution::named_only(
        ObjectKind::Stack,
        identity,
        name,
        address,
    ))
}

/// Thread-locals of shared libraries and what the C library keeps of a thread: at the top of its stack's mapping.
fn control_block(owner: &str, tid: Tid, address: Avma) -> Attribution {
    let name = format!("thread-local data of thread {owner} ({tid})");
    let identity = format!("thread-local data of {owner}");
    Attribution::named_only(ObjectKind::ThreadLocal, identity, name, address)
}

/// The frame that holds an address: the innermost one whose canonical frame address is above it.
fn frame_of(frames: &[StackFrame], address: Avma) -> Option<&StackFrame> {
    frames.iter().find(|frame| address < frame.cfa)
}

/// Where a frame's code is: its binary, and an address that is inside the calling instruction for a return address.
fn code_of(
    attributor: &Attributor<'_, '_, '_>,
    space: SpaceId,
    frame: &StackFrame,
) -> Option<(ModuleId, Svma)> {
    let ip = if frame.is_return {
        frame.ip.wrapping_sub(1)
    } else {
        frame.ip
    };
    let (module, bias) = attributor.code_at(space, ip)?;
    Some((module, bias.to_svma(ip)))
}

fn function_of(
    attributor: &Attributor<'_, '_, '_>,
    space: SpaceId,
    frame: &StackFrame,
) -> Option<String> {
    let (module, ip) = code_of(attributor, space, frame)?;
    let frames = attributor.debug.get(module).source_frames(ip);
    frames.last().map(|frame| frame.function.clone())
}

fn variable(
    attributor: &Attributor<'_, '_, '_>,
    space: SpaceId,
    frame: &StackFrame,
    address: Avma,
    part: &Part,
) -> Option<Attribution> {
    let (module, ip) = code_of(attributor, space, frame)?;
    let debug = attributor.debug.get(module);
    let (variable, start) = debug.frame_variables(ip).into_iter().find_map(|variable| {
        let start = match variable.place {
            FramePlace::CfaOffset(offset) => frame.cfa.wrapping_add(offset as u64),
            FramePlace::FpOffset(offset) => frame.fp.wrapping_add(offset as u64),
            FramePlace::SpOffset(_) => return None,
        };
        let offset = address.offset_from(start)?;
        (offset < variable.size).then_some((variable, start))
    })?;
    let offset = address.offset_from(start)?;
    let path = path(debug, variable.ty, offset, u64::from(part.range.len()));
    let binary = attributor.debug.module(module);
    let function = &variable.function;
    Some(Attribution {
        identity: format!("{}:{function}:{}", binary.name(), variable.name),
        object: Object {
            kind: ObjectKind::Stack,
            name: format!("{} in {function}()", variable.name),
            type_name: Some(debug.type_name(variable.ty)),
            binary: Some(binary.name().to_owned()),
            section: None,
            address: start,
            size: Some(variable.size),
            declared: variable.declared,
            inferred: None,
        },
        field_path: format!("{}{}", variable.name, path.text),
        elements: path.elements(&variable.name),
        bare: path.text.is_empty(),
        field_type: path.leaf_type,
        rust: binary.image.is_rust(),
    })
}
