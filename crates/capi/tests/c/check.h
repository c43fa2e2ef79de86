/* Common parts of the tests in C: a check that is never compiled out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tantalum.h>

#define CHECK(fact)                                                              \
    do {                                                                         \
        if (!(fact)) {                                                           \
            char said_[512] = "";                                                \
            tantalum_last_error(said_, sizeof said_);                            \
            fprintf(stderr, "%s:%d: %s\n(last error: %s)\n", __FILE__, __LINE__, \
                    #fact, said_);                                               \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

/* Whether the last error of this thread contains `part`. */
static inline int said(const char *part) {
    char message[512];
    tantalum_last_error(message, sizeof message);
    return strstr(message, part) != NULL;
}

enum { BLOCK = 4096 };

/* Fills blocks with content that only this number gives. */
static inline void fill(unsigned char *bytes, uint64_t blocks, unsigned number) {
    for (uint64_t i = 0; i < blocks * BLOCK; i++)
        bytes[i] = (unsigned char)((i * 31 + i / 4096 * 7 + number * 131 + 1) >> (i % 3));
}

static inline tantalum_drive *small_drive(const char *preset, uint64_t seed) {
    tantalum_drive_options options = TANTALUM_DRIVE_OPTIONS_INIT;
    tantalum_drive *drive;
    options.preset = preset;
    options.seed = seed;
    options.overrides = "[geometry]\nblocks = 64\npages = 64\n";
    CHECK(tantalum_open_drive(&options, &drive) == TANTALUM_OK);
    return drive;
}

static inline tantalum_drive *ram_drive(tantalum_ram_options options) {
    tantalum_drive *drive;
    CHECK(tantalum_open_ram(&options, &drive) == TANTALUM_OK);
    return drive;
}
