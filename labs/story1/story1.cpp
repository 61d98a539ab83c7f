// Story 1: two globals of different subsystems on one line of .bss.
//
// The spawner advances `mem_array_idx`, the cursor of the slab it allocates behaviours from. The workers read
// `global_epoch`, the epoch of memory reclamation, on every dequeue. Nobody shares either variable, but the linker put
// both on one line, together with the hidden guard of the function-local static. `--fixed` gives the cursor a line of
// its own; isolating the epoch instead would leave its guard where it is.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <time.h>

namespace {

constexpr unsigned kLine = 64;
constexpr unsigned kSlab = 1024;

struct Options {
    double seconds = 2;
    unsigned workers = 1;
    bool fixed = false;
    bool addrs = false;
};

// What the harness itself shares, away from what the lab is about.
struct alignas(2 * kLine) Stop {
    std::atomic<bool> now{false};
    char behind[2 * kLine - sizeof(std::atomic<bool>)];
};
Stop stop;

struct Behaviour {
    uint64_t transaction;
    uint64_t objects;
};

} // namespace

// Subsystem 1, behaviourcore.h: the slab and its cursor.
struct alignas(kLine) MemArrayState {
    uint32_t idx;
};
alignas(kLine) static uint32_t mem_array_idx;

// Subsystem 2, epoch.h: right behind the cursor in .bss, as definition order has it.
static uint64_t first_epoch() { return getenv("FIRST_EPOCH") ? 2 : 1; }

static std::atomic<uint64_t> &global_epoch() {
    static std::atomic<uint64_t> global_epoch{first_epoch()};
    return global_epoch;
}
extern "C" char global_epoch_guard __asm__("_ZGVZL12global_epochvE12global_epoch");

static MemArrayState mem_state;
alignas(2 * kLine) static Behaviour mem_array[kSlab];

// Subsystem 1 again: one transaction makes a behaviour of several slabs' steps.
template <bool kFixed> struct Spawner {
    static uint32_t &cursor() {
        if constexpr (kFixed) return mem_state.idx;
        else return mem_array_idx;
    }

    __attribute__((noinline)) static void run(uint64_t *spawned) {
        uint64_t transactions = 0;
        while (!stop.now.load(std::memory_order_relaxed)) {
            for (int i = 0; i < 4096; i++) {
                for (uint64_t object = 0; object < 4; object++) {
                    // An atomic step, as that of a slab which may be taken from elsewhere at shutdown.
                    uint32_t at = __atomic_fetch_add(&cursor(), 1, __ATOMIC_RELAXED);
                    mem_array[at % kSlab] = {transactions, object};
                }
                transactions++;
            }
        }
        *spawned = transactions;
    }
};

// Subsystem 2 again: what a worker does on every dequeue.
struct WorkQueue {
    __attribute__((noinline)) static void dequeue(uint64_t *dequeued) {
        uint64_t n = 0, x = 88172645463325252u;
        while (!stop.now.load(std::memory_order_relaxed)) {
            for (int i = 0; i < 4096; i++) {
                x ^= x >> 12;
                x ^= x << 25;
                x += global_epoch().load(std::memory_order_acquire);
                n++;
            }
        }
        __asm__ volatile("" ::"r"(x));
        *dequeued = n;
    }
};

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

static void truth(const char *thread, const char *rw, const char *name, const void *p, size_t size) {
    auto at = reinterpret_cast<uintptr_t>(p);
    fprintf(stderr, "addr thread=%s rw=%s name=%s at=0x%lx size=%zu line=0x%lx off=%lu\n", thread, rw, name, at, size,
            at / kLine * kLine, at % kLine);
}

static void usage(const char *program) {
    fprintf(stderr, "usage: %s [--seconds S] [--workers N] [--fixed] [--addrs]\n", program);
    exit(2);
}

static Options options(int argc, char **argv) {
    Options o;
    for (int i = 1; i < argc; i++) {
        std::string word = argv[i];
        if (word == "--fixed") o.fixed = true;
        else if (word == "--addrs") o.addrs = true;
        else if (word == "--seconds" && i + 1 < argc) o.seconds = atof(argv[++i]);
        else if (word == "--workers" && i + 1 < argc) o.workers = static_cast<unsigned>(atoi(argv[++i]));
        else usage(argv[0]);
    }
    if (!(o.seconds > 0) || o.workers == 0) usage(argv[0]);
    return o;
}

// Starts a named thread on a processor of its own, if there are as many.
template <class Body> static std::thread start(const std::string &name, unsigned number, Body body) {
    std::thread thread(body);
    pthread_setname_np(thread.native_handle(), name.c_str());
    unsigned cpus = std::thread::hardware_concurrency();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number % (cpus ? cpus : 1), &set);
    (void)pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
    return thread;
}

int main(int argc, char **argv) {
    Options o = options(argc, argv);
    if (o.addrs) {
        truth("0", "w", "mem_array_idx", o.fixed ? &mem_state.idx : &mem_array_idx, sizeof mem_array_idx);
        truth("1", "r", "global_epoch", &global_epoch(), sizeof(uint64_t));
        truth("1", "r", "guard", &global_epoch_guard, 1);
    }
    // Each on lines of their own, or the lab would have a second fault.
    struct alignas(2 * kLine) Count {
        uint64_t n = 0;
    };
    Count spawned;
    auto dequeued = std::make_unique<Count[]>(o.workers);
    std::vector<std::thread> threads;
    double began = now();
    threads.push_back(start("spawner", 0, [&] { o.fixed ? Spawner<true>::run(&spawned.n) : Spawner<false>::run(&spawned.n); }));
    for (unsigned w = 0; w < o.workers; w++)
        threads.push_back(start("worker-" + std::to_string(w), w + 1, [&, w] { WorkQueue::dequeue(&dequeued[w].n); }));
    timespec pause = {static_cast<time_t>(o.seconds), static_cast<long>((o.seconds - static_cast<double>(static_cast<time_t>(o.seconds))) * 1e9)};
    nanosleep(&pause, nullptr);
    stop.now.store(true, std::memory_order_relaxed);
    for (std::thread &thread : threads) thread.join();
    double took = now() - began, dequeues = 0;
    for (unsigned w = 0; w < o.workers; w++) dequeues += static_cast<double>(dequeued[w].n);
    printf("story1 layout=%s spawned=%.2f M/s dequeued=%.2f M/s seconds=%.2f\n", o.fixed ? "fixed" : "packed",
           static_cast<double>(spawned.n) / took / 1e6, dequeues / took / 1e6, took);
}
