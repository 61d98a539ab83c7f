// Story 2 in C: a collector of statistics whose counters share lines, or do not.
//
// The twin of the Rust program beside it: the same options, table and JSON (collect.schema.json).
//
//     gcc -O2 -g -pthread -o collect collect.c
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 1024, MOST_RUNS = 1000, EVERY = 8, ASSUMED_LINE = 128 };

// Threads that together use less than this part of as many processors did not run side by side all the time.
static const double SIDE_BY_SIDE = 0.925;

enum layout { PACKED, PADDED, PER_THREAD };
enum op { RMW, PLAIN, DEPENDENT };
static const char *const LAYOUTS[] = {"packed", "padded", "per-thread", NULL};
static const char *const OPS[] = {"rmw", "plain", "dependent", NULL};

struct options {
    long threads; // 0: not given
    enum layout layout;
    enum op op;
    uint64_t total;
    long runs;
    bool scale, pin, json, addrs;
    long line_size; // 0: not given
};

struct machine {
    char processor[128];
    int processors;
    long line_size;
    const char *line_size_from, *line_size_words;
    int cpus[CPU_SETSIZE];
};

struct run {
    double seconds, processors_used;
    bool side_by_side;
};

struct row {
    long threads;
    bool time_sliced;
    long side_by_side_runs;
    double median, min, max, per_second, speed_up; // speed_up 0: not known
    struct run runs[MOST_RUNS];
};

// The array of the story, uint64_t cnt[N]. Its base is aligned, so that it is the same lines in every build.
static _Alignas(128) _Atomic uint64_t cnt[MOST_THREADS];

// What a thread has in a block of its own.
struct own {
    _Atomic uint64_t counted;
};

_Noreturn static void fail(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("collect: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(code);
}

// The ways to count one. Functions of their own, so that their machine code can be found and looked at: no compiler may
// turn n increments into one addition of n.

__attribute__((noinline)) static void count_rmw(_Atomic uint64_t *counter, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

__attribute__((noinline)) static void count_plain(_Atomic uint64_t *counter, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
        atomic_store_explicit(counter, value + 1, memory_order_relaxed);
    }
}

// No count has its highest bit set, so it is always the same counter; neither the compiler nor the processor knows.
__attribute__((noinline)) static void count_dependent(_Atomic uint64_t *counter, uint64_t n) {
    uint64_t next = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = atomic_load_explicit(&counter[next], memory_order_relaxed);
        atomic_store_explicit(&counter[next], value + 1, memory_order_relaxed);
        next = value >> 63;
    }
}

// The layouts.

struct places {
    enum layout layout;
    size_t stride; // in words, of padded counters
    _Atomic uint64_t *padded;
    struct own *own[MOST_THREADS];
};

static _Atomic uint64_t *zeroed(size_t alignment, size_t bytes) {
    _Atomic uint64_t *words = aligned_alloc(alignment, bytes);
    if (!words) fail(1, "no memory for the counters: try fewer threads");
    for (size_t i = 0; i < bytes / sizeof *words; i++) atomic_init(&words[i], 0);
    return words;
}

static void places_make(struct places *places, const struct options *o, const struct machine *machine, long threads) {
    *places = (struct places){.layout = o->layout, .stride = (size_t)machine->line_size / sizeof(uint64_t)};
    size_t line = (size_t)machine->line_size;
    if (o->layout == PACKED)
        for (int i = 0; i < MOST_THREADS; i++) atomic_store(&cnt[i], 0);
    else if (o->layout == PADDED)
        places->padded = zeroed(line, (size_t)threads * line);
}

// Called by each thread for itself: its block is made where it runs.
static _Atomic uint64_t *places_of(struct places *places, const struct machine *machine, long thread) {
    if (places->layout == PACKED) return &cnt[thread];
    if (places->layout == PADDED) return &places->padded[(size_t)thread * places->stride];
    size_t apart = machine->line_size < ASSUMED_LINE ? ASSUMED_LINE : (size_t)machine->line_size;
    places->own[thread] = (struct own *)zeroed(apart, apart);
    return &places->own[thread]->counted;
}

