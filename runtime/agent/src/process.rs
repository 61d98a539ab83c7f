//! A process: the agent is loaded, forked, and told that the program exits.

use core::{
    ffi::c_char,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    channel::{Channel, Pushed},
    handler,
    layout::{BODY_WORDS, CHANNEL_VARIABLE, Payload, TEXT_BYTES, kind},
    sys, threads,
    threads::Slot,
};

/// The process that the places are of.
static PID: AtomicU32 = AtomicU32::new(0);

/// The most text of `/proc/self/maps` that is passed on; a line is some 80 bytes.
const MOST_TEXT: usize = 256 * 1024;

/// The process that the places are of.
pub(crate) fn pid() -> u32 {
    PID.load(Ordering::Relaxed)
}

/// Whether this is still the process that the places are of: not so in a child made by `vfork` or a bare `clone`, which
/// must not touch what it shares with, or copied from, its parent.
pub(crate) fn is_this() -> bool {
    PID.load(Ordering::Relaxed) == sys::getpid()
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: unsafe extern "C" fn() = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static EXITS: unsafe extern "C" fn() = exits;

unsafe extern "C" {
    /// What `pthread_atfork` is made of; it needs no object file of the C library to be linked in.
    fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        dso: *const c_char,
    ) -> i32;
}

/// Runs before the program's own initialisers, when all its libraries are mapped.
unsafe extern "C" fn loaded() {
    let errno = Errno::save();
    start();
    errno.restore();
}

fn start() {
    let mut name = [0_u8; 32];
    for (to, from) in name.iter_mut().zip(CHANNEL_VARIABLE.bytes()) {
        *to = from;
    }
    // SAFETY: the name ends in a zero byte, as it is shorter than the array.
    let path = unsafe { libc::getenv(name.as_ptr().cast()) };
    if path.is_null() {
        return;
    }
    // SAFETY: the value of a variable ends in a zero byte.
    let Some(channel) = (unsafe { Channel::open(path) }) else {
        return;
    };
    PID.store(sys::getpid(), Ordering::Relaxed);
    channel
        .header()
        .agents
        .hellos
        .fetch_add(1, Ordering::Relaxed);
    threads::create_key();
    // SAFETY: the handler has the type it wants, and this library is never unloaded.
    unsafe { __register_atfork(None, None, Some(forked), core::ptr::null()) };
    if handler::install().is_none() {
        channel
            .header()
            .agents
            .backed_off
            .fetch_add(1, Ordering::Relaxed);
    }
    if let Some(slot) = Slot::claim() {
        slot.begin(channel, kind::HELLO);
    }
    push_maps(channel);
}

/// Runs in the child of a `fork`.
unsafe extern "C" fn forked() {
    let errno = Errno::save();
    PID.store(sys::getpid(), Ordering::Relaxed);
    threads::forget_others();
    if let (Some(channel), Some(slot)) = (Channel::get(), Slot::claim()) {
        slot.begin(channel, kind::FORKED);
    }
    errno.restore();
}

/// Runs when the program exits: the recorder may come too late to read what was mapped.
unsafe extern "C" fn exits() {
    if let Some(channel) = Channel::get().filter(|_| is_this()) {
        push_maps(channel);
    }
}

/// Passes `/proc/self/maps` on.
fn push_maps(channel: Channel) {
    // SAFETY: the path ends in a zero byte.
    let Ok(file) = (unsafe { sys::File::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY) }) else {
        return;
    };
    let (pid, tid) = (pid(), sys::gettid());
    let push = |kind: u16, offset: usize, text: &[u8]| {
        let mut body = [0; BODY_WORDS];
        let bytes = text.chunks(8).map(|piece| {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(piece)
                .for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(word)
        });
        for (to, from) in body
            .iter_mut()
            .zip([offset as u64].into_iter().chain(bytes))
        {
            *to = from;
        }
        let (at, cpu, length) = (sys::now(), sys::cpu(), text.len() as u16);
        channel.push(&Payload {
            at,
            pid,
            tid,
            cpu,
            kind,
            length,
            body,
        })
    };
    let mut offset = 0;
    while offset < MOST_TEXT {
        let mut text = [0; TEXT_BYTES];
        let read = file.read(&mut text);
        let Some(text) = text.get(..read).filter(|text| !text.is_empty()) else {
            break;
        };
        if push(kind::MAPS, offset, text) == Pushed::Full {
            return;
        }
        offset += read;
    }
    push(kind::MAPS_END, offset, &[]);
}

/// The program's `errno`, put back when the agent is done.
#[derive(Debug)]
pub(crate) struct Errno(i32);

impl Errno {
    /// What it is now.
    pub(crate) fn save() -> Self {
        // SAFETY: it takes nothing.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: it points to the calling thread's errno.
        Self(unsafe { *place })
    }

    /// Puts it back.
    pub(crate) fn restore(self) {
        // SAFETY: it takes nothing.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: it points to the calling thread's errno.
        unsafe { *place = self.0 };
    }
}
