/*
 * A bank whose transfers are atomic groups. Each account is a block somewhere on the drive. A
 * transfer writes two accounts, and the block with the number of the last transfer, as one group.
 * The power is cut repeatedly while transfers are under way. Afterwards all money, and every
 * acknowledged transfer, must be there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tantalum.h>

enum { ACCOUNTS = 64, START = 1000, IN_FLIGHT = 16, CUTS = 12, BLOCK = 4096 };

/* The block of an account: its balance, and the transfer that wrote it. */
struct account {
    int64_t balance;
    uint64_t transfer;
};

static tantalum_drive *drive;

static void check(int code, const char *what) {
    char message[256];
    if (code == TANTALUM_OK)
        return;
    tantalum_last_error(message, sizeof message);
    fprintf(stderr, "%s: %s: %s\n", what, tantalum_strerror(code), message);
    exit(1);
}

static void must(int fact, const char *what) {
    if (!fact) {
        fprintf(stderr, "broken: %s\n", what);
        exit(1);
    }
}

/* Accounts are scattered; blocks after them hold the number of a lane's last transfer. */
static uint64_t home(unsigned account) { return 7 + 101 * (uint64_t)account; }
static uint64_t lane_home(unsigned lane) { return 3 + 101 * (uint64_t)(ACCOUNTS + lane); }

static void put(unsigned char *block, struct account content) {
    memset(block, 0, BLOCK);
    memcpy(block, &content, sizeof content);
}

static struct account get(uint64_t block) {
    static unsigned char bytes[BLOCK];
    struct account content;
    check(tantalum_read(drive, block, bytes, 1), "read");
    memcpy(&content, bytes, sizeof content);
    return content;
}

static unsigned rolls = 12345;
static unsigned roll(unsigned sides) {
    rolls = rolls * 1664525u + 1013904223u;
    return (rolls >> 8) % sides;
}

/*
 * Submits IN_FLIGHT transfers, one for each lane. Lane i moves money between the accounts 2 i and
 * 2 i + 1 and increments its own counter, so no two transfers write the same block.
 */
static void submit(struct account *bank, uint64_t *lanes, uint64_t *tickets) {
    static unsigned char blocks[3][BLOCK];
    for (unsigned lane = 0; lane < IN_FLIGHT; lane++) {
        unsigned pair = 2 * (lane + IN_FLIGHT * roll(ACCOUNTS / 2 / IN_FLIGHT));
        int64_t amount = (int64_t)roll(100);
        struct account from = bank[pair], to = bank[pair + 1];
        struct account count = {0, ++lanes[lane]};
        from.balance -= amount;
        to.balance += amount;
        from.transfer = to.transfer = lanes[lane];
        put(blocks[0], from);
        put(blocks[1], to);
        put(blocks[2], count);
        tantalum_extent group[3] = {
            {home(pair), blocks[0], 1},
            {home(pair + 1), blocks[1], 1},
            {lane_home(lane), blocks[2], 1},
        };
        check(tantalum_submit_group(drive, group, 3, &tickets[lane]), "submit");
        bank[pair] = from;
        bank[pair + 1] = to;
    }
}

