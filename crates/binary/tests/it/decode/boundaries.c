// Code of many kinds for the comparison with objdump, compiled at several levels of optimisation.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct shard { _Atomic uint64_t hits; uint64_t sum; double mean; char name[40]; };
struct shard shards[8];
__thread uint64_t mine;
uint64_t table[256];

uint64_t add_all(const uint64_t *from, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += from[i];
    return sum;
}

void scale(double *restrict to, const double *restrict from, double by, unsigned n) {
    for (unsigned i = 0; i < n; i++) to[i] = from[i] * by;
}

void count(unsigned shard, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        atomic_fetch_add_explicit(&shards[shard & 7].hits, 1, memory_order_relaxed);
        shards[shard & 7].sum += i;
        mine++;
    }
}

int change(uint64_t *word, uint64_t from, uint64_t to) {
    return __sync_bool_compare_and_swap(word, from, to);
}

unsigned dispatch(unsigned op, unsigned *x, unsigned y) {
    switch (op) {
    case 0: return *x + y;
    case 1: return *x - y;
    case 2: *x = y; return 2;
    case 3: return *x * y;
    case 4: *x ^= y; return *x << 3;
    case 5: return *x / (y | 1);
    case 6: table[y & 255]++; return 6;
    case 7: return x[1] + x[y];
    case 8: return (*x)--;
    default: return 0;
    }
}

void copy_name(struct shard *to, const struct shard *from) {
    memcpy(to->name, from->name, sizeof to->name);
    memset(&to->sum, 0, 16);
}

void histogram(const unsigned char *text, size_t n) {
    for (size_t i = 0; i < n; i++) table[text[i]]++;
}

double mean(struct shard *all, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += all[i].mean / (double)all[i].sum;
    return sum / (double)n;
}

long walk(long (*visit)(void *, long), void *node, long depth) {
    if (depth <= 0) return visit(node, depth);
    return walk(visit, ((void **)node)[0], depth - 1) + walk(visit, ((void **)node)[1], depth - 1);
}
