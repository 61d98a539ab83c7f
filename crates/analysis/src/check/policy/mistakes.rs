//! Rules that no layout can keep together.

use toml::Spanned;

use super::File;

/// Two rules that contradict each other: where the second is in the text, where the first is, and what is wrong.
pub(super) fn contradiction(file: &File) -> Option<(usize, usize, String)> {
    for together in &file.together {
        let names = &together.get_ref().symbols;
        let alone = file
            .isolate
            .iter()
            .find(|isolate| names.contains(&isolate.get_ref().symbol));
        if let Some(alone) = alone {
            let name = &alone.get_ref().symbol;
            return Some(both(
                alone,
                together,
                &format!("`{name}` is to be alone on its lines"),
            ));
        }
        for apart in &file.apart {
            let of_both: Vec<&String> = names
                .iter()
                .filter(|name| apart.get_ref().symbols.contains(name))
                .collect();
            if let [first, second, ..] = of_both.as_slice() {
                return Some(both(
                    apart,
                    together,
                    &format!("`{first}` and `{second}` are to be on different lines"),
                ));
            }
        }
    }
    None
}

fn both<A, B>(one: &Spanned<A>, together: &Spanned<B>, what: &str) -> (usize, usize, String) {
    let what = format!("[[together]] cannot be kept: {what}");
    (together.span().start, one.span().start, what)
}
