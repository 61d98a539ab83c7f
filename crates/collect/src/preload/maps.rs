//! The text of `/proc/PID/maps`.

use hitm_model::{Avma, AvmaRange, Mapping, MappingKind};

use crate::mapping::mapping_kind;

/// All that can be read, written or executed; guard pages are left out, and lines that are damaged or cut off.
pub(super) fn parse(text: &str) -> Vec<Mapping> {
    text.split_inclusive('\n')
        .filter_map(|line| parse_line(line.strip_suffix('\n')?))
        .collect()
}

/// `55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:01 131 /usr/bin/true`
fn parse_line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (_device, rest) = rest.split_once(' ')?;
    let (_inode, name) = rest.split_once(' ').unwrap_or((rest, ""));
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = AvmaRange::new(Avma(hexadecimal(start)?), Avma(hexadecimal(end)?));
    let allowed = |letter: u8, at: usize| permissions.as_bytes().get(at) == Some(&letter);
    let (readable, writable, executable) = (allowed(b'r', 0), allowed(b'w', 1), allowed(b'x', 2));
    if range.is_empty() || !(readable || writable || executable) {
        return None;
    }
    let name = name.trim_start();
    let kind = if name.contains(super::shipped::NAME) {
        // The agent's own files have no path that anybody else could open.
        MappingKind::Special("[hitm agent]".into())
    } else {
        // The kernel writes a line feed in a name as `\012`.
        mapping_kind(&name.replace("\\012", "\n"), hexadecimal(offset)?)
    };
    Some(Mapping {
        range,
        kind,
        executable,
        writable,
    })
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
