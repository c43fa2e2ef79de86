/* Every function, and every refusal that a program can cause. */
#include "check.h"

static unsigned char data[64 * BLOCK], other[64 * BLOCK], back[64 * BLOCK];
static const unsigned char zeros[64 * BLOCK];

static void codes(void) {
    for (int code = TANTALUM_EINTERNAL; code <= TANTALUM_OK; code++) {
        CHECK(strlen(tantalum_strerror(code)) > 5);
        for (int less = TANTALUM_EINTERNAL; less < code; less++)
            CHECK(strcmp(tantalum_strerror(code), tantalum_strerror(less)) != 0);
    }
    CHECK(strcmp(tantalum_strerror(1), tantalum_strerror(-99)) == 0);
    CHECK(tantalum_abi_version() == TANTALUM_ABI_VERSION);
    CHECK(strchr(tantalum_version(), '.') != NULL);
}

static void last_error(void) {
    char message[512], part[8];
    CHECK(tantalum_flush(NULL) == TANTALUM_EINVAL);
    size_t length = tantalum_last_error(NULL, 0);
    CHECK(length == strlen("the handle is null"));
    CHECK(tantalum_last_error(message, sizeof message) == length);
    CHECK(strcmp(message, "the handle is null") == 0);
    CHECK(tantalum_last_error(part, sizeof part) == length);
    CHECK(strcmp(part, "the han") == 0);
}

static void refused_openings(void) {
    tantalum_drive *drive = (tantalum_drive *)data;
    tantalum_drive_options o = TANTALUM_DRIVE_OPTIONS_INIT;
    CHECK(tantalum_open_drive(&o, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_open_drive(NULL, &drive) == TANTALUM_EINVAL && drive == NULL);
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EINVAL && said("one of the two"));
    o.preset = "durasd";
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EDESIGN && said("durassd"));
    o.preset = "\xff\xfe";
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EINVAL && said("UTF-8"));
    o.preset = "durassd";
    o.design = "name = 'x'";
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EINVAL);
    o.preset = NULL;
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EDESIGN && said("geometry"));
    o.preset = "durassd";
    o.design = NULL;
    o.overrides = "[geometry]\nblock = 3\n";
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EDESIGN && said("geometry.blocks"));
    o.overrides = "= 3";
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EDESIGN && said("overrides"));
    o.overrides = NULL;
    o.size = 0;
    CHECK(tantalum_open_drive(&o, &drive) == TANTALUM_EINVAL && said("sizeof"));
    CHECK(drive == NULL);

    tantalum_ram_options r = TANTALUM_RAM_OPTIONS_INIT;
    CHECK(tantalum_open_ram(&r, &drive) == TANTALUM_EINVAL && said("0 blocks"));
    r.blocks = UINT64_MAX;
    CHECK(tantalum_open_ram(&r, &drive) == TANTALUM_EINVAL);
    r.blocks = 8;
    r.block_size = 4095;
    CHECK(tantalum_open_ram(&r, &drive) == TANTALUM_EINVAL && said("power of two"));
    r.block_size = 0;
    r.ack = 3;
    CHECK(tantalum_open_ram(&r, &drive) == TANTALUM_EINVAL && said("ACK"));
    r.ack = 0;
    r.jitter_ns = UINT64_MAX;
    CHECK(tantalum_open_ram(&r, &drive) == TANTALUM_EINVAL && said("hour"));
    r.jitter_ns = 0;
    r.atomic_unit = UINT64_MAX;
    CHECK(tantalum_open_ram(&r, &drive) == TANTALUM_EINVAL && said("32 bits"));
    CHECK(drive == NULL);
    tantalum_close(NULL);
}

