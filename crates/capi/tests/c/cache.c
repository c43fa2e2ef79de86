/* Every function of a flash cache and of a directory, and bad arguments: the folder for the files is
 * the argument. */
#define _DEFAULT_SOURCE /* anonymous memory that processes share */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 512, PAGES = 256, THREADS = 4 };

static char flash[4096], slow[4096], other[4096];

/* A slow store in memory, a log and a pool. */
static struct program {
    pthread_mutex_t lock;
    unsigned char pages[PAGES][PAGE];
    int refuses, refused, flushes, staged;
    uint64_t stable;
    unsigned char cold[PAGE];
    uint64_t cold_page; /* 0: none */
} program = {.lock = PTHREAD_MUTEX_INITIALIZER, .stable = 1000};

static int store_read(void *context, uint64_t page, void *buf, uint64_t bytes) {
    struct program *p = context;
    pthread_mutex_lock(&p->lock);
    memcpy(buf, p->pages[page], bytes);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

static int store_write(void *context, uint64_t first, const void *data, uint64_t bytes) {
    struct program *p = context;
    int refuses;
    pthread_mutex_lock(&p->lock);
    refuses = p->refuses;
    if (!refuses)
        memcpy(p->pages[first], data, bytes);
    pthread_mutex_unlock(&p->lock);
    return refuses;
}

static int store_flush(void *context) {
    struct program *p = context;
    pthread_mutex_lock(&p->lock);
    p->flushes++;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

static uint64_t log_stable(void *context) {
    struct program *p = context;
    pthread_mutex_lock(&p->lock);
    uint64_t stable = p->stable;
    pthread_mutex_unlock(&p->lock);
    return stable;
}

static uint64_t pull(void *context, uint64_t room, tantalum_cache_page *pages) {
    struct program *p = context;
    uint64_t named = 0;
    pthread_mutex_lock(&p->lock);
    if (p->cold_page > 0 && room > 0) {
        pages[0] = (tantalum_cache_page){p->cold_page, p->cold, 1, 5};
        p->cold_page = 0;
        named = 1;
    }
    pthread_mutex_unlock(&p->lock);
    return named;
}

static void staged(void *context, uint64_t page, uint64_t lsn) {
    struct program *p = context;
    CHECK(page == 99 && lsn == 5);
    pthread_mutex_lock(&p->lock);
    p->staged++;
    pthread_mutex_unlock(&p->lock);
}

static void refused(void *context, uint64_t page, int code) {
    struct program *p = context;
    CHECK(page < PAGES && code == TANTALUM_EFAILED);
    pthread_mutex_lock(&p->lock);
    p->refused++;
    pthread_mutex_unlock(&p->lock);
}

static tantalum_cache_store store(void) {
    tantalum_cache_store s = TANTALUM_CACHE_STORE_INIT;
    s.context = &program;
    s.pages = PAGES;
    s.read = store_read;
    s.write = store_write;
    s.flush = store_flush;
    return s;
}

static tantalum_cache *open_cache(const char *on, const char *device) {
    tantalum_cache_store s = store();
    tantalum_cache_host host = TANTALUM_CACHE_HOST_INIT;
    tantalum_cache_options how = TANTALUM_CACHE_OPTIONS_INIT;
    tantalum_cache *cache;
    host.context = &program;
    host.log_stable = log_stable;
    host.pull = pull;
    host.staged = staged;
    host.refused = refused;
    how.buffered = 1;
    how.retry_ns = 1000000;
    CHECK(tantalum_cache_open(on, device, device ? NULL : &s, &host, &how, &cache) ==
          TANTALUM_OK);
    return cache;
}

struct user {
    const tantalum_cache *cache;
    unsigned number;
};

/* Each thread has pages of its own. */
static void *uses(void *argument) {
    const struct user *u = argument;
    unsigned char page[PAGE];
    tantalum_cache_found found = TANTALUM_CACHE_FOUND_INIT;
    for (unsigned round = 1; round < 20; round++)
        for (uint64_t n = u->number; n < PAGES; n += THREADS * 4) {
            memset(page, (int)(round + n), PAGE);
            CHECK(tantalum_cache_evict(u->cache, n, page, PAGE, 1, round) == TANTALUM_OK);
            memset(page, 0, PAGE);
            CHECK(tantalum_cache_fetch(u->cache, n, page, PAGE, &found) == TANTALUM_OK);
            CHECK(page[0] == (unsigned char)(round + n) && page[PAGE - 1] == page[0]);
            CHECK(!found.hit || found.lsn == round);
            CHECK(tantalum_cache_stage(u->cache, n, page, PAGE, 0, round) == TANTALUM_OK);
        }
    return NULL;
}

static void of_caches(void) {
    tantalum_cache_create_options make = TANTALUM_CACHE_CREATE_OPTIONS_INIT;
    tantalum_cache_options how = TANTALUM_CACHE_OPTIONS_INIT;
    tantalum_cache_stats stats = TANTALUM_CACHE_STATS_INIT;
    tantalum_cache_scrubbed scrubbed = TANTALUM_CACHE_SCRUBBED_INIT;
    tantalum_cache_found found = TANTALUM_CACHE_FOUND_INIT;
    tantalum_cache_store s = store(), bad = store();
    tantalum_cache *cache = (tantalum_cache *)&make, *second;
    unsigned char page[PAGE], zeros[PAGE] = {0};
    pthread_t threads[THREADS];
    struct user users[THREADS];

    make.page_bytes = PAGE;
    make.batch_pages = 4;
    make.flash_bytes = 128 << 10;
    make.slow_bytes = (1 << 20) + PAGES * PAGE;
    make.buffered = how.buffered = 1;
    bad.flush = NULL;
    CHECK(tantalum_cache_create(flash, slow, &s, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_create(flash, NULL, NULL, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_create(flash, NULL, &bad, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_create(NULL, slow, NULL, &make) == TANTALUM_EINVAL);
    make.page_bytes = 3000;
    CHECK(tantalum_cache_create(flash, NULL, &s, &make) == TANTALUM_ECACHE && said("3000"));
    make.page_bytes = PAGE;
    CHECK(tantalum_cache_open(other, NULL, &s, NULL, &how, &cache) == TANTALUM_ECACHE);
    CHECK(cache == NULL && said(other));
    CHECK(tantalum_cache_create(flash, NULL, &s, &make) == TANTALUM_OK);
    CHECK(tantalum_cache_create(flash, NULL, &s, &make) == TANTALUM_ECACHE && said("a cache"));
    how.mode = 9;
    CHECK(tantalum_cache_open(flash, NULL, &s, NULL, &how, &cache) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_evict(NULL, 1, page, PAGE, 1, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_close(NULL) == TANTALUM_EINVAL);
    tantalum_cache_free(NULL);

    /* Over a store of the program's. */
    cache = open_cache(flash, NULL);
    memset(page, 7, PAGE);
    CHECK(tantalum_cache_fetch(cache, 7, page, PAGE, &found) == TANTALUM_OK && !found.hit);
    CHECK(memcmp(page, zeros, PAGE) == 0);
    CHECK(tantalum_cache_fetch(cache, 7, page, PAGE - 1, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_fetch(cache, PAGES, page, PAGE, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_evict(cache, 7, page, PAGE, 1, 1001) == TANTALUM_EINVAL && said("1001"));
    memset(page, 9, PAGE);
    pthread_mutex_lock(&program.lock);
    memset(program.cold, 99, PAGE);
    program.cold_page = 99;
    pthread_mutex_unlock(&program.lock);
    CHECK(tantalum_cache_evict(cache, 7, page, PAGE, 1, 10) == TANTALUM_OK);
    CHECK(tantalum_cache_evict(cache, 7, page, PAGE, 1, 9) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_fetch(cache, 99, page, PAGE, &found) == TANTALUM_OK);
    CHECK(found.hit && found.dirty && found.lsn == 5 && page[0] == 99);
    CHECK(tantalum_cache_checkpoint(cache) == TANTALUM_OK);
    CHECK(program.staged == 1);
    CHECK(tantalum_cache_forget(cache, 99, 1) == TANTALUM_OK);
    CHECK(tantalum_cache_forget(cache, UINT64_MAX, 2) == TANTALUM_EINVAL);
    CHECK(tantalum_cache_fetch(cache, 99, page, PAGE, &found) == TANTALUM_OK && !found.hit);
    for (unsigned i = 0; i < THREADS; i++) {
        users[i] = (struct user){cache, i + 8};
        CHECK(pthread_create(&threads[i], NULL, uses, &users[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(tantalum_cache_scrub(cache, &scrubbed) == TANTALUM_OK);
    CHECK(scrubbed.frames > 0 && !scrubbed.repaired && !scrubbed.damaged);
    CHECK(tantalum_cache_clean(cache) == TANTALUM_OK);
    CHECK(program.pages[7][0] == 9 && program.pages[8][0] == 19 + 8 && program.flushes > 0);
    CHECK(tantalum_cache_get_stats(cache, &stats) == TANTALUM_OK);
    /* What was given a second chance meanwhile counts as dirty until the next call. */
    for (unsigned calls = 0; stats.dirty > 0 && calls < 20; calls++) {
        CHECK(tantalum_cache_clean(cache) == TANTALUM_OK);
        CHECK(tantalum_cache_get_stats(cache, &stats) == TANTALUM_OK);
    }
    CHECK(stats.page_bytes == PAGE && stats.store_pages == PAGES && stats.dirty == 0);
    CHECK(stats.pulled == 1 && stats.forgotten == 1 && stats.found == 0);

    /* A store that refuses is told of; the page stays, and goes there later. */
    pthread_mutex_lock(&program.lock);
    program.refuses = 1;
    pthread_mutex_unlock(&program.lock);
    memset(page, 200, PAGE);
    CHECK(tantalum_cache_evict(cache, 3, page, PAGE, 1, 50) == TANTALUM_OK);
    CHECK(tantalum_cache_close(cache) == TANTALUM_OK);
    CHECK(tantalum_cache_checkpoint(cache) == TANTALUM_ECACHE && said("closed"));
    tantalum_cache_free(cache);
    cache = open_cache(flash, NULL);
    CHECK(tantalum_cache_get_stats(cache, &stats) == TANTALUM_OK && stats.warm && stats.dirty == 1);
    CHECK(tantalum_cache_fetch(cache, 3, page, PAGE, &found) == TANTALUM_OK && found.dirty);
    CHECK(page[0] == 200);
    pthread_mutex_lock(&program.lock);
    program.refuses = 0;
    pthread_mutex_unlock(&program.lock);
    CHECK(tantalum_cache_clean(cache) == TANTALUM_OK && program.pages[3][0] == 200);
    uint64_t frames = stats.frames;
    CHECK(tantalum_cache_resize(cache, 80 << 10) == TANTALUM_OK);
    CHECK(tantalum_cache_get_stats(cache, &stats) == TANTALUM_OK && stats.frames < frames);
    CHECK(tantalum_cache_resize(cache, 256 << 10) == TANTALUM_EINVAL && said("131072"));
    CHECK(tantalum_cache_resize(cache, 128 << 10) == TANTALUM_OK);
    CHECK(tantalum_cache_get_stats(cache, &stats) == TANTALUM_OK && stats.frames >= frames - 16);
    CHECK(tantalum_cache_fetch(cache, 3, page, PAGE, &found) == TANTALUM_OK && page[0] == 200);
    CHECK(stats.kept_out == 0 && stats.ghost_fetches == 0);
    tantalum_cache_free(cache);

    /* A scan is kept out after four pages, and ghosts count. */
    how.mode = TANTALUM_CACHE_AS_BEFORE;
    how.scan = 4;
    how.ghosts = 1;
    CHECK(tantalum_cache_open(flash, NULL, &s, NULL, &how, &cache) == TANTALUM_OK);
    for (uint64_t n = 108; n < 120; n++) {
        CHECK(tantalum_cache_fetch(cache, n, page, PAGE, &found) == TANTALUM_OK && !found.hit);
        CHECK(tantalum_cache_stage(cache, n, page, PAGE, 0, 0) == TANTALUM_OK);
    }
    CHECK(tantalum_cache_fetch(cache, 111, page, PAGE, &found) == TANTALUM_OK && found.hit);
    CHECK(tantalum_cache_fetch(cache, 112, page, PAGE, &found) == TANTALUM_OK && !found.hit);
    CHECK(tantalum_cache_get_stats(cache, &stats) == TANTALUM_OK && stats.kept_out == 8);
    CHECK(stats.ghost_fetches == 14 && stats.ghost_hits == 1 && stats.ghost_twice_hits == 1);
    tantalum_cache_free(cache);
    how.scan = how.ghosts = 0;

    /* Only clean pages enter, or only dirty ones. */
    how.admit = TANTALUM_CACHE_CLEAN_ONLY;
    CHECK(tantalum_cache_open(flash, NULL, &s, NULL, &how, &cache) == TANTALUM_OK);
    memset(page, 201, PAGE);
    CHECK(tantalum_cache_stage(cache, 60, page, PAGE, 1, 3) == TANTALUM_EINVAL && said("evict it"));
    CHECK(tantalum_cache_evict(cache, 60, page, PAGE, 1, 3) == TANTALUM_OK);
    pthread_mutex_lock(&program.lock);
    CHECK(program.pages[60][0] == 201);
    pthread_mutex_unlock(&program.lock);
    CHECK(tantalum_cache_fetch(cache, 60, page, PAGE, &found) == TANTALUM_OK && !found.hit);
    CHECK(page[0] == 201 && tantalum_cache_evict(cache, 60, page, PAGE, 0, 3) == TANTALUM_OK);
    CHECK(tantalum_cache_fetch(cache, 60, page, PAGE, &found) == TANTALUM_OK && found.hit);
    tantalum_cache_free(cache);
    how.admit = TANTALUM_CACHE_DIRTY_ONLY;
    CHECK(tantalum_cache_open(flash, NULL, &s, NULL, &how, &cache) == TANTALUM_OK);
    CHECK(tantalum_cache_evict(cache, 61, page, PAGE, 0, 0) == TANTALUM_OK);
    CHECK(tantalum_cache_fetch(cache, 61, page, PAGE, &found) == TANTALUM_OK && !found.hit);
    CHECK(tantalum_cache_evict(cache, 61, page, PAGE, 1, 4) == TANTALUM_OK);
    CHECK(tantalum_cache_fetch(cache, 61, page, PAGE, &found) == TANTALUM_OK && found.hit);
    tantalum_cache_free(cache);
    how.admit = 3;
    CHECK(tantalum_cache_open(flash, NULL, &s, NULL, &how, &cache) == TANTALUM_EINVAL);
    CHECK(said("admit: there is no 3"));
    how.admit = TANTALUM_CACHE_MIXED;
    memset(page, 200, PAGE);

    /* Over a device, and its end. */
    make.force = 1;
    CHECK(tantalum_cache_create(flash, slow, NULL, &make) == TANTALUM_OK);
    cache = open_cache(flash, slow);
    CHECK(tantalum_cache_evict(cache, 11, page, PAGE, 1, 3) == TANTALUM_OK);
    how.mode = TANTALUM_CACHE_BACK;
    CHECK(tantalum_cache_open(flash, slow, NULL, NULL, &how, &second) == TANTALUM_ECACHE);
    CHECK(second == NULL && said("in use"));
    /* It ends as if the power had gone. */
    tantalum_cache_free(cache);
    cache = open_cache(flash, slow);
    CHECK(tantalum_cache_fetch(cache, 11, page, PAGE, NULL) == TANTALUM_OK && page[0] == 200);
    CHECK(tantalum_cache_detach(cache) == TANTALUM_OK);
    CHECK(tantalum_cache_evict(cache, 11, page, PAGE, 1, 4) == TANTALUM_ECACHE);
    tantalum_cache_free(cache);
    CHECK(tantalum_cache_open(flash, slow, NULL, NULL, &how, &cache) == TANTALUM_ECACHE);
    CHECK(said("used without the cache"));
}

/* Stages pages in a new batch; returns it. */
static tantalum_batch filled(const tantalum_directory *d, uint64_t first, int publish) {
    tantalum_batch batch = TANTALUM_BATCH_INIT;
    CHECK(tantalum_directory_reserve(d, &batch) == TANTALUM_OK && batch.found);
    CHECK(tantalum_directory_prefetch(d, &first, 1) == TANTALUM_OK);
    CHECK(tantalum_directory_prefetch(d, NULL, 0) == TANTALUM_OK);
    CHECK(tantalum_directory_prefetch(d, NULL, 1) == TANTALUM_EINVAL && said("null"));
    for (uint64_t i = 0; i < batch.frames; i++) {
        tantalum_page_version version = {first + i, 1, 0xfeed, i % 2};
        tantalum_staged staged = TANTALUM_STAGED_INIT;
        CHECK(tantalum_directory_stage(d, &batch, &version, &staged) == TANTALUM_OK);
        CHECK(staged.found && staged.slot == i && staged.frame == batch.first_frame + i);
    }
    CHECK(tantalum_directory_publish(d, &batch) == TANTALUM_EINVAL && said("open"));
    CHECK(tantalum_directory_close(d, &batch) == TANTALUM_OK);
    if (publish)
        CHECK(tantalum_directory_publish(d, &batch) == TANTALUM_OK);
    return batch;
}

static void of_directories(void) {
    enum { FRAMES = 16, BATCH = 4 };
    tantalum_directory_stats stats = TANTALUM_DIRECTORY_STATS_INIT;
    tantalum_entry entry = TANTALUM_ENTRY_INIT, entries[BATCH];
    tantalum_batch batch, front = TANTALUM_BATCH_INIT;
    tantalum_directory *d, *same;
    uint64_t bytes, since, count;
    int child;

    CHECK(tantalum_directory_bytes(FRAMES, 0, &bytes) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_bytes(FRAMES, BATCH, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_bytes(FRAMES, BATCH, &bytes) == TANTALUM_OK && bytes > FRAMES * 40);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(tantalum_directory_attach(memory, bytes, &d) == TANTALUM_ECACHE && d == NULL);
    CHECK(tantalum_directory_attach(NULL, bytes, &d) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_format(memory, bytes - 64, FRAMES, BATCH, 0, &d) ==
          TANTALUM_ENOSPC);
    CHECK(tantalum_directory_format(memory + 8, bytes - 8, FRAMES, BATCH, 0, &d) ==
          TANTALUM_EINVAL);
    CHECK(tantalum_directory_format(memory, bytes, FRAMES, BATCH, 0, &d) == TANTALUM_OK);
    CHECK(tantalum_directory_attach(memory, bytes, &same) == TANTALUM_OK);

    batch = filled(d, 0, 1);
    CHECK(tantalum_directory_lookup(same, 3, &entry) == TANTALUM_OK && entry.found);
    CHECK(entry.page == 3 && entry.lsn == 1 && entry.checksum == 0xfeed && entry.dirty == 1);
    CHECK(entry.durable && entry.valid);
    CHECK(tantalum_directory_check(d, &entry, &since) == TANTALUM_OK);
    CHECK(since == TANTALUM_ENTRY_CURRENT);
    /* What has no room for its answer does nothing: no batch is reserved, no page goes. */
    tantalum_batch unset = {0};
    tantalum_entry gone = {0};
    stats = (tantalum_directory_stats)TANTALUM_DIRECTORY_STATS_INIT;
    CHECK(tantalum_directory_get_stats(d, &stats) == TANTALUM_OK);
    uint64_t rear_before = stats.rear;
    CHECK(tantalum_directory_reserve(d, &unset) == TANTALUM_EINVAL && said("size"));
    CHECK(tantalum_directory_reserve(d, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_adopt(d, &unset) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_take_front(d, &unset) == TANTALUM_EINVAL && said("size"));
    CHECK(tantalum_directory_forget(d, 3, &gone) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_get_stats(d, &stats) == TANTALUM_OK && stats.rear == rear_before);
    CHECK(tantalum_directory_lookup(d, 3, &entry) == TANTALUM_OK && entry.found);
    CHECK(tantalum_directory_lookup(d, 3, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_lookup(NULL, 3, &entry) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_close(d, &batch) == TANTALUM_EINVAL);

    /* The front: 1 is forgotten, 3 was looked up, and all others leave. */
    filled(d, 10, 1);
    CHECK(tantalum_directory_forget(d, 1, NULL) == TANTALUM_OK);
    CHECK(tantalum_directory_take_front(d, &front) == TANTALUM_OK && front.seq == 0);
    for (int i = 0; i < BATCH; i++)
        entries[i] = (tantalum_entry)TANTALUM_ENTRY_INIT;
    CHECK(tantalum_directory_fates(d, &front, 0, entries, BATCH - 1, &count) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_fates(d, &front, 0, entries, BATCH, &count) == TANTALUM_OK);
    CHECK(count == 3 && entries[0].page == 0 && entries[0].fate == TANTALUM_FATE_DROP);
    CHECK(entries[2].page == 3 && entries[2].fate == TANTALUM_FATE_AGAIN);
    CHECK(tantalum_directory_release(d, &front) == TANTALUM_EINVAL && said("dirty"));
    tantalum_batch rear = TANTALUM_BATCH_INIT;
    tantalum_staged staged = TANTALUM_STAGED_INIT;
    CHECK(tantalum_directory_reserve(d, &rear) == TANTALUM_OK);
    CHECK(tantalum_directory_stage_again(d, &rear, &entries[2], &staged) == TANTALUM_OK);
    CHECK(staged.found);
    CHECK(tantalum_directory_stage_again(d, &rear, &entries[2], &staged) == TANTALUM_OK);
    CHECK(!staged.found);
    CHECK(tantalum_directory_release(d, &front) == TANTALUM_EBUSY);
    CHECK(tantalum_directory_close(d, &rear) == TANTALUM_OK);
    CHECK(tantalum_directory_publish(d, &rear) == TANTALUM_OK);
    CHECK(tantalum_directory_release(d, &front) == TANTALUM_OK);
    CHECK(tantalum_directory_check(d, &entry, &since) == TANTALUM_OK);
    CHECK(since == TANTALUM_ENTRY_REUSED);
    CHECK(tantalum_directory_lookup(d, 0, &entry) == TANTALUM_OK && !entry.found);
    CHECK(tantalum_directory_lookup(d, 3, &entry) == TANTALUM_OK && entry.found && entry.dirty);
    CHECK(tantalum_directory_mark_clean(d, &entry) == TANTALUM_OK);
    CHECK(tantalum_directory_lookup(d, 3, &entry) == TANTALUM_OK && !entry.dirty);
    entry.frame = FRAMES;
    CHECK(tantalum_directory_mark_clean(d, &entry) == TANTALUM_EINVAL);

    /* A process dies with a batch at work, which this one adopts and gives up. */
    child = fork();
    if (child == 0) {
        tantalum_directory *of_child;
        CHECK(tantalum_directory_attach(memory, bytes, &of_child) == TANTALUM_OK);
        filled(of_child, 20, 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(tantalum_directory_lookup(d, 20, &entry) == TANTALUM_OK && entry.found);
    CHECK(!entry.durable);
    CHECK(tantalum_directory_adopt(d, &batch) == TANTALUM_OK && batch.found);
    CHECK(tantalum_directory_abandon(d, &batch) == TANTALUM_OK);
    CHECK(tantalum_directory_adopt(d, &batch) == TANTALUM_OK && !batch.found);
    CHECK(tantalum_directory_lookup(d, 20, &entry) == TANTALUM_OK && !entry.found);
    CHECK(tantalum_directory_get_stats(d, &stats) == TANTALUM_OK);
    CHECK(stats.frames == FRAMES && stats.batch == BATCH && stats.front == 1 && stats.rear == 4);
    CHECK(stats.free_batches == 1);
    CHECK(tantalum_directory_take_front(d, &front) == TANTALUM_OK);
    CHECK(tantalum_directory_leave(d, &front) == TANTALUM_OK);
    filled(d, 30, 1);
    CHECK(tantalum_directory_reserve(d, &batch) == TANTALUM_ENOSPC);

    /* A restart. */
    tantalum_directory_free(same);
    tantalum_directory_free(d);
    CHECK(tantalum_directory_format(memory, bytes, FRAMES, BATCH, 7, &d) == TANTALUM_OK);
    for (int i = 0; i < BATCH; i++) {
        entries[i] = (tantalum_entry)TANTALUM_ENTRY_INIT;
        entries[i].found = i != 1;
        entries[i].page = 40 + (uint64_t)i;
        entries[i].dirty = 1;
    }
    CHECK(tantalum_directory_restore(d, entries, BATCH + 1) == TANTALUM_EINVAL);
    CHECK(tantalum_directory_restore(d, entries, BATCH) == TANTALUM_OK);
    CHECK(tantalum_directory_lookup(d, 42, &entry) == TANTALUM_OK && entry.found && entry.dirty);
    CHECK(tantalum_directory_lookup(d, 41, &entry) == TANTALUM_OK && !entry.found);
    tantalum_directory_free(d);
    tantalum_directory_free(NULL);
    munmap(memory, bytes);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(flash, sizeof flash, "%s/flash", argv[1]);
    snprintf(slow, sizeof slow, "%s/slow", argv[1]);
    snprintf(other, sizeof other, "%s/other", argv[1]);
    of_directories();
    of_caches();
    printf("all as documented\n");
    return 0;
}
