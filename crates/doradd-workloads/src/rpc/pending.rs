//! Requests whose replies are not sent yet, in the order in which each connection sent them. Only the answering thread
//! has these; what workers write is on the `board`.
//!
//! There are as many entries as slots of the board, whatever the number of connections: that is the bound of all that is
//! in flight. An entry is in the list of its connection until the reply is in the connection's output.

use crate::rpc::board::Slot;
use crate::rpc::wire::{Reply, RequestId, Status};

const NIL: u32 = u32::MAX;

/// All entries.
#[derive(Debug)]
pub(crate) struct Pending {
    entries: Box<[Entry]>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Entry {
    connection: u32,
    next: u32,
    ready: bool,
    reply: Reply,
}

/// A connection's requests that wait for replies, the oldest first.
#[derive(Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first: NIL,
            last: NIL,
            len: 0,
        }
    }
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Pending {
    /// So many entries, all free.
    pub(crate) fn new(slots: usize) -> Self {
        let reply = reply(RequestId(0));
        let entry = Entry {
            connection: NIL,
            next: NIL,
            ready: false,
            reply,
        };
        Self {
            entries: vec![entry; slots].into(),
            free: (0..slots as u32).rev().collect(),
        }
    }

    /// Free entries.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Puts a request at the end of its connection's queue, if an entry is free.
    pub(crate) fn append(
        &mut self,
        queue: &mut Queue,
        connection: u32,
        id: RequestId,
    ) -> Option<Slot> {
        let index = self.free.pop()?;
        let reply = reply(id);
        self.entries[index as usize] = Entry {
            connection,
            next: NIL,
            ready: false,
            reply,
        };
        match queue.last {
            NIL => queue.first = index,
            last => self.entries[last as usize].next = index,
        }
        queue.last = index;
        queue.len += 1;
        Some(Slot(index))
    }

    /// The reply of a request that waits, to be filled in.
    pub(crate) fn reply_mut(&mut self, slot: Slot) -> &mut Reply {
        &mut self.entries[slot.0 as usize].reply
    }

    /// The reply is complete; gives the connection.
    pub(crate) fn complete(&mut self, slot: Slot) -> u32 {
        let entry = &mut self.entries[slot.0 as usize];
        entry.ready = true;
        entry.connection
    }

    /// Takes the oldest reply of a connection, if it is complete.
    pub(crate) fn take(&mut self, queue: &mut Queue) -> Option<Reply> {
        let index = queue.first;
        let entry = self.entries.get(index as usize)?;
        if !entry.ready {
            return None;
        }
        queue.first = entry.next;
        queue.len -= 1;
        if queue.first == NIL {
            queue.last = NIL;
        }
        self.free.push(index);
        Some(self.entries[index as usize].reply)
    }
}

fn reply(id: RequestId) -> Reply {
    Reply {
        status: Status::NotRun,
        detail: 0,
        id,
        sequence: 0,
        result: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        let mut pending = Pending::new(3);
        let (mut a, mut b) = (Queue::default(), Queue::default());
        let first = pending.append(&mut a, 0, RequestId(1)).unwrap();
        let other = pending.append(&mut b, 1, RequestId(2)).unwrap();
        let second = pending.append(&mut a, 0, RequestId(3)).unwrap();
        assert_eq!(
            pending.append(&mut b, 1, RequestId(4)),
            None,
            "no more than there are"
        );
        assert_eq!(pending.complete(second), 0);
        assert_eq!(pending.take(&mut a), None, "the first is not complete");
        assert_eq!(pending.complete(first), 0);
        let ids: Vec<u64> = std::iter::from_fn(|| pending.take(&mut a))
            .map(|reply| reply.id.0)
            .collect();
        assert_eq!((ids, a.len(), pending.room()), (vec![1, 3], 0, 2));
        assert_eq!(pending.complete(other), 1);
        assert_eq!(pending.take(&mut b).unwrap().id, RequestId(2));
        assert!(b.is_empty() && pending.take(&mut b).is_none());
        assert_eq!(pending.room(), 3);
    }
}
