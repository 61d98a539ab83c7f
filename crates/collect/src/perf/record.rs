//! Bytes of one perf record → [`RawEvent`].
//!
//! The layouts are those of perf_event_open(2) for the attributes in `attr`. A record that is too short for its kind
//! gives [`Damaged`], one of a kind that nobody asked for gives nothing.

use hitm_model::{Avma, AvmaRange, Mapping, Nanos, Pid, Tid};
use perf_event_open_sys::bindings as sys;

use super::{
    attr::{self, N_REGISTERS},
    ring::{Damaged, RawRecord},
};
use crate::{RawEvent, RawSample, mapping::mapping_kind};

/// What one record says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    /// When it was written.
    pub(crate) at: Nanos,
    /// The number of the event that wrote it. An inherited event has its parent's.
    pub(crate) id: u64,
    /// What it says; `None` for records of no interest.
    pub(crate) event: Option<RawEvent>,
}

/// The bytes behind every record that is not a sample: pid, tid, time, id, cpu, and four unused.
const ID_LEN: usize = 32;

/// Reads one record.
pub(crate) fn parse(record: &RawRecord<'_>) -> Result<Record, Damaged> {
    if record.kind == sys::PERF_RECORD_SAMPLE {
        return sample(record.body);
    }
    let body_len = record.body.len().checked_sub(ID_LEN).ok_or(Damaged)?;
    let (body, trailer) = record.body.split_at(body_len);
    let mut trailer = Fields(trailer);
    let _task = trailer.u64()?;
    let at = Nanos(trailer.u64()?);
    let id = trailer.u64()?;
    let mut body = Fields(body);
    let misc = u32::from(record.misc);
    let event = match record.kind {
        sys::PERF_RECORD_FORK | sys::PERF_RECORD_EXIT => {
            Some(task(&mut body, record.kind == sys::PERF_RECORD_FORK)?)
        }
        sys::PERF_RECORD_COMM => Some(RawEvent::Named {
            pid: Pid(body.u32()?),
            tid: Tid(body.u32()?),
            name: body.text(),
            exec: misc & sys::PERF_RECORD_MISC_COMM_EXEC != 0,
            at,
        }),
        sys::PERF_RECORD_MMAP2 => Some(mmap2(&mut body, at)?),
        sys::PERF_RECORD_LOST => {
            let _id = body.u64()?;
            let events = body.u64()?;
            Some(RawEvent::Lost { events, at })
        }
        _ => None,
    };
    Ok(Record { at, id, event })
}

/// A sample: pid, tid, time, id, cpu, unused, ABI, registers.
fn sample(body: &[u8]) -> Result<Record, Damaged> {
    let mut body = Fields(body);
    let pid = Pid(body.u32()?);
    let tid = Tid(body.u32()?);
    let at = Nanos(body.u64()?);
    let id = body.u64()?;
    let cpu = body.u32()?;
    let _unused = body.u32()?;
    let abi = body.u64()?;
    // A thread that is on its way out has no user-mode registers any more, and 32-bit ones cannot be decoded.
    if abi != u64::from(sys::PERF_SAMPLE_REGS_ABI_64) {
        return Ok(Record {
            at,
            id,
            event: None,
        });
    }
    let mut values = [0; N_REGISTERS];
    for value in &mut values {
        *value = body.u64()?;
    }
    let event = Some(RawEvent::Sample(RawSample {
        pid,
        tid,
        at,
        cpu,
        registers: attr::registers(&values),
    }));
    Ok(Record { at, id, event })
}

/// A birth or an end: pid, parent's pid, tid, parent's tid, time.
fn task(body: &mut Fields<'_>, born: bool) -> Result<RawEvent, Damaged> {
    let pid = Pid(body.u32()?);
    let parent_pid = Pid(body.u32()?);
    let tid = Tid(body.u32()?);
    let parent_tid = Tid(body.u32()?);
    let at = Nanos(body.u64()?);
    Ok(if born {
        RawEvent::Born {
            pid,
            tid,
            parent_pid,
            parent_tid: Some(parent_tid),
            at,
        }
    } else {
        RawEvent::Ended { pid, tid, at }
    })
}

