//! Patterns with `*` and `?`, as CONFIG GET takes them. In time proportional to pattern times text, also for hostile ones.

/// Whether a pattern matches a whole text; letters match in both cases.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when the text does not match: behind the last star, which then takes one byte more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted.eq_ignore_ascii_case(&text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((behind_star, taken)) => {
                    p = behind_star;
                    t = taken + 1;
                    retry = Some((p, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    #[test]
    fn stars_and_question_marks() {
        let cases = [
            ("*", "", true),
            ("max*", "maxclients", true),
            ("MAX*", "maxclients", true),
            ("*len", "proto-max-bulk-len", true),
            ("*max*len", "proto-max-bulk-len", true),
            ("p?rt", "port", true),
            ("p?rt", "prt", false),
            ("port", "ports", false),
            ("", "port", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
        ];
        for (pattern, text, expected) in cases {
            let found = super::matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }
}
