//! What the kernel's name of a mapping means. perf's records and `/proc/PID/maps` use the same names.

use hitm_model::MappingKind;

/// The kind of a mapping that the kernel calls `name` and that starts at `offset` of its file.
pub(crate) fn mapping_kind(name: &str, offset: u64) -> MappingKind {
    match name {
        "" | "//anon" => MappingKind::Anonymous,
        "[heap]" => MappingKind::Heap,
        "[stack]" => MappingKind::MainStack,
        // Shared anonymous memory is a file of the kernel's own.
        "/dev/zero" | "/dev/zero (deleted)" => MappingKind::Anonymous,
        _ if name.starts_with("[anon") => MappingKind::Anonymous,
        _ if name.starts_with('/') => MappingKind::File {
            // The file that replaced it has the same path; the build-id tells them apart.
            path: name.strip_suffix(" (deleted)").unwrap_or(name).to_owned(),
            offset,
            build_id: None,
        },
        _ => MappingKind::Special(name.to_owned()),
    }
}
