//! TPC-C: the same state and a consistent one in every way to execute; records and distributions as specified.

use doradd::{Dispatch, Runtime, replay_serial};
use doradd_workloads::log::{Entry as _, Record};
use doradd_workloads::request::Request;
use doradd_workloads::run::Machine as _;
use doradd_workloads::tpcc::{
    Generator, MAX_LINES, Payer, PaymentRatio, Profile, Tpcc, Transaction, Warehouses,
};

use crate::commands::{Dir, run, tpcc};

fn profile(warehouses: u16, seed: u64) -> Profile {
    Profile {
        warehouses: Warehouses(warehouses),
        seed,
        payments: PaymentRatio::new(0.5).unwrap(),
    }
}

fn log(profile: &Profile, n: usize) -> Vec<Transaction> {
    Generator::new(profile).take(n).collect()
}

fn requests(log: &[Transaction]) -> impl Iterator<Item = Request<(), Transaction>> {
    log.iter().map(|transaction| Request {
        tag: (),
        transaction: *transaction,
    })
}

#[test]
fn every_way_to_execute_gives_the_serial_state_and_a_consistent_one() {
    let log = log(&profile(2, 7), 3000);
    let mut machine: Tpcc<(), ()> = Tpcc::new(Warehouses(2), ());
    let fresh = machine.state_digest();
    assert_eq!(machine.inconsistencies(), [""; 0]);
    replay_serial(requests(&log), &machine).unwrap();
    let expected = machine.state_digest();
    for (workers, dispatch) in [
        (1, Dispatch::Fused),
        (2, Dispatch::FusedOnTwo),
        (3, Dispatch::FusedOnThree),
        (8, Dispatch::Pipelined),
        (8, Dispatch::Fused),
    ] {
        machine.reset();
        assert_eq!(machine.state_digest(), fresh);
        let builder = Runtime::builder().workers(workers).dispatch(dispatch);
        let replayed = builder
            .build()
            .unwrap()
            .replay(requests(&log), &machine)
            .unwrap();
        assert_eq!((replayed.executed, replayed.panicked), (3000, 0));
        assert_eq!(
            machine.state_digest(),
            expected,
            "{workers} workers, {dispatch:?}"
        );
        assert_eq!(machine.inconsistencies(), [""; 0]);
    }
    // The order shows: the same transactions the other way round.
    machine.reset();
    let reversed: Vec<_> = log.iter().rev().copied().collect();
    replay_serial(requests(&reversed), &machine).unwrap();
    assert_ne!(machine.state_digest(), expected);
    assert_eq!(machine.inconsistencies(), [""; 0]);
}

#[test]
fn records_are_read_as_they_were_written() {
    let warehouses = Warehouses(u16::MAX);
    for transaction in log(&profile(u16::MAX, 3), 5000) {
        assert_eq!(
            Transaction::checked(&transaction.encode(), warehouses),
            Ok(transaction)
        );
    }
}

/// A good record of either kind with a byte changed.
fn check(payment: bool, at: usize, byte: u8, expected: &str) {
    let is_wanted = |it: &Transaction| matches!(it, Transaction::Payment(_)) == payment;
    let good = log(&profile(1, 1), 100)
        .into_iter()
        .find(is_wanted)
        .unwrap();
    let mut record: Record = good.encode();
    record[at] = byte;
    let said = match Transaction::checked(&record, Warehouses(1)) {
        Ok(_) => "fine".to_owned(),
        Err(fault) => fault.to_string(),
    };
    assert!(said.contains(expected), "{said}\ndoes not say\n{expected}");
}

#[test]
fn wrong_records_are_refused() {
    for payment in [false, true] {
        check(payment, 127, 1, "fine");
        check(payment, 0, 3, "begins with 0xffffff03, which is neither");
        check(
            payment,
            4,
            1,
            "warehouse 1 is beyond the last of 1: run with `--warehouses 2`",
        );
        check(
            payment,
            6,
            10,
            "its district is 10, and must be from 0 to 9",
        );
        check(payment, 9, 0xFF, "and must be from 0 to");
    }
    check(
        false,
        7,
        4,
        "its number of lines is 4, and must be from 5 to 15",
    );
    check(false, 7, 16, "its number of lines is 16");
    check(false, 13, 0xFF, "its item is ");
    check(false, 14, 1, "warehouse 1 is beyond");
    check(false, 16, 0, "its quantity is 0, and must be from 1 to 10");
    check(true, 7, 2, "its way to tell the customer is 2");
    check(true, 10, 1, "warehouse 1 is beyond");
    check(true, 12, 10, "its district is 10");
    check(true, 16, 1, "its amount in cents is ");
}

