//! The text of `/proc/PID/maps`.

use hitm_model::{Mapping, MappingKind};

use crate::mapping::MapsLine;

/// All that can be read, written or executed; guard pages are left out, and lines that are damaged or cut off.
pub(super) fn parse(text: &str) -> Vec<Mapping> {
    text.split_inclusive('\n')
        .filter_map(|line| parse_line(line.strip_suffix('\n')?))
        .collect()
}

fn parse_line(line: &str) -> Option<Mapping> {
    let line = MapsLine::parse(line)?;
    if line.range.is_empty() || !(line.readable || line.writable || line.executable) {
        return None;
    }
    let mut mapping = line.mapping();
    if line.name.contains(super::shipped::NAME) {
        // The agent's own files have no path that anybody else could open.
        mapping.kind = MappingKind::Special("[hitm agent]".into());
    }
    Some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = parse(text)
            .into_iter()
            .map(|mapping| {
                let rights = match (mapping.writable, mapping.executable) {
                    (true, true) => "wx",
                    (true, false) => "w",
                    (false, true) => "x",
                    (false, false) => "r",
                };
                format!("{} {rights} {:?}", mapping.range, mapping.kind)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn kinds() {
        check(
            "1000-2000 r-xp 00000200 fe:01 131                        /usr/bin/a b\n\
             3000-4000 rw-p 00000000 00:00 0                          [heap]\n\
             5000-6000 rw-p 00000000 00:00 0 \n\
             6000-7000 ---p 00000000 00:00 0 \n\
             7000-8000 rw-p 00000000 00:00 0                          [stack]\n\
             8000-9000 r-xp 00000000 00:00 0                          [vdso]\n\
             9000-a000 rwxp 00000000 00:00 0                          [anon:jit]\n",
            &[
                "0x1000..0x2000 x File { path: \"/usr/bin/a b\", offset: 512, build_id: None }",
                "0x3000..0x4000 w Heap",
                "0x5000..0x6000 w Anonymous",
                "0x7000..0x8000 w MainStack",
                "0x8000..0x9000 x Special(\"[vdso]\")",
                "0x9000..0xa000 wx Anonymous",
            ],
        );
    }

    #[test]
    fn the_agent_is_no_file() {
        check(
            "1000-2000 r-xp 00000000 00:01 9      /memfd:hitm-agent (deleted)\n",
            &["0x1000..0x2000 x Special(\"[hitm agent]\")"],
        );
    }

    #[test]
    fn damaged_lines_are_left_out() {
        check(
            "1000 r-xp\nzz-2000 r-xp 0 0 0 \n5000-4000 r--p 0 0:0 0 \n1000-2000 r--p 00",
            &[],
        );
    }
}
