//! Thread-locals: the variable at an offset from a thread's control block.
//!
//! On x86-64 (TLS variant II, "ELF Handling For Thread-Local Storage", section 3.4.6) the block of the program itself
//! ends at the thread pointer.

use hitm_model::{Avma, Object, ObjectKind, SpaceId};

use super::global::offset_path;
use super::{Attribution, Attributor, path};
use crate::lines::Part;

pub(super) fn attribute(
    attributor: &Attributor<'_, '_, '_>,
    space: SpaceId,
    address: Avma,
    part: &Part,
) -> Option<Attribution> {
    let module = attributor.main_module(space)?;
    let binary = attributor.debug.module(module);
    let tls = binary.image.tls()?;
    let (owner, offset) = attributor.world.threads.values().find_map(|thread| {
        let offset = tls.offset_of(thread.fs_base?, address)?;
        (thread.space == space).then_some((thread, offset))
    })?;
    let debug = attributor.debug.get(module);
    let variable = debug.thread_local_at(offset);
    let (name, start, known_size, ty, declared) = match variable {
        Some(variable) => (
            variable.name,
            variable.svma.0,
            Some(variable.size),
            variable.ty,
            variable.declared,
        ),
        None => match binary.image.tls_symbol_at(offset) {
            Some(symbol) => (symbol.name, symbol.svma.0, Some(symbol.size), None, None),
            None => (
                format!("{}+tls:{offset:#x}", binary.name()),
                offset,
                None,
                None,
                None,
            ),
        },
    };
    let inside = offset.saturating_sub(start);
    let length = u64::from(part.range.len());
    let path = ty.map(|ty| path(debug, ty, inside, length));
    let field_path = match &path {
        Some(path) => format!("{name}{}", path.text),
        None => offset_path(&name, inside),
    };
    Some(Attribution {
        identity: format!("{}:tls:{name}", binary.name()),
        object: Object {
            kind: ObjectKind::ThreadLocal,
            name: format!("{name} of thread {} ({})", owner.name, owner.tid),
            type_name: ty.map(|ty| debug.type_name(ty)),
            binary: Some(binary.name().to_owned()),
            section: None,
            address: address.wrapping_sub(inside),
            size: known_size,
            declared,
            inferred: None,
        },
        field_path,
        field_type: path.as_ref().and_then(|path| path.leaf_type.clone()),
        elements: path
            .as_ref()
            .map_or_else(Vec::new, |path| path.elements(&name)),
        bare: path.as_ref().is_none_or(|path| path.text.is_empty()),
        rust: binary.image.is_rust(),
    })
}
