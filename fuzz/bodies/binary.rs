//! An ELF file of any bytes, with any DWARF in it, answers every question without a panic.

use hitm_binary::debug::DebugInfo;
use hitm_binary::image::Image;
use hitm_model::Svma;

/// One input.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(image) = Image::parse(bytes) else {
        return;
    };
    let _ = (
        image.damage(),
        image.build_id(),
        image.debug_link(),
        image.debug_level(),
        image.is_rust(),
        image.tls(),
    );
    let debug = DebugInfo::load(&image).unwrap_or_else(|_| DebugInfo::symbols_only(&image));
    for range in [image.image_range(), image.data_range()] {
        let step = (range.len() / 16).max(1);
        for n in 0..16 {
            let svma = Svma(range.start.0.wrapping_add(n * step));
            let _ = (
                image.section_at(svma),
                image.symbol_at(svma),
                image.function_at(svma),
            );
            let _ = debug.source_frames(svma);
            let _ = (debug.pointers_at(svma), debug.frame_variables(svma));
            let Some(global) = debug.global_at(svma) else {
                continue;
            };
            if let Some(ty) = global.ty {
                let _ = (debug.type_name(ty), debug.type_size(ty), debug.pointee(ty));
                for offset in [0, 8, global.size / 2, global.size.wrapping_sub(1)] {
                    let _ = (
                        debug.field_path(ty, offset, 8),
                        debug.pointer_stored_at(ty, offset),
                    );
                }
            }
        }
    }
}
