// A program to be stepped through; together with boundaries.c. It stops itself where the stepping is to begin.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

extern "C" {
uint64_t add_all(const uint64_t *from, size_t n);
void scale(double *to, const double *from, double by, unsigned n);
void count(unsigned shard, uint64_t n);
int change(uint64_t *word, uint64_t from, uint64_t to);
unsigned dispatch(unsigned op, unsigned *x, unsigned y);
void histogram(const unsigned char *text, size_t n);
long walk(long (*visit)(void *, long), void *node, long depth);
}

static long visit(void *node, long depth) { return node != nullptr ? depth + 1 : 0; }

static unsigned checked(unsigned op, unsigned *x) {
    if (op > 9) throw std::out_of_range("operation " + std::to_string(op));
    return dispatch(op, x, op * 3);
}

static int compare(const void *a, const void *b) {
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

int main() {
    static uint64_t words[40];
    static double from[33], to[33];
    static void *nodes[2] = {nodes, nodes};
    raise(SIGSTOP);
    uint64_t sum = add_all(words, 37);
    scale(to, from, 1.5, 33);
    count(3, 20);
    sum += change(&words[3], 0, 5);
    unsigned x[64] = {7};
    for (unsigned op = 0; op < 12; op++) {
        try {
            sum += checked(op, x);
        } catch (const std::out_of_range &error) {
            sum += strlen(error.what());
        }
    }
    histogram(reinterpret_cast<const unsigned char *>("some text to count"), 18);
    sum += walk(visit, nodes, 3);
    std::map<std::string, int> names;
    for (int i = 0; i < 6; i++) names["name " + std::to_string(i * 7 % 5)] += i;
    int numbers[20];
    for (int i = 0; i < 20; i++) numbers[i] = i * 13 % 20;
    qsort(numbers, 20, sizeof numbers[0], compare);
    char text[200];
    snprintf(text, sizeof text, "%s %d %5.2f %lx", names.begin()->first.c_str(), numbers[3], to[2], sum);
    memmove(text + 40, text + 3, 100);
    memset(text, 'x', 150);
    puts(text);
}
