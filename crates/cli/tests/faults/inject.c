/* Runs a program and makes one of its system calls on the files of a directory fail.
 *
 *   inject DIRECTORY NUMBER FAULT LOG PROGRAM [ARGUMENT...]
 *
 * Calls that name a path below DIRECTORY, or a descriptor that is open on one, are counted from 0. Call
 * NUMBER gets FAULT: an errno (the call returns that error and is not made, except `close`), "short" (a
 * read or write of half the bytes), or "+ERRNO" (as do all later calls that create, grow or sync files).
 * LOG receives the call and its path if the fault occurred, else the number of calls. The exit code is
 * the program's, or 128 and the signal, or 77 if the system does not allow tracing.
 *
 * Uses ptrace and not LD_PRELOAD, because Rust's libraries make some calls (renameat) without the C library. */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/ptrace.h>

enum { CANNOT_TRACE = 77, THREADS = 256, PATH_BYTES = 4096 };

enum argument { PATH_FIRST, PATH_SECOND, DESCRIPTOR };
enum sort { LOOKS, READS, WRITES, GROWS, CLOSES };

struct call {
    long number;
    const char *name;
    enum argument argument;
    enum sort sort;
};

static const struct call CALLS[] = {
    {SYS_openat, "openat", PATH_SECOND, LOOKS},
    {SYS_read, "read", DESCRIPTOR, READS},
    {SYS_pread64, "pread64", DESCRIPTOR, READS},
    {SYS_write, "write", DESCRIPTOR, WRITES},
    {SYS_pwrite64, "pwrite64", DESCRIPTOR, WRITES},
    {SYS_writev, "writev", DESCRIPTOR, GROWS},
    {SYS_fsync, "fsync", DESCRIPTOR, GROWS},
    {SYS_fdatasync, "fdatasync", DESCRIPTOR, GROWS},
    {SYS_ftruncate, "ftruncate", DESCRIPTOR, GROWS},
    {SYS_renameat2, "renameat2", PATH_SECOND, GROWS},
    {SYS_mkdirat, "mkdirat", PATH_SECOND, GROWS},
    {SYS_unlinkat, "unlinkat", PATH_SECOND, LOOKS},
    {SYS_fstat, "fstat", DESCRIPTOR, LOOKS},
    {SYS_newfstatat, "newfstatat", PATH_SECOND, LOOKS},
    {SYS_statx, "statx", PATH_SECOND, LOOKS},
    {SYS_readlinkat, "readlinkat", PATH_SECOND, LOOKS},
    {SYS_faccessat, "faccessat", PATH_SECOND, LOOKS},
    {SYS_getdents64, "getdents64", DESCRIPTOR, LOOKS},
    {SYS_lseek, "lseek", DESCRIPTOR, LOOKS},
    {SYS_flock, "flock", DESCRIPTOR, LOOKS},
    {SYS_fchmod, "fchmod", DESCRIPTOR, LOOKS},
    {SYS_fchmodat, "fchmodat", PATH_SECOND, LOOKS},
    {SYS_close, "close", DESCRIPTOR, CLOSES},
#ifdef SYS_renameat
    {SYS_renameat, "renameat", PATH_SECOND, GROWS},
#endif
#ifdef SYS_open
    {SYS_open, "open", PATH_FIRST, LOOKS},
    {SYS_rename, "rename", PATH_FIRST, GROWS},
    {SYS_mkdir, "mkdir", PATH_FIRST, GROWS},
    {SYS_rmdir, "rmdir", PATH_FIRST, LOOKS},
    {SYS_unlink, "unlink", PATH_FIRST, LOOKS},
    {SYS_stat, "stat", PATH_FIRST, LOOKS},
    {SYS_lstat, "lstat", PATH_FIRST, LOOKS},
    {SYS_chmod, "chmod", PATH_FIRST, LOOKS},
#endif
};

/* Threads whose current call must return an error when it ends. */
static struct { pid_t thread; long error; } pending[THREADS];

