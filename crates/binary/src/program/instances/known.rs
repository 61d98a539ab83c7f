//! What well-known functions do with memory: allocate it, copy it, fill it, and which do nothing to what they are given.

use crate::program::calls::unversioned;

/// What the address of a new block is a multiple of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alignment {
    /// Always of this.
    Fixed(u64),
    /// Of what an argument says.
    Argument(usize),
}

/// What `malloc` and C++'s `operator new` promise on x86-64: enough for a `long double`.
const OF_MALLOC: Alignment = Alignment::Fixed(16);

/// What a well-known function does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// Allocates as many bytes as an argument says.
    Allocates {
        size: usize,
        align: Alignment,
        /// The argument that the size is to be multiplied with.
        times: Option<usize>,
    },
    /// Allocates what its first argument points to shall point to.
    AllocatesInto,
    /// Gives a block another size: the first argument is the old one.
    Resizes { size: usize, align: Alignment },
    /// Copies as many bytes as the third argument says from the second to the first.
    Copies,
    /// Fills as many bytes as the third argument says.
    Fills,
    /// Writes so many bytes to what an argument points to.
    Writes { argument: usize, bytes: i64 },
    /// Changes nothing that it is given.
    Reads,
    /// Does not come back.
    Ends,
}

/// Of a function of another file.
pub(super) fn import(name: &str) -> Option<Known> {
    by_name(unversioned(name))
}

/// Of a function of the file itself, by the linker's name and the one that people know.
pub(super) fn function(raw: &str, name: &str) -> Option<Known> {
    let rust = |end: &str| raw.ends_with(end) || name.ends_with(end);
    if rust("__rust_alloc") || rust("__rust_alloc_zeroed") {
        return Some(Known::Allocates {
            size: 0,
            align: Alignment::Argument(1),
            times: None,
        });
    }
    if rust("__rust_realloc") {
        return Some(Known::Resizes {
            size: 3,
            align: Alignment::Argument(2),
        });
    }
    // What is printed is read, whatever the way to the terminal does.
    let prints = ["std::io::stdio::_print", "std::io::stdio::_eprint"];
    if rust("__rust_dealloc") || prints.contains(&name) {
        return Some(Known::Reads);
    }
    by_name(raw).filter(|known| !matches!(known, Known::Reads))
}

fn by_name(name: &str) -> Option<Known> {
    let allocates = |size, align| Known::Allocates {
        size,
        align,
        times: None,
    };
    Some(match name {
        "malloc"
        | "_Znwm"
        | "_Znam"
        | "_ZnwmRKSt9nothrow_t"
        | "_ZnamRKSt9nothrow_t"
        | "g_malloc"
        | "g_malloc0" => allocates(0, OF_MALLOC),
        // A page.
        "valloc" => allocates(0, Alignment::Fixed(4096)),
        "calloc" => Known::Allocates {
            size: 0,
            align: OF_MALLOC,
            times: Some(1),
        },
        "_ZnwmSt11align_val_t"
        | "_ZnamSt11align_val_t"
        | "_ZnwmSt11align_val_tRKSt9nothrow_t"
        | "_ZnamSt11align_val_tRKSt9nothrow_t" => allocates(0, Alignment::Argument(1)),
        "aligned_alloc" | "memalign" => allocates(1, Alignment::Argument(0)),
        "posix_memalign" => Known::AllocatesInto,
        "realloc" => Known::Resizes {
            size: 1,
            align: OF_MALLOC,
        },
        "memcpy" | "memmove" | "__memcpy_chk" | "__memmove_chk" => Known::Copies,
        "memset" | "__memset_chk" => Known::Fills,
        "pthread_create" | "thrd_create" | "pthread_attr_init" | "time" => Known::Writes {
            argument: 0,
            bytes: 8,
        },
        "clock_gettime" | "gettimeofday" => Known::Writes {
            argument: usize::from(name == "clock_gettime"),
            bytes: 16,
        },
        "pthread_join" | "strtol" | "strtoul" | "strtoll" | "strtoull" | "strtod"
        | "__isoc23_strtol" | "__isoc23_strtoul" => Known::Writes {
            argument: 1,
            bytes: 8,
        },
        "exit" | "_exit" | "_Exit" | "quick_exit" | "abort" | "__assert_fail"
        | "__stack_chk_fail" | "_Unwind_Resume" | "pthread_exit" | "thrd_exit" | "__cxa_throw"
        | "__cxa_rethrow" | "__cxa_bad_cast" | "longjmp" | "siglongjmp" | "_ZSt9terminatev" => {
            Known::Ends
        }
        _ if name.starts_with("_ZSt") && name.contains("__throw_") => Known::Ends,
        "printf"
        | "fprintf"
        | "puts"
        | "putchar"
        | "fputs"
        | "fwrite"
        | "fflush"
        | "perror"
        | "write"
        | "free"
        | "_ZdlPv"
        | "_ZdlPvm"
        | "_ZdaPv"
        | "_ZdlPvSt11align_val_t"
        | "_ZdlPvmSt11align_val_t"
        | "strlen"
        | "strcmp"
        | "strncmp"
        | "memcmp"
        | "bcmp"
        | "memchr"
        | "strchr"
        | "getenv"
        | "secure_getenv"
        | "sched_yield"
        | "usleep"
        | "sleep"
        | "nanosleep"
        | "atoi"
        | "atol"
        | "pthread_mutex_lock"
        | "pthread_mutex_unlock"
        | "pthread_mutex_trylock"
        | "pthread_mutex_destroy"
        | "pthread_rwlock_rdlock"
        | "pthread_rwlock_wrlock"
        | "pthread_rwlock_unlock"
        | "pthread_spin_lock"
        | "pthread_spin_unlock"
        | "pthread_cond_wait"
        | "pthread_cond_signal"
        | "pthread_cond_broadcast"
        | "mtx_lock"
        | "mtx_trylock"
        | "mtx_unlock"
        | "mtx_destroy"
        | "cnd_signal"
        | "cnd_broadcast"
        | "cnd_wait"
        | "cnd_destroy"
        | "sem_trywait"
        | "sem_destroy"
        | "pthread_rwlock_tryrdlock"
        | "pthread_rwlock_trywrlock"
        | "pthread_rwlock_destroy"
        | "pthread_spin_trylock"
        | "pthread_spin_destroy"
        | "pthread_barrier_wait"
        | "sem_post"
        | "sem_wait"
        | "sched_setaffinity"
        | "pthread_setaffinity_np"
        | "pthread_attr_destroy"
        | "pthread_attr_setstacksize"
        | "pthread_setname_np"
        | "__printf_chk"
        | "__fprintf_chk"
        | "__cxa_guard_acquire"
        | "__cxa_guard_release"
        | "pthread_self"
        | "pthread_detach"
        | "__cxa_atexit"
        | "syscall"
        | "sysconf" => Known::Reads,
        _ => return None,
    })
}
