/*
 * A write-ahead log in a program of yours: records that survive, a checkpoint, and what a restart
 * finds.
 *
 *   cc log.c $(pkg-config --cflags --libs tantalum) -o log && ./log FOLDER
 *
 * Each run opens the log of the folder (the first one makes it: two files of 16 MiB), reads what the
 * runs before left, adds the transfers of four threads, and moves the checkpoint to the last hundred.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tantalum.h>

enum { THREADS = 4, EACH = 50, KEPT = 100 };

/* Ends the program with the message of the library. */
static void must(int code, const char *what) {
    char why[512];
    if (code == TANTALUM_OK)
        return;
    tantalum_last_error(why, sizeof why);
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void *transfer(void *shared) {
    const tantalum_log *log = shared;
    for (int i = 0; i < EACH; i++) {
        /* A record may lie in several pieces. When this returns it is on the disk. */
        int amount = i;
        tantalum_piece pieces[2] = {{"transfer ", 9}, {&amount, sizeof amount}};
        must(tantalum_log_commit_pieces(log, pieces, 2, NULL, NULL), "commit");
    }
    return NULL;
}

/* Counts the records from the checkpoint on; *last is where the last KEPT of them begin. */
static uint64_t count(const tantalum_log *log, uint64_t *last) {
    tantalum_log_stats stats = TANTALUM_LOG_STATS_INIT;
    tantalum_log_record record = TANTALUM_LOG_RECORD_INIT;
    tantalum_log_reader *reader;
    uint64_t begins[KEPT], n = 0;
    must(tantalum_log_get_stats(log, &stats), "statistics");
    must(tantalum_log_read(log, stats.first, &reader), "read");
    for (;;) {
        must(tantalum_log_next(reader, &record), "read");
        if (!record.found)
            break;
        if (record.bytes != 9 + sizeof(int) || memcmp(record.data, "transfer ", 9) != 0) {
            fprintf(stderr, "not one of ours: the record at %" PRIu64 "\n", record.lsn);
            exit(1);
        }
        begins[n++ % KEPT] = record.lsn;
    }
    tantalum_log_read_end(reader);
    *last = n < KEPT ? stats.first : begins[n % KEPT];
    return n;
}

int main(int argc, char **argv) {
    static char paths[2][4096];
    const char *devices[2] = {paths[0], paths[1]};
    tantalum_log_options options = TANTALUM_LOG_OPTIONS_INIT;
    tantalum_log_create_options create = TANTALUM_LOG_CREATE_OPTIONS_INIT;
    pthread_t threads[THREADS];
    tantalum_log *log;
    struct stat there;
    uint64_t last;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%d.log", argv[1], i);
    /* The page cache serves where a file system has no direct I/O. Durable is durable all the same. */
    options.buffered = create.buffered = 1;
    if (stat(paths[0], &there) != 0 && errno == ENOENT) {
        create.file_bytes = 16 << 20;
        must(tantalum_log_create(devices, 2, NULL, &create), "create");
    }
    must(tantalum_log_open(devices, 2, &options, &log), "open");
    printf("found %" PRIu64 "\n", count(log, &last));
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, transfer, log) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("now %" PRIu64 "\n", count(log, &last));
    must(tantalum_log_checkpoint(log, last, 1), "checkpoint");
    printf("kept %" PRIu64 "\n", count(log, &last));
    must(tantalum_log_close(log), "close");
    tantalum_log_free(log);
    return 0;
}
