//! What can be asked for in one `when`: objects to write, objects to read, and tuples of these.

use std::fmt;
use std::ptr::NonNull;

use crate::when::behaviour::{Held, MAX_OBJECTS};
use crate::when::cown::{Cown, Header, Inner};

/// An object that a body reads beside others that read it; see [`read`].
pub struct Read<'a, T>(&'a Cown<T>);

impl<T> fmt::Debug for Read<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Read").field(self.0).finish()
    }
}

/// Asks for an object to read: bodies that only read it run at the same time.
///
/// ```
/// use doradd::{Runtime, read};
///
/// let mut runtime = Runtime::builder().workers(2).build()?;
/// let (from, to) = (runtime.cown(7), runtime.cown(0));
/// runtime.when((read(&from), &to), |(from, to)| *to += *from);
/// runtime.when(read(&to), |to| assert_eq!(*to, 7));
/// runtime.drain();
/// assert_eq!(runtime.stats().panicked, 0);
/// # Ok::<(), doradd::BuildError>(())
/// ```
pub fn read<T>(object: &Cown<T>) -> Read<'_, T> {
    Read(object)
}

/// The objects of one request, collected for the queues.
#[derive(Debug)]
pub struct List {
    held: [Held; MAX_OBJECTS],
    n: usize,
    runtime: u64,
}

impl List {
    pub(crate) fn new(runtime: u64) -> Self {
        let none = Held {
            object: std::ptr::null(),
            write: false,
        };
        Self {
            held: [none; MAX_OBJECTS],
            n: 0,
            runtime,
        }
    }

    fn push<T>(&mut self, object: &Cown<T>, write: bool) {
        assert!(
            object.header().runtime == self.runtime,
            "an object belongs to the runtime that made it, this one is another's: make it with this runtime's `cown`"
        );
        self.held[self.n] = Held {
            // Not from a reference to the header: who frees the object does so through this pointer.
            object: object.inner().cast::<Header>().as_ptr(),
            write,
        };
        self.n += 1;
    }

    /// The objects in the order of their addresses, each once.
    pub(crate) fn ordered(&mut self) -> &[Held] {
        let held = &mut self.held[..self.n];
        if let [_] = held {
            return held;
        }
        held.sort_unstable_by_key(|held| held.object);
        let mut kept = 1;
        for i in 1..held.len() {
            let (last, this) = (held[kept - 1], held[i]);
            if last.object != this.object {
                held[kept] = this;
                kept += 1;
            } else {
                assert!(
                    !last.write && !this.write,
                    "an object stands twice in one `when`, and not only to read: two `&mut` to it cannot exist"
                );
            }
        }
        &held[..kept]
    }
}

mod sealed {
    pub trait Sealed {}
}

/// One object of a request: `&Cown<T>` to write it, [`read(&cown)`](read) to read it.
#[expect(
    unsafe_code,
    reason = "turns a pointer that a body holds into its reference"
)]
pub trait Object: sealed::Sealed {
    /// The object without its lifetime.
    #[doc(hidden)]
    type Pointer: Copy + Send + 'static;
    /// What the body gets: `&mut T` or `&T`.
    type Access<'b>;
    #[doc(hidden)]
    fn list(&self, list: &mut List);
    #[doc(hidden)]
    fn pointer(&self) -> Self::Pointer;
    /// # Safety
    /// The running body holds the object, in this mode, for `'b`.
    #[doc(hidden)]
    unsafe fn access<'b>(pointer: Self::Pointer) -> Self::Access<'b>;
}

/// A pointer that a submitted body carries.
#[doc(hidden)]
#[derive(Debug)]
pub struct Pointer<T>(NonNull<Inner<T>>);

impl<T> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pointer<T> {}

#[expect(
    unsafe_code,
    reason = "the object's queue hands it from thread to thread"
)]
// SAFETY: it is only followed by the body that holds the object; the value is Send (and Sync where it is read).
unsafe impl<T: Send> Send for Pointer<T> {}