int main(int argc, char **argv) {
    tantalum_drive_options options = TANTALUM_DRIVE_OPTIONS_INIT;
    options.preset = argc > 1 ? argv[1] : "durassd";
    options.seed = 7;
    /* Less flash than the preset: this is a small bank. */
    options.overrides = "[geometry]\nblocks = 64\npages = 64\n";

    must(tantalum_abi_version() == TANTALUM_ABI_VERSION, "the library is of another ABI");
    check(tantalum_open_drive(&options, &drive), "open");

    tantalum_caps caps = TANTALUM_CAPS_INIT;
    check(tantalum_get_caps(drive, &caps), "caps");
    must(caps.block_size == BLOCK && caps.group_extents >= 3, "this drive is not for banks");
    printf("%s: %" PRIu64 " blocks, groups of %" PRIu64 " extents and %" PRIu64 " KiB\n",
           options.preset, caps.blocks, caps.group_extents, caps.group_bytes / 1024);

    struct account bank[ACCOUNTS];
    uint64_t lanes[IN_FLIGHT] = {0}, tickets[IN_FLIGHT];
    unsigned char block[BLOCK];
    for (unsigned a = 0; a < ACCOUNTS; a++) {
        bank[a] = (struct account){START, 0};
        put(block, bank[a]);
        check(tantalum_write(drive, home(a), block, 1, TANTALUM_FUA), "first deposit");
    }

    uint64_t acked = 0, survived = 0, undone = 0;
    for (int cut = 0; cut < CUTS; cut++) {
        uint64_t known[IN_FLIGHT];

        /* One round completes; the next one is under way when the power is cut. */
        uint64_t began, ended;
        check(tantalum_now(drive, &began), "time");
        submit(bank, lanes, tickets);
        for (unsigned lane = 0; lane < IN_FLIGHT; lane++)
            check(tantalum_wait(drive, tickets[lane]), "transfer");
        check(tantalum_now(drive, &ended), "time");
        acked += IN_FLIGHT;
        memcpy(known, lanes, sizeof known);
        submit(bank, lanes, tickets);
        check(tantalum_sleep(drive, (ended - began) * (1 + roll(120)) / 100), "sleep");

        tantalum_power_loss loss = TANTALUM_POWER_LOSS_INIT;
        tantalum_recovery recovery = TANTALUM_RECOVERY_INIT;
        check(tantalum_power_cut(drive, &loss), "power cut");
        must(loss.dump_complete == 1, "the capacitors suffice");
        must(tantalum_read(drive, 0, block, 1) == TANTALUM_EPOWER, "there is no power");
        check(tantalum_power_on(drive, &recovery), "power on");

        /* Acknowledged transfers must be there; each of the others completely or not at all. */
        uint64_t here = 0;
        for (unsigned lane = 0; lane < IN_FLIGHT; lane++) {
            int code = tantalum_wait(drive, tickets[lane]);
            must(code == TANTALUM_OK || code == TANTALUM_EPOWER, "done, or cut off");
            if (code == TANTALUM_OK) {
                acked++;
                known[lane] = lanes[lane];
            }
            lanes[lane] = get(lane_home(lane)).transfer;
            must(lanes[lane] == known[lane] || lanes[lane] == known[lane] + 1,
                 "an acknowledged transfer survives, and nothing else appears");
            here += code == TANTALUM_EPOWER && lanes[lane] == known[lane] + 1;
            undone += code == TANTALUM_EPOWER && lanes[lane] == known[lane];
        }
        survived += here;
        int64_t sum = 0;
        for (unsigned a = 0; a < ACCOUNTS; a += 2) {
            unsigned lane = a / 2 % IN_FLIGHT;
            bank[a] = get(home(a));
            bank[a + 1] = get(home(a + 1));
            must(bank[a].balance + bank[a + 1].balance == 2 * START, "no money is lost or made");
            must(bank[a].transfer == bank[a + 1].transfer, "both sides are of one transfer");
            must(bank[a].transfer <= lanes[lane], "no account is ahead of its lane");
            sum += bank[a].balance + bank[a + 1].balance;
        }
        must(sum == (int64_t)ACCOUNTS * START, "the sum is what it was");
        printf("cut %2d: off after %8.1f us, ready after %8.1f us; %2" PRIu64
               " of the unacknowledged are there\n",
               cut + 1, (double)loss.took_ns / 1e3, (double)recovery.ready_ns / 1e3, here);
    }

    tantalum_stats stats;
    stats.size = sizeof stats;
    check(tantalum_get_stats(drive, &stats), "statistics");
    must(stats.power_cuts == CUTS, "all cuts were counted");
    printf("%" PRIu64 " transfers acknowledged, all there; %" PRIu64
           " more survived whole, %" PRIu64 " not at all\n",
           acked, survived, undone);
    printf("groups: %" PRIu64 ", p50 %.1f us, p99 %.1f us; flash: %.1f MB programmed; "
           "virtual time %.1f ms\n",
           stats.group.commands, (double)stats.group.p50_ns / 1e3,
           (double)stats.group.p99_ns / 1e3, (double)stats.flash_program_bytes / 1e6,
           (double)stats.now_ns / 1e6);
    tantalum_close(drive);
    return 0;
}
