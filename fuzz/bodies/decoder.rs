//! Code of any bytes is decoded around any instruction pointer without a panic, and blocks keep their promises.

use hitm_binary::decode::{Code, Function, block_from};
use hitm_model::{Avma, Bias, Registers, Svma};

/// One input.
pub(crate) fn run(bytes: &[u8]) {
    let Some((header, code)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let mut registers = Registers::default();
    for (i, gpr) in registers.gpr.iter_mut().enumerate() {
        *gpr = word(0)
            .rotate_left(i as u32 * 5)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    // Also at the very end of the address space.
    let start = Svma(word(8));
    let code = Code { start, bytes: code };
    let function = Function::new(code);
    let _ = block_from(code);
    for offset in 0..code.bytes.len().min(64) as u64 {
        let ip = start.wrapping_add(offset);
        registers.ip = Avma(ip.0);
        let Ok(block) = function.block_at(ip) else {
            continue;
        };
        for operand in &block.operands {
            if let Some(range) = operand.resolve(&registers, Bias::default(), Some(Avma(word(0)))) {
                assert_eq!(
                    range.end.0.wrapping_sub(range.start.0),
                    u64::from(operand.size)
                );
            }
        }
        assert!(block.instructions >= 1);
    }
}
