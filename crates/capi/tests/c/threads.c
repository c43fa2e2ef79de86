/*
 * Many threads on one handle. Some have blocks of their own and read back what they wrote. Two
 * write the same group repeatedly, while others read it and must see it whole. One cuts the power
 * during all that.
 */
#include "check.h"
#include <pthread.h>

enum { WRITERS = 6, READERS = 2, ROUNDS = 150, CUTS = 5, PARTS = 4 };

static tantalum_drive *drive;
static pthread_barrier_t begin;

/* Continues after power cuts: a command that failed because of one is retried. */
static int again(int code) {
    CHECK(code == TANTALUM_OK || code == TANTALUM_EPOWER);
    CHECK(code == TANTALUM_OK || said("power"));
    return code != TANTALUM_OK;
}

static void *writer(void *arg) {
    unsigned me = *(unsigned *)arg;
    unsigned char bytes[2 * BLOCK], back[2 * BLOCK];
    pthread_barrier_wait(&begin);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t at = 1000 * (me + 1) + 2 * (round % 16), ticket;
        fill(bytes, 2, me * 1000 + round);
        if (round % 3 == 0) {
            do {
                CHECK(tantalum_submit_write(drive, at, bytes, 2, TANTALUM_FUA, &ticket) ==
                      TANTALUM_OK);
            } while (again(tantalum_wait(drive, ticket)));
        } else {
            while (again(tantalum_write(drive, at, bytes, 2, TANTALUM_FUA)))
                continue;
        }
        while (again(tantalum_read(drive, at, back, 2)))
            continue;
        CHECK(memcmp(bytes, back, sizeof back) == 0);
    }
    return NULL;
}

static uint64_t part(unsigned i) { return 100 + 50 * (uint64_t)i; }

static void *grouper(void *arg) {
    unsigned me = *(unsigned *)arg;
    unsigned char bytes[BLOCK];
    tantalum_extent group[PARTS];
    pthread_barrier_wait(&begin);
    for (unsigned round = 0; round < ROUNDS; round++) {
        memset(bytes, (int)(me + 2 * round) % 251 + 1, BLOCK);
        for (unsigned i = 0; i < PARTS; i++)
            group[i] = (tantalum_extent){part(i), bytes, 1};
        while (again(tantalum_write_group(drive, group, PARTS)))
            continue;
    }
    return NULL;
}

/* One read covers all parts, so it sees one state of the drive. */
static void *reader(void *arg) {
    enum { SPAN = 50 * (PARTS - 1) + 1 };
    unsigned char *all = malloc(SPAN * BLOCK);
    CHECK(all != NULL && *(unsigned *)arg < 2);
    pthread_barrier_wait(&begin);
    for (unsigned round = 0; round < ROUNDS; round++) {
        while (again(tantalum_read(drive, 100, all, SPAN)))
            continue;
        for (unsigned i = 0; i < PARTS; i++)
            for (unsigned byte = 0; byte < BLOCK; byte += 511)
                CHECK(all[50 * i * BLOCK + byte] == all[0]);
    }
    free(all);
    return NULL;
}

static void *cutter(void *arg) {
    CHECK(arg == NULL);
    pthread_barrier_wait(&begin);
    for (unsigned cut = 0; cut < CUTS; cut++) {
        tantalum_stats stats;
        stats.size = sizeof stats;
        CHECK(tantalum_sleep(drive, 3000000) == TANTALUM_OK);
        CHECK(tantalum_power_cut(drive, NULL) == TANTALUM_OK);
        CHECK(tantalum_get_stats(drive, &stats) == TANTALUM_OK && stats.power_cuts == cut + 1);
        CHECK(tantalum_power_on(drive, NULL) == TANTALUM_OK);
    }
    return NULL;
}

/* Several threads wait for one ticket: one gets it, the others fail. */
static void *contender(void *arg) {
    int *won = arg;
    uint64_t ticket = 0;
    memcpy(&ticket, won + 2, sizeof ticket);
    pthread_barrier_wait(&begin);
    int code = tantalum_wait(drive, ticket);
    CHECK(code == TANTALUM_OK || code == TANTALUM_ETICKET);
    *won = code == TANTALUM_OK;
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[WRITERS + 2 + READERS + 1];
    unsigned number[WRITERS + 2 + READERS], n = 0;
    drive = small_drive(argc > 1 ? argv[1] : "durassd", 5);
    CHECK(pthread_barrier_init(&begin, NULL, sizeof thread / sizeof *thread) == 0);
    for (unsigned i = 0; i < WRITERS + 2 + READERS; i++, n++) {
        void *(*body)(void *) = i < WRITERS ? writer : i < WRITERS + 2 ? grouper : reader;
        number[i] = i < WRITERS ? i : (i - WRITERS) % 2;
        CHECK(pthread_create(&thread[n], NULL, body, &number[i]) == 0);
    }
    CHECK(pthread_create(&thread[n++], NULL, cutter, NULL) == 0);
    for (unsigned i = 0; i < n; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(pthread_barrier_destroy(&begin) == 0);

    for (unsigned round = 0; round < 50; round++) {
        struct { int won, pad; uint64_t ticket; } contest[3];
        static unsigned char bytes[BLOCK];
        uint64_t ticket;
        int winners = 0;
        CHECK(tantalum_submit_write(drive, 1, bytes, 1, TANTALUM_FUA, &ticket) == TANTALUM_OK);
        CHECK(pthread_barrier_init(&begin, NULL, 3) == 0);
        for (unsigned i = 0; i < 3; i++) {
            contest[i].ticket = ticket;
            CHECK(pthread_create(&thread[i], NULL, contender, &contest[i]) == 0);
        }
        for (unsigned i = 0; i < 3; i++) {
            CHECK(pthread_join(thread[i], NULL) == 0);
            winners += contest[i].won;
        }
        CHECK(winners == 1);
        CHECK(pthread_barrier_destroy(&begin) == 0);
    }
    tantalum_close(drive);
    puts("all threads saw what they should");
    return 0;
}
