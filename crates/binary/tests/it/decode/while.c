// Loops that compilers enter at the condition.
static struct { long rx, tx; } stats __attribute__((aligned(64)));
static volatile char stop __attribute__((aligned(64)));

void receive(void) {
    while (!stop) __atomic_fetch_add(&stats.rx, 1, __ATOMIC_RELAXED);
}

void transmit(long *sent) {
    while (!stop) {
        ++*sent;
        __atomic_fetch_add(&stats.tx, 1, __ATOMIC_RELAXED);
    }
}

int main(void) {
    long sent = 0;
    stop = 1;
    receive();
    transmit(&sent);
}
