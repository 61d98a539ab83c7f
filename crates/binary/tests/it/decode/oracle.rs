//! Random programs, run by a small interpreter that knows the true address of each access: whatever is resolved from
//! the registers at any instruction boundary must be the truth.

mod machine;
mod program;

use hitm_binary::decode::{Code, Function, block_at, block_from};
use hitm_model::{Avma, Bias, Register, Registers, Svma};
use proptest::collection::vec;
use proptest::prelude::*;

use machine::{Machine, Truth};
use program::{assemble, misuses_frame_pointer, op, spilling};

const START: u64 = 0x1000;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_resolved_is_true(
        ops in prop_oneof![vec(op(), 1..40), spilling()],
        registers in any::<[u64; 16]>(),
        // Or all near each other, so that pointers are to the same words.
        near in any::<bool>(),
        words in vec(any::<u64>(), 1..16),
    ) {
        let (bytes, offsets) = assemble(&ops);
        let gpr = match near {
            true => registers.map(|register| 0x7fff_0000 + (register % 12) * 8),
            false => registers,
        };
        let has_frame_pointer = !ops.iter().any(|&op| misuses_frame_pointer(op));
        let mut machine = Machine {
            registers: Registers { ip: Avma(0), gpr },
            has_frame_pointer,
            memory: Default::default(),
            words: words.into_iter().cycle(),
            accesses: Vec::new(),
        };
        let (mut before, mut truths) = (Vec::new(), Vec::new());
        for &op in &ops {
            before.push(machine.registers);
            machine.execute(op);
            truths.push(std::mem::take(&mut machine.accesses));
        }

        let code = Code { start: Svma(START), bytes: &bytes };
        let function = Function::new(code);
        for (at, offset) in offsets.iter().enumerate() {
            let block = function.block_at(Svma(START + offset)).unwrap();
            let mut n_here = 0;
            for operand in &block.operands {
                let address = operand.resolve(&before[at], Bias(0), None).unwrap().start;
                let truth = Truth { kind: operand.kind, size: operand.size, address: address.0 };
                let instruction = offsets.binary_search(&(operand.instruction.0 - START)).unwrap();
                prop_assert_eq!(instruction as i32, at as i32 + operand.place);
                prop_assert!(
                    truths[instruction].contains(&truth),
                    "at {:?}: {:?} of {:?} is not among {:?}",
                    ops[at], operand, ops[instruction], truths[instruction]
                );
                if let Some((base, value)) = operand.base {
                    let value = value.resolve(&before[at], Bias(0), None).unwrap();
                    prop_assert_eq!(value.0, before[instruction].get(base));
                }
                n_here += usize::from(operand.place == 0);
            }
            // The registers at an instruction give all that it accesses.
            prop_assert_eq!(n_here, truths[at].len());
        }
    }

    #[test]
    fn any_bytes_are_input(bytes in vec(any::<u8>(), 0..200)) {
        let code = Code { start: Svma(START), bytes: &bytes };
        for offset in 0..bytes.len() + 2 {
            if let Ok(block) = block_at(code, Svma(START + offset as u64)) {
                let mut registers = Registers::default();
                registers.set(Register::Rcx, u64::MAX);
                for operand in &block.operands {
                    let _ = operand.resolve(&registers, Bias(u64::MAX), None);
                    prop_assert!(block.range.contains(operand.instruction));
                }
            }
        }
        let _ = block_from(code);
    }
}
