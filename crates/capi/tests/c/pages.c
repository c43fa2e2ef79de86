/*
 * What docs/c-api.md shows, line for line. A test compares. What needs devices that are not here is
 * compiled, and runs only with an argument.
 */
#include "check.h"

static void a_group(const void *a, const void *b) {
#include <tantalum.h>

    tantalum_drive_options options = TANTALUM_DRIVE_OPTIONS_INIT;
    options.preset = "durassd"; /* tantalum designs lists them */
    options.seed = 7;
    options.overrides = "[geometry]\nblocks = 64\npages = 64\n";

    tantalum_drive *drive;
    if (tantalum_open_drive(&options, &drive) != TANTALUM_OK) {
        char why[256];
        tantalum_last_error(why, sizeof why);
        fprintf(stderr, "%s\n", why);
        exit(1);
    }

    tantalum_extent group[2] = {{10, a, 1}, {5000, b, 2}}; /* block, data, blocks */
    uint64_t ticket;
    tantalum_submit_group(drive, group, 2, &ticket);
    tantalum_sleep(drive, 100 * 1000); /* 100 µs of the drive's time */
    tantalum_power_cut(drive, NULL);
    tantalum_power_on(drive, NULL);
    int code = tantalum_wait(drive, ticket); /* OK: both are there. */
                                             /* EPOWER: both are, or neither is. */
    tantalum_close(drive);
    CHECK(code == TANTALUM_OK || code == TANTALUM_EPOWER);
}

static void many(tantalum_drive *drive) {
    static unsigned char content[32][BLOCK];
    uint64_t at[32], tickets[32];
    const void *data[32];
    for (int i = 0; i < 32; i++) {
        at[i] = (uint64_t)i;
        data[i] = content[i];
    }
    for (int i = 0; i < 32; i++)
        tantalum_submit_write(drive, at[i], data[i], 1, 0, &tickets[i]);
    for (int i = 0; i < 32; i++)
        tantalum_wait(drive, tickets[i]);
    tantalum_stats stats = {.size = sizeof stats};
    CHECK(tantalum_get_stats(drive, &stats) == TANTALUM_OK);
    CHECK(stats.write.commands == 32);
}

static void a_log(const void *record, size_t bytes) {
    const char *devices[2] = {"/ssd-a/0.log", "/ssd-b/1.log"};
    tantalum_log_create_options make = TANTALUM_LOG_CREATE_OPTIONS_INIT;
    make.copies = 2;           /* it survives the loss of a device */
    make.file_bytes = 1 << 30; /* the files are made, if they are not there */
    tantalum_log_create(devices, 2, NULL, &make);

    tantalum_log_options how = TANTALUM_LOG_OPTIONS_INIT;
    tantalum_log *log;
    tantalum_log_open(devices, 2, &how, &log);

    uint64_t lsn, end;
    tantalum_log_commit(log, record, bytes, &lsn, &end); /* durable when it returns */
    tantalum_log_checkpoint(log, end, 1);                /* what is before it is not needed */

    tantalum_log_close(log);
    tantalum_log_free(log);
}

struct engine {
    uint64_t lsn;
};

static uint64_t log_stable(void *context) { return ((struct engine *)context)->lsn; }

static uint64_t pull(void *context, uint64_t room, tantalum_cache_page *pages) {
    (void)context, (void)room, (void)pages;
    return 0;
}

static void a_cache(struct engine engine, uint64_t page, void *buf, uint64_t lsn) {
    tantalum_cache_create_options make = TANTALUM_CACHE_CREATE_OPTIONS_INIT;
    make.page_bytes = 8192;
    tantalum_cache_create("/ssd/flash", "/dev/sdb", NULL, &make);

    tantalum_cache_host host = TANTALUM_CACHE_HOST_INIT; /* may be null, too */
    host.context = &engine;
    host.log_stable = log_stable; /* a dirty page leaves RAM after its log records */
    host.pull = pull;             /* pages that fill a batch */
    tantalum_cache_options how = TANTALUM_CACHE_OPTIONS_INIT;
    tantalum_cache *cache;
    tantalum_cache_open("/ssd/flash", "/dev/sdb", NULL, &host, &how, &cache);

    tantalum_cache_fetch(cache, page, buf, 8192, NULL);   /* the newest version, or an error */
    tantalum_cache_evict(cache, page, buf, 8192, 1, lsn); /* changed: durable when it returns */
    tantalum_cache_stage(cache, page, buf, 8192, 0, lsn); /* unchanged: does not wait for flash */

    tantalum_cache_close(cache);
    tantalum_cache_free(cache);
}

int main(int argc, char **argv) {
    static unsigned char a[2 * BLOCK], b[2 * BLOCK];
    (void)argv;
    a_group(a, b);
    tantalum_drive *drive = small_drive("durassd", 1);
    many(drive);
    tantalum_close(drive);
    if (argc > 1) {
        struct engine engine = {0};
        a_log(a, 100);
        a_cache(engine, 1, b, 1);
    }
    printf("all as shown\n");
    return 0;
}
