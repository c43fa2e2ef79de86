/* Every function of a flash log, and bad arguments: the folder for its files is the argument. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static char paths[8][4096];
static const char *devices[3] = {paths[0], paths[1], paths[2]};

static tantalum_log *open_log(size_t count, uint64_t degraded) {
    tantalum_log_options how = TANTALUM_LOG_OPTIONS_INIT;
    tantalum_log *log;
    how.buffered = 1;
    how.fail_when_full = 1;
    how.degraded = degraded;
    CHECK(tantalum_log_open(devices, count, &how, &log) == TANTALUM_OK);
    return log;
}

/* A file of zeros, or with something in its first byte. */
static void blank(const char *path, long bytes, int first) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fputc(first, file) != EOF);
    CHECK(fseek(file, bytes - 1, SEEK_SET) == 0 && fputc(0, file) != EOF && fclose(file) == 0);
}

static void *commits(void *log) {
    for (int i = 0; i < 100; i++)
        CHECK(tantalum_log_commit(log, "a thread", 8, NULL, NULL) == TANTALUM_OK);
    return NULL;
}

static void refused(void) {
    tantalum_log_create_options make = TANTALUM_LOG_CREATE_OPTIONS_INIT;
    tantalum_log_options how = TANTALUM_LOG_OPTIONS_INIT;
    tantalum_log *log = (tantalum_log *)&make;
    tantalum_log_parts *parts = (tantalum_log_parts *)&make;
    const char *missing[1] = {"/nowhere/at/all.log"}, *none[1] = {NULL};
    CHECK(tantalum_log_create(devices, 0, NULL, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_log_create(NULL, 2, NULL, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_log_create(none, 1, NULL, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_log_create(devices, 2, NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_create(devices, 2, NULL, &make) == TANTALUM_ELOG);
    make.copies = 3;
    make.file_bytes = 1 << 20;
    make.buffered = 1;
    CHECK(tantalum_log_create(devices, 2, NULL, &make) == TANTALUM_ELOG);
    make.copies = 70000;
    CHECK(tantalum_log_create(devices, 2, NULL, &make) == TANTALUM_EINVAL);
    CHECK(tantalum_log_open(missing, 1, &how, &log) == TANTALUM_ELOG && log == NULL);
    CHECK(said("/nowhere/at/all.log"));
    CHECK(tantalum_log_open(devices, 2, &how, NULL) == TANTALUM_EINVAL);
    how.size = 3;
    CHECK(tantalum_log_open(devices, 2, &how, &log) == TANTALUM_EINVAL);
    CHECK(tantalum_log_append(NULL, "x", 1, NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_flush(NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_close(NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_replace(NULL, NULL, paths[3], 0) == TANTALUM_EINVAL);
    CHECK(tantalum_log_next(NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_one_copy(NULL, &parts) == TANTALUM_EINVAL && parts == NULL);
    CHECK(tantalum_log_next_part(NULL, NULL) == TANTALUM_EINVAL);
    tantalum_log_free(NULL);
    tantalum_log_read_end(NULL);
    tantalum_log_parts_end(NULL);
}

/* A device that is named twice, by any name; files that a refused call has made are gone. */
static void refused_twice(const char *folder) {
    tantalum_log_create_options make = TANTALUM_LOG_CREATE_OPTIONS_INIT;
    const char *twice[2] = {paths[5], paths[5]};
    static char other[4096];
    make.file_bytes = 1 << 20;
    make.buffered = 1;
    CHECK(tantalum_log_create(twice, 2, NULL, &make) == TANTALUM_ELOG);
    CHECK(said("are the same device: name each once") && access(paths[5], F_OK) != 0);
    snprintf(other, sizeof other, "%s/./5.log", folder);
    blank(paths[5], 1 << 20, 0);
    CHECK(tantalum_log_create(twice, 1, other, &make) == TANTALUM_ELOG);
    CHECK(said("are the same device: name each once") && said("/./5.log"));
    make.copies = 3;
    twice[0] = paths[6];
    CHECK(tantalum_log_create(twice, 2, NULL, &make) == TANTALUM_ELOG && said("copies"));
    CHECK(access(paths[6], F_OK) != 0 && unlink(paths[5]) == 0);
}

/* Changes a byte wherever a file has these 8. */
static void spoil(const char *path, const char *what) {
    static char all[1 << 20];
    FILE *file = fopen(path, "r+b");
    int spoiled = 0;
    CHECK(file != NULL && fread(all, 1, sizeof all, file) == sizeof all);
    for (size_t at = 0; at + 8 <= sizeof all; at++)
        if (memcmp(all + at, what, 8) == 0) {
            CHECK(fseek(file, (long)at, SEEK_SET) == 0 && fputc('!', file) == '!');
            spoiled++;
        }
    CHECK(fclose(file) == 0 && spoiled > 0);
}

/* How a log has to have been made, what is known of its devices, and which copies it has. */
static void two_copies(const char *folder) {
    tantalum_log_create_options make = TANTALUM_LOG_CREATE_OPTIONS_INIT;
    tantalum_log_options how = TANTALUM_LOG_OPTIONS_INIT;
    tantalum_log_stats stats = TANTALUM_LOG_STATS_INIT;
    tantalum_log_part part = TANTALUM_LOG_PART_INIT;
    const char *both[2] = {paths[5], paths[6]}, *known[2] = {NULL, "usb-a"};
    static char preset[4096], record[6000];
    tantalum_log_parts *parts;
    tantalum_log *log;
    uint64_t lsn, end;
    FILE *file;
    make.copies = 2;
    make.file_bytes = 1 << 20;
    make.record_limit = 8000;
    make.buffered = how.buffered = 1;
    CHECK(tantalum_log_create(both, 2, NULL, &make) == TANTALUM_OK);

    how.expect_copies = 1;
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_ELOG && log == NULL);
    CHECK(said("copies = 2") && said("copies = 1"));
    how.expect_copies = 2;
    how.expect_partitions = 4;
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_ELOG && said("partitions = 4"));
    how.expect_partitions = 1 << 20;
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_EINVAL && said("partitions"));
    how.expect_partitions = 1;

    how.latencies = known;
    known[0] = "usb-z";
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_EINVAL && log == NULL);
    CHECK(said("usb-z: there is no such preset") && said("usb-b"));
    snprintf(preset, sizeof preset, "%s/stick.toml", folder);
    known[0] = preset;
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_EINVAL && said("stick.toml"));
    CHECK((file = fopen(preset, "w")) != NULL);
    CHECK(fputs("block_bytes = 4096\nbolcks = 1\n", file) >= 0 && fclose(file) == 0);
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_EINVAL && said("stick.toml:2: "));
    CHECK((file = fopen(preset, "w")) != NULL);
    CHECK(fputs("block_bytes = 4096\nblocks = 1024\nack = \"on-media\"\natomic_bytes = 4096\n"
                "[[latency]]\ncommand = \"write\"\nbytes = 4096\nus = [50, 80, 5000]\n"
                "[[latency]]\ncommand = \"read\"\nbytes = 4096\nus = [50, 80, 500]\n",
                file) >= 0 && fclose(file) == 0);
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_OK);

    for (int i = 0; i < 4; i++) {
        memset(record, 'a' + i, sizeof record);
        CHECK(tantalum_log_commit(log, record, sizeof record, i == 1 ? &lsn : NULL,
                                  i == 1 ? &end : NULL) == TANTALUM_OK);
    }
    CHECK(tantalum_log_one_copy(log, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_one_copy(log, &parts) == TANTALUM_OK);
    CHECK(tantalum_log_next_part(parts, &part) == TANTALUM_OK && !part.found);
    tantalum_log_parts_end(parts);
    CHECK(tantalum_log_close(log) == TANTALUM_OK);
    tantalum_log_free(log);

    /* One copy of the second record is damaged: the log has it, and says so. */
    spoil(paths[6], "bbbbbbbb");
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_OK);
    CHECK(tantalum_log_one_copy(log, &parts) == TANTALUM_OK);
    CHECK(tantalum_log_next_part(parts, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_next_part(parts, &part) == TANTALUM_OK && part.found);
    CHECK(part.size == sizeof part && part.lsn < end && part.end > lsn && part.lsn < part.end);
    CHECK(strcmp(part.on, paths[5]) == 0 && strcmp(part.damaged, paths[6]) == 0);
    CHECK(part.offset >= 65536 && part.offset < 1 << 20);
    while (part.found)
        CHECK(tantalum_log_next_part(parts, &part) == TANTALUM_OK);
    CHECK(part.on == NULL && part.damaged == NULL);
    tantalum_log_parts_end(parts);
    tantalum_log_free(log);

    /* A file that is not there is a device that is missing, if a log can do without it. */
    CHECK(unlink(paths[6]) == 0);
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_ELOG && said(paths[6]));
    how.degraded = 1;
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_OK);
    CHECK(tantalum_log_get_stats(log, &stats) == TANTALUM_OK && stats.degraded);
    CHECK(stats.devices == 2 && stats.devices_present == 1);
    blank(paths[7], 1 << 20, 0);
    CHECK(tantalum_log_replace(log, paths[5], paths[7], 0) == TANTALUM_EINVAL && said("lost"));
    CHECK(tantalum_log_replace(log, paths[6], paths[7], 0) == TANTALUM_OK);
    CHECK(tantalum_log_close(log) == TANTALUM_OK);
    tantalum_log_free(log);
    CHECK(unlink(paths[5]) == 0);
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_ELOG && said(paths[5]));
    CHECK(unlink(paths[7]) == 0);
    make.copies = 1;
    CHECK(tantalum_log_create(both, 2, NULL, &make) == TANTALUM_OK && unlink(paths[6]) == 0);
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_ELOG && said("copies = 1"));
    how.expect_copies = 0;
    CHECK(tantalum_log_open(both, 2, &how, &log) == TANTALUM_ELOG && said(paths[6]));
}