static uint64_t places_sum(struct places *places, long threads) {
    uint64_t sum = 0;
    for (long i = 0; i < threads; i++) {
        if (places->layout == PACKED) sum += atomic_load(&cnt[i]);
        else if (places->layout == PADDED) sum += atomic_load(&places->padded[(size_t)i * places->stride]);
        else if (places->own[i]) sum += atomic_load(&places->own[i]->counted);
    }
    return sum;
}

static void places_free(struct places *places, long threads) {
    free(places->padded);
    for (long i = 0; i < threads; i++) free(places->own[i]);
}

// Running the threads and taking their times.

struct part {
    pthread_t id;
    long thread, threads;
    const struct options *o;
    const struct machine *machine;
    struct places *places;
    pthread_rwlock_t *gate;
    const bool *open;
    double began, ended, cpu;
    int error;
};

static double clock_seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t share(uint64_t total, long thread, long threads) {
    return total / (uint64_t)threads + ((uint64_t)thread < total % (uint64_t)threads);
}

static int pin(const struct machine *machine, long thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(machine->cpus[thread % machine->processors], &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *part_body(void *argument) {
    struct part *part = argument;
    if (part->o->pin) part->error = pin(part->machine, part->thread);
    _Atomic uint64_t *counter = places_of(part->places, part->machine, part->thread);
    uint64_t n = share(part->o->total, part->thread, part->threads);
    pthread_rwlock_rdlock(part->gate);
    bool go = *part->open;
    pthread_rwlock_unlock(part->gate);
    if (!go) return NULL;
    part->began = clock_seconds(CLOCK_MONOTONIC);
    double cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    if (part->o->layout == PER_THREAD || part->o->op == PLAIN) count_plain(counter, n);
    else if (part->o->op == RMW) count_rmw(counter, n);
    else count_dependent(counter, n);
    part->cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    part->ended = clock_seconds(CLOCK_MONOTONIC);
    return NULL;
}

static struct run once(const struct options *o, const struct machine *machine, long threads) {
    static struct part parts[MOST_THREADS];
    struct places places;
    pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
    bool open = false;
    places_make(&places, o, machine, threads);
    pthread_rwlock_wrlock(&gate);
    long started = 0;
    for (; started < threads; started++) {
        parts[started] = (struct part){.thread = started, .threads = threads, .o = o, .machine = machine,
                                       .places = &places, .gate = &gate, .open = &open};
        if (pthread_create(&parts[started].id, NULL, part_body, &parts[started])) break;
        char name[16];
        snprintf(name, sizeof name, "count-%ld", started);
        pthread_setname_np(parts[started].id, name);
    }
    open = started == threads;
    pthread_rwlock_unlock(&gate);
    for (long i = 0; i < started; i++) pthread_join(parts[i].id, NULL);
    if (started < threads) fail(1, "cannot start %ld threads: try fewer", threads);

    double began = parts[0].began, ended = parts[0].ended, cpu = 0;
    for (long i = 0; i < threads; i++) {
        if (parts[i].error) fail(1, "cannot put a thread on a processor: %s: try without --pin", strerror(parts[i].error));
        if (parts[i].began < began) began = parts[i].began;
        if (parts[i].ended > ended) ended = parts[i].ended;
        cpu += parts[i].cpu;
    }
    uint64_t sum = places_sum(&places, threads);
    if (sum != o->total) fail(1, "the sum is %" PRIu64 ", not %" PRIu64 ": counts were lost", sum, o->total);
    places_free(&places, threads);
    double seconds = ended - began > 1e-9 ? ended - began : 1e-9; // no clock is finer
    return (struct run){seconds, cpu / seconds, cpu / seconds >= SIDE_BY_SIDE * (double)threads};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Runs that were not side by side are left out if there are others.
static void summarise(struct row *row, const struct options *o, const struct machine *machine, double alone) {
    static double used[MOST_RUNS];
    long n = 0;
    row->side_by_side_runs = 0;
    for (long i = 0; i < o->runs; i++) row->side_by_side_runs += row->runs[i].side_by_side;
    for (long i = 0; i < o->runs; i++)
        if (row->runs[i].side_by_side || !row->side_by_side_runs) used[n++] = row->runs[i].seconds;
    qsort(used, (size_t)n, sizeof *used, by_value);
    row->median = n % 2 ? used[n / 2] : (used[n / 2 - 1] + used[n / 2]) / 2;
    row->min = used[0];
    row->max = used[n - 1];
    row->per_second = (double)o->total / row->median;
    row->time_sliced = row->threads > machine->processors;
    row->speed_up = row->threads == 1 ? 1 : alone > 0 ? row->per_second / alone : 0;
}

// The machine.

static long line_size_of_machine(void) {
    long size = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "r");
    if (!file) return 0;
    if (fscanf(file, "%ld", &size) != 1) size = 0;
    fclose(file);
    return size >= 16 && size <= 4096 && (size & (size - 1)) == 0 ? size : 0;
}

static void look(struct machine *machine, const struct options *o) {
    strcpy(machine->processor, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        char *name = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !name) continue;
        name += 1 + strspn(name + 1, " \t");
        name[strcspn(name, "\n")] = 0;
        snprintf(machine->processor, sizeof machine->processor, "%s", name);
        break;
    }
    if (file) fclose(file);

    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) fail(1, "cannot ask for the processors: %s", strerror(errno));
    machine->processors = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) machine->cpus[machine->processors++] = cpu;

    long stated = line_size_of_machine();
    machine->line_size = o->line_size ? o->line_size : stated ? stated : ASSUMED_LINE;
    machine->line_size_from = o->line_size ? "option" : stated ? "sysfs" : "assumed";
    machine->line_size_words = o->line_size ? "--line-size"
                               : stated     ? "coherency_line_size"
                                            : "assumed, the kernel does not say: --line-size sets it";
}

