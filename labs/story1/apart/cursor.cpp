// Subsystem 1: the cursor of a slab, written by the spawner at each step.
#include "story1.h"

uint32_t mem_array_idx;
// What else the subsystem has, used by nobody in the loop.
uint64_t slab_begin, slab_end;

void spawn(uint64_t steps) {
    for (uint64_t step = 0; step < steps; step++) {
        // An atomic step, as that of a slab which may be taken from elsewhere at shutdown.
        __atomic_fetch_add(&mem_array_idx, 1, __ATOMIC_RELAXED);
    }
    slab_begin += steps;
    slab_end++;
}
