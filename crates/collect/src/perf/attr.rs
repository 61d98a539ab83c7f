//! What the kernel is asked for: the attributes of the two events on every processor.
//!
//! The *sampling* event carries registers; the *side* event carries what a reader of samples must know (births, names,
//! mappings). Each has a ring of its own, so that a program that maps a thousand files does not drown its samples.

use hitm_model::{Avma, Nanos, Register, Registers};
use perf_event_open_sys::bindings as sys;

/// How an event starts and whom it follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// When the task executes a new program.
    OnExec,
    /// At once.
    Now,
    /// When it is told to, and for one thread only.
    Held,
}

/// Registers as perf numbers them, in the order of their bits, and where we keep them; `None` is the instruction
/// pointer. A sample lists the values in this order.
const REGISTERS: [(u32, Option<Register>); 17] = [
    (sys::PERF_REG_X86_AX, Some(Register::Rax)),
    (sys::PERF_REG_X86_BX, Some(Register::Rbx)),
    (sys::PERF_REG_X86_CX, Some(Register::Rcx)),
    (sys::PERF_REG_X86_DX, Some(Register::Rdx)),
    (sys::PERF_REG_X86_SI, Some(Register::Rsi)),
    (sys::PERF_REG_X86_DI, Some(Register::Rdi)),
    (sys::PERF_REG_X86_BP, Some(Register::Rbp)),
    (sys::PERF_REG_X86_SP, Some(Register::Rsp)),
    (sys::PERF_REG_X86_IP, None),
    (sys::PERF_REG_X86_R8, Some(Register::R8)),
    (sys::PERF_REG_X86_R9, Some(Register::R9)),
    (sys::PERF_REG_X86_R10, Some(Register::R10)),
    (sys::PERF_REG_X86_R11, Some(Register::R11)),
    (sys::PERF_REG_X86_R12, Some(Register::R12)),
    (sys::PERF_REG_X86_R13, Some(Register::R13)),
    (sys::PERF_REG_X86_R14, Some(Register::R14)),
    (sys::PERF_REG_X86_R15, Some(Register::R15)),
];

/// How many register values a sample carries.
pub(crate) const N_REGISTERS: usize = REGISTERS.len();

/// The registers of a sample, from the values in perf's order.
pub(crate) fn registers(values: &[u64; N_REGISTERS]) -> Registers {
    let mut registers = Registers::default();
    for ((_, register), &value) in REGISTERS.iter().zip(values) {
        match register {
            Some(register) => registers.set(*register, value),
            None => registers.ip = Avma(value),
        }
    }
    registers
}

/// The event that samples registers every `period` of a thread's running time.
pub(crate) fn sampling(period: Nanos, start: Start, wake_at: u32) -> sys::perf_event_attr {
    let mut attr = common(start, wake_at);
    attr.config = u64::from(sys::PERF_COUNT_SW_CPU_CLOCK);
    attr.__bindgen_anon_1.sample_period = period.0;
    attr.sample_type |= sys::PERF_SAMPLE_REGS_USER as u64;
    attr.sample_regs_user = REGISTERS.iter().fold(0, |mask, (bit, _)| mask | 1 << bit);
    attr
}

/// The event that reports births, ends, names and mappings.
pub(crate) fn side(start: Start, wake_at: u32) -> sys::perf_event_attr {
    let mut attr = common(start, wake_at);
    attr.config = u64::from(sys::PERF_COUNT_SW_DUMMY);
    attr.set_mmap(1);
    attr.set_mmap_data(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr
}

/// The event that counts one thread's processor time, in nanoseconds, and tells it when it is read.
pub(crate) fn task_clock() -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: u64::from(sys::PERF_COUNT_SW_TASK_CLOCK),
        ..Default::default()
    };
    // It counts time in the kernel as well; asking for that would need more rights.
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

fn common(start: Start, wake_at: u32) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        sample_type: (sys::PERF_SAMPLE_TID
            | sys::PERF_SAMPLE_TIME
            | sys::PERF_SAMPLE_ID
            | sys::PERF_SAMPLE_CPU) as u64,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_inherit(u64::from(start != Start::Held));
    attr.set_disabled(u64::from(start != Start::Now));
    attr.set_enable_on_exec(u64::from(start == Start::OnExec));
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = wake_at;
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_go_where_their_numbers_say() {
        // The kernel writes values in the order of the mask's bits, so the table must be in that order.
        assert!(REGISTERS.is_sorted_by_key(|(bit, _)| *bit));
        let values: [u64; N_REGISTERS] = std::array::from_fn(|i| 100 + i as u64);
        let got = registers(&values);
        assert_eq!(got.ip, Avma(108));
        assert_eq!(got.get(Register::Rbx), 101);
        assert_eq!(got.get(Register::Rcx), 102);
        assert_eq!(got.sp(), Avma(107));
        assert_eq!(got.get(Register::R15), 116);
    }
}
