//! What `hitm_binary::debug` does not answer yet: no field paths, pointers and frame variables so far.

use hitm_binary::debug::{DebugInfo, TypeId};
use hitm_model::{Register, SourceLine, Svma};

#[derive(Debug, Default)]
pub(crate) struct FieldPath {
    pub(crate) path: String,
    pub(crate) leaf_type: String,
    pub(crate) arrays: Vec<ArrayStep>,
}
#[derive(Debug)]
pub(crate) struct ArrayStep {
    pub(crate) element_size: u64,
    pub(crate) count: u64,
}
#[derive(Debug)]
pub(crate) struct PointerVariable {
    pub(crate) name: String,
    pub(crate) register: Register,
    pub(crate) offset: i64,
    pub(crate) pointee: TypeId,
    pub(crate) function: String,
}
#[derive(Debug)]
#[expect(dead_code, reason = "until hitm_binary answers")]
pub(crate) enum FramePlace {
    Cfa(i64),
    Fp(i64),
    Sp(i64),
}
#[derive(Debug)]
pub(crate) struct FrameVariable {
    pub(crate) name: String,
    pub(crate) function: String,
    pub(crate) place: FramePlace,
    pub(crate) size: u64,
    pub(crate) ty: TypeId,
    pub(crate) declared: Option<SourceLine>,
}
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) ty: TypeId,
    pub(crate) base_offset: u64,
}

pub(crate) trait Pending {
    fn field_path(&self, _ty: TypeId, _offset: u64, _size: u64) -> FieldPath {
        FieldPath::default()
    }
    fn pointers_at(&self, _ip: Svma) -> Vec<PointerVariable> {
        Vec::new()
    }
    fn frame_variables(&self, _ip: Svma) -> Vec<FrameVariable> {
        Vec::new()
    }
    fn aggregates_with(&self, _members: &[(u64, TypeId)]) -> Vec<Aggregate> {
        Vec::new()
    }
    fn is_base_type(&self, _ty: TypeId) -> bool {
        false
    }
    fn declaration(&self, _ty: TypeId) -> Option<SourceLine> {
        None
    }
}
impl Pending for DebugInfo<'_> {}
