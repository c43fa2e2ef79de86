/*
 * A flash cache under a buffer pool of yours: pages that survive, and what a restart finds.
 *
 *   cc cache.c $(pkg-config --cflags --libs tantalum) -lpthread -o cache && ./cache FOLDER
 *
 * Each run opens the cache of the folder (the first one makes it: a flash file of 16 MiB over a slow
 * one of 64 MiB). Four threads count in pages of their own: a page is fetched, changed in memory, and
 * evicted, as a buffer pool does. What one run has counted the next one finds.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tantalum.h>

enum { PAGE = 4096, THREADS = 4, PAGES_EACH = 25, ROUNDS = 2 };

/* Ends the program with the message of the library. */
static void must(int code, const char *what) {
    char why[512];
    if (code == TANTALUM_OK)
        return;
    tantalum_last_error(why, sizeof why);
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

struct user {
    const tantalum_cache *cache;
    uint64_t first; /* page */
};

static void *count_up(void *argument) {
    const struct user *u = argument;
    uint64_t page[PAGE / 8];
    for (int round = 0; round < ROUNDS; round++)
        for (uint64_t n = u->first; n < u->first + PAGES_EACH; n++) {
            tantalum_cache_found found = TANTALUM_CACHE_FOUND_INIT;
            must(tantalum_cache_fetch(u->cache, n, page, PAGE, &found), "fetch");
            page[0]++;
            /* The counter serves as the LSN: it grows with each version. When this returns the page
             * is durable on flash, whether or not the slow device has it. */
            must(tantalum_cache_evict(u->cache, n, page, PAGE, 1, page[0]), "evict");
        }
    return NULL;
}

/* The sum of all counters. Pages leave memory as they came: clean. */
static uint64_t sum(const tantalum_cache *cache) {
    uint64_t page[PAGE / 8], sum = 0;
    for (uint64_t n = 0; n < THREADS * PAGES_EACH; n++) {
        must(tantalum_cache_fetch(cache, n, page, PAGE, NULL), "fetch");
        sum += page[0];
        must(tantalum_cache_stage(cache, n, page, PAGE, 0, page[0]), "stage");
    }
    return sum;
}

int main(int argc, char **argv) {
    static char flash[4096], slow[4096];
    tantalum_cache_create_options create = TANTALUM_CACHE_CREATE_OPTIONS_INIT;
    tantalum_cache_options options = TANTALUM_CACHE_OPTIONS_INIT;
    tantalum_cache_stats stats = TANTALUM_CACHE_STATS_INIT;
    struct user users[THREADS];
    pthread_t threads[THREADS];
    tantalum_cache *cache;
    struct stat there;
    int made = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    snprintf(flash, sizeof flash, "%s/flash", argv[1]);
    snprintf(slow, sizeof slow, "%s/slow", argv[1]);
    /* The page cache serves where a file system has no direct I/O. Durable is durable all the same. */
    options.buffered = create.buffered = 1;
    if (stat(flash, &there) != 0 && errno == ENOENT) {
        create.flash_bytes = 16 << 20;
        create.slow_bytes = 64 << 20;
        must(tantalum_cache_create(flash, slow, NULL, &create), "create");
        made = 1;
    }
    must(tantalum_cache_open(flash, slow, NULL, NULL, &options, &cache), "open");
    printf("found %" PRIu64 "\n", sum(cache));
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){cache, (uint64_t)i * PAGES_EACH};
        if (pthread_create(&threads[i], NULL, count_up, &users[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("now %" PRIu64 "\n", sum(cache));
    must(tantalum_cache_get_stats(cache, &stats), "statistics");
    /* The last run closed the cache (warm), or ended otherwise (cold); or there was none. */
    printf("%s start\n", made ? "first" : stats.warm ? "warm" : "cold");
    must(tantalum_cache_close(cache), "close");
    tantalum_cache_free(cache);
    return 0;
}
