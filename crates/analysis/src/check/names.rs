//! Names of threads: those of the program's own functions that they run, not of what a library puts around them.

use hitm_binary::program::{Root, RootKind};
use hitm_model::{SourceFrame, Svma, ThreadRoot};

use super::present::Presenter;

impl Presenter<'_, '_, '_> {
    pub(super) fn name_roots(&self) -> Vec<ThreadRoot> {
        let mut names: Vec<ThreadRoot> = Vec::new();
        for (number, root) in self.program.roots().iter().enumerate() {
            let started_in: Vec<String> = root
                .started_at
                .iter()
                .take(8)
                .map(|site| self.function_name_at(*site))
                .collect();
            // The function that others only lead to.
            let own = match root.kind {
                RootKind::Thread if self.is_led(root) => root.entries.last(),
                _ => root.entries.first(),
            };
            let mut name = match (root.kind, own) {
                (RootKind::Main, _) => "main".to_owned(),
                (RootKind::Thread, Some(entry)) => self.name_root(number, *entry, &started_in),
                (RootKind::Thread, None) => "a thread".to_owned(),
            };
            if names.iter().any(|other| other.name == name) {
                let again = (2..).map(|n| format!("{name} #{n}"));
                name = again
                    .take(names.len() + 1)
                    .find(|again| !names.iter().any(|other| other.name == *again))
                    .unwrap_or(name);
            }
            names.push(ThreadRoot {
                name,
                many: root.many,
                started_in,
            });
        }
        names
    }

    /// Whether a thread's function was found behind those that lead to it.
    fn is_led(&self, root: &Root) -> bool {
        let library = |entry: &Svma| {
            let name = self.function_name(*entry);
            ["call_once", "std::", "core::", "alloc::"]
                .iter()
                .any(|word| name.contains(word))
        };
        root.led && !root.entries.last().is_some_and(library)
    }

    pub(super) fn function_name_at(&self, site: Svma) -> String {
        let frames = self.debug.source_frames(site);
        match frames.iter().find(|frame| !frame.is_library()) {
            Some(frame) => frame.function.clone(),
            None => self.function_name(site),
        }
    }

    /// A thread is known by the program's own function that it runs, not by what the library puts around it.
    fn name_root(&self, number: usize, entry: Svma, started_in: &[String]) -> String {
        let name = self.function_name(entry);
        let around = [
            "call_once",
            "thread_start",
            "_M_run",
            "__rust_begin_short_backtrace",
            "code at ",
        ];
        if !around.iter().any(|word| name.contains(word)) {
            return name;
        }
        let functions = self.program.followed().by_root.get(number);
        let code = self.program.functions();
        let reached = functions
            .into_iter()
            .flatten()
            .filter_map(|&it| code.get(it as usize));
        // Functions that belong to this root only are its own.
        for function in reached.take(64) {
            if self.is_shared(number, function.range.start) {
                continue;
            }
            let accesses = function.accesses.iter().map(|access| access.instruction);
            for instruction in accesses.take(32) {
                let frames = self.debug.source_frames(instruction);
                let own: Option<&SourceFrame> =
                    frames.iter().rev().find(|frame| !frame.is_library());
                if let Some(frame) = own {
                    return frame.function.clone();
                }
            }
        }
        match started_in.first() {
            Some(starter) => format!("thread of {starter}"),
            None => name,
        }
    }

    /// Whether a function is not one kind of thread's own: the main thread runs it, or most threads do.
    fn is_shared(&self, number: usize, function: Svma) -> bool {
        let code = self.program.functions();
        let Ok(at) = code.binary_search_by_key(&function, |it| it.range.start) else {
            return false;
        };
        let by_root = &self.program.followed().by_root;
        let runs = |functions: &[u32]| functions.binary_search(&(at as u32)).is_ok();
        let others = by_root.iter().enumerate().skip(1);
        let others = others.filter(|(other, functions)| *other != number && runs(functions));
        let threads = by_root.len().saturating_sub(1).max(2);
        by_root.first().is_some_and(|main| runs(main)) || 2 * (others.count() + 1) > threads
    }
}