// Printing.

static bool is_locked(const struct options *o) { return o->op == RMW && o->layout != PER_THREAD; }

static void print_header(const struct options *o, const struct machine *machine) {
    const char *how = is_locked(o)            ? "locked add"
                      : o->op == DEPENDENT    ? "load, add, store, and the next load depends on the value"
                                              : "load, add, store";
    printf("collect (C): %s, %s; %" PRIu64 " counts by all threads together%s, median of %ld runs\n",
           LAYOUTS[o->layout], how, o->total, o->pin ? ", each on a processor of its own" : "", o->runs);
    printf("%s, %d processors, lines of %ld bytes (%s); ", machine->processor, machine->processors, machine->line_size,
           machine->line_size_words);
    if (o->layout == PER_THREAD) puts("each thread's counter in a block of its own");
    else printf("counters %ld bytes apart\n", o->layout == PACKED ? (long)sizeof(uint64_t) : machine->line_size);
    puts("threads     seconds         min         max  million/s  speed-up  processors  side by side");
    fflush(stdout);
}

static void print_row(const struct options *o, const struct row *row) {
    char speed_up[32] = "-";
    if (row->speed_up > 0) snprintf(speed_up, sizeof speed_up, "%.2f", row->speed_up);
    double used = 0;
    for (long i = 0; i < o->runs; i++) used += row->runs[i].processors_used;
    printf("%7ld  %10.6f  %10.6f  %10.6f  %9.1f  %8s  %10.2f  ", row->threads, row->median, row->min, row->max,
           row->per_second / 1e6, speed_up, used / (double)o->runs);
    if (row->time_sliced) puts("time-sliced");
    else printf("%ld of %ld\n", row->side_by_side_runs, o->runs);
    fflush(stdout);
}

static const char *word(bool value) { return value ? "true" : "false"; }

static void json_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text >= ' ') putchar(*text);
    }
    putchar('"');
}

