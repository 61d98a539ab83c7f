/* What attribution.rs makes recordings of. */
#include <stdint.h>

struct pair {
    uint64_t a, b;
};
struct box {
    long kind;
    struct pair *pair;
};

struct pair global_pair __attribute__((aligned(64)));
static __thread struct pair tls_pair;

__attribute__((noipa)) void bump_a(struct pair *p) { __atomic_fetch_add(&p->a, 1, __ATOMIC_RELAXED); }
__attribute__((noipa)) void bump_b(struct pair *p) { __atomic_fetch_add(&p->b, 1, __ATOMIC_RELAXED); }
/* The pointer to the pair is no variable here. */
__attribute__((noipa)) void chain_a(struct box *x) { __atomic_fetch_add(&x->pair->a, 1, __ATOMIC_RELAXED); }
__attribute__((noipa)) void chain_b(struct box *x) { __atomic_fetch_add(&x->pair->b, 1, __ATOMIC_RELAXED); }

__attribute__((noipa)) void lend(void (*to)(struct pair *)) {
    struct pair lent = {1, 2};
    to(&lent);
    __asm__ volatile("" ::"m"(lent));
}

int main(void) {
    struct box box = {1, &tls_pair};
    lend(bump_a);
    bump_b(&global_pair);
    chain_a(&box);
    chain_b(&box);
    return 0;
}
