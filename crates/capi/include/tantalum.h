/*
 * Tantalum: simulated drives whose power can be cut; flash logs and flash caches on files (at the
 * end).
 *
 * Units. Of drives, addresses and lengths are in blocks of tantalum_caps.block_size bytes, and times
 * are nanoseconds of virtual time: the time of the modelled drive, not of this machine. Of logs and
 * caches, lengths are in bytes or pages, and times are nanoseconds of real time.
 *
 * Time. Each handle of a drive has a clock of its own. It moves only during calls of functions marked
 * "Waits" below. It stands still between calls and while commands are only submitted. A program that
 * uses a handle from one thread, and makes the same calls with the same seed, sees the same run each
 * time: the same data, the same times, the same surviving writes after a power cut.
 *
 * Threads. All functions of drives may be called by any number of threads at once, also with the same
 * handle, except tantalum_close (no other call may use the handle then or later) and the
 * tantalum_group_* functions (one group is for one thread at a time). Logs, caches and directories
 * name their own exceptions below. Calls of several threads with one drive are served in parallel:
 * each waits for its own command, and time moves while any of them waits. The machine's scheduler
 * decides in which order commands of several threads begin, and how many overlap in virtual time;
 * such a run is not repeatable. For a reliable queue depth, submit commands from one thread.
 *
 * Failures. Functions return TANTALUM_OK (0) or a negative code. tantalum_last_error says more. A
 * null handle, a null pointer where memory is read or written, or a range beyond the end of the drive
 * is TANTALUM_EINVAL. A call that fails with EINVAL, ENOTSUP, ETOOLARGE, EOVERLAP, ENOMEM, EBUSY or
 * ENOSPC has changed nothing, but for what logs and caches say below. After EPOWER, EFAILED, EMEDIUM,
 * EPOISONED or EREADONLY, any part of a write may have been carried out; a group was carried out
 * completely or not at all.
 *
 * If there is no memory for the caller's data of a drive, the call fails with TANTALUM_ENOMEM. If
 * there is no memory for the simulation itself, for a log or for a cache, the process ends.
 *
 * In the child of fork() a handle must not be used, closed or freed.
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

/* The version of the library in use; compare it with TANTALUM_ABI_VERSION. */
uint32_t tantalum_abi_version(void);

/* The library's version, as text. Never null; valid for ever. */
const char *tantalum_version(void);

/* ---- Codes ---------------------------------------------------------------------------- */

#define TANTALUM_OK 0
#define TANTALUM_EINVAL (-1)     /* an argument or a command is invalid */
#define TANTALUM_EPOWER (-2)     /* no power, or it was lost before the command completed */
#define TANTALUM_EMEDIUM (-3)    /* data that was written cannot be read back */
#define TANTALUM_EFAILED (-4)    /* the drive failed the command */
#define TANTALUM_EPOISONED (-5)  /* a durability step failed: no writes until a restart */
#define TANTALUM_ENOSPC (-6)     /* no space for new data; discard some */
#define TANTALUM_EREADONLY (-7)  /* the drive is worn out: it is permanently read-only */
#define TANTALUM_ENOTSUP (-8)    /* the drive does not do that */
#define TANTALUM_ETOOLARGE (-9)  /* the group is larger than the limit, which the message names */
#define TANTALUM_EOVERLAP (-10)  /* two extents of the group share a block */
#define TANTALUM_EDESIGN (-11)   /* there is no such design, or it cannot be built */
#define TANTALUM_ENOMEM (-12)    /* not enough memory in this process */
#define TANTALUM_EBUSY (-13)     /* too much is submitted: wait for some commands first */
#define TANTALUM_ETICKET (-14)   /* no such ticket, or it was waited for already */
#define TANTALUM_EDUMP (-15)     /* the emergency dump is not complete: tantalum_salvage */
#define TANTALUM_ELOG (-17)      /* a log cannot be made or opened, or takes nothing any more */
#define TANTALUM_ECACHE (-18)    /* a cache cannot be made or opened, or takes no changes any more */
#define TANTALUM_EINTERNAL (-16) /* a defect of the library; the handle can only be closed */

/* What a code means. Never null; valid for ever. */
const char *tantalum_strerror(int code);

/*
 * The message of the last call that failed in this thread, for any handle; empty if none has
 * failed. Calls that succeed do not change it. Copies at most len - 1 bytes of UTF-8 and a zero to
 * buf, and returns the length of the whole message, as snprintf does. buf may be null if len is 0.
 */
size_t tantalum_last_error(char *buf, size_t len);

/* ---- Opening and closing ----------------------------------------------------------------- */

/* An open drive. */
typedef struct tantalum_drive tantalum_drive;

/*
 * Most structures begin with a field `size`: set it to sizeof before each call (the macros do). Bytes
 * beyond it are never touched, so later versions can append fields. An option that this library does
 * not know must be 0, or the call fails with EINVAL. When the library fills a structure in, size
 * becomes the number of bytes filled; the rest is zero. Structures without `size` never grow.
 */

typedef struct tantalum_drive_options {
    uint64_t size;
    uint64_t seed;         /* of all randomness in the run */
    const char *preset;    /* name of a preset ("durassd", "volatile", ...), or null */
    const char *design;    /* a design as TOML, or null; one of the two */
    const char *overrides; /* TOML with changes to the design, or null */
} tantalum_drive_options;

#define TANTALUM_DRIVE_OPTIONS_INIT {sizeof(tantalum_drive_options), 0, NULL, NULL, NULL}

/*
 * Opens a simulated SSD, blank and with its power on. Its content is in this process's memory and
 * ends with the handle. Waits. The presets have up to 480 GB; only written blocks take memory.
 * Strings are only read during the call. On failure *drive is null. TANTALUM_EDESIGN: the message
 * says what would be valid.
 */
int tantalum_open_drive(const tantalum_drive_options *options, tantalum_drive **drive);

#define TANTALUM_ACK_VOLATILE 0   /* a completed write may be lost until a flush returns */
#define TANTALUM_ACK_POWER_SAFE 1 /* a completed write survives, in protected memory */
#define TANTALUM_ACK_ON_MEDIA 2   /* a completed write survives, on the medium */

