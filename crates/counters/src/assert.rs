//! Layout claims that fail to compile when they stop being true, and their twins that look at real addresses.
//!
//! A comment that says "on a line of its own" outlives the layout it describes. These do not.

use core::fmt;

/// Does not compile unless a field is alone on its cache lines, wherever a value of the type is.
///
/// That takes three things: the type is aligned to [`APART`](crate::line::APART) bytes, so that offsets say where lines
/// begin; the field begins a line; and it fills its lines to the end, so that no neighbour moves in.
/// [`Isolated`](crate::Isolated) fields have all three.
///
/// ```
/// # use core::sync::atomic::AtomicU64;
/// use hitm_counters::{Isolated, assert_isolated};
///
/// struct Server { connections: Isolated<AtomicU64>, port: u16 }
/// assert_isolated!(Server, connections);
/// ```
///
/// ```compile_fail,E0080
/// # use core::sync::atomic::AtomicU64;
/// # use hitm_counters::assert_isolated;
/// struct Server { connections: AtomicU64, port: u16 }
/// assert_isolated!(Server, connections); // error: Server: cache lines must begin where …
/// ```
///
/// The padding of a field's type may be left to the struct if all other fields are named; then these are looked at:
///
/// ```
/// # use hitm_counters::assert_isolated;
/// #[repr(align(256))]
/// struct Start(u64);
/// #[repr(C)]
/// struct Pair { rest: [u64; 4], counter: Start }
/// assert_isolated!(Pair, counter; rest);
/// ```
///
/// ```compile_fail,E0080
/// # use hitm_counters::assert_isolated;
/// #[repr(C, align(128))]
/// struct Pair { counter: u64, rest: u64 }
/// assert_isolated!(Pair, counter; rest); // error: Pair::counter shares a cache line with Pair::rest
/// ```
#[macro_export]
macro_rules! assert_isolated {
    ($type:ty, $field:ident $(,)?) => {
        const _: () = {
            $crate::__aligned!($type);
            let size = $crate::__private::size_of_field(|value: &$type| &value.$field);
            ::core::assert!(
                ::core::mem::offset_of!($type, $field) % $crate::line::APART == 0,
                "{}",
                ::core::concat!(
                    ::core::stringify!($type), "::", ::core::stringify!($field),
                    " does not begin a cache line: make it `Isolated<…>` of hitm-counters"
                )
            );
            ::core::assert!(
                size % $crate::line::APART == 0,
                "{}",
                ::core::concat!(
                    ::core::stringify!($type), "::", ::core::stringify!($field),
                    " does not fill its last cache line, a neighbour can move in: make it `Isolated<…>` of \
                     hitm-counters, or name all other fields behind a semicolon"
                )
            );
        };
    };
    ($type:ty, $field:ident; $($other:ident),+ $(,)?) => {
        $(const _: () = $crate::__apart!($type, $field, $other, $crate::line::APART);)+
        const _: () = {
            $crate::__aligned!($type);
            // Not a field forgotten.
            #[allow(dead_code, unused_variables, reason = "only its exhaustiveness matters")]
            fn all(value: &$type) {
                let Self_ { $field, $($other),+ } = value;
            }
            type Self_ = $type;
        };
    };
    ($($anything:tt)*) => {
        ::core::compile_error!(
            "assert_isolated! takes a type and one of its fields: `assert_isolated!(Type, field)`, and where all others \
             are named `assert_isolated!(Type, field; other, another)`"
        );
    };
}

/// Does not compile if two fields can be on one cache line.
///
/// ```
/// use hitm_counters::{Isolated, assert_apart};
///
/// struct Stats { reads: Isolated<u64>, writes: Isolated<u64> }
/// assert_apart!(Stats, reads, writes);
/// ```
///
/// ```compile_fail,E0080
/// # use hitm_counters::assert_apart;
/// struct Stats { reads: u64, writes: u64 }
/// assert_apart!(Stats, reads, writes); // error: Stats::reads and Stats::writes can be on one cache line …
/// ```
///
/// ```compile_fail,E0080
/// # use hitm_counters::{Isolated, assert_apart};
/// struct Stats { reads: Isolated<u64>, writes: Isolated<u64> }
/// assert_apart!(Stats, reads, reads); // error: Stats::reads and Stats::reads are at the same place …
/// ```
///
/// The distance is [`APART`](crate::line::APART); another one, such as the 64 bytes of a single line on x86-64, is said
/// at the end:
///
/// ```
/// # use hitm_counters::assert_apart;
/// #[repr(C, align(64))]
/// struct Half(u64);
/// struct Stats { reads: Half, writes: Half }
/// assert_apart!(Stats, reads, writes, bytes = 64);
/// ```
#[macro_export]
macro_rules! assert_apart {
    ($type:ty, $a:ident, $b:ident $(,)?) => {
        const _: () = $crate::__apart!($type, $a, $b, $crate::line::APART);
    };
    ($type:ty, $a:ident, $b:ident, bytes = $bytes:expr $(,)?) => {
        const _: () = $crate::__apart!($type, $a, $b, $bytes);
    };
    ($($anything:tt)*) => {
        ::core::compile_error!(
            "assert_apart! takes a type and two of its fields: `assert_apart!(Type, a, b)`, and where other bytes than a \
             line are meant `assert_apart!(Type, a, b, bytes = 64)`"
        );
    };
}