/* Structures of programs that were compiled with another version of the header. */
static void other_sizes(void) {
    struct { tantalum_ram_options known; uint64_t unknown; } options =
        {TANTALUM_RAM_OPTIONS_INIT, 0};
    tantalum_drive *drive;
    options.known.size = sizeof options;
    options.known.blocks = 8;
    options.unknown = 1;
    CHECK(tantalum_open_ram(&options.known, &drive) == TANTALUM_EINVAL && said("has not"));
    options.unknown = 0;
    CHECK(tantalum_open_ram(&options.known, &drive) == TANTALUM_OK);
    tantalum_close(drive);

    /* A shorter structure: missing fields are zero, whatever is in memory after it. */
    options.known.group_extents = options.known.group_bytes = 1 << 20;
    options.known.size = offsetof(tantalum_ram_options, group_extents);
    CHECK(tantalum_open_ram(&options.known, &drive) == TANTALUM_OK);

    struct { tantalum_caps known; uint64_t unknown; } caps;
    memset(&caps, 0x55, sizeof caps);
    caps.known.size = sizeof caps;
    CHECK(tantalum_get_caps(drive, &caps.known) == TANTALUM_OK);
    CHECK(caps.known.size == sizeof caps.known && caps.unknown == 0);
    CHECK(caps.known.block_size == BLOCK && caps.known.blocks == 8);
    CHECK(caps.known.group_extents == 0 && caps.known.flush == 1 && caps.known.ordered == 0);
    memset(&caps, 0x55, sizeof caps);
    caps.known.size = offsetof(tantalum_caps, ack);
    CHECK(tantalum_get_caps(drive, &caps.known) == TANTALUM_OK);
    CHECK(caps.known.blocks == 8 && caps.known.ack == 0x5555555555555555);
    caps.known.size = 12;
    CHECK(tantalum_get_caps(drive, &caps.known) == TANTALUM_EINVAL);
    CHECK(tantalum_get_caps(drive, NULL) == TANTALUM_EINVAL);

    /* Without room for its answer a call does nothing. */
    tantalum_power_loss loss = TANTALUM_POWER_LOSS_INIT;
    tantalum_recovery recovery = TANTALUM_RECOVERY_INIT;
    loss.size = recovery.size = 12;
    CHECK(tantalum_power_cut(drive, &loss) == TANTALUM_EINVAL && said("sizeof"));
    CHECK(tantalum_read(drive, 0, back, 1) == TANTALUM_OK);
    CHECK(tantalum_power_cut(drive, NULL) == TANTALUM_OK);
    CHECK(tantalum_power_on(drive, &recovery) == TANTALUM_EINVAL);
    CHECK(tantalum_read(drive, 0, back, 1) == TANTALUM_EPOWER);
    tantalum_close(drive);
}

/* A RAM drive tells of its last start, as often as it is asked. */
static void starts(void) {
    tantalum_ram_options options = TANTALUM_RAM_OPTIONS_INIT;
    tantalum_recovery recovery = TANTALUM_RECOVERY_INIT;
    options.blocks = 8;
    options.start_ns = 5000;
    tantalum_drive *drive = ram_drive(options);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t took = round == 0 ? 0 : 5000;
        CHECK(tantalum_settle(drive, &recovery) == TANTALUM_OK);
        CHECK(recovery.ready_ns == took && recovery.whole_ns == took);
        CHECK(tantalum_power_cut(drive, NULL) == TANTALUM_OK);
        CHECK(tantalum_settle(drive, &recovery) == TANTALUM_EPOWER);
        for (unsigned again = 0; again < 2; again++) {
            recovery.ready_ns = 0;
            CHECK(tantalum_power_on(drive, &recovery) == TANTALUM_OK);
            CHECK(recovery.ready_ns == 5000 && recovery.whole_ns == 5000);
        }
    }
    tantalum_close(drive);
}

