//! An ELF file of any bytes and any machine: all its lines and types, and its difference from itself, without a panic.

use std::num::NonZeroUsize;

use hitm_analysis::diff::{DiffOptions, Side, diff};
use hitm_analysis::layout::{MapOptions, line_map, type_view};
use hitm_binary::debug::Catalog;
use hitm_binary::image::Image;
use hitm_model::LineSize;

/// One input.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(image) = Image::parse_any_machine(bytes) else {
        return;
    };
    let one = NonZeroUsize::MIN;
    let line_size = LineSize::ASSUMED;
    let catalog = Catalog::new(&image).ok().flatten();
    if let Some(catalog) = &catalog {
        let entries = catalog.all(one);
        catalog.lay_out(&entries, one, &mut |_, layout| {
            let _ = type_view(&layout, &[line_size]);
        });
        for entry in catalog.named("Slab", one) {
            let _ = catalog.debug().place_of(entry.ty, ".cursor");
        }
    }
    let debug = catalog.as_ref().map(Catalog::debug);
    let options = MapOptions {
        line_size,
        read_only: true,
    };
    let _ = line_map(&image, debug.as_ref(), &options);
    let side = Side {
        name: "",
        image: &image,
        catalog: catalog.as_ref(),
    };
    let options = DiffOptions {
        line_size,
        jobs: one,
    };
    let _ = diff(side, side, &options);
}