/// Does not compile unless two fields are on one cache line, wherever a value of the type is: for fields that are used
/// together, such as a lock and what it guards.
///
/// ```
/// use hitm_counters::assert_same_line;
///
/// #[repr(align(64))]
/// struct Entry { key: u64, value: u64 }
/// assert_same_line!(Entry, key, value);
/// ```
///
/// ```compile_fail,E0080
/// # use hitm_counters::assert_same_line;
/// struct Entry { key: u64, value: u64 } // aligned to 8 bytes: a line may begin between them
/// assert_same_line!(Entry, key, value);
/// ```
#[macro_export]
macro_rules! assert_same_line {
    ($type:ty, $a:ident, $b:ident $(,)?) => {
        const _: () = {
            let (a, b) = $crate::__two_fields!($type, $a, $b);
            ::core::assert!(
                $crate::__private::same_line(::core::mem::align_of::<$type>(), a, b),
                "{}",
                ::core::concat!(
                    ::core::stringify!($type), "::", ::core::stringify!($a), " and ",
                    ::core::stringify!($type), "::", ::core::stringify!($b),
                    " can be on different cache lines: align the type, and put the fields beside each other"
                )
            );
        };
    };
    ($($anything:tt)*) => {
        ::core::compile_error!(
            "assert_same_line! takes a type and two of its fields: `assert_same_line!(Type, a, b)`"
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __aligned {
    ($type:ty) => {
        ::core::assert!(
            ::core::mem::align_of::<$type>() >= $crate::line::APART,
            "{}",
            ::core::concat!(
                ::core::stringify!($type),
                ": cache lines must begin where its offsets say, so align it: `#[repr(align(128))]`, or a field \
                 that is `Isolated<…>` of hitm-counters"
            )
        )
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __apart {
    ($type:ty, $a:ident, $b:ident, $bytes:expr) => {{
        let (a, b) = $crate::__two_fields!($type, $a, $b);
        ::core::assert!(
            $crate::__private::apart(::core::mem::align_of::<$type>(), a, b, $bytes),
            "{}",
            ::core::concat!(
                ::core::stringify!($type),
                "::",
                ::core::stringify!($a),
                " and ",
                ::core::stringify!($type),
                "::",
                ::core::stringify!($b),
                " can be on one cache line: make one of them `Isolated<…>` of hitm-counters"
            )
        )
    }};
}

/// Offset and size of two fields, which are not the same one: one field named twice says nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __two_fields {
    ($type:ty, $a:ident, $b:ident) => {{
        let a = (
            ::core::mem::offset_of!($type, $a),
            $crate::__private::size_of_field(|value: &$type| &value.$a),
        );
        let b = (
            ::core::mem::offset_of!($type, $b),
            $crate::__private::size_of_field(|value: &$type| &value.$b),
        );
        ::core::assert!(
            a.0 != b.0 || a.1 == 0 || b.1 == 0,
            "{}",
            ::core::concat!(
                ::core::stringify!($type),
                "::",
                ::core::stringify!($a),
                " and ",
                ::core::stringify!($type),
                "::",
                ::core::stringify!($b),
                " are at the same place: name two different fields"
            )
        );
        (a, b)
    }};
}

/// The size of the field that a function picks.
#[doc(hidden)]
pub const fn size_of_field<T, F>(_pick: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Whether two fields, given as offset and size, are in different blocks of `bytes` wherever the base is.
#[doc(hidden)]
pub const fn apart(align: usize, a: (usize, usize), b: (usize, usize), bytes: usize) -> bool {
    if a.1 == 0 || b.1 == 0 {
        return true;
    }
    let (low, high) = if a.0 < b.0 { (a, b) } else { (b, a) };
    let end = low.0 + low.1;
    if align >= bytes {
        end <= high.0 && (end - 1) / bytes < high.0 / bytes
    } else {
        // The base is at some multiple of the alignment. They meet if, with the end of the first as early in a block as
        // that allows, the second still begins in the same block.
        let last = end - 1;
        high.0 >= end && last % align + (high.0 - last) >= bytes
    }
}

/// Whether two fields, given as offset and size, are in one block of [`TOGETHER`](crate::line::TOGETHER) bytes wherever
/// the base is.
#[doc(hidden)]
pub const fn same_line(align: usize, a: (usize, usize), b: (usize, usize)) -> bool {
    let first = if a.0 < b.0 { a.0 } else { b.0 };
    let end = if a.0 + a.1 > b.0 + b.1 {
        a.0 + a.1
    } else {
        b.0 + b.1
    };
    // No line begins inside of an aligned block that is no larger than a line.
    let block = if align < crate::line::TOGETHER {
        align
    } else {
        crate::line::TOGETHER
    };
    end > first && first / block == (end - 1) / block
}

/// Two values that share a cache line, with the addresses that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedLine {
    /// Address and size of the first value, in bytes.
    pub first: (usize, usize),
    /// Address and size of the second value, in bytes.
    pub second: (usize, usize),
    /// The line size that was asked about, in bytes.
    pub line: usize,
}

impl fmt::Display for SharedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((a, a_size), (b, b_size)) = (self.first, self.second);
        write!(
            f,
            "{a_size} bytes at {a:#x} and {b_size} bytes at {b:#x} share a line of {} bytes; \
             make one of them `Isolated<…>`",
            self.line
        )
    }
}

impl core::error::Error for SharedLine {}

/// Whether two values are on different lines of `line` bytes at this moment: the run-time twin of
/// [`assert_apart!`](crate::assert_apart), for values whose neighbours the allocator or the linker chose.
///
/// ```
/// use hitm_counters::{Isolated, check_apart, line::APART};
///
/// let counts = [0_u64; 2];
/// let shared = check_apart(&counts[0], &counts[1], APART);
/// let lonely = [Isolated::new(0_u64); 2];
/// assert_eq!(check_apart(&lonely[0], &lonely[1], APART), Ok(()));
/// # let _ = shared;
/// ```
///
/// # Errors
/// Both addresses, if the values have a line in common or `line` is 0. Values without a size share nothing.
pub fn check_apart<A: ?Sized, B: ?Sized>(a: &A, b: &B, line: usize) -> Result<(), SharedLine> {
    let first = (core::ptr::from_ref(a).addr(), size_of_val(a));
    let second = (core::ptr::from_ref(b).addr(), size_of_val(b));
    if line > 0 && apart(line, first, second, line) {
        Ok(())
    } else {
        Err(SharedLine {
            first,
            second,
            line,
        })
    }
}

/// Whether a field is alone on its lines of `line` bytes among the bytes of its object at this moment: the run-time twin
/// of [`assert_isolated!`](crate::assert_isolated).
///
/// Nothing is known of what lies around the object; where the field's first or last line reaches beyond the object, that
/// is reported as shared too, because something else can be there.
///
/// ```
/// use hitm_counters::{Isolated, check_isolated, line::APART};
///
/// struct Server { hits: Isolated<u64>, port: u16 }
/// let server = Server { hits: Isolated::new(0), port: 1 };
/// assert_eq!(check_isolated(&server.hits, APART), Ok(()));
/// assert!(check_isolated(&server.port, APART).is_err());
/// ```
///
/// # Errors
/// The field's address and that of its lines.
pub fn check_isolated<F: ?Sized>(field: &F, line: usize) -> Result<(), SharedLine> {
    let (address, size) = (core::ptr::from_ref(field).addr(), size_of_val(field));
    if line > 0 && address % line == 0 && size % line == 0 {
        return Ok(());
    }
    let begin = address - address.checked_rem(line).unwrap_or(0);
    let lines = (address + size - begin).next_multiple_of(line.max(1));
    Err(SharedLine {
        first: (address, size),
        second: (begin, lines),
        line,
    })
}

/// Whether two values are on one line of `line` bytes at this moment: the run-time twin of
/// [`assert_same_line!`](crate::assert_same_line).
///
/// ```
/// use hitm_counters::{are_on_one_line, line::TOGETHER};
///
/// #[repr(align(64))]
/// struct Entry { key: u64, value: u64 }
/// let entry = Entry { key: 1, value: 2 };
/// assert!(are_on_one_line(&entry.key, &entry.value, TOGETHER));
/// ```
pub fn are_on_one_line<A: ?Sized, B: ?Sized>(a: &A, b: &B, line: usize) -> bool {
    let (a, a_size) = (core::ptr::from_ref(a).addr(), size_of_val(a));
    let (b, b_size) = (core::ptr::from_ref(b).addr(), size_of_val(b));
    let (first, end) = (a.min(b), (a + a_size).max(b + b_size));
    line > 0 && end > first && first / line == (end - 1) / line
}
