/* SPDX-License-Identifier: Apache-2.0 */
/* System calls by number, as no library makes them: raw_calls HOW PATH there|new. Ends with 0 if the call worked, 3 if it was refused, 4 if the
 * kernel has no such call. See test_protect_races.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char place[4096], other[] = "scratch/f";

/* The 32-bit call gate, which a 64-bit program can use as well. */
static long call32(long nr, long a, long b, long c) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return r;
}

static long try(const char *how, int there) {
    struct open_how oh = {.flags = O_WRONLY | (there ? 0 : O_CREAT), .mode = there ? 0 : 0755};

    if (!strcmp(how, "open"))
        return syscall(SYS_open, place, O_WRONLY | (there ? O_TRUNC : O_CREAT), 0755);
    if (!strcmp(how, "open with high bits")) /* the upper half of the flags is not looked at by the kernel */
        return syscall(SYS_open, place, 0xffffffff00000000ul | O_WRONLY | (there ? O_TRUNC : O_CREAT), 0755);
    if (!strcmp(how, "openat with a wild folder")) /* an absolute path makes it irrelevant */
        return syscall(
            SYS_openat, 0x7fffffffdeadbeefl,
            realpath(".", NULL) && chdir(".") == 0 ? strcat(strcat(strcpy(malloc(9000), realpath(".", NULL)), "/"), place) : "",
            O_WRONLY | O_CREAT, 0755);
    if (!strcmp(how, "creat"))
        return syscall(SYS_creat, place, 0755);
    if (!strcmp(how, "rename"))
        return syscall(SYS_rename, other, place);
    if (!strcmp(how, "renameat"))
        return syscall(SYS_renameat, AT_FDCWD, other, AT_FDCWD, place);
    if (!strcmp(how, "link"))
        return there ? syscall(SYS_link, place, "scratch/l") : syscall(SYS_link, other, place);
    if (!strcmp(how, "symlink"))
        return syscall(SYS_symlink, "x", place);
    if (!strcmp(how, "mknod"))
        return syscall(SYS_mknod, place, S_IFREG | 0755, 0);
    if (!strcmp(how, "mkdir"))
        return syscall(SYS_mkdir, place, 0755);
    if (!strcmp(how, "truncate"))
        return syscall(SYS_truncate, place, 0);
    if (!strcmp(how, "chmod"))
        return syscall(SYS_chmod, place, 0755);
    if (!strcmp(how, "fchmodat2"))
        return syscall(452, AT_FDCWD, place, 0755, 0);
    if (!strcmp(how, "setxattrat"))
        return syscall(463, AT_FDCWD, place, 0, "user.x", &(struct {
                           unsigned long v;
                           unsigned n, f;
                       }){(unsigned long)"1", 1, 0},
                       16);
    if (!strcmp(how, "unlink"))
        return syscall(SYS_unlink, place);
    if (!strcmp(how, "openat2"))
        return syscall(SYS_openat2, AT_FDCWD, place, &oh, sizeof oh);
    if (!strcmp(how, "io_uring")) {
        char params[256] = {0};
        return syscall(SYS_io_uring_setup, 4, params);
    }
    if (!strcmp(how, "32-bit open")) {
        errno = 0;
        return call32(5, (long)place, O_WRONLY | (there ? 0 : O_CREAT), 0755);
    }
    if (!strcmp(how, "x32 open"))
        return syscall(0x40000000 | SYS_open, place, O_WRONLY | (there ? 0 : O_CREAT), 0755);
    return -2;
}

int main(int argc, char **argv) {
    long r;

    if (argc != 4)
        return 9;
    strcpy(place, argv[2]);
    r = try(argv[1], !strcmp(argv[3], "there"));
    printf("%ld %s\n", r, r < 0 ? strerror(errno) : "OK");
    return r >= 0 ? 0 : r == -2 ? 9 : errno == ENOSYS ? 4 : 3;
}