static void die(const char *what) {
    perror(what);
    exit(CANNOT_TRACE);
}

/* For failed calls about a stopped thread, which may be gone if another thread has ended the process. */
static void die_unless_gone(const char *what) {
    if (errno != ESRCH) die(what);
}

static void set_pending(pid_t thread, long error) {
    for (int i = 0; i < THREADS; i++)
        if (pending[i].thread == 0) {
            pending[i].thread = thread;
            pending[i].error = error;
            return;
        }
}

static long take_pending(pid_t thread) {
    for (int i = 0; i < THREADS; i++)
        if (pending[i].thread == thread) {
            pending[i].thread = 0;
            return pending[i].error;
        }
    return 0;
}

#if defined(__x86_64__)
static void change(pid_t thread, int is_entry, long value) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0) die_unless_gone("PTRACE_GETREGS");
    if (is_entry) registers.orig_rax = (unsigned long long)value; else registers.rax = (unsigned long long)value;
    if (ptrace(PTRACE_SETREGS, thread, 0, &registers) != 0) die_unless_gone("PTRACE_SETREGS");
}

static void set_third(pid_t thread, uint64_t value) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0) die_unless_gone("PTRACE_GETREGS");
    registers.rdx = value;
    if (ptrace(PTRACE_SETREGS, thread, 0, &registers) != 0) die_unless_gone("PTRACE_SETREGS");
}
#elif defined(__aarch64__)
static void change(pid_t thread, int is_entry, long value) {
    int number = (int)value;
    struct user_regs_struct registers;
    struct iovec io = {&registers, sizeof registers};
    if (is_entry) {
        struct iovec call = {&number, sizeof number};
        if (ptrace(PTRACE_SETREGSET, thread, 0x404 /* NT_ARM_SYSTEM_CALL */, &call) != 0) die_unless_gone("PTRACE_SETREGSET");
        return;
    }
    if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &io) != 0) die_unless_gone("PTRACE_GETREGSET");
    registers.regs[0] = (unsigned long long)value;
    if (ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &io) != 0) die_unless_gone("PTRACE_SETREGSET");
}

static void set_third(pid_t thread, uint64_t value) {
    struct user_regs_struct registers;
    struct iovec io = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &io) != 0) die_unless_gone("PTRACE_GETREGSET");
    registers.regs[2] = value;
    if (ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &io) != 0) die_unless_gone("PTRACE_SETREGSET");
}
#else
static void change(pid_t thread, int is_entry, long value) { (void)thread; (void)is_entry; (void)value; exit(CANNOT_TRACE); }
static void set_third(pid_t thread, uint64_t value) { (void)thread; (void)value; exit(CANNOT_TRACE); }
#endif

/* Reads the string at `address` of the process; empty if there is none. */
static void read_string(pid_t thread, uint64_t address, char path[PATH_BYTES]) {
    size_t length = 0;
    path[0] = 0;
    if (address == 0) return;
    while (length + sizeof(long) < PATH_BYTES) {
        errno = 0;
        long word = ptrace(PTRACE_PEEKDATA, thread, (void *)(uintptr_t)(address + length), 0);
        if (errno != 0) break;
        memcpy(path + length, &word, sizeof word);
        if (memchr(path + length, 0, sizeof word) != NULL) return;
        length += sizeof word;
    }
    path[length] = 0;
}

static void path_of_descriptor(pid_t thread, int descriptor, char path[PATH_BYTES]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, descriptor);
    ssize_t length = readlink(link, path, PATH_BYTES - 1);
    path[length > 0 ? length : 0] = 0;
}

static const struct call *call_of(uint64_t number) {
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if ((uint64_t)CALLS[i].number == number) return &CALLS[i];
    return NULL;
}

