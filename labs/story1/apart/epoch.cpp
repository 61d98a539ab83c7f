// Subsystem 2: the epoch of memory reclamation, read by the worker at each turn, together with its hidden guard.
#include "story1.h"

#include <atomic>
#include <cstdlib>

static uint64_t first_epoch() { return getenv("FIRST_EPOCH") ? 2 : 1; }

static std::atomic<uint64_t> &global_epoch() {
    static std::atomic<uint64_t> global_epoch{first_epoch()};
    return global_epoch;
}

uint64_t dequeue(uint64_t reads) {
    uint64_t x = 88172645463325252u;
    for (uint64_t read = 0; read < reads; read++) {
        x ^= x >> 12;
        x ^= x << 25;
        x += global_epoch().load(std::memory_order_acquire);
    }
    return x;
}