static void json_begin(const struct options *o, const struct machine *machine) {
    printf("{\n  \"schema\": \"collect\",\n  \"version\": 1,\n  \"program\": \"c\",\n  \"layout\": \"%s\",\n"
           "  \"op\": \"%s\",\n  \"locked\": %s,\n  \"total\": %" PRIu64 ",\n  \"pinned\": %s,\n",
           LAYOUTS[o->layout], OPS[o->op], word(is_locked(o)), o->total, word(o->pin));
    if (o->layout == PER_THREAD) printf("  \"stride_bytes\": null,\n");
    else printf("  \"stride_bytes\": %ld,\n", o->layout == PACKED ? (long)sizeof(uint64_t) : machine->line_size);
    printf("  \"machine\": {\n    \"processor\": ");
    json_string(machine->processor);
    printf(",\n    \"processors\": %d,\n    \"line_size_bytes\": %ld,\n    \"line_size_from\": \"%s\"\n  },\n  \"rows\": [",
           machine->processors, machine->line_size, machine->line_size_from);
}

static void json_row(const struct options *o, const struct row *row, bool first) {
    printf("%s\n    {\n      \"threads\": %ld,\n      \"time_sliced\": %s,\n      \"side_by_side_runs\": %ld,\n"
           "      \"median_s\": %.9f,\n      \"min_s\": %.9f,\n      \"max_s\": %.9f,\n      \"counts_per_second\": %.3f,\n",
           first ? "" : ",", row->threads, word(row->time_sliced), row->side_by_side_runs, row->median, row->min,
           row->max, row->per_second);
    if (row->speed_up > 0) printf("      \"speed_up\": %.9f,\n", row->speed_up);
    else printf("      \"speed_up\": null,\n");
    printf("      \"runs\": [");
    for (long i = 0; i < o->runs; i++)
        printf("%s\n        { \"seconds\": %.9f, \"processors_used\": %.9f, \"side_by_side\": %s }", i ? "," : "",
               row->runs[i].seconds, row->runs[i].processors_used, word(row->runs[i].side_by_side));
    printf("\n      ]\n    }");
}

// In the form that the testkit reads: which thread writes which bytes.
static void print_addresses(const struct machine *machine, long threads) {
    uintptr_t line = (uintptr_t)machine->line_size;
    for (long i = 0; i < threads; i++) {
        uintptr_t at = (uintptr_t)&cnt[i];
        fprintf(stderr, "addr thread=%ld rw=w name=cnt[%ld] at=0x%" PRIxPTR " size=8 line=0x%" PRIxPTR " off=%" PRIuPTR "\n",
                i, i, at, at / line * line, at % line);
    }
}

// The options.

static const char USAGE[] =
    "Counts with several threads, each in a counter of its own, and says how long that takes where the counters share\n"
    "cache lines and where they do not.\n\n"
    "Usage: collect [OPTIONS]\n\n"
    "Options:\n"
    "      --threads <N>        How many threads count; with --scale, how many at most [default: as many as processors\n"
    "                           may be used, with --scale twice as many]\n"
    "      --layout <LAYOUT>    packed, padded or per-thread: where the counters are [default: packed]\n"
    "      --op <OP>            rmw (a locked add; per-thread: load, add, store), plain (load, add, store) or dependent\n"
    "                           (the next load depends on the value): how one is counted [default: rmw]\n"
    "      --total <N>          How much is counted, by all threads together; also written like 2e9 [default: 2e9]\n"
    "      --runs <N>           Runs of each number of threads; their median counts [default: 5]\n"
    "      --scale              A table over numbers of threads: 1 to 8, powers of two, the processors and twice as\n"
    "                           many, up to --threads\n"
    "      --pin                Put each thread on a processor of its own, as far as there are any\n"
    "      --line-size <BYTES>  How far padded counters are apart [default: the line size that the machine states]\n"
    "      --json               Print a JSON document (labs/collector/collect.schema.json) instead of the table\n"
    "      --addrs              Print each packed counter's address to stderr before the first run\n"
    "  -h, --help               Print help\n";

static long whole(const char *option, const char *text, long low, long high) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    bool digits = *text && strspn(text, "0123456789") == strlen(text);
    if (!digits || errno || value < low || value > high)
        fail(2, "invalid value '%s' for '%s': from %ld to %ld; see --help", text, option, low, high);
    return value;
}

static uint64_t total(const char *text) {
    char *end;
    double value = strtod(text, &end);
    bool plain = *text && strspn(text, "0123456789.eE+") == strlen(text) && !*end;
    if (!plain || !(value >= 1 && value <= 1e15) || value != (double)(uint64_t)value)
        fail(2, "invalid value '%s' for '--total': a whole number from 1 to 1e15; see --help", text);
    return (uint64_t)value;
}

