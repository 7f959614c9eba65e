/* Makes writes or syncs of an SQLite database fail, in a process that is started with this library in LD_PRELOAD:
 * FAIL_KIND=write|sync, from the FAIL_AT-th one on, or with FAIL_ONCE=1 only that one, with EIO, or with FAIL_FULL=1 as a full
 * disk does. The first failure is reported on standard error.
 *
 * SQLite calls the C library, so the program under test needs no change for this. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long count;

static int of_database(int fd) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, ".db") != NULL;
}

static int fails(const char *kind, int fd) {
    const char *wanted = getenv("FAIL_KIND"), *at = getenv("FAIL_AT");
    if (!wanted || !at || strcmp(wanted, kind) != 0 || !of_database(fd)) return 0;
    long number = atomic_fetch_add(&count, 1) + 1, first = atol(at);
    if (number == first) dprintf(2, "a %s of the database fails on purpose\n", kind);
    if (getenv("FAIL_ONCE") ? number != first : number < first) return 0;
    errno = getenv("FAIL_FULL") ? ENOSPC : EIO;
    return 1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fsync(int fd) { REAL(fsync); return fails("sync", fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fails("sync", fd) ? -1 : real(fd); }
int ftruncate(int fd, off_t length) { REAL(ftruncate); return fails("write", fd) ? -1 : real(fd, length); }
int ftruncate64(int fd, off64_t length) { REAL(ftruncate64); return fails("write", fd) ? -1 : real(fd, length); }
ssize_t write(int fd, const void *bytes, size_t size) {
    REAL(write);
    return fails("write", fd) ? -1 : real(fd, bytes, size);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    REAL(pwrite);
    return fails("write", fd) ? -1 : real(fd, bytes, size, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    REAL(pwrite64);
    return fails("write", fd) ? -1 : real(fd, bytes, size, at);
}
