/*
 * A key-value store on a simulated drive, and its crash test. The store is a log: each put appends
 * a block, and a start reads the log up to the first empty block. The test cuts the power while
 * puts are under way, and compares the store after a start with the puts.
 *
 *   kv [preset]            on a simulated SSD, or on `ram`, a drive that keeps a random part of the
 *                          writes that were not flushed
 *   kv [preset] unflushed  a sync does not flush: the test finds this defect on each drive whose
 *                          acknowledged writes can be lost
 *   kv ram stale           a start does not empty the blocks after the end of the log: the test
 *                          finds this defect where a cut loses a put and keeps a later one, as
 *                          `ram` does. This load has not shown it on `volatile`
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tantalum.h>

enum { KEYS = 8, LOG = 2048, BLOCK = 4096, IN_FLIGHT = 8, CUTS = 40, PUTS = 40 };

static void check(int code, const char *what) {
    char message[256];
    if (code == TANTALUM_OK)
        return;
    tantalum_last_error(message, sizeof message);
    fprintf(stderr, "%s: %s: %s\n", what, tantalum_strerror(code), message);
    exit(2);
}

/* ---- The store ---------------------------------------------------------------------------- */

/* The block of a put. Values are never 0, so an empty block is not a put. */
struct put {
    uint64_t key, value;
};

struct store {
    tantalum_drive *drive;
    int unflushed, stale;  /* the defects */
    uint64_t end;          /* the block after the last put */
    uint64_t values[KEYS]; /* 0: no value */
};

/* Submits a put. It is acknowledged once its ticket, and those of all puts before it, are OK. */
static uint64_t store_put(struct store *store, struct put put) {
    unsigned char block[BLOCK] = {0};
    uint64_t ticket;
    memcpy(block, &put, sizeof put);
    check(tantalum_submit_write(store->drive, store->end++, block, 1, 0, &ticket), "put");
    store->values[put.key] = put.value;
    return ticket;
}

/* All puts that are acknowledged survive a power cut from here on. */
static void store_sync(struct store *store) {
    if (!store->unflushed)
        check(tantalum_flush(store->drive), "flush");
}

/* Reads the log, and empties the blocks after its end: otherwise later puts could join old puts to
 * the log. */
static void store_open(struct store *store) {
    static unsigned char log[LOG][BLOCK];
    check(tantalum_read(store->drive, 0, log, LOG), "read the log");
    memset(store->values, 0, sizeof store->values);
    for (store->end = 0; store->end < LOG; store->end++) {
        struct put put;
        memcpy(&put, log[store->end], sizeof put);
        if (put.value == 0)
            break;
        store->values[put.key] = put.value;
    }
    if (!store->stale)
        check(tantalum_discard(store->drive, store->end, LOG - store->end), "empty the rest");
    check(tantalum_flush(store->drive), "flush");
}

/* ---- The crash test ------------------------------------------------------------------------ */

/* All puts in their order. A start must find the first n of them, with durable <= n <= count. */
static struct put history[LOG];
static uint64_t count, durable;

static uint64_t rolls = 1;
static uint64_t roll(uint64_t sides) {
    rolls = rolls * 6364136223846793005u + 1442695040888963407u;
    return (rolls >> 33) % sides;
}

/* Compares the store with each state that it may be in; the newest one that fits is kept. */
static int is_as_promised(const struct store *store) {
    for (uint64_t n = count + 1; n-- > durable;) {
        uint64_t values[KEYS] = {0};
        for (uint64_t i = 0; i < n; i++)
            values[history[i].key] = history[i].value;
        if (memcmp(values, store->values, sizeof values) == 0) {
            count = durable = n;
            return 1;
        }
    }
    return 0;
}

/* Random puts, a few under way at a time; the power is cut during the last ones. */
static void work_and_cut(struct store *store, int acknowledged_is_durable) {
    uint64_t tickets[PUTS], puts = 1 + roll(PUTS), done = 0, acknowledged = count;
    for (uint64_t i = 0; i < puts; i++) {
        struct put put = {roll(KEYS), 1 + roll(1000000)};
        history[count++] = put;
        tickets[i] = store_put(store, put);
        for (; done + IN_FLIGHT <= i + 1; done++, acknowledged++)
            check(tantalum_wait(store->drive, tickets[done]), "put");
        if (roll(20) == 0) {
            store_sync(store);
            durable = acknowledged;
        }
    }
    check(tantalum_sleep(store->drive, roll(200 * 1000)), "sleep");
    check(tantalum_power_cut(store->drive, NULL), "power cut");

    /* A put that had completed was acknowledged if all puts before it had completed. */
    for (int all = 1; done < puts; done++) {
        int code = tantalum_wait(store->drive, tickets[done]);
        if (code != TANTALUM_EPOWER)
            check(code, "put");
        all = all && code == TANTALUM_OK;
        acknowledged += (uint64_t)all;
    }
    if (acknowledged_is_durable)
        durable = acknowledged;
}

int main(int argc, char **argv) {
    tantalum_drive_options options = TANTALUM_DRIVE_OPTIONS_INIT;
    options.preset = argc > 1 ? argv[1] : "volatile";
    options.seed = 7;
    options.overrides = "[geometry]\nblocks = 64\npages = 64\n"; /* a small drive */
    const char *defect = argc > 2 ? argv[2] : "";
    struct store store = {0};
    store.unflushed = strcmp(defect, "unflushed") == 0;
    store.stale = strcmp(defect, "stale") == 0;
    tantalum_caps caps = TANTALUM_CAPS_INIT;
    tantalum_ram_options ram = TANTALUM_RAM_OPTIONS_INIT;
    ram.seed = 7;
    ram.blocks = LOG;
    ram.command_ns = ram.jitter_ns = 20 * 1000;
    if (strcmp(options.preset, "ram") == 0)
        check(tantalum_open_ram(&ram, &store.drive), "open");
    else
        check(tantalum_open_drive(&options, &store.drive), "open");
    check(tantalum_get_caps(store.drive, &caps), "caps");

    uint64_t undone = 0;
    store_open(&store);
    for (int cut = 1; cut <= CUTS; cut++) {
        work_and_cut(&store, caps.ack != TANTALUM_ACK_VOLATILE);
        check(tantalum_power_on(store.drive, NULL), "power on");
        store_open(&store);
        uint64_t before = count;
        if (!is_as_promised(&store)) {
            printf("broken after cut %d: the store was never in the state that it is in\n", cut);
            return 1;
        }
        undone += before - count;
    }
    printf("%s: %d cuts, %" PRIu64 " puts kept, %" PRIu64 " undone: as promised\n",
           options.preset, CUTS, count, undone);
    tantalum_close(store.drive);
    return 0;
}