static int one_of(const char *option, const char *text, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i])) return i;
    fail(2, "invalid value '%s' for '%s': %s, %s or %s; see --help", text, option, words[0], words[1], words[2]);
}

static struct options parse(int argc, char **argv) {
    struct options o = {.total = 2000000000, .runs = 5};
    static const struct option known[] = {
        {"threads", required_argument, 0, 't'},   {"layout", required_argument, 0, 'l'}, {"op", required_argument, 0, 'o'},
        {"total", required_argument, 0, 'n'},     {"runs", required_argument, 0, 'r'},   {"scale", no_argument, 0, 's'},
        {"pin", no_argument, 0, 'p'},             {"line-size", required_argument, 0, 'b'}, {"json", no_argument, 0, 'j'},
        {"addrs", no_argument, 0, 'a'},           {"help", no_argument, 0, 'h'},         {0, 0, 0, 0},
    };
    opterr = 0; // Said below, as everything else is said.
    for (int option; (option = getopt_long(argc, argv, ":h", known, NULL)) != -1;) {
        switch (option) {
        case 't': o.threads = whole("--threads", optarg, 1, MOST_THREADS); break;
        case 'l': o.layout = (enum layout)one_of("--layout", optarg, LAYOUTS); break;
        case 'o': o.op = (enum op)one_of("--op", optarg, OPS); break;
        case 'n': o.total = total(optarg); break;
        case 'r': o.runs = whole("--runs", optarg, 1, MOST_RUNS); break;
        case 's': o.scale = true; break;
        case 'p': o.pin = true; break;
        case 'b':
            o.line_size = whole("--line-size", optarg, 16, 4096);
            if (o.line_size & (o.line_size - 1))
                fail(2, "invalid value '%s' for '--line-size': a power of two from 16 to 4096; see --help", optarg);
            break;
        case 'j': o.json = true; break;
        case 'a': o.addrs = true; break;
        case 'h': fputs(USAGE, stdout); exit(0);
        case ':': fail(2, "'%s' needs a value; see --help", argv[optind - 1]);
        default: fail(2, "unexpected argument '%s'; see --help", argv[optind - 1]);
        }
    }
    if (optind < argc) fail(2, "unexpected argument '%s'; see --help", argv[optind]);
    if (o.layout == PER_THREAD && o.op == DEPENDENT)
        fail(1, "a per-thread counter is not read by its owner, so nothing can depend on it: use --op plain, or "
                "--layout padded");
    return o;
}

static bool is_listed(long threads, long most, long processors) {
    return threads <= EVERY || (threads & (threads - 1)) == 0 || threads == processors || threads == 2 * processors ||
           threads == most;
}

int main(int argc, char **argv) {
    struct options o = parse(argc, argv);
    static struct machine machine;
    static struct row row;
    look(&machine, &o);
    long most = o.threads ? o.threads : o.scale ? 2L * machine.processors : machine.processors;
    if (most > MOST_THREADS) most = MOST_THREADS;
    if (o.addrs && o.layout == PACKED) print_addresses(&machine, most);
    else if (o.addrs)
        fputs("collect: --addrs: only packed counters have addresses that stay, so there is nothing to print\n", stderr);
    if (o.json) json_begin(&o, &machine);
    else print_header(&o, &machine);
    double alone = 0;
    bool first = true;
    for (long threads = o.scale ? 1 : most; threads <= most; threads++) {
        if (o.scale && !is_listed(threads, most, machine.processors)) continue;
        row.threads = threads;
        for (long i = 0; i < o.runs; i++) row.runs[i] = once(&o, &machine, threads);
        summarise(&row, &o, &machine, alone);
        if (threads == 1) alone = row.per_second;
        if (o.json) json_row(&o, &row, first);
        else print_row(&o, &row);
        first = false;
    }
    puts(o.json ? "\n  ]\n}" : "the sum was right in every run");
    // What is still in the buffer may not fit where it goes.
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "collect: cannot write the results: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
