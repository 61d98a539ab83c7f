//! The state machine: New-Order (clause 2.4.2) and Payment (clause 2.5.2) on their rows.

use std::marker::PhantomData;

use doradd::{Access, Acquired, App, Ctx, StateDigest, Table};

use crate::request::{Outcome, Request, Sink};
use crate::run::Machine;
use crate::tpcc::populate::{self, PER_WAREHOUSE};
use crate::tpcc::rows::{
    Cents, Customer, District, Item, KEPT_ORDERS, Order, OrderLine, Stock, Warehouse, total,
};
use crate::tpcc::transaction::{NewOrder, Payer, Payment, Transaction, Warehouses};
use crate::tpcc::{CUSTOMERS, DISTRICTS, ITEMS, MAX_LINES, NAMES, audit};
use crate::ycsb::fold;

/// The tables of so many warehouses, and who is told of the ends of transactions.
#[derive(Debug)]
pub struct Tpcc<T, S> {
    pub(super) warehouses: Table<Warehouse>,
    pub(super) districts: Table<District>,
    pub(super) customers: Table<Customer>,
    pub(super) stocks: Table<Stock>,
    items: Table<Item>,
    /// For each district and last name, the customer in the middle of those who have it, by first name. Names do not
    /// change, so this is known before anything runs.
    middle: Vec<u16>,
    sink: S,
    tag: PhantomData<fn(T)>,
}

/// Places of rows in both transactions.
const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
const CUSTOMER: usize = 2;
/// Of a New-Order: an item and its stock for each line.
const LINES: usize = 3;

impl<T, S> Tpcc<T, S> {
    /// The tables as they are in the beginning.
    ///
    /// # Panics
    /// If memory cannot have them; [`crate::memory`] tells beforehand.
    pub fn new(warehouses: Warehouses, sink: S) -> Self {
        let n = usize::from(warehouses.0);
        let [districts, customers, stocks] = PER_WAREHOUSE.map(|each| each as usize * n);
        let mut customers = Table::new(customers, populate::customer);
        let middle = middle(&mut customers);
        Self {
            warehouses: Table::new(n, populate::warehouse),
            districts: Table::new(districts, populate::district),
            customers,
            stocks: Table::new(stocks, populate::stock),
            items: Table::new(ITEMS as usize, populate::item),
            middle,
            sink,
            tag: PhantomData,
        }
    }

    /// Memory that the tables take, in bytes, with a word for each row for the runtime.
    #[must_use]
    pub fn bytes(warehouses: Warehouses) -> u64 {
        let row = |bytes: usize| bytes as u64 + 8;
        let [districts, customers, stocks] = PER_WAREHOUSE;
        let district = row(size_of::<District>() + KEPT_ORDERS * size_of::<Order>());
        let each = row(size_of::<Warehouse>())
            + districts * (district + 2 * NAMES)
            + customers * row(size_of::<Customer>())
            + stocks * row(size_of::<Stock>());
        u64::from(warehouses.0) * each + ITEMS * row(size_of::<Item>())
    }

    /// How many warehouses there are.
    #[must_use]
    pub fn warehouses(&self) -> Warehouses {
        // They were made of that type.
        Warehouses(self.warehouses.len() as u16)
    }

    /// Who is told of ends.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// A fingerprint of all tables, to compare runs by. Items never change and are left out.
    ///
    /// # Panics
    /// While a replay uses the tables.
    #[must_use]
    pub fn state_digest(&self) -> StateDigest {
        (self.warehouses.state_digest())
            .and(self.districts.state_digest())
            .and(self.customers.state_digest())
            .and(self.stocks.state_digest())
    }

    /// Makes all tables as they were in the beginning.
    pub fn reset(&mut self) {
        refill(&mut self.warehouses, populate::warehouse);
        refill(&mut self.districts, populate::district);
        refill(&mut self.customers, populate::customer);
        refill(&mut self.stocks, populate::stock);
    }

    fn new_order(&self, order: &NewOrder, rows: &mut Acquired<'_>, sequence: u64) -> u64 {
        let warehouse_tax = rows.read(&self.warehouses, WAREHOUSE).tax;
        let discount = rows.read(&self.customers, CUSTOMER).discount;
        let district = usize::from(order.district);
        let mut lines = [OrderLine::default(); MAX_LINES];
        let mut sum = Cents(0);
        let mut seen = sequence;
        for (i, (line, made)) in order.lines().iter().zip(&mut lines).enumerate() {
            let item = rows.read(&self.items, LINES + 2 * i);
            let amount = Cents(item.price.0 * i64::from(line.quantity));
            let original = item.original;
            let stock = rows.write(&self.stocks, LINES + 2 * i + 1);
            let quantity = i32::from(line.quantity);
            stock.quantity -= quantity;
            if stock.quantity < 10 {
                stock.quantity += 91;
            }
            stock.ytd += u32::from(line.quantity);
            stock.orders += 1;
            stock.remote_orders += u32::from(line.supply != order.warehouse);
            *made = OrderLine {
                amount,
                item: line.item,
                supply: line.supply,
                quantity: line.quantity,
                district_info: stock.district_info[district],
            };
            let brand = original && stock.original;
            seen = fold(seen, stock.quantity as u64 ^ u64::from(brand) << 32);
            sum += amount;
        }
        let district = rows.write(&self.districts, DISTRICT);
        let number = district.next_order;
        district.next_order += 1;
        let n = order.lines().len() as u64;
        district.orders += 1;
        district.lines_of_orders += n;
        district.order_lines += n;
        district.quantity += order
            .lines()
            .iter()
            .map(|line| u64::from(line.quantity))
            .sum::<u64>();
        let all_local = order
            .lines()
            .iter()
            .all(|line| line.supply == order.warehouse);
        let total = total(sum, discount, [warehouse_tax, district.tax]);
        district.latest[number as usize % KEPT_ORDERS] = Order {
            number,
            entered: sequence,
            customer: order.customer,
            n: n as u8,
            all_local,
            lines,
        };
        fold(fold(seen, number), total.0 as u64)
    }

