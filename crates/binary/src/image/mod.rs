//! Sections, symbols, function bounds and the build-id of an ELF file.