static void refused_commands(tantalum_drive *drive, uint64_t blocks) {
    uint64_t ticket = 77, now;
    size_t which;
    CHECK(tantalum_read(drive, blocks, back, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_read(drive, UINT64_MAX, back, 2) == TANTALUM_EINVAL);
    CHECK(tantalum_read(drive, 1, back, UINT64_MAX) == TANTALUM_EINVAL);
    CHECK(tantalum_read(drive, 1, NULL, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_read(NULL, 1, back, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_read(drive, blocks, NULL, 0) == TANTALUM_OK);
    CHECK(tantalum_write(drive, blocks - 1, data, 2, 0) == TANTALUM_EINVAL);
    CHECK(tantalum_write(drive, 0, NULL, 1, 0) == TANTALUM_EINVAL);
    CHECK(tantalum_write(drive, 0, data, 1, 2) == TANTALUM_EINVAL && said("flag"));
    CHECK(tantalum_write(drive, 0, NULL, 0, 0) == TANTALUM_OK);
    CHECK(tantalum_discard(drive, 1, blocks) == TANTALUM_EINVAL);
    CHECK(tantalum_submit_read(drive, 0, NULL, 1, &ticket) == TANTALUM_EINVAL);
    CHECK(tantalum_submit_write(drive, 0, data, 1, 0, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_submit_flush(NULL, &ticket) == TANTALUM_EINVAL);
    CHECK(tantalum_submit_discard(drive, blocks, 1, &ticket) == TANTALUM_EINVAL);
    CHECK(ticket == 77);
    CHECK(tantalum_wait(drive, 0) == TANTALUM_ETICKET && said("no ticket 0"));
    which = 0;
    CHECK(tantalum_wait_any(drive, &ticket, 0, &which) == TANTALUM_EINVAL && which == SIZE_MAX);
    which = 0;
    CHECK(tantalum_wait_any(NULL, &ticket, 1, &which) == TANTALUM_EINVAL && which == SIZE_MAX);
    CHECK(tantalum_wait_any(drive, &ticket, SIZE_MAX, &which) == TANTALUM_EINVAL);
    CHECK(tantalum_wait_any(drive, NULL, 1, &which) == TANTALUM_EINVAL);
    CHECK(tantalum_wait_any(drive, &ticket, 1, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_wait_any(drive, &ticket, 1, &which) == TANTALUM_ETICKET && which == SIZE_MAX);
    CHECK(tantalum_sleep(drive, TANTALUM_SLEEP_MAX_NS + 1) == TANTALUM_EINVAL);
    CHECK(tantalum_now(drive, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_now(NULL, &now) == TANTALUM_EINVAL);
    CHECK(tantalum_get_stats(drive, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_power_cut(NULL, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_power_on(NULL, NULL) == TANTALUM_EINVAL);
}

static void commands(tantalum_drive *drive) {
    fill(data, 8, 1);
    CHECK(tantalum_read(drive, 40, back, 8) == TANTALUM_OK && memcmp(back, zeros, 8 * BLOCK) == 0);
    CHECK(tantalum_write(drive, 40, data, 8, 0) == TANTALUM_OK);
    CHECK(tantalum_read(drive, 40, back, 8) == TANTALUM_OK && memcmp(back, data, 8 * BLOCK) == 0);
    CHECK(tantalum_flush(drive) == TANTALUM_OK);
    CHECK(tantalum_discard(drive, 41, 2) == TANTALUM_OK);
    memset(data + BLOCK, 0, 2 * BLOCK);
    CHECK(tantalum_read(drive, 40, back, 8) == TANTALUM_OK && memcmp(back, data, 8 * BLOCK) == 0);
    CHECK(tantalum_write(drive, 60, data, 1, TANTALUM_FUA) == TANTALUM_OK);
}

static void groups(tantalum_drive *drive) {
    tantalum_caps caps = TANTALUM_CAPS_INIT;
    uint64_t ticket;
    tantalum_group *group;
    CHECK(tantalum_get_caps(drive, &caps) == TANTALUM_OK && caps.group_extents > 2);
    fill(data, 4, 2);
    tantalum_extent three[3] = {{5, data, 1}, {900, data + BLOCK, 2}, {70, data + 3 * BLOCK, 1}};
    CHECK(tantalum_write_group(drive, three, 3) == TANTALUM_OK);
    CHECK(tantalum_read(drive, 900, back, 2) == TANTALUM_OK);
    CHECK(memcmp(back, data + BLOCK, 2 * BLOCK) == 0);

    /* Refused groups change nothing. */
    fill(other, 8, 3);
    tantalum_extent overlap[2] = {{899, other, 2}, {900, other, 2}};
    CHECK(tantalum_write_group(drive, overlap, 2) == TANTALUM_EOVERLAP && said("block 900"));
    CHECK(tantalum_submit_group(drive, overlap, 2, &ticket) == TANTALUM_EOVERLAP);
    tantalum_extent beyond[2] = {{900, other, 2}, {caps.blocks, other, 1}};
    CHECK(tantalum_write_group(drive, beyond, 2) == TANTALUM_EINVAL);
    CHECK(tantalum_write_group(drive, NULL, 1) == TANTALUM_EINVAL);
    tantalum_extent null[2] = {{900, other, 2}, {7, NULL, 1}};
    CHECK(tantalum_write_group(drive, null, 2) == TANTALUM_EINVAL);
    size_t many = (size_t)caps.group_extents + 1;
    tantalum_extent *large = calloc(many, sizeof *large);
    for (size_t i = 0; i < many; i++)
        large[i] = (tantalum_extent){2 * i + 900, other, 1};
    char limit[64];
    snprintf(limit, sizeof limit, "limit is %d extents", (int)caps.group_extents);
    CHECK(tantalum_write_group(drive, large, many) == TANTALUM_ETOOLARGE && said(limit));
    free(large);
    CHECK(tantalum_read(drive, 900, back, 2) == TANTALUM_OK);
    CHECK(memcmp(back, data + BLOCK, 2 * BLOCK) == 0);
    CHECK(tantalum_write_group(drive, NULL, 0) == TANTALUM_OK);

    /* Built piece by piece; cancelled; submitted. */
    CHECK(tantalum_group_begin(NULL, &group) == TANTALUM_EINVAL);
    CHECK(tantalum_group_begin(drive, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_group_begin(drive, &group) == TANTALUM_OK);
    CHECK(tantalum_group_add(group, 900, other, 2) == TANTALUM_OK);
    tantalum_group_cancel(group);
    tantalum_group_cancel(NULL);
    CHECK(tantalum_read(drive, 900, back, 2) == TANTALUM_OK);
    CHECK(memcmp(back, data + BLOCK, 2 * BLOCK) == 0);

    CHECK(tantalum_group_begin(drive, &group) == TANTALUM_OK);
    CHECK(tantalum_group_add(group, 900, other, 2) == TANTALUM_OK);
    CHECK(tantalum_group_add(group, caps.blocks, other, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_group_add(group, 5, NULL, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_group_add(group, 5, other, UINT64_MAX) == TANTALUM_ETOOLARGE);
    CHECK(tantalum_group_add(NULL, 5, other, 1) == TANTALUM_EINVAL);
    CHECK(tantalum_group_add(group, 5, other + 2 * BLOCK, 1) == TANTALUM_OK);
    CHECK(tantalum_group_submit(group, NULL) == TANTALUM_EINVAL);
    CHECK(tantalum_group_submit(NULL, &ticket) == TANTALUM_EINVAL);
    memset(other + 3 * BLOCK, 0, BLOCK);
    CHECK(tantalum_group_submit(group, &ticket) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, ticket) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, ticket) == TANTALUM_ETICKET);
    CHECK(tantalum_read(drive, 900, back, 2) == TANTALUM_OK);
    CHECK(memcmp(back, other, 2 * BLOCK) == 0);
    CHECK(tantalum_read(drive, 5, back, 1) == TANTALUM_OK);
    CHECK(memcmp(back, other + 2 * BLOCK, BLOCK) == 0);

    /* A group that overlaps itself is refused when it is submitted, and can be cancelled. */
    CHECK(tantalum_group_begin(drive, &group) == TANTALUM_OK);
    CHECK(tantalum_group_add(group, 900, data, 2) == TANTALUM_OK);
    CHECK(tantalum_group_add(group, 901, data, 2) == TANTALUM_OK);
    CHECK(tantalum_group_submit(group, &ticket) == TANTALUM_EOVERLAP);
    tantalum_group_cancel(group);
}

/* Commands that overlap in time, and a clock that stands still while no call waits. */
static void tickets(tantalum_drive *drive) {
    enum { DEPTH = 16 };
    uint64_t before, after, alone, ticket[DEPTH], left[DEPTH], one;
    size_t which;
    fill(data, DEPTH, 4);
    CHECK(tantalum_settle(drive, NULL) == TANTALUM_OK);
    CHECK(tantalum_now(drive, &before) == TANTALUM_OK);
    CHECK(tantalum_write(drive, 300, data, 1, TANTALUM_FUA) == TANTALUM_OK);
    CHECK(tantalum_now(drive, &alone) == TANTALUM_OK && alone > before);
    for (unsigned i = 0; i < DEPTH; i++) {
        uint64_t at = 300 + 17 * (uint64_t)i;
        CHECK(tantalum_submit_write(drive, at, data + i * BLOCK, 1, TANTALUM_FUA, &ticket[i]) ==
              TANTALUM_OK);
    }
    CHECK(tantalum_now(drive, &after) == TANTALUM_OK && after == alone);
    memcpy(left, ticket, sizeof left);
    for (unsigned n = DEPTH; n > 0; n--) {
        CHECK(tantalum_wait_any(drive, left, n, &which) == TANTALUM_OK && which < n);
        left[which] = left[n - 1];
    }
    CHECK(tantalum_now(drive, &after) == TANTALUM_OK);
    CHECK(after - alone < (alone - before) * DEPTH);
    CHECK(tantalum_wait(drive, ticket[3]) == TANTALUM_ETICKET);

    /* The data of a read is in the caller's buffer after the wait, and not before. */
    memset(back, 0x55, DEPTH * BLOCK);
    for (unsigned i = 0; i < DEPTH; i++)
        CHECK(tantalum_submit_read(drive, 300 + 17 * (uint64_t)i, back + i * BLOCK, 1,
                                   &ticket[i]) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, ticket[DEPTH - 1]) == TANTALUM_OK);
    CHECK(memcmp(back + (DEPTH - 1) * BLOCK, data + (DEPTH - 1) * BLOCK, BLOCK) == 0);
    CHECK(back[0] == 0x55 && memcmp(back, back + 1, (DEPTH - 1) * BLOCK - 1) == 0);
    for (unsigned i = 0; i < DEPTH - 1; i++)
        CHECK(tantalum_wait(drive, ticket[i]) == TANTALUM_OK);
    CHECK(memcmp(back, data, DEPTH * BLOCK) == 0);

    CHECK(tantalum_submit_discard(drive, 300, 1, &one) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, one) == TANTALUM_OK);
    CHECK(tantalum_submit_flush(drive, &one) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, one) == TANTALUM_OK);
    CHECK(tantalum_read(drive, 300, back, 1) == TANTALUM_OK && memcmp(back, zeros, BLOCK) == 0);
}

/* Commands submitted and not waited for are bounded; a power cut ends them. */
static void bounds(void) {
    tantalum_ram_options options = TANTALUM_RAM_OPTIONS_INIT;
    static uint64_t ticket[TANTALUM_TICKETS_MAX];
    uint64_t more, before, after;
    options.blocks = 1 << 16;
    options.command_ns = 1000;
    tantalum_drive *drive = ram_drive(options);
    for (unsigned i = 0; i < TANTALUM_TICKETS_MAX; i++)
        CHECK(tantalum_submit_flush(drive, &ticket[i]) == TANTALUM_OK);
    CHECK(tantalum_submit_flush(drive, &more) == TANTALUM_EBUSY && said("4096 commands"));
    CHECK(tantalum_wait(drive, ticket[9]) == TANTALUM_OK);
    CHECK(tantalum_submit_write(drive, 0, data, 1, 0, &ticket[9]) == TANTALUM_OK);
    CHECK(tantalum_now(drive, &before) == TANTALUM_OK);
    CHECK(tantalum_power_cut(drive, NULL) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, ticket[9]) == TANTALUM_EPOWER && said("power"));
    CHECK(tantalum_write(drive, 0, data, 1, 0) == TANTALUM_EPOWER);
    CHECK(tantalum_submit_write(drive, 0, data, 1, 0, &more) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, more) == TANTALUM_EPOWER);
    CHECK(tantalum_settle(drive, NULL) == TANTALUM_EPOWER);
    CHECK(tantalum_now(drive, &after) == TANTALUM_OK && after == before);
    for (unsigned i = 0; i < TANTALUM_TICKETS_MAX; i++)
        CHECK(i == 9 || tantalum_wait(drive, ticket[i]) == TANTALUM_OK);

    /* A single command may be larger than the bound, but not beside others. */
    size_t blocks = TANTALUM_SUBMITTED_BYTES_MAX / BLOCK + 1;
    unsigned char *large = calloc(blocks, BLOCK);
    CHECK(large != NULL && tantalum_power_on(drive, NULL) == TANTALUM_OK);
    CHECK(tantalum_submit_read(drive, 0, large, blocks, &ticket[0]) == TANTALUM_EINVAL);
    blocks -= 1;
    CHECK(tantalum_submit_read(drive, 0, large, blocks, &ticket[0]) == TANTALUM_OK);
    CHECK(tantalum_submit_read(drive, 0, back, 1, &more) == TANTALUM_EBUSY);
    CHECK(tantalum_submit_flush(drive, &more) == TANTALUM_OK);
    CHECK(tantalum_wait(drive, ticket[0]) == TANTALUM_OK);
    CHECK(tantalum_submit_read(drive, 0, back, 1, &ticket[0]) == TANTALUM_OK);
    free(large);

    /* Time passes only while a call waits, and only for as long as it waits. */
    CHECK(tantalum_now(drive, &before) == TANTALUM_OK);
    CHECK(tantalum_sleep(drive, 123456) == TANTALUM_OK);
    CHECK(tantalum_now(drive, &after) == TANTALUM_OK && after == before + 123456);

    /* Closing with tickets that were not waited for, and a group that was begun. */
    tantalum_close(drive);
    options.group_extents = 4;
    options.group_bytes = 4 * BLOCK;
    drive = ram_drive(options);
    tantalum_group *group;
    CHECK(tantalum_group_begin(drive, &group) == TANTALUM_OK);
    CHECK(tantalum_group_add(group, 1, data, 1) == TANTALUM_OK);
    CHECK(tantalum_submit_write(drive, 0, data, 1, 0, &more) == TANTALUM_OK);
    tantalum_close(drive);
    CHECK(tantalum_group_submit(group, &more) == TANTALUM_EINVAL && said("closed"));
    tantalum_group_cancel(group);
}

static void power(const char *preset) {
    tantalum_drive *drive = small_drive(preset, 3);
    tantalum_caps caps = TANTALUM_CAPS_INIT;
    tantalum_recovery recovery = TANTALUM_RECOVERY_INIT;
    tantalum_stats stats;
    int durable = strcmp(preset, "durassd") == 0;
    CHECK(tantalum_get_caps(drive, &caps) == TANTALUM_OK);
    CHECK(caps.ack == (durable ? TANTALUM_ACK_POWER_SAFE : TANTALUM_ACK_VOLATILE));
    CHECK(caps.ordered == (uint64_t)durable && caps.flush == 1 && caps.thin == 0);
    refused_commands(drive, caps.blocks);
    commands(drive);
    groups(drive);
    tickets(drive);
    fill(data, 4, 9);
    CHECK(tantalum_write(drive, 500, data, 4, 0) == TANTALUM_OK);
    if (!durable)
        CHECK(tantalum_flush(drive) == TANTALUM_OK);
    tantalum_power_loss loss = TANTALUM_POWER_LOSS_INIT;
    CHECK(tantalum_power_cut(drive, &loss) == TANTALUM_OK && loss.dump_complete == 1);
    CHECK(durable == (loss.took_ns > 0) && durable == (loss.spent_j > 0));
    CHECK(loss.spent_j <= loss.budget_j && loss.missing_j == 0);
    CHECK(tantalum_power_cut(drive, &loss) == TANTALUM_OK && loss.took_ns == 0);
    CHECK(tantalum_read(drive, 500, back, 4) == TANTALUM_EPOWER);
    CHECK(tantalum_settle(drive, NULL) == TANTALUM_EPOWER);
    CHECK(tantalum_power_on(drive, &recovery) == TANTALUM_OK);
    CHECK(recovery.ready_ns > 0 && recovery.blank == 0 && recovery.salvaged == 0);
    CHECK(durable == (recovery.dump_pages > 0));
    CHECK(tantalum_settle(drive, &recovery) == TANTALUM_OK);
    CHECK(recovery.whole_ns >= recovery.ready_ns);
    CHECK(tantalum_power_on(drive, &recovery) == TANTALUM_OK);
    CHECK(tantalum_read(drive, 500, back, 4) == TANTALUM_OK);
    CHECK(memcmp(back, data, 4 * BLOCK) == 0);
    stats.size = sizeof stats;
    CHECK(tantalum_get_stats(drive, &stats) == TANTALUM_OK);
    CHECK(stats.power_cuts == 1 && stats.group.commands >= 2 && stats.fua.commands >= 17);
    CHECK(stats.read.failed >= 1 && stats.write.bytes > 0 && stats.flush.commands >= 2);
    CHECK(stats.discard.commands == 2 && stats.read.p50_ns > 0);
    CHECK(stats.read.p50_ns <= stats.read.p99_ns && stats.read.p99_ns <= stats.read.max_ns);
    CHECK(stats.flash_program_bytes >= stats.flash_host_bytes && stats.flash_program_bytes > 0);
    CHECK(durable == (stats.flash_dump_bytes > 0));
    CHECK(tantalum_salvage(drive, NULL) == TANTALUM_OK);
    tantalum_close(drive);
}

/* With too little energy in its capacitors the drive reports it, and can be salvaged. */
static void salvage(void) {
    tantalum_drive_options options = TANTALUM_DRIVE_OPTIONS_INIT;
    tantalum_drive *drive;
    tantalum_power_loss loss = TANTALUM_POWER_LOSS_INIT;
    tantalum_recovery recovery = TANTALUM_RECOVERY_INIT;
    options.preset = "durassd";
    options.overrides = "[geometry]\nblocks = 64\npages = 64\n[power]\njoules = 0.0001\n";
    CHECK(tantalum_open_drive(&options, &drive) == TANTALUM_OK);
    fill(data, 64, 5);
    CHECK(tantalum_write(drive, 0, data, 64, 0) == TANTALUM_OK);
    CHECK(tantalum_power_cut(drive, &loss) == TANTALUM_OK);
    CHECK(loss.dump_complete == 0 && loss.missing_j > 0);
    CHECK(tantalum_power_on(drive, &recovery) == TANTALUM_EDUMP && said("salvage"));
    CHECK(tantalum_read(drive, 0, back, 1) == TANTALUM_EPOWER);
    CHECK(tantalum_salvage(drive, &recovery) == TANTALUM_OK && recovery.salvaged == 1);
    CHECK(tantalum_write(drive, 0, data, 1, 0) == TANTALUM_OK);
    CHECK(tantalum_read(drive, 0, back, 1) == TANTALUM_OK && memcmp(back, data, BLOCK) == 0);
    tantalum_close(drive);
}

/* A RAM drive keeps exactly what it promised. */
static void ram(void) {
    tantalum_ram_options options = TANTALUM_RAM_OPTIONS_INIT;
    tantalum_recovery recovery = TANTALUM_RECOVERY_INIT;
    tantalum_stats stats;
    int lost = 0;
    options.blocks = 1024;
    options.command_ns = 2000;
    options.start_ns = 5000;
    options.group_extents = 8;
    options.group_bytes = 8 * BLOCK;
    fill(data, 8, 6);
    for (options.seed = 0; options.seed < 20; options.seed++) {
        tantalum_drive *drive = ram_drive(options);
        CHECK(tantalum_write(drive, 10, data, 1, 0) == TANTALUM_OK);
        CHECK(tantalum_flush(drive) == TANTALUM_OK);
        tantalum_extent two[2] = {{20, data + BLOCK, 1}, {30, data + 2 * BLOCK, 1}};
        CHECK(tantalum_write_group(drive, two, 2) == TANTALUM_OK);
        CHECK(tantalum_write(drive, 40, data + 3 * BLOCK, 1, 0) == TANTALUM_OK);
        CHECK(tantalum_power_cut(drive, NULL) == TANTALUM_OK);
        CHECK(tantalum_salvage(drive, NULL) == TANTALUM_ENOTSUP);
        CHECK(tantalum_power_on(drive, &recovery) == TANTALUM_OK && recovery.ready_ns == 5000);
        CHECK(tantalum_read(drive, 10, back, 1) == TANTALUM_OK && !memcmp(back, data, BLOCK));
        CHECK(tantalum_read(drive, 20, back, 1) == TANTALUM_OK);
        CHECK(memcmp(back, data + BLOCK, BLOCK) == 0);
        CHECK(tantalum_read(drive, 30, back, 1) == TANTALUM_OK);
        CHECK(memcmp(back, data + 2 * BLOCK, BLOCK) == 0);
        CHECK(tantalum_read(drive, 40, back, 1) == TANTALUM_OK);
        lost += memcmp(back, data + 3 * BLOCK, BLOCK) != 0;
        stats.size = sizeof stats;
        CHECK(tantalum_get_stats(drive, &stats) == TANTALUM_OK && stats.power_cuts == 1);
        CHECK(stats.flash_program_bytes == 0 && stats.write.p50_ns == 2000);
        tantalum_close(drive);
    }
    CHECK(lost > 0 && lost < 20);
    options.group_extents = 0;
    tantalum_drive *drive = ram_drive(options);
    tantalum_group *group;
    tantalum_extent one = {1, data, 1};
    CHECK(tantalum_write_group(drive, &one, 1) == TANTALUM_ENOTSUP);
    CHECK(tantalum_group_begin(drive, &group) == TANTALUM_ENOTSUP && group == NULL);
    tantalum_close(drive);
}

/* The same calls with the same seed give the same run, however the threads are scheduled. */
static void repeatable(void) {
    tantalum_stats stats[2];
    memset(stats, 0, sizeof stats);
    for (int pass = 0; pass < 2; pass++) {
        tantalum_drive *drive = small_drive("volatile", 11);
        uint64_t ticket[32], now;
        for (unsigned round = 0; round < 20; round++) {
            for (unsigned i = 0; i < 32; i++)
                CHECK(tantalum_submit_write(drive, (i * 7919 + round * 104729) % 100000, data,
                                            1 + i % 4, i % 5 == 0, &ticket[i]) == TANTALUM_OK);
            for (unsigned i = 0; i < 32; i++)
                CHECK(tantalum_wait(drive, ticket[(i * 13) % 32]) == TANTALUM_OK);
            CHECK(tantalum_now(drive, &now) == TANTALUM_OK);
            if (round % 7 == 6) {
                CHECK(tantalum_power_cut(drive, NULL) == TANTALUM_OK);
                CHECK(tantalum_power_on(drive, NULL) == TANTALUM_OK);
            }
        }
        stats[pass].size = sizeof stats[pass];
        CHECK(tantalum_get_stats(drive, &stats[pass]) == TANTALUM_OK);
        tantalum_close(drive);
    }
    CHECK(stats[0].now_ns > 0 && memcmp(&stats[0], &stats[1], sizeof stats[0]) == 0);
}

int main(void) {
    codes();
    last_error();
    refused_openings();
    other_sizes();
    starts();
    bounds();
    power("durassd");
    power("volatile");
    salvage();
    ram();
    repeatable();
    puts("all as documented");
    return 0;
}
