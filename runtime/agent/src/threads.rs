//! A place and a timer for each thread.

use core::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use crate::{
    channel::Channel,
    handler,
    layout::{APART, BODY_WORDS, Payload, kind},
    process, sys,
};

/// Places: the most threads of one process that are sampled at once.
const PLACES: usize = 4096;

/// No timer. A timer is kept as its number plus one, so that all places are zeros and take no room in the file.
const NO_TIMER: i32 = 0;

/// What the agent keeps of a thread. A thread reads its own on every tick, so none shares a line with another's.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Slot {
    /// 0 while nobody has it.
    taken: AtomicU32,
    /// The thread's number.
    tid: AtomicU32,
    /// Its process's.
    pid: AtomicU32,
    /// Its timer's number plus one, or [`NO_TIMER`].
    timer: AtomicI32,
    /// Its thread-control block: says whose signal it is without a system call.
    fs_base: AtomicU64,
    /// What the thread is to run.
    start: AtomicUsize,
    /// With what.
    argument: AtomicUsize,
}

const _: () = assert!(size_of::<Slot>() == APART && align_of::<Slot>() == APART);

static SLOTS: [Slot; PLACES] = [const { Slot::new() }; PLACES];

/// Where the last free place was found.
static HINT: AtomicUsize = AtomicUsize::new(0);

/// The key whose destructor runs when a thread ends, plus one; 0 for none.
static KEY: AtomicU32 = AtomicU32::new(0);

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            timer: AtomicI32::new(NO_TIMER),
            fs_base: AtomicU64::new(0),
            start: AtomicUsize::new(0),
            argument: AtomicUsize::new(0),
        }
    }

    /// Takes a free place.
    pub(crate) fn claim() -> Option<&'static Self> {
        let hint = HINT.load(Ordering::Relaxed);
        let (before, behind) = SLOTS.split_at_checked(hint)?;
        let (index, slot) = behind
            .iter()
            .chain(before)
            .enumerate()
            .find(|(_, slot)| slot.taken.load(Ordering::Relaxed) == 0 && slot.take())?;
        HINT.store((hint + index + 1) % PLACES, Ordering::Relaxed);
        Some(slot)
    }

    fn take(&self) -> bool {
        self.taken
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the place back.
    pub(crate) fn release(&self) {
        self.fs_base.store(0, Ordering::Relaxed);
        self.taken.store(0, Ordering::Release);
    }

    /// Notes what the thread is to run.
    pub(crate) fn set_start(&self, start: usize, argument: *mut c_void) {
        self.start.store(start, Ordering::Relaxed);
        self.argument.store(argument as usize, Ordering::Release);
    }

    /// The place that a timer's value names, if it is one.
    pub(crate) fn from_value(value: usize) -> Option<&'static Self> {
        let offset = value.checked_sub(SLOTS.as_ptr() as usize)?;
        SLOTS.get(offset / size_of::<Self>())
    }

    /// Whether the thread with this thread-control block has it.
    pub(crate) fn belongs_to(&self, fs_base: u64) -> bool {
        self.fs_base.load(Ordering::Relaxed) == fs_base
    }

    /// Process and thread.
    pub(crate) fn numbers(&self) -> (u32, u32) {
        (
            self.pid.load(Ordering::Relaxed),
            self.tid.load(Ordering::Relaxed),
        )
    }

    /// Starts sampling the calling thread, and tells the recorder that it exists.
    pub(crate) fn begin(&self, channel: Channel, event: u16) {
        let (pid, tid, fs_base) = (process::pid(), sys::gettid(), sys::fs_base());
        self.pid.store(pid, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Relaxed);
        self.fs_base.store(fs_base, Ordering::Relaxed);
        self.timer.store(NO_TIMER, Ordering::Relaxed);
        let parent = if event == kind::BORN {
            pid
        } else {
            sys::getppid()
        };
        push_event(channel, event, pid, tid, [fs_base, parent.into()]);
        self.arm(channel, tid);
        if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1) {
            // SAFETY: the key exists, and the value is only handed back to `thread_ends`.
            unsafe { libc::pthread_setspecific(key, ptr::from_ref(self).cast()) };
        }
    }

    /// Makes and starts the timer.
    fn arm(&self, channel: Channel, tid: u32) {
        let Some(signal) = handler::signal() else {
            return;
        };
        if !handler::is_ours() {
            back_off();
            return;
        }
        sys::unblock(signal);
        let timer = sys::timer_create(signal, tid, ptr::from_ref(self) as usize);
        let Ok(timer) = timer else {
            channel
                .header()
                .agents
                .unsampled
                .fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.timer.store(timer + 1, Ordering::Relaxed);
        if sys::timer_settime(timer, channel.header().period).is_err() {
            self.delete_timer();
        }
    }

    /// Stops the timer, from its own handler.
    pub(crate) fn disarm(&self) {
        let timer = self.timer.load(Ordering::Relaxed);
        if timer != NO_TIMER {
            let _ = sys::timer_settime(timer - 1, 0);
        }
    }

    /// Removes the timer; whoever comes first does.
    fn delete_timer(&self) {
        let timer = self.timer.swap(NO_TIMER, Ordering::AcqRel);
        if timer != NO_TIMER {
            sys::timer_delete(timer - 1);
        }
    }
}

/// What the new thread does first: it takes its place, and learns what to run. Called by `hitm_agent_thread_start`.
pub(crate) fn begin(slot: &Slot) -> (usize, usize) {
    let start = slot.argument.load(Ordering::Acquire);
    let start = (slot.start.load(Ordering::Relaxed), start);
    if let Some(channel) = Channel::get() {
        slot.begin(channel, kind::BORN);
    }
    start
}

/// Makes the key that says when a thread ends.
pub(crate) fn create_key() {
    let mut key = 0;
    // SAFETY: it writes a key; the destructor has the type it wants.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        KEY.store(key + 1, Ordering::Relaxed);
    }
}

/// The destructor of the key.
unsafe extern "C" fn thread_ends(slot: *mut c_void) {
    let Some(slot) = Slot::from_value(slot as usize) else {
        return;
    };
    slot.delete_timer();
    if let Some(channel) = Channel::get() {
        let (pid, tid) = slot.numbers();
        push_event(channel, kind::ENDED, pid, tid, [0; 2]);
    }
    slot.release();
}

/// After `fork`: of all threads only the calling one is left, and no timer.
pub(crate) fn forget_others() {
    for slot in &SLOTS {
        slot.timer.store(NO_TIMER, Ordering::Relaxed);
        if slot.taken.load(Ordering::Relaxed) != 0 {
            slot.release();
        }
    }
}

/// The program wants the signal for itself: all timers go, the recorder is told.
pub(crate) fn back_off() {
    if !handler::abandon() {
        return;
    }
    for slot in &SLOTS {
        slot.delete_timer();
    }
    if let Some(channel) = Channel::get() {
        channel
            .header()
            .agents
            .backed_off
            .fetch_add(1, Ordering::Relaxed);
    }
}

/// A record about a thread: its name and two words more.
fn push_event(channel: Channel, kind: u16, pid: u32, tid: u32, more: [u64; 2]) {
    let mut body = [0; BODY_WORDS];
    let words = sys::name().into_iter().chain(more);
    for (word, value) in body.iter_mut().zip(words) {
        *word = value;
    }
    let payload = Payload {
        at: sys::now(),
        pid,
        tid,
        cpu: sys::cpu(),
        kind,
        length: 0,
        body,
    };
    channel.push(&payload);
}
