// Story 1 in three files, as programs are: two subsystems that know nothing of each other, and whose variables the linker
// puts side by side. `hitm shake` moves them.
#pragma once
#include <cstdint>

// Subsystem 1: takes so many steps with its cursor.
void spawn(uint64_t steps);
// Subsystem 2: reads its epoch so often; the result keeps the compiler from dropping the reads.
uint64_t dequeue(uint64_t reads);