/// Any bytes at all.
#[test]
fn damaged_records_are_refused_or_transactions() {
    let mut random = doradd::Random::new(1);
    let mut kept = 0;
    for transaction in log(&profile(3, 1), 20_000) {
        let mut record = transaction.encode();
        record[random.below(40) as usize] = random.bits() as u8;
        if let Ok(read) = Transaction::checked(&record, Warehouses(3)) {
            assert_eq!(
                Transaction::checked(&read.encode(), Warehouses(3)),
                Ok(read)
            );
            kept += 1;
        }
    }
    assert!(kept > 1000 && kept < 19_000, "{kept}");
}

#[test]
fn transactions_are_distributed_as_the_specification_says() {
    let n = 40_000;
    let (mut payments, mut by_name, mut paid_elsewhere) = (0.0, 0.0, 0.0);
    let (mut lines, mut supplied_elsewhere) = (0.0, 0.0);
    let mut items = vec![0_u32; 100_000];
    for transaction in log(&profile(4, 5), n) {
        match transaction {
            Transaction::Payment(payment) => {
                payments += 1.0;
                by_name += f64::from(u8::from(matches!(payment.payer, Payer::Name(_))));
                paid_elsewhere +=
                    f64::from(u8::from(payment.customer_warehouse != payment.warehouse));
            }
            Transaction::NewOrder(order) => {
                lines += order.lines().len() as f64;
                assert!((5..=MAX_LINES).contains(&order.lines().len()));
                for line in order.lines() {
                    supplied_elsewhere += f64::from(u8::from(line.supply != order.warehouse));
                    items[line.item as usize] += 1;
                }
            }
        }
    }
    let near = |part: f64, whole: f64, expected: f64| {
        let deviation = (expected * (1.0 - expected) / whole).sqrt();
        assert!(
            (part / whole - expected).abs() < 4.0 * deviation,
            "{part} of {whole}, not {expected}"
        );
    };
    let orders = n as f64 - payments;
    near(payments, n as f64, 0.5);
    near(by_name, payments, 0.60);
    near(paid_elsewhere, payments, 0.15);
    near(supplied_elsewhere, lines, 0.01);
    assert!(
        (lines / orders - 10.0).abs() < 0.1,
        "{lines} lines of {orders} orders"
    );
    // Not uniform: by the `or` of two numbers, most items come from few.
    items.sort_unstable_by(|a, b| b.cmp(a));
    let of_the_first_tenth = f64::from(items[..10_000].iter().sum::<u32>());
    assert!(
        of_the_first_tenth > 0.3 * lines,
        "{of_the_first_tenth} of {lines}"
    );
}

#[test]
fn the_command_executes_and_verifies() {
    let dir = Dir::new();
    let gen_log = "gen --txns 2000 --warehouses 2 --seed 3 -o";
    assert_eq!(tpcc(&dir, &format!("{gen_log} log")).code, 0);
    assert_eq!(tpcc(&dir, &format!("{gen_log} again")).code, 0);
    assert_eq!(dir.read("log"), dir.read("again"));
    let ran = tpcc(&dir, "-n 2 log --warehouses 2 --verify");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("executed    2,000 transactions"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("equal to that of executing the log one by one"),
        "{}",
        ran.stdout
    );
    let refusals = [
        (
            "log --warehouses 1",
            2,
            "warehouse 1 is beyond the last of 1: run with",
        ),
        ("log --warehouses 0", 2, "0 is not in 1..=65535"),
        ("log --warehouses 65535", 3, "65535 warehouses need "),
        (
            "gen --txns 1 --payments 2 -o it",
            2,
            "the ratio of payments is 2",
        ),
    ];
    for (arguments, code, expected) in refusals {
        let ran = tpcc(&dir, arguments);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected), "tpcc {arguments} says {said}");
    }
}

#[test]
fn logs_of_the_two_kinds_are_not_mistaken_for_each_other() {
    let dir = Dir::with_log(50, 1000);
    assert_eq!(tpcc(&dir, "gen --txns 50 --warehouses 1 -o orders").code, 0);
    let refused = run(env!("CARGO_BIN_EXE_ycsb"), &dir, "orders --rows 1000");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("record 0: key 42949"),
        "{}",
        refused.stderr
    );
    let refused = tpcc(&dir, "log --warehouses 1");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("neither a New-Order nor a Payment"),
        "{}",
        refused.stderr
    );
}
