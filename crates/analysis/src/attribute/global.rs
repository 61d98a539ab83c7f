//! Globals and statics: the symbol or the DWARF variable at a file address.

use hitm_binary::debug::Origin;
use hitm_model::{Avma, Bias, Object, ObjectKind};

use super::{Attribution, Attributor, path};
use crate::binaries::ModuleId;
use crate::lines::Part;

pub(super) fn attribute(
    attributor: &Attributor<'_, '_, '_>,
    module: ModuleId,
    bias: Bias,
    address: Avma,
    part: &Part,
) -> Attribution {
    let binary = attributor.debug.module(module);
    let svma = bias.to_svma(address);
    let size = u64::from(part.range.len());
    let section = binary.image.section_at(svma).map(str::to_owned);
    let debug = attributor.debug.get(module);
    // A section alone says nothing about which variable it is: then the address is the better name.
    let known = debug
        .global_at(svma)
        .filter(|global| global.origin != Origin::Section);
    let (name, start, ty, bytes, declared) = match known {
        Some(global) => (
            global.name,
            global.svma,
            global.ty,
            Some(global.size),
            global.declared,
        ),
        None => (format!("{}+{svma}", binary.name()), svma, None, None, None),
    };
    let offset = svma.offset_from(start).unwrap_or(0);
    let path = ty.map(|ty| path(debug, ty, offset, size));
    let field_path = match &path {
        Some(path) => format!("{name}{}", path.text),
        None => offset_path(&name, offset),
    };
    Attribution {
        identity: format!("{}:{name}", binary.name()),
        object: Object {
            kind: ObjectKind::Global,
            name: name.clone(),
            type_name: ty.map(|ty| debug.type_name(ty)),
            binary: Some(binary.name().to_owned()),
            section,
            address: bias.to_avma(start),
            size: bytes.filter(|bytes| *bytes > 0),
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
    }
}

/// A name and, where it is not 0, an offset into it.
pub(super) fn offset_path(name: &str, offset: u64) -> String {
    if offset == 0 {
        name.to_owned()
    } else {
        format!("{name} +{offset}")
    }
}