int main(int argc, char **argv) {
    tantalum_log_create_options make = TANTALUM_LOG_CREATE_OPTIONS_INIT;
    tantalum_log_stats stats = TANTALUM_LOG_STATS_INIT;
    tantalum_log_record record = TANTALUM_LOG_RECORD_INIT;
    tantalum_piece pieces[3] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
    tantalum_log_reader *reader;
    uint64_t lsn, end, first_end, durable, all;
    pthread_t threads[3];
    static char large[5000];
    tantalum_log *log;
    int fd;

    CHECK(argc == 2);
    for (int i = 0; i < 8; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%d.log", argv[1], i);
    refused();
    refused_twice(argv[1]);
    two_copies(argv[1]);
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
    make.copies = 2;
    make.file_bytes = 1 << 20;
    make.record_limit = 4096;
    make.buffered = 1;
    CHECK(tantalum_log_create(devices, 2, paths[2], &make) == TANTALUM_OK);
    CHECK(tantalum_log_create(devices, 2, paths[2], &make) == TANTALUM_ELOG);
    log = open_log(3, 0);

    /* The descriptor is readable at first, and after something has become durable. */
    CHECK(tantalum_log_fd(log, &fd) == TANTALUM_OK);
    CHECK(tantalum_log_fd(log, NULL) == TANTALUM_EINVAL);
    struct pollfd looked = {fd, POLLIN, 0};
    CHECK(poll(&looked, 1, 0) == 1 && read(fd, &all, 8) == 8);
    CHECK(tantalum_log_append(log, "first", 5, &lsn, &first_end) == TANTALUM_OK);
    CHECK(lsn == 0);
    CHECK(tantalum_log_wait_durable(log, first_end) == TANTALUM_OK);
    CHECK(poll(&looked, 1, 60000) == 1 && read(fd, &all, 8) == 8);

    CHECK(tantalum_log_commit_pieces(log, pieces, 3, &lsn, &end) == TANTALUM_OK);
    CHECK(lsn == first_end);
    CHECK(tantalum_log_append_pieces(log, NULL, 0, &lsn, NULL) == TANTALUM_OK && lsn == end);
    CHECK(tantalum_log_append_pieces(log, NULL, 1, NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_append(log, NULL, 1, NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_append(log, large, UINT64_MAX, NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_log_append(log, large, sizeof large, NULL, NULL) == TANTALUM_ETOOLARGE);
    CHECK(tantalum_log_wait_durable(log, end + 10000) == TANTALUM_EINVAL);
    CHECK(tantalum_log_flush(log, &end) == TANTALUM_OK);
    CHECK(tantalum_log_ends(log, &durable, &all) == TANTALUM_OK && durable == end && all == end);

    CHECK(tantalum_log_read(log, 0, &reader) == TANTALUM_OK);
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && record.found);
    CHECK(record.bytes == 5 && memcmp(record.data, "first", 5) == 0 && record.end == first_end);
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && record.found);
    CHECK(record.bytes == 7 && memcmp(record.data, "one two", 7) == 0);
    record.size = 12;
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_EINVAL);
    CHECK(tantalum_log_next(reader, NULL) == TANTALUM_EINVAL);
    record.size = sizeof record;
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && record.found && record.bytes == 0);
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && !record.found);
    CHECK(tantalum_log_next(reader, NULL) == TANTALUM_EINVAL);
    tantalum_log_read_end(reader);
    CHECK(tantalum_log_read(log, end + 10000, &reader) == TANTALUM_EINVAL && reader == NULL);

    /* Within a record no record begins: its LSN is told. */
    for (uint64_t within = first_end + 1; within < first_end + 15; within++) {
        char told[64];
        CHECK(tantalum_log_read(log, within, &reader) == TANTALUM_OK);
        CHECK(tantalum_log_next(reader, &record) == TANTALUM_EINVAL);
        snprintf(told, sizeof told, "in the record at LSN %llu:", (unsigned long long)first_end);
        CHECK(said(told));
        tantalum_log_read_end(reader);
    }

    CHECK(tantalum_log_checkpoint(log, end + 10000, 0) == TANTALUM_EINVAL);
    CHECK(tantalum_log_checkpoint(log, first_end + 1, 0) == TANTALUM_EINVAL && said("in the record"));
    CHECK(tantalum_log_checkpoint(log, first_end, 77) == TANTALUM_OK);
    CHECK(tantalum_log_read(log, 0, &reader) == TANTALUM_EINVAL && said("checkpoint"));
    CHECK(tantalum_log_get_stats(log, &stats) == TANTALUM_OK);
    CHECK(stats.first == first_end && stats.checkpoint_number == 77 && stats.records == 3);
    CHECK(stats.devices == 3 && stats.devices_present == 3 && !stats.degraded);

    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, commits, log) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(tantalum_log_get_stats(log, &stats) == TANTALUM_OK && stats.records == 303);
    CHECK(stats.durable == stats.end);

    /* Full: a call that fails changes nothing, and a checkpoint makes room. */
    int code;
    while ((code = tantalum_log_commit(log, large, 4000, NULL, &end)) == TANTALUM_OK) {
    }
    CHECK(code == TANTALUM_ENOSPC && said("checkpoint"));
    CHECK(tantalum_log_nearly_full(log, 10) == TANTALUM_OK);
    CHECK(tantalum_log_nearly_full(NULL, 10) == TANTALUM_EINVAL);
    CHECK(tantalum_log_checkpoint(log, end, 78) == TANTALUM_OK);
    CHECK(tantalum_log_commit(log, large, 4000, &lsn, NULL) == TANTALUM_OK && lsn == end);
    CHECK(tantalum_log_close(log) == TANTALUM_OK);
    CHECK(tantalum_log_append(log, "x", 1, NULL, NULL) == TANTALUM_ELOG);
    CHECK(poll(&looked, 1, 60000) == 1);
    tantalum_log_free(log);

    /* Without a close, and without a device. */
    log = open_log(3, 0);
    CHECK(tantalum_log_commit(log, "kept", 4, &lsn, NULL) == TANTALUM_OK);
    tantalum_log_free(log);
    tantalum_log_options how = TANTALUM_LOG_OPTIONS_INIT;
    how.buffered = 1;
    devices[0] = paths[2];
    CHECK(tantalum_log_open(devices, 2, &how, &log) == TANTALUM_ELOG && said("missing"));
    log = open_log(2, 1);
    CHECK(tantalum_log_read(log, lsn, &reader) == TANTALUM_OK);
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && record.found);
    CHECK(record.bytes == 4 && memcmp(record.data, "kept", 4) == 0);
    CHECK(tantalum_log_get_stats(log, &stats) == TANTALUM_OK && stats.degraded);
    tantalum_log_read_end(reader);

    /* Another device takes the place of the lost one, while threads commit; then one more is lost. */
    blank(paths[3], 1 << 20, 1);
    blank(paths[4], 1 << 10, 0);
    CHECK(tantalum_log_replace(log, NULL, NULL, 0) == TANTALUM_EINVAL && said("null"));
    CHECK(tantalum_log_replace(log, paths[0], paths[3], 0) == TANTALUM_EINVAL && said(paths[0]));
    CHECK(tantalum_log_replace(log, paths[1], paths[3], 0) == TANTALUM_EINVAL && said("lost"));
    CHECK(tantalum_log_replace(log, NULL, "/nowhere/at/all", 0) == TANTALUM_ELOG);
    CHECK(tantalum_log_replace(log, NULL, paths[4], 0) == TANTALUM_EINVAL && said("larger device"));
    CHECK(tantalum_log_replace(log, NULL, paths[3], 0) == TANTALUM_EINVAL && said(paths[3]));
    CHECK(pthread_create(&threads[0], NULL, commits, log) == 0);
    CHECK(tantalum_log_replace(log, NULL, paths[3], 1) == TANTALUM_OK);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(tantalum_log_get_stats(log, &stats) == TANTALUM_OK && !stats.degraded);
    CHECK(tantalum_log_replace(log, NULL, paths[4], 0) == TANTALUM_EINVAL && said("is lost"));
    CHECK(tantalum_log_close(log) == TANTALUM_OK);
    tantalum_log_free(log);
    CHECK(unlink(paths[1]) == 0);
    devices[1] = paths[3];
    log = open_log(2, 1);
    CHECK(tantalum_log_read(log, lsn, &reader) == TANTALUM_OK);
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && record.found);
    CHECK(record.bytes == 4 && memcmp(record.data, "kept", 4) == 0);
    CHECK(tantalum_log_next(reader, &record) == TANTALUM_OK && record.found && record.bytes == 8);
    CHECK(tantalum_log_close(log) == TANTALUM_OK);
    tantalum_log_free(log);
    tantalum_log_read_end(reader);
    printf("all as documented\n");
    return 0;
}
