/*
 * Tantalum: simulated drives whose power can be cut.
 *
 * Units. Addresses and lengths are in blocks of tantalum_caps.block_size bytes. Times are
 * nanoseconds of virtual time: they say what the drive would take, not what this machine took.
 *
 * Time. Each handle has a clock of its own. It moves only while a call waits for the drive:
 * every function that says "waits" below. It stands still between calls and while commands are
 * only submitted. A program that uses a handle from one thread, and makes the same calls with the
 * same seed, sees the same run each time: same data, same times, same survivors of a power cut.
 *
 * Threads. All functions may be called by any number of threads at once, also with the same
 * handle, except tantalum_close (no other call may use the handle then or later) and the
 * tantalum_group_* functions (one group is for one thread at a time). Calls of several threads
 * are served side by side: each waits for its own command, and time moves while any of them
 * does. In which order commands of several threads begin is up to the machine's scheduler, so
 * such a run is not repeatable, and how many of them overlap in virtual time is not either. For
 * a queue depth that can be relied on, submit commands from one thread.
 *
 * Failures. Functions return TANTALUM_OK (0) or a negative code. tantalum_last_error says more.
 * A null handle, a null pointer where something is to be read or written, or a range beyond the
 * end of the drive is TANTALUM_EINVAL. A call that fails with EINVAL, ENOTSUP, ETOOLARGE,
 * EOVERLAP, ENOMEM, EBUSY or ENOSPC has changed nothing. After EPOWER, EFAILED, EMEDIUM,
 * EPOISONED or EREADONLY of a write it is not known how much of it was carried out; a group was
 * carried out as a whole or not at all.
 *
 * Memory that is missing for the caller's data is TANTALUM_ENOMEM; if it is missing for the
 * simulation itself, the process ends.
 *
 * A handle does not survive fork() in the child.
 */
#ifndef TANTALUM_H
#define TANTALUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The binary interface that this header describes; the shared library is libtantalum.so.1. */
#define TANTALUM_ABI_VERSION 1

/* That of the library in use; compare it with TANTALUM_ABI_VERSION. */
uint32_t tantalum_abi_version(void);

/* The library's version, as text. Never null; valid for ever. */
const char *tantalum_version(void);

/* ---- Codes ---------------------------------------------------------------------------- */

#define TANTALUM_OK 0
#define TANTALUM_EINVAL (-1)     /* an argument or a command is invalid */
#define TANTALUM_EPOWER (-2)     /* no power, or it went before the command completed */
#define TANTALUM_EMEDIUM (-3)    /* data that were written cannot be read back */
#define TANTALUM_EFAILED (-4)    /* the drive failed the command */
#define TANTALUM_EPOISONED (-5)  /* a durability step failed: no writes until a restart */
#define TANTALUM_ENOSPC (-6)     /* no space for new data; discard some */
#define TANTALUM_EREADONLY (-7)  /* the drive is worn out: it can only be read, for ever */
#define TANTALUM_ENOTSUP (-8)    /* the drive does not do that */
#define TANTALUM_ETOOLARGE (-9)  /* the group is larger than the limit, which the message says */
#define TANTALUM_EOVERLAP (-10)  /* two extents of the group share a block */
#define TANTALUM_EDESIGN (-11)   /* there is no such design, or it cannot be built */
#define TANTALUM_ENOMEM (-12)    /* not enough memory in this process */
#define TANTALUM_EBUSY (-13)     /* too much is submitted: wait for some of it first */
#define TANTALUM_ETICKET (-14)   /* no such ticket, or it was waited for already */
#define TANTALUM_EDUMP (-15)     /* the emergency dump is not complete: tantalum_salvage */
#define TANTALUM_EINTERNAL (-16) /* a defect of the library; the handle can only be closed */

/* What a code means. Never null; valid for ever. */
const char *tantalum_strerror(int code);

/*
 * What the last call that failed in this thread had to say, whichever handle it was for (there
 * may be none yet). Calls that succeed leave it as it is. Copies at most len - 1 bytes of UTF-8
 * and a zero to buf, and returns the length of the whole message, as snprintf does. buf may be
 * null if len is 0.
 */
size_t tantalum_last_error(char *buf, size_t len);

/* ---- Opening and closing ----------------------------------------------------------------- */

/* An open drive. */
typedef struct tantalum_drive tantalum_drive;

/*
 * Structures begin with their size: set it to sizeof before each call (the macros do). What is
 * behind that size is never touched, so that later versions can append fields. Where the library
 * fills one in, size becomes how many bytes it has filled; the rest is zero.
 */

