//! What well-known functions of other files do: they start threads, wait for them, take locks, name the thread.

use super::value::Lineage;

/// How a function starts a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Starts {
    /// The thread's function is an argument.
    Routine {
        /// Which.
        argument: usize,
        /// Whether what is waited for later is left where the first argument points to.
        handle: bool,
    },
    /// So is it, and several threads run it.
    Parallel(usize),
    /// An object with a virtual function is given (`std::thread` of libstdc++), after the one that is waited for later.
    Object,
}

/// What is given to a function that waits for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joins {
    /// What the start of the thread has left.
    Handle,
    /// An object of C++'s library that begins with it.
    Object,
}

/// Whether and how it starts a thread.
pub(super) fn starts(name: &str) -> Option<Starts> {
    let routine = |argument, handle| Starts::Routine { argument, handle };
    Some(match unversioned(name) {
        "pthread_create" => routine(2, true),
        "thrd_create" => routine(1, true),
        "g_thread_new" | "uv_thread_create" => routine(1, false),
        "clone" => routine(0, false),
        "GOMP_parallel"
        | "GOMP_parallel_start"
        | "GOMP_parallel_loop_static"
        | "GOMP_parallel_loop_dynamic"
        | "GOMP_parallel_sections" => Starts::Parallel(0),
        "__kmpc_fork_call" | "__kmpc_fork_teams" => Starts::Parallel(2),
        // std::thread::_M_start_thread, whatever its parameters.
        name if name.starts_with("_ZNSt6thread15_M_start_thread") => Starts::Object,
        // std::__1::thread of libc++ is made by pthread_create in the program itself.
        _ => return None,
    })
}

/// Whether it waits until a thread is over, and for which.
pub(super) fn joins(name: &str) -> Option<Joins> {
    Some(match unversioned(name) {
        "pthread_join" | "thrd_join" | "g_thread_join" | "uv_thread_join" => Joins::Handle,
        "_ZNSt6thread4joinEv" | "_ZNSt3__16thread4joinEv" => Joins::Object,
        _ => return None,
    })
}

/// Whether the program, or at least the thread's work, is over with it.
pub(super) fn ends(name: &str) -> bool {
    matches!(
        unversioned(name),
        "exit" | "_exit" | "_Exit" | "quick_exit" | "abort" | "__assert_fail" | "__stack_chk_fail"
    )
}

/// What it does to what an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Does {
    /// Takes or gives back a lock of so many bytes.
    Locks(u32, Turn),
    /// Changes so many bytes atomically.
    Changes(u32),
    /// Writes as many bytes as another argument says.
    Fills(usize),
    /// Reads as many bytes as another argument says.
    Copies(usize),
}

/// What a function does with a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// Waits until it has it.
    Takes {
        /// Whether several may have it at once.
        shared: bool,
    },
    /// Takes it if it is free, and returns 0 then.
    Tries {
        /// Whether several may have it at once.
        shared: bool,
    },
    GivesBack,
}

const TAKES: Turn = Turn::Takes { shared: false };
const TRIES: Turn = Turn::Tries { shared: false };
const MUTEX: u32 = 40;
const READERS_AND_WRITERS: u32 = 56;
const SPINNING: u32 = 4;

/// What it does to which of its arguments.
pub(super) fn does(name: &str) -> &'static [(usize, Does)] {
    match unversioned(name) {
        "pthread_mutex_lock" | "mtx_lock" => &[(0, Does::Locks(MUTEX, TAKES))],
        "pthread_mutex_trylock"
        | "pthread_mutex_timedlock"
        | "pthread_mutex_clocklock"
        | "mtx_trylock"
        | "mtx_timedlock" => &[(0, Does::Locks(MUTEX, TRIES))],
        "pthread_mutex_unlock" | "mtx_unlock" => &[(0, Does::Locks(MUTEX, Turn::GivesBack))],
        "pthread_rwlock_wrlock" => &[(0, Does::Locks(READERS_AND_WRITERS, TAKES))],
        "pthread_rwlock_trywrlock" | "pthread_rwlock_timedwrlock" => {
            &[(0, Does::Locks(READERS_AND_WRITERS, TRIES))]
        }
        "pthread_rwlock_rdlock" => &[(
            0,
            Does::Locks(READERS_AND_WRITERS, Turn::Takes { shared: true }),
        )],
        "pthread_rwlock_tryrdlock" | "pthread_rwlock_timedrdlock" => &[(
            0,
            Does::Locks(READERS_AND_WRITERS, Turn::Tries { shared: true }),
        )],
        "pthread_rwlock_unlock" => &[(0, Does::Locks(READERS_AND_WRITERS, Turn::GivesBack))],
        "pthread_spin_lock" => &[(0, Does::Locks(SPINNING, TAKES))],
        "pthread_spin_trylock" => &[(0, Does::Locks(SPINNING, TRIES))],
        "pthread_spin_unlock" => &[(0, Does::Locks(SPINNING, Turn::GivesBack))],
        "pthread_cond_signal"
        | "pthread_cond_broadcast"
        | "pthread_cond_wait"
        | "pthread_cond_timedwait"
        | "cnd_signal"
        | "cnd_broadcast"
        | "cnd_wait"
        | "cnd_timedwait" => &[(0, Does::Changes(48))],
        "sem_post" | "sem_wait" | "sem_trywait" | "sem_timedwait" => &[(0, Does::Changes(32))],
        "memset" => &[(0, Does::Fills(2))],
        "memcpy" | "memmove" => &[(0, Does::Fills(2)), (1, Does::Copies(2))],
        "memcmp" | "bcmp" => &[(0, Does::Copies(2)), (1, Does::Copies(2))],
        _ => &[],
    }
}

/// What its result is made from.
pub(super) fn result_of(name: &str) -> Lineage {
    match unversioned(name) {
        "sched_getcpu"
        | "omp_get_thread_num"
        | "pthread_self"
        | "gettid"
        | "thrd_current"
        | "__kmpc_global_thread_num"
        | "__tls_get_addr"
        | "pthread_getspecific" => Lineage::THREAD,
        _ => Lineage::OTHER,
    }
}

/// Whether anything is known of it.
pub(super) fn is_known(name: &str) -> bool {
    starts(name).is_some()
        || joins(name).is_some()
        || !does(name).is_empty()
        || result_of(name) != Lineage::OTHER
}

/// The name of an import without its version.
pub(super) fn unversioned(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}
