/*
 * Tells a mounted cache volume that pages have left memory as they came, as a buffer pool would when it
 * drops a clean page. docs/cache.md says what the volume makes of it.
 *
 *   cc exit.c -o exit && ./exit /mnt/data/drive OFFSET LENGTH [data]
 *
 * With "data" the bytes go along, which takes a file that may be written to.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct tantalum_exit {
    uint64_t offset; /* of the first byte in the file */
    uint64_t length; /* bytes: whole blocks, at most 16 MiB */
    uint8_t data[];  /* nothing, or these bytes: what a read would return */
};
#define TANTALUM_EXIT(bytes) _IOC(_IOC_WRITE, 0xf7, 1, sizeof(struct tantalum_exit) + (bytes))
#define MOST ((1 << _IOC_SIZEBITS) - 1 - sizeof(struct tantalum_exit))

int main(int argc, char **argv) {
    int with_data = argc == 5 && strcmp(argv[4], "data") == 0;
    if (argc != 4 && !with_data) {
        fprintf(stderr, "usage: %s FILE OFFSET LENGTH [data]\n", argv[0]);
        return 2;
    }
    struct tantalum_exit *left = calloc(1, sizeof *left + MOST);
    int fd = open(argv[1], with_data ? O_RDWR : O_RDONLY);
    if (left == NULL || fd < 0) {
        perror(argv[1]);
        return 1;
    }
    left->offset = strtoull(argv[2], NULL, 0);
    left->length = strtoull(argv[3], NULL, 0);
    uint64_t bytes = with_data ? left->length : 0;
    if (bytes > MOST) {
        fprintf(stderr, "an ioctl carries at most %zu bytes\n", MOST);
        return 2;
    }
    /* What the pool had in memory. */
    if (bytes > 0 && pread(fd, left->data, bytes, (off_t)left->offset) != (ssize_t)bytes) {
        perror("pread");
        return 1;
    }
    if (ioctl(fd, TANTALUM_EXIT(bytes), left) != 0) {
        perror("ioctl");
        return 1;
    }
    free(left);
    return close(fd) == 0 ? 0 : 1;
}