impl<T> sealed::Sealed for &Cown<T> {}

#[expect(
    unsafe_code,
    reason = "turns a pointer that a body holds into its reference"
)]
impl<T: Send + 'static> Object for &Cown<T> {
    type Pointer = Pointer<T>;
    type Access<'b> = &'b mut T;

    fn list(&self, list: &mut List) {
        list.push(self, true);
    }

    fn pointer(&self) -> Pointer<T> {
        Pointer(self.inner())
    }

    unsafe fn access<'b>(pointer: Pointer<T>) -> &'b mut T {
        // SAFETY: the object is held, so it is alive.
        let inner = unsafe { pointer.0.as_ref() };
        // SAFETY: it is held for writing: no other body looks at the value.
        inner.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> sealed::Sealed for Read<'_, T> {}

#[expect(
    unsafe_code,
    reason = "turns a pointer that a body holds into its reference"
)]
impl<T: Send + Sync + 'static> Object for Read<'_, T> {
    type Pointer = Pointer<T>;
    type Access<'b> = &'b T;

    fn list(&self, list: &mut List) {
        list.push(self.0, false);
    }

    fn pointer(&self) -> Pointer<T> {
        Pointer(self.0.inner())
    }

    unsafe fn access<'b>(pointer: Pointer<T>) -> &'b T {
        // SAFETY: the object is held, so it is alive.
        let inner = unsafe { pointer.0.as_ref() };
        // SAFETY: it is held for reading: no body writes the value.
        inner.value.with(|value| unsafe { &*value })
    }
}

/// The objects of one request: one [`Object`], or a tuple of up to eight.
#[expect(
    unsafe_code,
    reason = "turns pointers that a body holds into its references"
)]
pub trait Objects: sealed::Sealed {
    #[doc(hidden)]
    type Pointers: Copy + Send + 'static;
    /// What the body gets: one reference, or a tuple of references.
    type Accesses<'b>;
    #[doc(hidden)]
    fn list(&self, list: &mut List);
    #[doc(hidden)]
    fn pointers(&self) -> Self::Pointers;
    /// # Safety
    /// The running body holds the objects, in their modes, for `'b`.
    #[doc(hidden)]
    unsafe fn accesses<'b>(pointers: Self::Pointers) -> Self::Accesses<'b>;
}

macro_rules! one {
    ([$($generics:tt)*] $type:ty) => {
        #[expect(unsafe_code, reason = "turns pointers that a body holds into its references")]
        impl<$($generics)*> Objects for $type where $type: Object {
            type Pointers = <$type as Object>::Pointer;
            type Accesses<'b> = <$type as Object>::Access<'b>;

            fn list(&self, list: &mut List) {
                Object::list(self, list);
            }

            fn pointers(&self) -> Self::Pointers {
                self.pointer()
            }

            unsafe fn accesses<'b>(pointers: Self::Pointers) -> Self::Accesses<'b> {
                // SAFETY: as the caller promises.
                unsafe { <$type as Object>::access(pointers) }
            }
        }
    };
}

one!(['a, T] &'a Cown<T>);
one!(['a, T] Read<'a, T>);

macro_rules! tuple {
    ($($name:ident $i:tt),+) => {
        impl<$($name),+> sealed::Sealed for ($($name,)+) {}

        #[expect(unsafe_code, reason = "turns pointers that a body holds into its references")]
        impl<$($name: Object),+> Objects for ($($name,)+) {
            type Pointers = ($($name::Pointer,)+);
            type Accesses<'b> = ($($name::Access<'b>,)+);

            fn list(&self, list: &mut List) {
                $(self.$i.list(list);)+
            }

            fn pointers(&self) -> Self::Pointers {
                ($(self.$i.pointer(),)+)
            }

            unsafe fn accesses<'b>(pointers: Self::Pointers) -> Self::Accesses<'b> {
                ($(
                    // SAFETY: as the caller promises; objects that stand twice are only read.
                    unsafe { $name::access(pointers.$i) },
                )+)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