typedef struct tantalum_ram_options {
    uint64_t size;
    uint64_t seed;          /* decides which unpromised data a power cut loses */
    uint64_t blocks;        /* 1 to 16777216 */
    uint64_t block_size;    /* a power of two, 512 to 65536; 0: 4096 */
    uint64_t ack;           /* TANTALUM_ACK_... */
    uint64_t flush_ignored; /* not 0: flushes complete and do nothing */
    uint64_t ordered;       /* not 0: the writes that survive a cut are a prefix of all writes */
    uint64_t atomic_unit;   /* bytes of a write that are all or nothing; 0: a block */
    uint64_t group_extents; /* extents in an atomic group, at most; 0: groups are refused */
    uint64_t group_bytes;   /* bytes in an atomic group, at most */
    uint64_t command_ns;    /* time of each read, write, group and discard; an hour at most */
    uint64_t jitter_ns;     /* each takes up to this much longer, at random */
    uint64_t flush_ns;      /* time of each flush */
    uint64_t start_ns;      /* time from power to the first command */
} tantalum_ram_options;

#define TANTALUM_RAM_OPTIONS_INIT \
    {sizeof(tantalum_ram_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/*
 * Opens a drive in RAM that keeps exactly what the options promise: at a power cut, its seed
 * decides what happens to all other data. It is full of zeros, with its power on. Waits. On failure
 * *drive is null.
 */
int tantalum_open_ram(const tantalum_ram_options *options, tantalum_drive **drive);

/*
 * Closes a drive and frees its memory; commands that are submitted and not complete are dropped.
 * Groups that were begun stay, and can only be cancelled. drive may be null.
 */
void tantalum_close(tantalum_drive *drive);

typedef struct tantalum_caps {
    uint64_t size;
    uint64_t block_size;    /* bytes in a block */
    uint64_t blocks;
    uint64_t ack;           /* what a completed write means: TANTALUM_ACK_... */
    uint64_t flush;         /* 1: a flush makes completed writes durable; 0: it does not */
    uint64_t ordered;       /* 1: the writes that survive a cut are a prefix of all writes */
    uint64_t atomic_unit;   /* bytes of one write that are all or nothing */
    uint64_t group_extents; /* extents in an atomic group, at most; 0: groups are refused */
    uint64_t group_bytes;   /* bytes in an atomic group, at most */
    uint64_t thin;          /* 1: new data may be refused with TANTALUM_ENOSPC */
} tantalum_caps;

#define TANTALUM_CAPS_INIT {sizeof(tantalum_caps), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* What the drive promises; constant while it is open. */
int tantalum_get_caps(const tantalum_drive *drive, tantalum_caps *caps);

/* ---- Commands ------------------------------------------------------------------------------ */

/* Flag of a write: durable before it completes (forced unit access), whatever caps.ack says. */
#define TANTALUM_FUA 1u

/*
 * Reads blocks. It sees every completed write; of a group in flight, all or nothing. Blocks never
 * written, or discarded, are zeros. Waits. buf is written only on success.
 */
int tantalum_read(const tantalum_drive *drive, uint64_t block, void *buf, uint64_t blocks);

/* Writes blocks; flags: 0 or TANTALUM_FUA. caps.ack says when the write survives. Waits. */
int tantalum_write(const tantalum_drive *drive, uint64_t block, const void *data,
                   uint64_t blocks, uint32_t flags);

/* An extent of an atomic group. */
typedef struct tantalum_extent {
    uint64_t block;   /* the first block */
    const void *data; /* blocks times the block size */
    uint64_t blocks;
} tantalum_extent;

/*
 * Writes all extents, anywhere on the drive, or none: every reader sees all of them or none, also
 * after a power cut. The group survives when this returns, whatever caps.ack says. Waits. Refused
 * without any change: TANTALUM_ENOTSUP, TANTALUM_ETOOLARGE, TANTALUM_EOVERLAP.
 */
int tantalum_write_group(const tantalum_drive *drive, const tantalum_extent *group,
                         size_t count);

/* If caps.flush is 1, makes durable all commands that completed before the call. Waits. */
int tantalum_flush(const tantalum_drive *drive);

/*
 * Discards blocks: they read as zeros from now on. This is durable with the next flush, or at once
 * if completed writes are (caps.ack). Waits.
 */
int tantalum_discard(const tantalum_drive *drive, uint64_t block, uint64_t blocks);

/* ---- Commands, submitted ------------------------------------------------------------------ */

/*
 * A submitted command gets a ticket, which is never 0 and never reused, and the call returns at
 * once. Commands begin in the order of submission, and proceed whenever time moves; commands in
 * flight on overlapping blocks have no order. Data is copied at submission. A command that the
 * drive is certain to refuse is refused here, without a ticket.
 *
 * Wait for each ticket once; its result is kept until then. At most TANTALUM_TICKETS_MAX tickets,
 * and TANTALUM_SUBMITTED_BYTES_MAX bytes (or one command), may be submitted and not waited for;
 * beyond that: TANTALUM_EBUSY.
 *
 * A submitted command cannot be cancelled. A group can be cancelled before it is submitted, see
 * below.
 */
#define TANTALUM_TICKETS_MAX 4096
#define TANTALUM_SUBMITTED_BYTES_MAX 268435456

/* buf must stay valid until the wait for the ticket has returned; that wait writes it. */
int tantalum_submit_read(const tantalum_drive *drive, uint64_t block, void *buf,
                         uint64_t blocks, uint64_t *ticket);
int tantalum_submit_write(const tantalum_drive *drive, uint64_t block, const void *data,
                          uint64_t blocks, uint32_t flags, uint64_t *ticket);
int tantalum_submit_group(const tantalum_drive *drive, const tantalum_extent *group,
                          size_t count, uint64_t *ticket);
int tantalum_submit_flush(const tantalum_drive *drive, uint64_t *ticket);
int tantalum_submit_discard(const tantalum_drive *drive, uint64_t block, uint64_t blocks,
                            uint64_t *ticket);

/* Waits for a submitted command; returns its code. */
int tantalum_wait(const tantalum_drive *drive, uint64_t ticket);

/*
 * Waits until one of count submitted commands is complete; returns its code, and its index among
 * the tickets in *which. If the wait itself fails (TANTALUM_ETICKET: one of the tickets is unknown,
 * or another thread got it), *which is SIZE_MAX, and no ticket is used up.
 */
int tantalum_wait_any(const tantalum_drive *drive, const uint64_t *tickets, size_t count,
                      size_t *which);

/* ---- A group, piece by piece ----------------------------------------------------------------- */

/* A group that is being built. The drive does not know it before it is submitted. */
typedef struct tantalum_group tantalum_group;

/* Begins a group. On failure *group is null. */
int tantalum_group_begin(const tantalum_drive *drive, tantalum_group **group);

/* Adds an extent; its data is copied. On failure the group is unchanged. */
int tantalum_group_add(tantalum_group *group, uint64_t block, const void *data,
                       uint64_t blocks);

/* Cancels a group: nothing of it is ever written. group may be null. */
void tantalum_group_cancel(tantalum_group *group);

/*
 * Submits a group, like tantalum_submit_group. On success the group is freed, and can no longer be
 * cancelled; on failure it is unchanged.
 */
int tantalum_group_submit(tantalum_group *group, uint64_t *ticket);

/* ---- Power and time ------------------------------------------------------------------------- */

typedef struct tantalum_power_loss {
    uint64_t size;
    uint64_t took_ns;       /* from the cut until the drive was off */
    uint64_t dump_complete; /* 1: the emergency dump was complete, or none was needed */
    double budget_j;        /* joules in the capacitors; without capacitors these three are 0 */
    double spent_j;         /* joules drawn */
    double missing_j;       /* joules missing */
} tantalum_power_loss;

#define TANTALUM_POWER_LOSS_INIT {sizeof(tantalum_power_loss), 0, 0, 0, 0, 0}

/*
 * Cuts the power at this instant, and waits until the drive is off, after its work on capacitors.
 * Commands that are not complete, and all commands until the power is back, fail with
 * TANTALUM_EPOWER. Does nothing if there is no power. loss may be null.
 */
int tantalum_power_cut(const tantalum_drive *drive, tantalum_power_loss *loss);

typedef struct tantalum_recovery {
    uint64_t size;
    uint64_t ready_ns; /* from power to the first command */
    uint64_t whole_ns; /* from power until the restart was complete; 0: not yet */
    uint64_t blank;    /* 1: nothing had ever been written */
    uint64_t salvaged; /* 1: without a dump; the last acknowledged writes may be lost */
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
 * Restores the power, and waits until the drive takes commands. If the drive has power, nothing
 * happens, and recovery is that of the last start. recovery may be null. TANTALUM_EDUMP: the drive
 * does not start because its dump is not complete; TANTALUM_EPOWER: the power was cut meanwhile.
 */
int tantalum_power_on(const tantalum_drive *drive, tantalum_recovery *recovery);

/*
 * The same, if necessary without the dump: the data on flash is found page by page, and data that
 * only the dump had is lost. TANTALUM_ENOTSUP for a RAM drive.
 */
int tantalum_salvage(const tantalum_drive *drive, tantalum_recovery *recovery);

/*
 * Waits until the last start is complete; a drive may take commands before. recovery may be null.
 * A RAM drive that was never cut had no start: zeros. TANTALUM_EPOWER: there is no power;
 * TANTALUM_EDUMP, TANTALUM_EFAILED: the last start failed.
 */
int tantalum_settle(const tantalum_drive *drive, tantalum_recovery *recovery);

/* The longest pause: a day. */
#define TANTALUM_SLEEP_MAX_NS 86400000000000

/* Lets time pass: submitted commands and the drive's background work proceed. Waits. */
int tantalum_sleep(const tantalum_drive *drive, uint64_t ns);

/* The time since the drive was opened. Does not wait. */
int tantalum_now(const tantalum_drive *drive, uint64_t *ns);

/* ---- Statistics ----------------------------------------------------------------------------- */

/* One kind of command. Latencies are to three digits, of commands that succeeded. */
typedef struct tantalum_command_stats {
    uint64_t commands; /* that succeeded */
    uint64_t failed;
    uint64_t bytes;    /* that the successful ones moved or discarded */
    uint64_t p50_ns;
    uint64_t p99_ns;
    uint64_t max_ns;
} tantalum_command_stats;

/* Counts since the drive was opened, over all power cycles. For a RAM drive all flash_* are 0. */
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
    uint64_t flash_program_bytes; /* bytes of all pages programmed */
    uint64_t flash_host_bytes;    /* of these, with data of the host */
    uint64_t flash_map_bytes;     /* of these, for the map */
    uint64_t flash_dump_bytes;    /* of these, in emergency dumps */
    uint64_t flash_moved_bytes;   /* bytes of sectors moved by garbage collection */
    uint64_t flash_reads;         /* operations */
    uint64_t flash_erases;        /* operations */
    uint64_t flash_bad_units;     /* erase units that went bad */
} tantalum_stats;

/* Does not wait. Set stats->size = sizeof *stats before. */
int tantalum_get_stats(const tantalum_drive *drive, tantalum_stats *stats);

/* ---- Flash logs ----------------------------------------------------------------------- */

/*
 * A write-ahead log over several files or block devices, on real time (Linux). A record has any
 * bytes, and a log sequence number (LSN) at which it begins; the next one begins where it ends. What
 * a call says is durable survives a power cut, and everything before it does.
 *
 * All tantalum_log_* functions may be called by any number of threads at once with the same log,
 * except tantalum_log_free, and those of a reader, which is for one thread at a time. Threads that
 * wait for durability share writes. Codes: ENOSPC: the log is full, move the checkpoint; ETOOLARGE:
 * the record is longer than the limit; EREADONLY: it was opened with read_only; EINVAL: an LSN that
 * cannot be; EMEDIUM: acknowledged records cannot be read; ELOG: it cannot be made or opened, or it
 * failed or was closed: open it again. tantalum_last_error names device, place and what to do. After
 * ENOSPC or ELOG of a commit the record may be in the log, and may become durable: do not commit it
 * again without a look at the log. *lsn and *end are set only on success.
 */
typedef struct tantalum_log tantalum_log;

/* Records on their way from a log. */
typedef struct tantalum_log_reader tantalum_log_reader;

/* A piece of a record: a record may lie in memory in several. */
typedef struct tantalum_piece {
    const void *data; /* may be null if there are no bytes */
    uint64_t bytes;
} tantalum_piece;

/* How a log is made; it stays so. 0: the default. */
typedef struct tantalum_log_create_options {
    uint64_t size;
    uint64_t copies;        /* devices on which a record is before it is durable: 1 (default) or 2 */
    uint64_t partitions;    /* virtual devices on each device of the array; default 1 */
    uint64_t record_limit;  /* bytes of a record, at most; default 1 MiB, less on small devices */
    uint64_t unit;          /* bytes of a log block; default: the largest block of a device */
    uint64_t section_bytes; /* bytes of a section, about */
    uint64_t file_bytes;    /* files that are not there are made so large; 0: all must be there */
    uint64_t force;         /* not 0: what the devices hold is destroyed */
    uint64_t buffered;      /* not 0: files are used through the page cache */
} tantalum_log_create_options;

#define TANTALUM_LOG_CREATE_OPTIONS_INIT \
    { sizeof(tantalum_log_create_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* How a log is used. 0: the default. */
typedef struct tantalum_log_options {
    uint64_t size;
    uint64_t memory;         /* bytes for the newest part of the log; default 16 MiB */
    uint64_t group_bytes;    /* bytes of a group, at most; default 256 KiB */
    uint64_t stall_ns;       /* a device whose write takes longer is left until it answers; 1 s */
    uint64_t fail_when_full; /* not 0: ENOSPC without room; else appends and waits wait */
    uint64_t read_only;      /* not 0: it takes no records; its checkpoint may move */
    uint64_t salvage;        /* not 0: a damaged log opens with what is before the damage */
    uint64_t degraded;       /* not 0: with two copies, without a device that is missing or fails */
    uint64_t no_hedging;     /* not 0: slow writes are not written again elsewhere */
    uint64_t buffered;       /* not 0: files are used through the page cache */
    /*
     * How long writes take, so that the first slow one is written again elsewhere. Null, or for each
     * device, in the order in which they are given: the file (FILE.toml) that `tantalum log
     * calibrate` wrote, the name of a preset ("usb-a"), or null if nothing is known.
     */
    const char *const *latencies;
    uint64_t expect_copies;     /* a log that was made with other copies is refused; 0: any */
    uint64_t expect_partitions; /* the same of its partitions */
} tantalum_log_options;

#define TANTALUM_LOG_OPTIONS_INIT \
    { sizeof(tantalum_log_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0 }

/*
 * Makes a log on `count` files or block devices and, if archive is not null, an archive. If a device
 * holds something else nothing is changed, unless options->force. On failure files that were made are
 * removed.
 */
int tantalum_log_create(const char *const *devices, size_t count, const char *archive,
                        const tantalum_log_create_options *options);

/*
 * Opens a log on all its devices, in any order, the archive among them. It is read from its
 * checkpoint to its end. With options->degraded a file that is not there is a missing device.
 * EINVAL: latencies that cannot be read. On failure *log is null.
 */
int tantalum_log_open(const char *const *devices, size_t count,
                      const tantalum_log_options *options, tantalum_log **log);

/*
 * Appends a record: it is in memory then. *lsn is where it begins, *end where it ends; both may be
 * null. The record is written when a thread waits for it, when a group is full, or for an archive.
 * The call waits while memory is full, and while the log is (or fails then, fail_when_full).
 */
int tantalum_log_append(const tantalum_log *log, const void *data, uint64_t bytes, uint64_t *lsn,
                        uint64_t *end);

/* The same, and waits until the record is durable, with everything before it. */
int tantalum_log_commit(const tantalum_log *log, const void *data, uint64_t bytes, uint64_t *lsn,
                        uint64_t *end);

/* tantalum_log_append of a record that lies in several pieces. */
int tantalum_log_append_pieces(const tantalum_log *log, const tantalum_piece *pieces,
                               size_t count, uint64_t *lsn, uint64_t *end);

/* tantalum_log_commit of a record that lies in several pieces. */
int tantalum_log_commit_pieces(const tantalum_log *log, const tantalum_piece *pieces,
                               size_t count, uint64_t *lsn, uint64_t *end);

/* Waits until everything before lsn is durable. EINVAL: the log ends before it. */
int tantalum_log_wait_durable(const tantalum_log *log, uint64_t lsn);

/* Waits until everything that was appended before the call is durable; *end, which may be null, is
 * its end. */
int tantalum_log_flush(const tantalum_log *log, uint64_t *end);

/* Everything before *durable is durable; *end is the end of what was appended. Both may be null.
 * Does not wait. */
int tantalum_log_ends(const tantalum_log *log, uint64_t *durable, uint64_t *end);

/*
 * A descriptor for poll: it is readable when the durable LSN has moved since its last read of 8
 * bytes, or the log has ended, and at first. It belongs to the log, until tantalum_log_free: do not
 * close it. A read of it does not wait. Polling writes nothing: some thread has to commit, flush or
 * wait.
 */
int tantalum_log_fd(const tantalum_log *log, int *fd);

/*
 * What is before lsn, which is the LSN or the end of a record, is not needed any more; it must be
 * durable. The number is kept with the checkpoint. Both are durable when this returns.
 */
int tantalum_log_checkpoint(const tantalum_log *log, uint64_t lsn, uint64_t number);

/*
 * Waits until at most so many per cent of the room for records are left: then the checkpoint should
 * move. It is for a thread that does nothing else. TANTALUM_ELOG: the log was closed, or has failed.
 */
int tantalum_log_nearly_full(const tantalum_log *log, uint64_t percent);

/*
 * Puts another file or block device in the place of one that is lost to a log with two copies, while
 * other threads go on. It gets everything from the checkpoint on; when this returns any one device
 * may be lost again. `lost` is the path of the lost one as it was given to tantalum_log_open, or null:
 * whichever is lost. What `device` holds is destroyed only if force is not 0; without it the call
 * fails. EINVAL: the device is not lost, or the new one cannot take its place. ENOSPC: a device cannot
 * hold what the log has since its checkpoint. ELOG may also mean that `device` cannot be opened: the
 * message says so, and the log goes on.
 */
int tantalum_log_replace(const tantalum_log *log, const char *lost, const char *device, int force);

/* What a log has done since it was opened, and how it is. */
typedef struct tantalum_log_stats {
    uint64_t size;
    uint64_t first;             /* the checkpoint: the log begins here */
    uint64_t checkpoint_number; /* what was given with it */
    uint64_t durable;
    uint64_t end;
    uint64_t epoch;             /* how often it was opened, and began anew while it ran */
    uint64_t records;           /* appended */
    uint64_t record_bytes;
    uint64_t groups;            /* written */
    uint64_t group_bytes;
    uint64_t array_bytes;       /* written to the array, with what blocks lack or repeat */
    uint64_t width;             /* groups that may be in flight at once, as learned */
    uint64_t slow;              /* writes that took longer than most while a group waited */
    uint64_t hedges;            /* of these, written again on another device */
    uint64_t hedges_won;        /* of these, ended before the write that they replaced */
    uint64_t stalls;            /* writes that took longer than the bound */
    uint64_t restarts;          /* new epochs while the log ran */
    uint64_t archive_writes;
    uint64_t room;              /* groups of the largest size for which there is room */
    uint64_t sections_used;
    uint64_t sections;
    uint64_t degraded;          /* 1: records have fewer copies than the log was made for */
    uint64_t devices;           /* of the log, the archive among them */
    uint64_t devices_present;   /* of these, those that take part */
} tantalum_log_stats;

#define TANTALUM_LOG_STATS_INIT                                                              \
    { sizeof(tantalum_log_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
      0, 0, 0 }

/* Does not wait for any device. Set stats->size = sizeof *stats before. */
int tantalum_log_get_stats(const tantalum_log *log, tantalum_log_stats *stats);

/* A record that was read. */
typedef struct tantalum_log_record {
    uint64_t size;
    uint64_t found;   /* 1: there is one; 0: there are no more */
    uint64_t lsn;
    uint64_t end;     /* where the next one begins */
    const void *data; /* valid until the next call with this reader */
    uint64_t bytes;
} tantalum_log_record;

#define TANTALUM_LOG_RECORD_INIT { sizeof(tantalum_log_record), 0, 0, 0, NULL, 0 }

/*
 * Begins to read at `from`, which is the LSN or the end of a record, up to what is durable now. If
 * it is neither, the first tantalum_log_next fails with EINVAL, and the message has the LSN of the
 * record in which it lies. On failure *reader is null.
 */
int tantalum_log_read(const tantalum_log *log, uint64_t from, tantalum_log_reader **reader);

/* The next record. Set record->size = sizeof *record before. */
int tantalum_log_next(tantalum_log_reader *reader, tantalum_log_record *record);

/* Ends a reader; its last record goes. It may be null. */
void tantalum_log_read_end(tantalum_log_reader *reader);

/* Acknowledged bytes of a log with two copies that are on one device alone. */
typedef struct tantalum_log_part {
    uint64_t size;
    uint64_t found;      /* 1: there is such a part; 0: there are no more */
    uint64_t lsn;
    uint64_t end;
    const char *on;      /* the device that has them */
    const char *damaged; /* the device on which something else lies in their place, or null */
    uint64_t offset;     /* where it lies there, in bytes */
} tantalum_log_part;

#define TANTALUM_LOG_PART_INIT { sizeof(tantalum_log_part), 0, 0, 0, NULL, NULL, 0 }

/* Such parts, for one thread at a time. */
typedef struct tantalum_log_parts tantalum_log_parts;

/*
 * Which acknowledged bytes are on one device alone, in order: the other copy is damaged, or its
 * device did not answer when it was written. All records are there; another loss would lose these.
 * They have two copies again when the checkpoint is past them, or tantalum_log_replace has put
 * another device in the place of the damaged one. While a device takes no part there are none. Reads
 * all devices, while other threads go on. On failure *parts is null.
 */
int tantalum_log_one_copy(const tantalum_log *log, tantalum_log_parts **parts);

/* The next of them. Set part->size = sizeof *part before. Its names are valid until the parts end. */
int tantalum_log_next_part(tantalum_log_parts *parts, tantalum_log_part *part);

/* Ends the parts. They may be null. */
void tantalum_log_parts_end(tantalum_log_parts *parts);

/*
 * Waits until everything appended is durable, and ends the log. From then on all calls fail with
 * ELOG, except tantalum_log_ends, flushes, and waits for what is durable. Whoever waits is woken.
 * Free it afterwards.
 */
int tantalum_log_close(const tantalum_log *log);

/*
 * Frees a log. One that was not closed ends, once its last reader has ended, as if the power had
 * gone: what was appended and is not durable may be lost. Until then its devices are in use. It may
 * be null.
 */
void tantalum_log_free(tantalum_log *log);

/* ---- Flash caches --------------------------------------------------------------------- */

/*
 * A cache of pages on flash, under a buffer pool in RAM and over a slow store, on real time (Linux).
 * A page enters when it leaves RAM, clean or dirty. An evicted page is a part of the database: it
 * survives a power cut, whether or not the slow store has it.
 *
 * All tantalum_cache_* functions may be called by any number of threads at once with the same cache,
 * except tantalum_cache_free. Between a fetch and the eviction the program owns a page: it does not
 * fetch, evict or forget one page from two threads at once. Codes: EINVAL: there is no such page, its
 * log records are not durable, or the cache has a newer version; EMEDIUM: the newest version of a
 * dirty page is damaged: restore it from the log, and evict or forget it; or a block of a device
 * cannot be read: the message says which; EFAILED: a device, or a function of the store, failed;
 * ENOSPC: the slow store refuses pages and the cache is full; ECACHE: it cannot be made or opened, or
 * was closed, or a write to flash failed: open it again. Pages can be fetched until it is closed
 * (with write-through, not those whose eviction failed). After any code of an eviction but OK and
 * EINVAL the page may be in the cache or not: keep it in RAM.
 */
typedef struct tantalum_cache tantalum_cache;

/*
 * A slow store of the program's, in place of a slow device: disks, a network volume, the files of a
 * database. Its functions may wait. They are called in threads of the library, several at once, never
 * for two writes of one page. They return 0, or any other number if they fail; a write that failed is
 * tried again. They must return: a C++ exception or a longjmp out of them is undefined. `context` is
 * what they get first. Nobody notices if it is used without its cache.
 */
typedef struct tantalum_cache_store {
    uint64_t size;
    void *context;
    uint64_t pages; /* their numbers are below */
    int (*read)(void *context, uint64_t page, void *buf, uint64_t bytes);
    int (*write)(void *context, uint64_t first, const void *data, uint64_t bytes); /* whole pages */
    int (*flush)(void *context); /* everything survives that was written before */
} tantalum_cache_store;

#define TANTALUM_CACHE_STORE_INIT { sizeof(tantalum_cache_store), NULL, 0, NULL, NULL, NULL }

/* A page that may leave the program's pool. */
typedef struct tantalum_cache_page {
    uint64_t page;
    const void *data; /* its bytes; unchanged until the library calls the next function of the host */
    uint64_t dirty;   /* not 0: it was changed since it was fetched, evicted or pulled last */
    uint64_t lsn;     /* the newest log record about it */
} tantalum_cache_page;

/*
 * The log and the buffer pool of a program. Any function may be null. They are called in the thread of
 * the cache: they must not wait, and must not call the cache. They must return, as those of a store.
 */
typedef struct tantalum_cache_host {
    uint64_t size;
    void *context;
    /* Up to where the log is durable: a dirty page with a higher LSN is refused. */
    uint64_t (*log_stable)(void *context);
    /* Names up to `room` pages from the cold end of the pool; returns how many. They stay there.
     * The cache leaves out those that it has, those whose log is not durable, and those that do not
     * enter: by `admit`, and with write-through dirty ones. */
    uint64_t (*pull)(void *context, uint64_t room, tantalum_cache_page *pages);
    /* This version is in the cache and not durable yet: the page may not change until it is. */
    void (*taken)(void *context, uint64_t page, uint64_t lsn);
    /* This version is durable: if the page has not changed since, it is not dirty any more. */
    void (*staged)(void *context, uint64_t page, uint64_t lsn);
    /* The slow store does not take this page, which stays in the cache; it is tried again. */
    void (*refused)(void *context, uint64_t page, int code);
} tantalum_cache_host;

#define TANTALUM_CACHE_HOST_INIT \
    { sizeof(tantalum_cache_host), NULL, NULL, NULL, NULL, NULL, NULL }

/* How a cache is made; it stays so. 0: the default. */
typedef struct tantalum_cache_create_options {
    uint64_t size;
    uint64_t page_bytes;  /* a power of two from 512 on; default 4096 */
    uint64_t batch_pages; /* pages of a batch, which is one write; default 64 */
    uint64_t through;     /* not 0: write-through */
    uint64_t flash_bytes; /* a flash file that is not there is made so large */
    uint64_t slow_bytes;  /* a slow file that is not there is made so large */
    uint64_t force;       /* not 0: what flash device and label hold is destroyed */
    uint64_t buffered;    /* not 0: files are used through the page cache */
} tantalum_cache_create_options;

#define TANTALUM_CACHE_CREATE_OPTIONS_INIT \
    { sizeof(tantalum_cache_create_options), 0, 0, 0, 0, 0, 0, 0 }

#define TANTALUM_CACHE_AS_BEFORE 0 /* the mode of the last time */
#define TANTALUM_CACHE_BACK 1      /* dirty pages reach the slow store when they leave flash */
#define TANTALUM_CACHE_THROUGH 2   /* dirty pages reach it before their eviction ends */

#define TANTALUM_CACHE_MIXED 0      /* clean and dirty pages enter */
#define TANTALUM_CACHE_CLEAN_ONLY 1 /* dirty ones are evicted to the slow store, which may tear them */
#define TANTALUM_CACHE_DIRTY_ONLY 2 /* clean ones are let go */

/* How a cache is used. 0: the default. */
typedef struct tantalum_cache_options {
    uint64_t size;
    uint64_t mode;        /* TANTALUM_CACHE_... */
    uint64_t basic;       /* not 0: pages that were fetched get no second chance */
    uint64_t linger_ns;   /* a batch is written so long after its first page at the latest; 2 ms */
    uint64_t retry_ns;    /* a page that the slow store refused is tried again then; 100 ms */
    uint64_t patience_ns; /* so long dirty pages wait for a store that refuses; 10 s */
    uint64_t depth;       /* writes to the slow store side by side; default 16 */
    uint64_t buffered;    /* not 0: files are used through the page cache */
    uint64_t scan;        /* clean pages of runs longer than this do not enter; 0: all enter */
    uint64_t ghosts;      /* not 0: the statistics have ghost_...; takes less than 2 MiB */
    uint64_t admit;       /* TANTALUM_CACHE_...: which pages enter; default all */
} tantalum_cache_options;

#define TANTALUM_CACHE_OPTIONS_INIT \
    { sizeof(tantalum_cache_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Makes an empty cache on all of the flash device, for the pages of a slow device, or of a store: one
 * of the two is null. A slow device gets a label, and its pages begin behind its first 1 MiB. If flash
 * device or label hold something nothing is changed, unless options->force. On failure files that were
 * made stay.
 */
int tantalum_cache_create(const char *flash, const char *device,
                          const tantalum_cache_store *store,
                          const tantalum_cache_create_options *options);

/*
 * Opens a cache, however it ended. Flash and slow device that do not belong together, or of which one
 * is a copy from before the last opening, are refused. host may be null. Store and host are copied;
 * their functions and contexts must stay until the cache is freed. On failure *cache is null.
 */
int tantalum_cache_open(const char *flash, const char *device, const tantalum_cache_store *store,
                        const tantalum_cache_host *host, const tantalum_cache_options *options,
                        tantalum_cache **cache);

/* Where a page was found. */
typedef struct tantalum_cache_found {
    uint64_t size;
    uint64_t hit;   /* 1: in the cache; 0: on the slow store */
    uint64_t lsn;   /* with which it left RAM */
    uint64_t dirty; /* 1: the slow store has an older version */
} tantalum_cache_found;

#define TANTALUM_CACHE_FOUND_INIT { sizeof(tantalum_cache_found), 0, 0, 0 }

/* Reads the newest version of a page that left RAM, or fails. found may be null. */
int tantalum_cache_fetch(const tantalum_cache *cache, uint64_t page, void *buf, uint64_t bytes,
                         tantalum_cache_found *found);

/*
 * A page leaves RAM. dirty: it was changed since it was fetched, evicted or pulled last. lsn: the
 * newest log record about it, never below that of an earlier version. It is durable when this returns.
 */
int tantalum_cache_evict(const tantalum_cache *cache, uint64_t page, const void *data,
                         uint64_t bytes, int dirty, uint64_t lsn);

/* The same, durable only after tantalum_cache_checkpoint; a fetch finds it at once. Good for clean
 * pages, which need not be durable. */
int tantalum_cache_stage(const tantalum_cache *cache, uint64_t page, const void *data,
                         uint64_t bytes, int dirty, uint64_t lsn);

/* Pages were truncated or dropped: no version of them ever comes back. */
int tantalum_cache_forget(const tantalum_cache *cache, uint64_t first, uint64_t count);

/* Everything that left RAM before is durable on flash when this returns. */
int tantalum_cache_checkpoint(const tantalum_cache *cache);

/* What a scrubber found. */
typedef struct tantalum_cache_scrubbed {
    uint64_t size;
    uint64_t frames;        /* that were compared */
    uint64_t repaired;      /* damaged frames of clean pages, which were given up */
    uint64_t damaged;       /* dirty pages whose newest version is lost */
    uint64_t first_damaged; /* the first of these */
} tantalum_cache_scrubbed;

#define TANTALUM_CACHE_SCRUBBED_INIT { sizeof(tantalum_cache_scrubbed), 0, 0, 0, 0 }

/* Compares every frame with its checksum, while the cache is used. */
int tantalum_cache_scrub(const tantalum_cache *cache, tantalum_cache_scrubbed *scrubbed);

/*
 * Every page that is dirty now is on the slow store when this returns. One that was given a second
 * chance meanwhile counts as dirty until the next call.
 */
int tantalum_cache_clean(const tantalum_cache *cache);

/*
 * The cache has so many bytes of the flash device from now on, from its beginning, while it is used.
 * If these are fewer, the oldest pages leave it, and nothing counts behind them when this returns. A
 * crash leaves the old size or the new one. EINVAL: the device does not have so many, or they are too
 * few.
 */
int tantalum_cache_resize(const tantalum_cache *cache, uint64_t bytes);

/* What a cache has done since it was opened, in pages, and how it is. */
typedef struct tantalum_cache_stats {
    uint64_t size;
    uint64_t page_bytes;
    uint64_t store_pages;
    uint64_t fetches;
    uint64_t hits;            /* of these, found in the cache */
    uint64_t evictions;
    uint64_t dirty_evictions; /* of these */
    uint64_t dropped;         /* evictions that were not written */
    uint64_t pulled;
    uint64_t forgotten;       /* as asked for */
    uint64_t second_chances;
    uint64_t slow_writes;     /* pages written to the slow store */
    uint64_t slow_flushes;
    uint64_t slow_refusals;   /* tries that failed */
    uint64_t batches;         /* written */
    uint64_t flash_bytes;     /* of batches and segments */
    uint64_t repaired;        /* damaged frames of clean pages: read from the slow store */
    uint64_t damaged;         /* damaged frames of dirty pages: an error */
    uint64_t pages;           /* in the cache */
    uint64_t dirty;           /* of these */
    uint64_t used;            /* frames, those with superseded versions too */
    uint64_t frames;          /* of the ring */
    uint64_t warm;            /* 1: it had been closed when it was opened */
    uint64_t found;           /* pages that were in it then */
    uint64_t kept_out;        /* clean pages of scans that did not enter (options->scan) */
    /* With options->ghosts: (ghost_twice_hits - ghost_hits) / ghost_fetches is what twice the size
     * would add to hits / fetches. They begin anew when the cache gets another size. */
    uint64_t ghost_fetches;   /* that the ghosts have a sample of */
    uint64_t ghost_hits;      /* of these, with this size */
    uint64_t ghost_twice_hits; /* of these, with twice the size */
} tantalum_cache_stats;

#define TANTALUM_CACHE_STATS_INIT                                                              \
    { sizeof(tantalum_cache_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
      0, 0, 0, 0, 0, 0, 0 }

/* Does not wait for any device. Set stats->size = sizeof *stats before. */
int tantalum_cache_get_stats(const tantalum_cache *cache, tantalum_cache_stats *stats);

/*
 * Gives up the flash device: every dirty page goes to the slow store first, while the cache is used.
 * Then every call fails with ECACHE, and the slow store is used alone. Free the cache afterwards.
 */
int tantalum_cache_detach(const tantalum_cache *cache);

/* Ends a cache: everything is durable, and the next start is warm. Every other call fails from then
 * on with ECACHE. Free it afterwards. */
int tantalum_cache_close(const tantalum_cache *cache);

/*
 * Frees a cache. One that was not closed ends as if the power had gone: what is not durable may be
 * lost. It may be null.
 */
void tantalum_cache_free(tantalum_cache *cache);

/* ---- The directory of a cache in memory of the caller's ------------------------------- */

/*
 * For engines whose processes share a cache and do its I/O by themselves. A directory knows which
 * frame has which version of which page; it does no I/O. It lies in memory of the caller's, which
 * processes may have at different addresses. Any of them may be killed at any moment; nobody waits
 * for the dead. The owner of a batch is the process that reserved it.
 *
 *   a page is read      lookup; if it is durable, read the frame and check: REUSED: look up again. If it
 *                       is not, its bytes are where its batch's owner keeps them, not on flash
 *   pages leave RAM     reserve, stage for each page, close when every stage is over, write the batch,
 *                       publish
 *   the ring is full    take_front, fates, stage_again in a batch that was reserved before, or write
 *                       to the slow store, flush it and mark_clean; close, write and publish that
 *                       batch; release. Keep a batch to spare: a full ring has none for stage_again
 *   an owner died       adopt, then close, write and publish the batch if its bytes are in shared
 *                       memory, or else abandon it. One that was being abandoned can only be abandoned
 *   a restart           format, then restore for each batch that was found on flash
 *
 * The slow store is yours, and so is its order: do not write a version over a newer one there. Keep a
 * lock for each page from fates to mark_clean, or compare LSNs. Before a version is written there
 * past the directory, while the directory has an older dirty one, stage it or forget the page: the
 * older one would be read, and written over it.
 *
 * Any number of threads may call these functions at once, except tantalum_directory_free. But one
 * thread at a time ends a batch (close, publish, abandon), and one has a front batch from take_front
 * to release or leave. A thread that has released or ended one does not use it again. Codes: ENOSPC:
 * the ring or the batch is full, or the memory too small; EBUSY: another owner has the front, or what
 * replaces its pages is not durable: publish what you have yourself, adopt what is a dead one's, and
 * try again; EINVAL: the call makes no sense now: for release, a page of the front is dirty (again):
 * ask for fates once more; ECACHE: the memory has no directory that this library can use. A release
 * that fails may have dropped clean pages.
 *
 * An owner is a process, known by its number and its start. So all processes must see the same numbers
 * and times of start: one PID namespace and one time namespace (containers of one pod may share them,
 * others do not). A handle is for one process: attach again after fork. After exec nobody takes over
 * what the process had: publish or abandon it before.
 */
typedef struct tantalum_directory tantalum_directory;

/* A version of a page, as it leaves RAM. */
typedef struct tantalum_page_version {
    uint64_t page;
    uint64_t lsn;      /* of its last change, or any number that grows with the versions of a page */
    uint64_t checksum; /* of the frame: 32 bits */
    uint64_t dirty;    /* not 0: it is newer than the slow store's */
} tantalum_page_version;

/* What a directory knows of a frame. */
typedef struct tantalum_entry {
    uint64_t size;
    uint64_t found;      /* 1: there is one; 0: there is none */
    uint64_t page;
    uint64_t lsn;
    uint64_t checksum;
    uint64_t frame;
    uint64_t lap;        /* how often the ring had come round when the frame got this version */
    uint64_t valid;      /* 1: it is the current version of its page */
    uint64_t dirty;      /* 1: it is newer than the slow store's */
    uint64_t referenced; /* 1: it was looked up since it entered */
    uint64_t durable;    /* 1: its batch was published */
    uint64_t fate;       /* TANTALUM_FATE_..., of an entry at the front */
} tantalum_entry;

#define TANTALUM_ENTRY_INIT { sizeof(tantalum_entry), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

#define TANTALUM_ENTRY_CURRENT 0 /* it is the current version of its page */
#define TANTALUM_ENTRY_OLD 1     /* there is a newer one, or none; if it was durable, its frame has it still */
#define TANTALUM_ENTRY_REUSED 2  /* its frame may have another page: look up again */

#define TANTALUM_FATE_DROP 0    /* the slow store has it */
#define TANTALUM_FATE_DESTAGE 1 /* it goes to the slow store; mark_clean says when that is flushed */
#define TANTALUM_FATE_AGAIN 2   /* it enters once more: stage_again */

/* A batch of frames: one write. */
typedef struct tantalum_batch {
    uint64_t size;
    uint64_t found; /* 1: there is one; 0: there is none */
    uint64_t seq;
    uint64_t first_frame; /* the others follow */
    uint64_t frames;
} tantalum_batch;

#define TANTALUM_BATCH_INIT { sizeof(tantalum_batch), 0, 0, 0, 0 }

/* A version that was staged. */
typedef struct tantalum_staged {
    uint64_t size;
    uint64_t found; /* 1: it was staged; 0: it was not current any more */
    uint64_t frame;
    uint64_t slot;  /* which of its batch's frames that is */
    uint64_t lap;
} tantalum_staged;

#define TANTALUM_STAGED_INIT { sizeof(tantalum_staged), 0, 0, 0, 0 }

/* How a directory is. */
typedef struct tantalum_directory_stats {
    uint64_t size;
    uint64_t frames;
    uint64_t batch;        /* frames of one */
    uint64_t front;        /* the first batch whose frames are in use */
    uint64_t rear;         /* the batch after the last one */
    uint64_t free_batches; /* that can be reserved before the front has to be released */
} tantalum_directory_stats;

#define TANTALUM_DIRECTORY_STATS_INIT { sizeof(tantalum_directory_stats), 0, 0, 0, 0, 0 }

/* Bytes of memory that a directory needs: about 56 for each frame. A batch has 1 to 128 frames. */
int tantalum_directory_bytes(uint64_t frames, uint64_t batch, uint64_t *bytes);

/*
 * Makes an empty directory in memory that begins at a multiple of 64 bytes, whatever is there. Nobody
 * may use one in it. The memory stays where it is, and can be read and written, until every handle on
 * it is freed; nobody else writes there. first: 0, or the front of the ring that is restored.
 */
int tantalum_directory_format(void *memory, uint64_t bytes, uint64_t frames, uint64_t batch,
                              uint64_t first, tantalum_directory **directory);

/* Works on the directory that is in the memory, of which the same is true. */
int tantalum_directory_attach(void *memory, uint64_t bytes, tantalum_directory **directory);

/* Frees a handle; the directory stays in its memory. It may be null. */
void tantalum_directory_free(tantalum_directory *directory);

/* The current version of a page; it is marked as referenced. */
int tantalum_directory_lookup(const tantalum_directory *directory, uint64_t page,
                              tantalum_entry *entry);

/*
 * Brings into the processor's cache what lookups and stage-ins of these pages need, of all at once.
 * It pays for the pages of a batch, just before they are staged.
 */
int tantalum_directory_prefetch(const tantalum_directory *directory, const uint64_t *pages,
                                uint64_t count);

/* What became of an entry since it was found: TANTALUM_ENTRY_... Asked after its frame was read. */
int tantalum_directory_check(const tantalum_directory *directory, const tantalum_entry *entry,
                             uint64_t *since);

/* Reserves the next batch at the rear. */
int tantalum_directory_reserve(const tantalum_directory *directory, tantalum_batch *batch);

/* Puts a version into the next frame of a batch: it is current from now on. staged may be null. */
int tantalum_directory_stage(const tantalum_directory *directory, const tantalum_batch *batch,
                             const tantalum_page_version *version, tantalum_staged *staged);

/* The same for a version at the front, if it is current still. staged may be null. */
int tantalum_directory_stage_again(const tantalum_directory *directory,
                                   const tantalum_batch *batch, const tantalum_entry *entry,
                                   tantalum_staged *staged);

/* A batch takes no more pages, and can be written. Every stage for it is over. */
int tantalum_directory_close(const tantalum_directory *directory, const tantalum_batch *batch);

/* What a closed batch has is durable. */
int tantalum_directory_publish(const tantalum_directory *directory, const tantalum_batch *batch);

/*
 * A batch will never be durable: what was current before its pages is current again, unless a version
 * that is given up was clean: the slow store has a newer one then.
 */
int tantalum_directory_abandon(const tantalum_directory *directory, const tantalum_batch *batch);

/* A batch whose owner died before it was published or abandoned; it is this process's now. */
int tantalum_directory_adopt(const tantalum_directory *directory, tantalum_batch *batch);

/* Takes the batch at the front, to replace it. */
int tantalum_directory_take_front(const tantalum_directory *directory, tantalum_batch *front);

/*
 * What becomes of the current versions at the front. There is room for `count` entries, at least one
 * for each frame of a batch, each with its size set; *found of them are filled in. basic: not 0, none
 * enters once more.
 */
int tantalum_directory_fates(const tantalum_directory *directory, const tantalum_batch *front,
                             int basic, tantalum_entry *entries, uint64_t count, uint64_t *found);

/* The slow store has this version, and was flushed. */
int tantalum_directory_mark_clean(const tantalum_directory *directory,
                                  const tantalum_entry *entry);

/* The frames of the front batch may be written over. What was clean in it is dropped. */
int tantalum_directory_release(const tantalum_directory *directory, const tantalum_batch *front);

/* Gives the front batch back as it is. */
int tantalum_directory_leave(const tantalum_directory *directory, const tantalum_batch *front);

/* A page was dropped; entry, which may be null, is what was current. On flash it needs a tombstone. */
int tantalum_directory_forget(const tantalum_directory *directory, uint64_t page,
                              tantalum_entry *entry);

/*
 * Puts a batch back: for each frame what was found in it (page, lsn, checksum, dirty, referenced), or
 * found 0. After format, one batch after the other in the order of the ring. ENOSPC: the ring has no
 * more batches.
 */
int tantalum_directory_restore(const tantalum_directory *directory, const tantalum_entry *entries,
                               uint64_t count);

/* Set stats->size = sizeof *stats before. */
int tantalum_directory_get_stats(const tantalum_directory *directory,
                                 tantalum_directory_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
