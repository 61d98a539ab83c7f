//! Which side of a pair runs first.
//!
//! The second of two runs may find warm caches or a throttled processor. Both orders come equally often: every two
//! pairs are AB, BA or BA, AB, and which of the two is drawn by lot, so that nothing periodic on the machine keeps step.

use crate::lots::Lots;
use crate::trial::Side;

#[derive(Clone, Debug)]
pub(crate) struct Order {
    lots: Lots,
    second: Option<Side>,
}

impl Order {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            lots: Lots::new(seed),
            second: None,
        }
    }

    /// The side that runs first in the next pair.
    pub(crate) fn next_first(&mut self) -> Side {
        if let Some(side) = self.second.take() {
            return side;
        }
        let first = if self.lots.bits() & 1 == 0 {
            Side::A
        } else {
            Side::B
        };
        self.second = Some(first.other());
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_come_equally_often_in_every_two_pairs() {
        let mut order = Order::new(7);
        let firsts: Vec<Side> = (0..100).map(|_| order.next_first()).collect();
        assert!(firsts.chunks(2).all(|two| two[0] != two[1]));
        assert!(firsts.chunks(2).any(|two| two[0] == Side::A));
        assert!(firsts.chunks(2).any(|two| two[0] == Side::B));
    }
}
