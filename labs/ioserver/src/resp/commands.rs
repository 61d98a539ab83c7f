//! Commands as they were parsed: all of a client's in three vectors that are used again, so that a command in the steady
//! state allocates nothing.

/// Above this capacity memory is given back when nothing is in it.
const KEEP_BYTES: usize = 64 << 10;
/// What an argument takes beside its bytes.
pub(super) const ARGUMENT_BYTES: usize = size_of::<usize>();

/// Commands in the order in which they came, and the beginning of the next one.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    arguments: Vec<usize>,
    /// Where each whole command ends in `arguments`.
    commands: Vec<usize>,
}

impl Commands {
    /// Goes on with the argument that is being received.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn end_argument(&mut self) {
        self.arguments.push(self.bytes.len());
    }

    pub(crate) fn end_command(&mut self) {
        self.commands.push(self.arguments.len());
    }

    /// How many whole commands there are.
    pub fn n_commands(&self) -> usize {
        self.commands.len()
    }

    /// How much is held in bytes, whole commands and the beginning of the next.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.arguments.len() * ARGUMENT_BYTES
    }

    /// How much memory is taken in bytes, used or not.
    pub fn capacity_bytes(&self) -> usize {
        let words = self.arguments.capacity() + self.commands.capacity();
        self.bytes.capacity() + words * ARGUMENT_BYTES
    }

    /// The whole commands.
    pub fn iter(&self) -> impl Iterator<Item = Command<'_>> {
        let starts = std::iter::once(0).chain(self.commands.iter().copied());
        starts.zip(&self.commands).map(|(start, end)| Command {
            bytes: &self.bytes,
            start: start
                .checked_sub(1)
                .map_or(0, |before| self.arguments[before]),
            ends: &self.arguments[start..*end],
        })
    }

    /// Forgets the whole commands; the beginning of the next one stays.
    pub fn forget_whole(&mut self) {
        let n_arguments = self.commands.last().copied().unwrap_or(0);
        let n_bytes = match n_arguments {
            0 => 0,
            n => self.arguments[n - 1],
        };
        self.commands.clear();
        self.arguments.drain(..n_arguments);
        for end in &mut self.arguments {
            *end -= n_bytes;
        }
        self.bytes.drain(..n_bytes);
        if self.bytes.is_empty() && self.capacity_bytes() > KEEP_BYTES {
            let arguments = std::mem::take(&mut self.arguments);
            *self = Self {
                arguments: arguments.as_slice().to_vec(),
                ..Self::default()
            };
        }
    }
}

/// A command with its arguments; the first is its name. It has at least one.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    bytes: &'a [u8],
    start: usize,
    ends: &'a [usize],
}

impl<'a> Command<'a> {
    /// What it is called, as the client wrote it.
    pub fn name(&self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// How many arguments it has, its name included.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// An argument; the name is number 0.
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        let end = *self.ends.get(i)?;
        let start = i
            .checked_sub(1)
            .map_or(self.start, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    /// The arguments from a number on.
    pub fn from(self, first: usize) -> impl Iterator<Item = &'a [u8]> {
        (first..self.len()).filter_map(move |i| self.get(i))
    }
}