    fn payment(&self, payment: &Payment, rows: &mut Acquired<'_>, sequence: u64) -> u64 {
        let amount = Cents(payment.amount.into());
        rows.write(&self.warehouses, WAREHOUSE).ytd += amount;
        let district = rows.write(&self.districts, DISTRICT);
        district.ytd += amount;
        district.payments += 1;
        district.paid += amount;
        let customer = rows.write(&self.customers, CUSTOMER);
        customer.balance -= amount;
        customer.paid += amount;
        customer.payments += 1;
        if customer.bad_credit {
            note(&mut customer.data, payment, sequence);
        }
        fold(sequence, customer.balance.0 as u64)
    }

    /// The row of who pays.
    fn payer(&self, payment: &Payment) -> usize {
        let district = district_row(payment.customer_warehouse, payment.customer_district);
        let number = match payment.payer {
            Payer::Number(number) => number,
            Payer::Name(name) => self.middle[district * NAMES as usize + usize::from(name)],
        };
        customer_row(district, number)
    }
}

/// Puts a payment before what a customer with bad credit is known for (clause 2.5.2.2). What falls off the end is gone.
fn note(data: &mut [u8; 500], payment: &Payment, sequence: u64) {
    let words = [
        sequence.to_le_bytes(),
        (u64::from(payment.amount) << 32
            | u64::from(payment.warehouse) << 16
            | u64::from(payment.district))
        .to_le_bytes(),
    ];
    let note = words.as_flattened();
    let kept = data.len() - note.len();
    data.copy_within(..kept, note.len());
    data[..note.len()].copy_from_slice(note);
}

fn district_row(warehouse: u16, district: u8) -> usize {
    usize::from(warehouse) * DISTRICTS as usize + usize::from(district)
}

fn customer_row(district: usize, number: u16) -> usize {
    district * CUSTOMERS as usize + usize::from(number)
}

fn stock_row(warehouse: u16, item: u32) -> usize {
    usize::from(warehouse) * ITEMS as usize + item as usize
}

/// For each district and name: of the customers with that name, in the order of first names, the one at n/2 rounded up.
fn middle(customers: &mut Table<Customer>) -> Vec<u16> {
    let mut all: Vec<(u16, [u8; 16])> = customers
        .rows_mut()
        .map(|it| (it.last_name, it.first_name))
        .collect();
    let mut middle = Vec::new();
    for district in all.chunks_mut(CUSTOMERS as usize) {
        let mut by_name = vec![Vec::new(); NAMES as usize];
        for (number, (last, first)) in (0..).zip(district) {
            by_name[usize::from(*last)].push((*first, number));
        }
        for mut of_name in by_name {
            of_name.sort_unstable();
            let position = of_name.len().div_ceil(2).saturating_sub(1);
            // Every name is some customer's: the first thousand have one each.
            middle.push(of_name.get(position).map_or(0, |(_, number)| *number));
        }
    }
    middle
}

fn refill<R>(table: &mut Table<R>, row: impl Fn(usize) -> R) {
    for (number, place) in table.rows_mut().enumerate() {
        *place = row(number);
    }
}

impl<T, S> App for Tpcc<T, S>
where
    T: Send,
    S: Sink<T>,
{
    type Txn = Request<T, Transaction>;

    const MAX_OBJECTS: usize = LINES + 2 * MAX_LINES;
    const PREFETCH_LINES: usize = 2;

    #[inline]
    fn access<'a>(&'a self, request: &Self::Txn, access: &mut Access<'a>) {
        match &request.transaction {
            Transaction::NewOrder(order) => {
                let district = district_row(order.warehouse, order.district);
                access.read(&self.warehouses, order.warehouse.into());
                access.write(&self.districts, district);
                access.read(&self.customers, customer_row(district, order.customer));
                for line in order.lines() {
                    access.read(&self.items, line.item as usize);
                    access.write(&self.stocks, stock_row(line.supply, line.item));
                }
            }
            Transaction::Payment(payment) => {
                access.write(&self.warehouses, payment.warehouse.into());
                let district = district_row(payment.warehouse, payment.district);
                access.write(&self.districts, district);
                access.write(&self.customers, self.payer(payment));
            }
        }
    }

    fn execute(&self, request: &Self::Txn, mut rows: Acquired<'_>, ctx: &Ctx) {
        let sequence = ctx.sequence();
        let result = match &request.transaction {
            Transaction::NewOrder(order) => self.new_order(order, &mut rows, sequence.0),
            Transaction::Payment(payment) => self.payment(payment, &mut rows, sequence.0),
        };
        self.sink
            .ended(&request.tag, sequence, Outcome::Done(result));
    }
}

impl<T, S> Machine for Tpcc<T, S>
where
    T: Send,
    S: Sink<T>,
{
    fn digest(&self) -> StateDigest {
        self.state_digest()
    }

    fn restart(&mut self) {
        self.reset();
    }

    fn inconsistencies(&mut self) -> Vec<String> {
        audit::inconsistencies(self)
    }
}