/// A mapping: pid, tid, address, length, offset, device, inode, protection, flags, file name.
fn mmap2(body: &mut Fields<'_>, at: Nanos) -> Result<RawEvent, Damaged> {
    let pid = Pid(body.u32()?);
    let _tid = body.u32()?;
    let start = Avma(body.u64()?);
    let end = Avma(start.0.checked_add(body.u64()?).ok_or(Damaged)?);
    let offset = body.u64()?;
    // Device (major, minor), inode and its generation.
    body.skip(24)?;
    let protection = body.u32()?;
    let _flags = body.u32()?;
    Ok(RawEvent::Mapped {
        pid,
        mapping: Mapping {
            range: AvmaRange::new(start, end),
            kind: mapping_kind(&body.text(), offset),
            executable: protection & libc::PROT_EXEC as u32 != 0,
            writable: protection & libc::PROT_WRITE as u32 != 0,
        },
        at,
    })
}

/// Little-endian fields, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> Result<u32, Damaged> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Damaged)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64, Damaged> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Damaged)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn skip(&mut self, n: usize) -> Result<(), Damaged> {
        self.0 = self.0.get(n..).ok_or(Damaged)?;
        Ok(())
    }

    /// What is left, up to the first NUL.
    fn text(&mut self) -> String {
        let bytes = std::mem::take(&mut self.0);
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use hitm_model::MappingKind;
    use proptest::prelude::*;

    use super::*;

    fn trailer(at: u64) -> Vec<u8> {
        let mut bytes = vec![1, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend(at.to_le_bytes());
        bytes.extend(77u64.to_le_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    fn parsed(kind: u32, misc: u16, body: &[u8]) -> Record {
        parse(&RawRecord { kind, misc, body }).unwrap()
    }

    #[test]
    fn a_new_program_is_told_from_a_new_name() {
        let mut body = vec![5, 0, 0, 0, 6, 0, 0, 0];
        body.extend(b"worker\0\0");
        body.extend(trailer(9));
        for (misc, exec) in [(0, false), (sys::PERF_RECORD_MISC_COMM_EXEC as u16, true)] {
            let record = parsed(sys::PERF_RECORD_COMM, misc, &body);
            assert_eq!((record.at, record.id), (Nanos(9), 77));
            assert_eq!(
                record.event,
                Some(RawEvent::Named {
                    pid: Pid(5),
                    tid: Tid(6),
                    name: "worker".into(),
                    exec,
                    at: Nanos(9)
                })
            );
        }
    }

    #[test]
    fn a_birth_names_the_thread_that_made_it() {
        let mut body = Vec::new();
        for number in [5u32, 6, 7, 8] {
            body.extend(number.to_le_bytes());
        }
        body.extend(9u64.to_le_bytes());
        body.extend(trailer(9));
        assert_eq!(
            parsed(sys::PERF_RECORD_FORK, 0, &body).event,
            Some(RawEvent::Born {
                pid: Pid(5),
                tid: Tid(7),
                parent_pid: Pid(6),
                parent_tid: Some(Tid(8)),
                at: Nanos(9)
            })
        );
        assert_eq!(
            parsed(sys::PERF_RECORD_EXIT, 0, &body).event,
            Some(RawEvent::Ended {
                pid: Pid(5),
                tid: Tid(7),
                at: Nanos(9)
            })
        );
    }

    #[test]
    fn a_mapping_has_its_file_and_rights() {
        let mut body = Vec::new();
        body.extend(5u32.to_le_bytes());
        body.extend(6u32.to_le_bytes());
        for word in [0x1000u64, 0x2000, 0x3000, 0, 0, 0] {
            body.extend(word.to_le_bytes());
        }
        body.extend(5u32.to_le_bytes());
        body.extend(2u32.to_le_bytes());
        body.extend(b"/lib/x.so\0\0\0\0\0\0\0");
        body.extend(trailer(9));
        let Some(RawEvent::Mapped { mapping, .. }) = parsed(sys::PERF_RECORD_MMAP2, 0, &body).event
        else {
            panic!("not a mapping");
        };
        assert_eq!(mapping.range, AvmaRange::new(Avma(0x1000), Avma(0x3000)));
        assert!(mapping.executable && !mapping.writable);
        assert_eq!(
            mapping.kind,
            MappingKind::File {
                path: "/lib/x.so".into(),
                offset: 0x3000,
                build_id: None
            }
        );
    }

    #[test]
    fn a_sample_without_registers_is_of_no_interest() {
        assert_eq!(parsed(sys::PERF_RECORD_SAMPLE, 0, &[0; 40]).event, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(kind in 0u32..24, misc: u16, body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&RawRecord { kind, misc, body: &body });
        }
    }
}
