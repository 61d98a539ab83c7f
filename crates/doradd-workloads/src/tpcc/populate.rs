//! The tables in the beginning (clause 4.3.3.1): each row is made of its number alone, so that a table can be made anew.

use doradd::Random;

use crate::tpcc::rows::{
    Cents, Customer, District, Item, KEPT_ORDERS, Order, Rate, Stock, Warehouse,
};
use crate::tpcc::{CUSTOMERS, DISTRICTS, ITEMS, NAMES};

/// The constants of `NURand` for last names (clause 2.1.6.1): their difference is in 65..=119 and neither 96 nor 112.
pub(crate) const C_LOAD: u64 = 33;
pub(crate) const C_RUN: u64 = 118;

const _: () = {
    let delta = C_RUN - C_LOAD;
    assert!(delta >= 65 && delta <= 119 && delta != 96 && delta != 112);
};

/// A number in `low..=high` that is not uniform (clause 2.1.6): `((random(0, a) | random(low, high)) + c) mod … + low`.
pub(crate) fn nurand(random: &mut Random, a: u64, low: u64, high: u64, c: u64) -> u64 {
    let n = high - low + 1;
    let either = random.below(a + 1) | (low + random.below(n));
    (either + c) % n + low
}

pub(crate) fn warehouse(row: usize) -> Warehouse {
    let random = &mut of(1, row);
    Warehouse {
        ytd: dollars(300_000),
        tax: rate(random, 2000),
    }
}

pub(crate) fn district(row: usize) -> District {
    let random = &mut of(2, row);
    District {
        ytd: dollars(30_000),
        next_order: CUSTOMERS,
        tax: rate(random, 2000),
        orders: CUSTOMERS,
        lines_of_orders: 0,
        order_lines: 0,
        quantity: 0,
        // A row of 10.00 for each customer.
        payments: CUSTOMERS,
        paid: dollars(10 * CUSTOMERS as i64),
        latest: vec![Order::default(); KEPT_ORDERS].into(),
    }
}

pub(crate) fn customer(row: usize) -> Customer {
    let random = &mut of(3, row);
    let number = row as u64 % CUSTOMERS;
    let last_name = if number < NAMES {
        number
    } else {
        nurand(random, 255, 0, NAMES - 1, C_LOAD)
    };
    Customer {
        balance: dollars(-10),
        paid: dollars(10),
        payments: 1,
        last_name: last_name as u16,
        discount: rate(random, 5000),
        bad_credit: random.below(10) == 0,
        first_name: letters(random),
        data: letters(random),
    }
}

pub(crate) fn stock(row: usize) -> Stock {
    let random = &mut of(4, row);
    Stock {
        quantity: 10 + random.below(91) as i32,
        ytd: 0,
        orders: 0,
        remote_orders: 0,
        original: random.below(10) == 0,
        district_info: std::array::from_fn(|_| letters(random)),
        data: letters(random),
    }
}

pub(crate) fn item(row: usize) -> Item {
    let random = &mut of(5, row);
    Item {
        price: Cents(100 + random.below(9901) as i64),
        original: random.below(10) == 0,
        name: letters(random),
        data: letters(random),
    }
}

/// Rows of each table per warehouse: districts, customers, stocks.
pub(crate) const PER_WAREHOUSE: [u64; 3] = [DISTRICTS, DISTRICTS * CUSTOMERS, ITEMS];

/// The generator of a row.
fn of(table: u64, row: usize) -> Random {
    Random::new(table << 56 | row as u64)
}

fn dollars(n: i64) -> Cents {
    Cents(100 * n)
}

fn rate(random: &mut Random, most: u64) -> Rate {
    Rate(random.below(most + 1) as u16)
}

fn letters<const N: usize>(random: &mut Random) -> [u8; N] {
    let mut text = [0; N];
    for eight in text.chunks_mut(8) {
        let bits = random.bits().to_le_bytes();
        for (letter, bits) in eight.iter_mut().zip(bits) {
            *letter = b'a' + bits % 26;
        }
    }
    text
}
