/* Faults in what the program writes to its store, for tests: preloaded, it counts the calls that change files below
 * `.threadline`, or open or make something there, and lets one of them fail, or ends the process there. Children are
 * left alone.
 *
 * THREADLINE_FAULT=N:WHAT  the call number N, from 1, fails with an error of this name (EIO, ENOSPC, EDQUOT, EROFS,
 *                          EMFILE), writes a part and then fails (SHORT), or is the end of the process before it (KILL).
 * THREADLINE_FAULT_NOTE    a file that is made when that happens.
 * THREADLINE_RECORD        a file into which every such call is written, and what goes to stdout: a letter, the number
 *                          of the file, an offset, the lengths of a path and of data as 64-bit numbers, and both.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long chosen;
static char what[16];
static atomic_long calls;
static atomic_int torn;
static int record = -1;
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    if (strcmp(program_invocation_short_name, "threadline") != 0) return;
    const char *given = getenv("THREADLINE_FAULT"), *file = getenv("THREADLINE_RECORD");
    if (given != NULL) sscanf(given, "%ld:%15s", &chosen, what);
    if (file != NULL) record = open(file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
}

static int is_store(const char *path) {
    const char *found = strstr(path, "/.threadline");
    return found != NULL && (found[12] == '/' || found[12] == 0);
}

static const char *path_of(int file, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, 4095);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static int is_watched(void) { return chosen != 0 || record >= 0; }

static int is_store_file(int file) {
    char path[4096];
    return is_watched() && is_store(path_of(file, path));
}

static void note_call(char sort, int file, const char *path, uint64_t at, const void *data, uint64_t length) {
    if (record < 0) return;
    char own[4096];
    struct stat found;
    memset(&found, 0, sizeof found);
    if (file >= 0) fstat(file, &found);
    if (path == NULL) path = path_of(file, own);
    uint64_t numbers[4] = {found.st_ino, at, strlen(path), length};
    struct iovec parts[4] = {
        {&sort, 1}, {numbers, sizeof numbers}, {(void *)path, strlen(path)}, {(void *)data, length}};
    pthread_mutex_lock(&recording);
    if (writev(record, parts, 4) < 0) abort();
    pthread_mutex_unlock(&recording);
}

/* Whether this call is the one. */
static int is_chosen(int counts) {
    if (chosen == 0 || !counts) return 0;
    if (atomic_fetch_add(&calls, 1) + 1 != chosen) return 0;
    const char *note = getenv("THREADLINE_FAULT_NOTE");
    if (note != NULL) close(open(note, O_CREAT | O_WRONLY, 0600));
    if (strcmp(what, "KILL") == 0) kill(getpid(), SIGKILL);
    return 1;
}

static int fail(void) {
    static const struct {
        const char *name;
        int error;
    } errors[] = {{"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EMFILE", EMFILE}};
    errno = ENOSPC;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(what, errors[i].name) == 0) errno = errors[i].error;
    return -1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* What is told is noted before, what is written afterwards. */
#define WRITES(name, parameters, arguments, shorter, offset) \
    ssize_t name parameters { \
        REAL(name); \
        if (file == 1) note_call('O', -1, "", 0, data, length); \
        int ours = file != 1 && is_store_file(file); \
        if (ours && atomic_exchange(&torn, 0)) return fail(); \
        if (is_chosen(ours)) { \
            if (strcmp(what, "SHORT") != 0 || length < 2) return fail(); \
            atomic_store(&torn, 1); \
            return real shorter; \
        } \
        ssize_t done = real arguments; \
        if (ours && done > 0) note_call('W', file, NULL, offset, data, done); \
        return done; \
    }

WRITES(write, (int file, const void *data, size_t length), (file, data, length), (file, data, length / 2),
       lseek(file, 0, SEEK_CUR) - done)
WRITES(pwrite, (int file, const void *data, size_t length, off_t at), (file, data, length, at),
       (file, data, length / 2, at), at)
WRITES(pwrite64, (int file, const void *data, size_t length, off64_t at), (file, data, length, at),
       (file, data, length / 2, at), at)

#define CHANGES(name, parameters, arguments, ours, note) \
    int name parameters { \
        REAL(name); \
        int counts = is_watched() && (ours); \
        if (is_chosen(counts)) return fail(); \
        if (counts) note; \
        return real arguments; \
    }

#define TO_DISK note_call('F', file, NULL, 0, NULL, 0)
#define CUT note_call('T', file, NULL, length, NULL, 0)

CHANGES(fsync, (int file), (file), is_store_file(file), TO_DISK)
CHANGES(fdatasync, (int file), (file), is_store_file(file), TO_DISK)
CHANGES(ftruncate, (int file, off_t length), (file, length), is_store_file(file), CUT)
CHANGES(ftruncate64, (int file, off64_t length), (file, length), is_store_file(file), CUT)
CHANGES(rename, (const char *from, const char *to), (from, to), is_store(to),
        note_call('R', -1, from, 0, to, strlen(to)))
CHANGES(unlink, (const char *path), (path), is_store(path), note_call('U', -1, path, 0, NULL, 0))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode), is_store(path), (void)0)

#define OPENS(name, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        if (is_chosen(chosen != 0 && is_store(path))) return fail(); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return real arguments; \
    }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
