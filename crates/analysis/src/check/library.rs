//! Fields that are nobody's to put anywhere: parts of objects of C++'s library, and what keeps the threads themselves.

use hitm_model::Explained;

use super::fields::Field;
use super::judge::Suspicion;
use super::present::Presenter;

/// What keeps a thread.
const HANDLES: [&str; 4] = ["std::thread", "std::jthread", "JoinHandle<", "pthread_t"];

impl Presenter<'_, '_, '_> {
    /// Whether without what keeps the threads themselves there would be nothing: that is written where they are started
    /// and waited for.
    pub(super) fn is_of_handles(&self, suspicion: &Suspicion) -> bool {
        let keeps_threads = |field: &&Field| {
            let ty = self.known(field.object).ty;
            let start = self.facts.objects[field.object].start;
            let place = ty.zip(field.range.start.offset_from(start));
            place.is_some_and(|(ty, offset)| {
                let leaf = self
                    .debug
                    .field_path(ty, offset, field.range.len())
                    .leaf_type;
                HANDLES.iter().any(|name| leaf.contains(name))
            })
        };
        let handles: Vec<&Field> = suspicion.fields.iter().filter(keeps_threads).collect();
        let mut others: Vec<String> = suspicion
            .fields
            .iter()
            .filter(|field| !keeps_threads(field))
            .map(|field| self.name_of(field).0)
            .collect();
        others.dedup();
        suspicion.stride.is_none() && !handles.is_empty() && others.len() < 2
    }

    /// Why fields are none of anybody's: all are parts of one object of C++'s library, as a queue.
    pub(super) fn within_one(&self, suspicion: &Suspicion) -> Option<Explained> {
        let names: Vec<String> = suspicion
            .fields
            .iter()
            .map(|field| self.name_of(field).0)
            .collect();
        let one = names.len() > 1 && names.windows(2).all(|two| two[0] == two[1]);
        let of_library = |field: &Field| self.is_inside_library(field);
        (one && suspicion.fields.iter().all(of_library)).then(|| Explained {
            objects: names.into_iter().take(1).collect(),
            why: "parts of one object of the standard library: threads that change them without a lock around the \
                  whole are a fault of another kind"
                .to_owned(),
        })
    }

    /// Whether a field is a part of an object of C++'s library whose parts are not for use on their own, and no atomic or
    /// lock.
    pub(super) fn is_inside_library(&self, field: &Field) -> bool {
        let Some(ty) = self.known(field.object).ty else {
            return false;
        };
        let start = self.facts.objects[field.object].start;
        let Some(offset) = field.range.start.offset_from(start) else {
            return false;
        };
        let path = self.debug.field_path(ty, offset, field.range.len());
        let words = self.debug.words_of(ty);
        let is_word = words.iter().any(|word| {
            word.repeated.is_some()
                || (word.offset < offset.saturating_add(field.range.len())
                    && offset < word.offset.saturating_add(word.size))
        });
        let open = ["std::pair<", "std::tuple<", "std::array<", "std::complex<"];
        path.leaf_type.starts_with("std::")
            && !open.iter().any(|name| path.leaf_type.starts_with(name))
            && path.leaf_size > field.range.len()
            && !is_word
    }
}
