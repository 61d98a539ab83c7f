// Runs both subsystems side by side, so often each: main [STEPS].
#include "story1.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

int main(int argc, char **argv) {
    uint64_t steps = argc > 1 ? strtoull(argv[1], nullptr, 10) : 10'000'000;
    uint64_t x = 0;
    std::thread spawner(spawn, steps);
    std::thread worker([&] { x = dequeue(4 * steps); });
    spawner.join();
    worker.join();
    printf("steps %llu, last %llu\n", static_cast<unsigned long long>(steps), static_cast<unsigned long long>(x % 10));
}
