//! DWARF → source frames, variables, types, field paths.