typedef struct tantalum_drive_options {
    uint64_t size;
    uint64_t seed;         /* of all that is random in the run */
    const char *preset;    /* name of a preset ("durassd", "volatile", ...), or null */
    const char *design;    /* a design as TOML, or null; one of the two */
    const char *overrides; /* TOML with what is to be different, or null */
} tantalum_drive_options;

#define TANTALUM_DRIVE_OPTIONS_INIT {sizeof(tantalum_drive_options), 0, NULL, NULL, NULL}

/*
 * Opens a simulated SSD, blank and with its power on; it lives in this process's memory, and as
 * long as the handle. Waits. The presets have up to 480 GB: memory is taken as blocks are
 * written. Strings are only read during the call. On failure *drive is null.
 * TANTALUM_EDESIGN: the message says what would be right.
 */
int tantalum_open_drive(const tantalum_drive_options *options, tantalum_drive **drive);

#define TANTALUM_ACK_VOLATILE 0   /* a completed write may be lost until a flush returns */
#define TANTALUM_ACK_POWER_SAFE 1 /* a completed write survives, in memory that is kept */
#define TANTALUM_ACK_ON_MEDIA 2   /* a completed write survives, on the medium */

typedef struct tantalum_ram_options {
    uint64_t size;
    uint64_t seed;          /* decides what a power cut does to what was not promised */
    uint64_t blocks;        /* 1 to 16777216 */
    uint64_t block_size;    /* a power of two, 512 to 65536; 0: 4096 */
    uint64_t ack;           /* TANTALUM_ACK_... */
    uint64_t flush_ignored; /* not 0: flushes complete and do nothing */
    uint64_t ordered;       /* not 0: what survives a cut is a prefix of what arrived */
    uint64_t atomic_unit;   /* bytes of a write that are all or nothing; 0: a block */
    uint64_t group_extents; /* extents in an atomic group, at most; 0: groups are refused */
    uint64_t group_bytes;   /* bytes in an atomic group, at most */
    uint64_t command_ns;    /* time of each read, write, group and discard; an hour at most */
    uint64_t jitter_ns;     /* each takes up to so much longer, at random */
    uint64_t flush_ns;      /* time of each flush */
    uint64_t start_ns;      /* time from power to the first command */
} tantalum_ram_options;