/* Returns the path of the call; empty if it has none. */
static void path_of_call(pid_t thread, const struct call *call, const uint64_t args[6], char path[PATH_BYTES]) {
    path[0] = 0;
    if (call->argument == PATH_FIRST) read_string(thread, args[0], path);
    if (call->argument == PATH_SECOND) {
        char name[PATH_BYTES];
        read_string(thread, args[1], name);
        if (name[0] == '/' || (int)args[0] < 0) {
            strcpy(path, name);
            return;
        }
        path_of_descriptor(thread, (int)args[0], path);
        size_t length = strlen(path);
        if (name[0] != 0 && length != 0) snprintf(path + length, PATH_BYTES - length, "/%.*s", PATH_BYTES / 2, name);
    }
    if (call->argument == DESCRIPTOR) path_of_descriptor(thread, (int)args[0], path);
}

static const char *directory, *fault;
static long wanted, counted, has_fired;

/* Whether all faults have occurred. The program then continues untraced. */
static int is_done(void) {
    if (!has_fired || fault[0] == '+') return 0;
    for (int i = 0; i < THREADS; i++)
        if (pending[i].thread != 0) return 0;
    return 1;
}

static FILE *log_file;

static int grows(const struct call *call, const uint64_t args[6]) {
    return call->sort == WRITES || call->sort == GROWS || (call->number == SYS_openat && (args[2] & O_CREAT) != 0);
}

/* Handles the begin of a call: counts it, and changes it if it is the chosen one. */
static void enter(pid_t thread, uint64_t number, const uint64_t args[6]) {
    char path[PATH_BYTES];
    const struct call *call = call_of(number);
    if (call == NULL) return;
    path_of_call(thread, call, args, path);
    if (strncmp(path, directory, strlen(directory)) != 0) return;
    long position = counted++;
    int is_lasting = fault[0] == '+';
    int is_hit = position == wanted || (is_lasting && has_fired && grows(call, args));
    if (!is_hit) return;
    if (strcmp(fault, "short") == 0) {
        if ((call->sort != READS && call->sort != WRITES) || args[2] < 2) return;
        set_third(thread, args[2] / 2);
    } else {
        if (is_lasting && !grows(call, args)) return;
        if (call->sort != CLOSES) change(thread, 1, -1);
        set_pending(thread, atol(fault));
    }
    if (!has_fired) fprintf(log_file, "%s %s\n", call->name, path);
    has_fired = 1;
}

static int trace(pid_t child) {
    int status, code = CANNOT_TRACE;
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK
        | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status)) die("waitpid");
    if (ptrace(PTRACE_SETOPTIONS, child, 0, options) != 0) die("PTRACE_SETOPTIONS");
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) return code;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == child) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int stopped_by = WSTOPSIG(status);
        if (stopped_by == (SIGTRAP | 0x80)) {
            struct __ptrace_syscall_info info;
            memset(&info, 0, sizeof info);
            if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof info, &info) <= 0) {
                die_unless_gone("PTRACE_GET_SYSCALL_INFO");
                continue;
            }
            if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                uint64_t args[6];
                for (int i = 0; i < 6; i++) args[i] = info.entry.args[i];
                enter(thread, info.entry.nr, args);
            } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
                long error = take_pending(thread);
                if (error != 0) change(thread, 0, -error);
            }
            stopped_by = 0;
        } else if (stopped_by == SIGTRAP || stopped_by == SIGSTOP) {
            stopped_by = 0;
        }
        ptrace(is_done() ? PTRACE_DETACH : PTRACE_SYSCALL, thread, 0, (void *)(intptr_t)stopped_by);
    }
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fputs("inject DIRECTORY NUMBER FAULT LOG PROGRAM [ARGUMENT...]\n", stderr);
        return CANNOT_TRACE;
    }
    directory = argv[1];
    wanted = atol(argv[2]);
    fault = argv[3];
    log_file = fopen(argv[4], "we");
    if (log_file == NULL) die(argv[4]);
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) die("PTRACE_TRACEME");
        raise(SIGSTOP);
        execv(argv[5], argv + 5);
        die(argv[5]);
    }
    int code = trace(child);
    if (!has_fired) fprintf(log_file, "calls %ld\n", counted);
    fclose(log_file);
    return code;
}
