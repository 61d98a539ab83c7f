//! The consistency conditions of clause 3.3.2, as far as these tables have what they speak of.

use crate::tpcc::app::Tpcc;
use crate::tpcc::rows::{Cents, KEPT_ORDERS};
use crate::tpcc::{CUSTOMERS, DISTRICTS};

/// More than these would be noise.
const SHOWN: usize = 10;

/// What is inconsistent; nothing else than whole transactions keeps all of it.
pub(crate) fn inconsistencies<T, S>(tpcc: &mut Tpcc<T, S>) -> Vec<String> {
    let mut wrong = Vec::new();
    let warehouses: Vec<Cents> = tpcc.warehouses.rows_mut().map(|it| it.ytd).collect();
    let districts: Vec<_> = tpcc.districts.rows_mut().collect();
    let of_warehouse = districts.chunks(DISTRICTS as usize);
    for (w, (ytd, districts)) in warehouses.iter().zip(of_warehouse).enumerate() {
        let of_districts: Cents = districts.iter().map(|it| it.ytd).sum();
        if *ytd != of_districts {
            wrong.push(format!(
                "3.3.2.1: warehouse {w} took {ytd} and its districts {of_districts}"
            ));
        }
        let of_history: Cents = districts.iter().map(|it| it.paid).sum();
        if *ytd != of_history {
            wrong.push(format!(
                "3.3.2.8: warehouse {w} took {ytd} and its history says {of_history}"
            ));
        }
        for (d, district) in districts.iter().enumerate() {
            let mut claim = |holds: bool, what: String| {
                if !holds {
                    wrong.push(format!("{what} (warehouse {w}, district {d})"));
                }
            };
            let next = district.next_order;
            claim(
                next == district.orders,
                format!(
                    "3.3.2.2: the next order is {next} and there are {}",
                    district.orders
                ),
            );
            let newest = &district.latest[(next.max(1) - 1) as usize % KEPT_ORDERS];
            claim(
                next == CUSTOMERS || newest.number + 1 == next,
                format!(
                    "3.3.2.2: the next order is {next} and the newest {}",
                    newest.number
                ),
            );
            claim(
                district.lines_of_orders == district.order_lines,
                format!(
                    "3.3.2.4: orders have {} lines and there are {}",
                    district.lines_of_orders, district.order_lines
                ),
            );
            claim(
                district.ytd == district.paid,
                format!(
                    "3.3.2.9: the district took {} and its history says {}",
                    district.ytd, district.paid
                ),
            );
        }
    }
    let (mut lines, mut quantity, mut payments) = (0, 0, 0);
    for district in &districts {
        lines += district.order_lines;
        quantity += district.quantity;
        payments += district.payments;
    }
    let (mut ordered, mut sold) = (0, 0);
    for stock in tpcc.stocks.rows_mut() {
        ordered += u64::from(stock.orders);
        sold += u64::from(stock.ytd);
    }
    if (lines, quantity) != (ordered, sold) {
        wrong.push(format!(
            "{lines} order lines of {quantity} pieces, and the stocks know of {ordered} lines and {sold} pieces"
        ));
    }
    let (mut paid, mut count) = (Cents(0), 0);
    for (number, customer) in tpcc.customers.rows_mut().enumerate() {
        paid += customer.paid;
        count += u64::from(customer.payments);
        // Nothing is delivered, so a customer has ordered nothing yet that has to be paid.
        if customer.balance.0 != -customer.paid.0 {
            let (balance, paid) = (customer.balance, customer.paid);
            wrong.push(format!(
                "3.3.2.12: customer {number} has a balance of {balance} and paid {paid}"
            ));
        }
    }
    let took: Cents = warehouses.into_iter().sum();
    if (took, payments) != (paid, count) {
        wrong.push(format!(
            "warehouses took {took} in {payments} payments, and customers paid {paid} in {count}"
        ));
    }
    let more = wrong.len().saturating_sub(SHOWN);
    wrong.truncate(SHOWN);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::transaction::Warehouses;

    type Tables = Tpcc<(), ()>;

    /// What is said after a change, which is taken back.
    fn check(tables: &mut Tables, change: fn(&mut Tables, i64), expected: &[&str]) {
        change(tables, 1);
        let wrong = inconsistencies(tables);
        let begins: Vec<_> = wrong.iter().map(|it| &it[..7.min(it.len())]).collect();
        assert_eq!(begins, expected, "{wrong:#?}");
        change(tables, -1);
        assert_eq!(inconsistencies(tables), [""; 0]);
    }

    fn add(to: &mut u64, n: i64) {
        *to = to.wrapping_add_signed(n);
    }

    #[test]
    fn half_a_transaction_is_noticed() {
        let tables = &mut Tables::new(Warehouses(1), ());
        let warehouse = |it: &mut Tables, n| it.warehouses.row_mut(0).ytd += Cents(n);
        check(tables, warehouse, &["3.3.2.1", "3.3.2.8", "warehou"]);
        let district = |it: &mut Tables, n| it.districts.row_mut(3).ytd += Cents(n);
        check(tables, district, &["3.3.2.1", "3.3.2.9"]);
        let next = |it: &mut Tables, n| add(&mut it.districts.row_mut(9).next_order, n);
        check(tables, next, &["3.3.2.2", "3.3.2.2"]);
        let orders = |it: &mut Tables, n| add(&mut it.districts.row_mut(9).orders, n);
        check(tables, orders, &["3.3.2.2"]);
        let lines = |it: &mut Tables, n| add(&mut it.districts.row_mut(0).order_lines, n);
        check(tables, lines, &["3.3.2.4", "1 order"]);
        let stock = |it: &mut Tables, n: i64| it.stocks.row_mut(7).orders = u32::from(n > 0);
        check(tables, stock, &["0 order"]);
        let balance = |it: &mut Tables, n| it.customers.row_mut(7).balance += Cents(n);
        check(tables, balance, &["3.3.2.1"]);
        let payments = |it: &mut Tables, n| add(&mut it.districts.row_mut(0).payments, n);
        check(tables, payments, &["warehou"]);
    }
}