#define TANTALUM_RAM_OPTIONS_INIT \
    {sizeof(tantalum_ram_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/*
 * Opens a drive in RAM that keeps what the options promise, and nothing more: at a power cut it
 * does, by its seed, anything that it did not promise. Full of zeros, its power on. Waits. On
 * failure *drive is null.
 */
int tantalum_open_ram(const tantalum_ram_options *options, tantalum_drive **drive);

/*
 * Closes a drive and frees all that it holds; what is submitted and not complete is gone. Groups
 * that were begun stay, and can only be cancelled. drive may be null.
 */
void tantalum_close(tantalum_drive *drive);

typedef struct tantalum_caps {
    uint64_t size;
    uint64_t block_size;    /* bytes in a block */
    uint64_t blocks;
    uint64_t ack;           /* what a completed write means: TANTALUM_ACK_... */
    uint64_t flush;         /* 1: a flush makes durable what completed before; 0: it does not */
    uint64_t ordered;       /* 1: what survives a cut is a prefix of what arrived */
    uint64_t atomic_unit;   /* bytes of one write that are all or nothing */
    uint64_t group_extents; /* extents in an atomic group, at most; 0: groups are refused */
    uint64_t group_bytes;   /* bytes in an atomic group, at most */
    uint64_t thin;          /* 1: new data may be refused with TANTALUM_ENOSPC */
} tantalum_caps;

#define TANTALUM_CAPS_INIT {sizeof(tantalum_caps), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* What the drive promises; the same as long as it is open. */
int tantalum_get_caps(const tantalum_drive *drive, tantalum_caps *caps);

/* ---- Commands ------------------------------------------------------------------------------ */

/* Flag of a write: durable before it completes (forced unit access), whatever caps.ack says. */
#define TANTALUM_FUA 1u

/*
 * Reads blocks. It sees every write that had completed, whole; of a group that is on its way, all
 * or nothing. Blocks never written, or discarded, are zeros. Waits. buf is written only if it
 * succeeds.
 */
int tantalum_read(const tantalum_drive *drive, uint64_t block, void *buf, uint64_t blocks);

/* Writes blocks; flags: 0 or TANTALUM_FUA. What survives then: caps.ack. Waits. */
int tantalum_write(const tantalum_drive *drive, uint64_t block, const void *data,
                   uint64_t blocks, uint32_t flags);

/* An extent of an atomic group. */
typedef struct tantalum_extent {
    uint64_t block;   /* the first block */
    const void *data; /* blocks times the block size */
    uint64_t blocks;
} tantalum_extent;

/*
 * Writes all extents, anywhere on the drive, or none: a reader sees all of them or none, and so
 * does whoever reads after a power cut. It survives when this returns, whatever caps.ack says.
 * Waits. Refused without any change: TANTALUM_ENOTSUP, TANTALUM_ETOOLARGE, TANTALUM_EOVERLAP.
 */
int tantalum_write_group(const tantalum_drive *drive, const tantalum_extent *group,
                         size_t count);

/* Makes durable all that completed before it was called, if caps.flush says so. Waits. */
int tantalum_flush(const tantalum_drive *drive);

/*
 * Gives blocks back: they are zeros from now on, durable with the next flush, or at once if
 * caps.ack says so for writes. Waits.
 */
int tantalum_discard(const tantalum_drive *drive, uint64_t block, uint64_t blocks);

/* ---- Commands, submitted ------------------------------------------------------------------ */

/*
 * A submitted command gets a ticket, which is never 0 and never given twice, and the call returns
 * at once. Commands begin in the order in which they were submitted, and go on whenever time
 * moves; commands in flight that overlap have no order. Data are copied at submission. What
 * the drive is known to refuse is refused here, without a ticket.
 *
 * Each ticket is to be waited for, once; its result is kept until then. Up to
 * TANTALUM_TICKETS_MAX tickets, and TANTALUM_SUBMITTED_BYTES_MAX bytes (or one command), are
 * taken; beyond that: TANTALUM_EBUSY.
 *
 * What was submitted cannot be taken back. A group can be given up before, see below.
 */
#define TANTALUM_TICKETS_MAX 4096
#define TANTALUM_SUBMITTED_BYTES_MAX 268435456

/* buf has to stay until the wait for the ticket has returned, and is written by that wait. */
int tantalum_submit_read(const tantalum_drive *drive, uint64_t block, void *buf,
                         uint64_t blocks, uint64_t *ticket);
int tantalum_submit_write(const tantalum_drive *drive, uint64_t block, const void *data,
                          uint64_t blocks, uint32_t flags, uint64_t *ticket);
int tantalum_submit_group(const tantalum_drive *drive, const tantalum_extent *group,
                          size_t count, uint64_t *ticket);
int tantalum_submit_flush(const tantalum_drive *drive, uint64_t *ticket);
int tantalum_submit_discard(const tantalum_drive *drive, uint64_t block, uint64_t blocks,
                            uint64_t *ticket);

/* Waits for a submitted command; returns what it came to. */
int tantalum_wait(const tantalum_drive *drive, uint64_t ticket);

/*
 * Waits for the first of count submitted commands that is complete; returns what it came to, and
 * its place among the tickets in *which. If the wait itself fails (TANTALUM_ETICKET: one of the
 * tickets is unknown, or another thread got it), *which is SIZE_MAX, and no ticket was used up.
 */
int tantalum_wait_any(const tantalum_drive *drive, const uint64_t *tickets, size_t count,
                      size_t *which);

/* ---- A group, piece by piece ----------------------------------------------------------------- */

/* A group that is being put together. The drive knows nothing of it before it is submitted. */
typedef struct tantalum_group tantalum_group;

/* Begins a group. On failure *group is null. */
int tantalum_group_begin(const tantalum_drive *drive, tantalum_group **group);

/* Adds an extent; its data are copied. If it fails the group is as before. */
int tantalum_group_add(tantalum_group *group, uint64_t block, const void *data,
                       uint64_t blocks);

/* Gives a group up: nothing of it was written, nor ever will be. group may be null. */
void tantalum_group_cancel(tantalum_group *group);

/*
 * Submits a group, like tantalum_submit_group. If it succeeds the group is gone and cannot be
 * cancelled any more; if it fails the group is as before.
 */
int tantalum_group_submit(tantalum_group *group, uint64_t *ticket);

/* ---- Power and time --------------------------------------------------------------------------- */

typedef struct tantalum_power_loss {
    uint64_t size;
    uint64_t took_ns;       /* from the cut until the drive was off */
    uint64_t dump_complete; /* 1: the emergency dump was complete, or none was needed */
    double budget_j;        /* joules in the capacitors; these three are 0 without any */
    double spent_j;         /* joules drawn */
    double missing_j;       /* joules that were missing */
} tantalum_power_loss;

#define TANTALUM_POWER_LOSS_INIT {sizeof(tantalum_power_loss), 0, 0, 0, 0, 0}

/*
 * Cuts the power at this instant, and waits until the drive has done what its capacitors allow
 * and is off. Every command that is not complete, and every one until the power is back, ends
 * with TANTALUM_EPOWER. Harmless if there is no power. loss may be null.
 */
int tantalum_power_cut(const tantalum_drive *drive, tantalum_power_loss *loss);

typedef struct tantalum_recovery {
    uint64_t size;
    uint64_t ready_ns; /* from power to the first command */
    uint64_t whole_ns; /* from power until the restart was finished to the end; 0: it is not yet */
    uint64_t blank;    /* 1: nothing had ever been written */
    uint64_t salvaged; /* 1: without a dump; what was acknowledged last may be lost */
    uint64_t find_ns;  /* looking for the emergency dump; from here on 0 for a RAM drive */
    uint64_t dump_ns;  /* reading it */
    uint64_t scan_ns;  /* reading the first pages of all erase units */
    uint64_t map_ns;   /* reading the map log */
    uint64_t dump_pages;   /* buffered pages that were in the dump */
    uint64_t dump_entries; /* changed map entries that were in the dump */
    uint64_t map_pages;    /* map pages read */
    uint64_t map_deltas;   /* deltas of the map log replayed */
} tantalum_recovery;

#define TANTALUM_RECOVERY_INIT {sizeof(tantalum_recovery), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/*
 * Restores the power, and waits until the drive takes commands. If it has power nothing happens,
 * and recovery is that of the last start. recovery may be null. TANTALUM_EDUMP: the drive
 * does not start, since its dump is not complete; TANTALUM_EPOWER: the power was cut meanwhile.
 */
int tantalum_power_on(const tantalum_drive *drive, tantalum_recovery *recovery);

/*
 * The same, without the dump if there has to be: all that is on flash is looked for page by
 * page, what only the dump had is lost. TANTALUM_ENOTSUP for a RAM drive.
 */
int tantalum_salvage(const tantalum_drive *drive, tantalum_recovery *recovery);

/*
 * Waits until the last start is finished to the end: drives may take commands before.
 * recovery may be null. TANTALUM_EPOWER: there is no power.
 */
int tantalum_settle(const tantalum_drive *drive, tantalum_recovery *recovery);

/* The longest pause: a day. */
#define TANTALUM_SLEEP_MAX_NS 86400000000000

/* Lets time pass; what is submitted goes on, and so does what the drive does by itself. Waits. */
int tantalum_sleep(const tantalum_drive *drive, uint64_t ns);

/* The time since the drive was made. Does not wait. */
int tantalum_now(const tantalum_drive *drive, uint64_t *ns);

/* ---- Statistics --------------------------------------------------------------------------------- */

/* One kind of command. Latencies to three digits, of those that succeeded. */
typedef struct tantalum_command_stats {
    uint64_t commands; /* that succeeded */
    uint64_t failed;
    uint64_t bytes;    /* that the successful ones moved or discarded */
    uint64_t p50_ns;
    uint64_t p99_ns;
    uint64_t max_ns;
} tantalum_command_stats;

/* Since the drive was opened, over all power cycles. Of a RAM drive all flash_* are 0. */
typedef struct tantalum_stats {
    uint64_t size;
    uint64_t now_ns;
    tantalum_command_stats read;
    tantalum_command_stats write;   /* without those with TANTALUM_FUA */
    tantalum_command_stats fua;
    tantalum_command_stats group;
    tantalum_command_stats flush;
    tantalum_command_stats discard;
    uint64_t power_cuts;
    uint64_t flash_program_bytes; /* bytes of pages programmed, for whatever reason */
    uint64_t flash_host_bytes;    /* of these, with data of the host */
    uint64_t flash_map_bytes;     /* of these, with the map */
    uint64_t flash_dump_bytes;    /* of these, in emergency dumps */
    uint64_t flash_moved_bytes;   /* bytes of sectors moved by the collector */
    uint64_t flash_reads;         /* operations */
    uint64_t flash_erases;        /* operations */
    uint64_t flash_bad_units;     /* erase units that went bad */
} tantalum_stats;

/* Does not wait. Set stats->size = sizeof *stats before. */
int tantalum_get_stats(const tantalum_drive *drive, tantalum_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
