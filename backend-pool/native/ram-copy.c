/*
 * Copies a file that somebody writes to, such as the RAM of a machine that runs: most of it while it changes, and the
 * rest while it stands still. Runs on the host; one process for both steps, so that no start of a process falls into
 * the time that a machine stands still.
 *
 *   ram-copy FROM TO
 *
 * TO is made, or is a file of which only what differs is written. Lines on stdin, each answered on stdout:
 *   copy     makes TO what FROM is as far as it does not change meanwhile     ready PAGES
 *   finish   the same with all processors, and ends                           done PAGES
 * PAGES is how many were written. It ends with 1 and a line on stderr when it can't go on, and when stdin ends early.
 * Pages of zeros stay holes. Nothing is synced.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096UL
#define CHUNK_PAGES 256UL /* what a thread takes at a time: 1 MiB */
#define THREADS_MAX 4

static int from, to;
static const unsigned char *source, *target;
static size_t size, pages;
static unsigned char *is_data; /* by page: FROM may have something there */
static unsigned char *is_held; /* by page: TO may have something there */
static atomic_size_t next_chunk, written;

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "ram-copy: %s: %s\n", what, strerror(errno));
  _exit(1);
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static int is_zero(const unsigned char *at, size_t bytes) {
  return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* Mark the pages of a file that are no holes. */
static void mark_data(int fd, unsigned char *marks) {
  memset(marks, 0, pages);
  off_t at = 0;
  while ((size_t)at < size) {
    off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0) {
      if (errno == ENXIO) return;
      fail("looking for data");
    }
    off_t hole = lseek(fd, data, SEEK_HOLE);
    if (hole < 0) fail("looking for holes");
    size_t first = (size_t)data / PAGE, end = smaller(((size_t)hole + PAGE - 1) / PAGE, pages);
    if (first < end) memset(marks + first, 1, end - first);
    at = hole;
  }
}

static void put(size_t first, size_t end) {
  size_t at = first * PAGE, stop = smaller(end * PAGE, size);
  while (at < stop) {
    ssize_t n = pwrite(to, source + at, stop - at, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("writing");
    at += (size_t)n;
  }
  memset(is_held + first, 1, end - first);
  written += end - first;
}

/* FROM has a hole where TO has something. */
static void clear(size_t first, size_t end) {
  off_t at = (off_t)(first * PAGE), bytes = (off_t)((end - first) * PAGE);
  if (fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes) < 0) {
    if (errno != EOPNOTSUPP) fail("making a hole");
    put(first, end); /* FROM reads as zeros there */
    return;
  }
  memset(is_held + first, 0, end - first);
  written += end - first;
}

enum { SAME, PUT, CLEAR };

static int wanted(size_t page) {
  if (!is_data[page]) return is_held[page] ? CLEAR : SAME;
  size_t at = page * PAGE, bytes = smaller(PAGE, size - at);
  if (is_held[page]) return memcmp(source + at, target + at, bytes) == 0 ? SAME : PUT;
  return is_zero(source + at, bytes) ? SAME : PUT;
}

static void *mend_chunks(void *unused) {
  for (;;) {
    size_t page = next_chunk++ * CHUNK_PAGES;
    if (page >= pages) return unused;
    size_t end = smaller(page + CHUNK_PAGES, pages);
    while (page < end) {
      int what = wanted(page);
      size_t first = page++;
      if (what == SAME) continue;
      while (page < end && wanted(page) == what) page++;
      if (what == PUT) put(first, page);
      else clear(first, page);
    }
  }
}

/* Make TO what FROM is; answers how many pages were written. */
static size_t mend(int threads) {
  mark_data(from, is_data);
  next_chunk = 0;
  written = 0;
  pthread_t helpers[THREADS_MAX];
  int started = 0;
  while (started < threads - 1 && pthread_create(&helpers[started], NULL, mend_chunks, NULL) == 0) started++;
  mend_chunks(NULL);
  while (started > 0) pthread_join(helpers[--started], NULL);
  return written;
}

/* So that comparing finds both files in this process's page tables. */
static void touch(void) {
  for (size_t page = 0; page < pages; page++)
    if (is_held[page]) (void)*(volatile const unsigned char *)(target + page * PAGE);
}

static void open_files(const char *from_path, const char *to_path) {
  struct stat info;
  from = open(from_path, O_RDONLY | O_CLOEXEC);
  if (from < 0 || fstat(from, &info) < 0) fail(from_path);
  to = open(to_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat old;
  if (to < 0 || fstat(to, &old) < 0) fail(to_path);
  size = (size_t)info.st_size;
  pages = (size + PAGE - 1) / PAGE;
  /* Where the file system can share blocks, this is all of the first step. */
  if (old.st_size == 0) ioctl(to, FICLONE, from);
  if (ftruncate(to, info.st_size) < 0) fail("setting the length");
  is_data = calloc(pages + 1, 1);
  is_held = calloc(pages + 1, 1);
  if (!is_data || !is_held) fail("memory");
  if (size == 0) return;
  source = mmap(NULL, size, PROT_READ, MAP_SHARED, from, 0);
  target = mmap(NULL, size, PROT_READ, MAP_SHARED, to, 0);
  if (source == MAP_FAILED || target == MAP_FAILED) fail("mapping");
  mark_data(to, is_held);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: ram-copy FROM TO\n");
    return 2;
  }
  open_files(argv[1], argv[2]);
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  int threads = processors < 1 ? 1 : processors > THREADS_MAX ? THREADS_MAX : (int)processors;
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    int ends = strcmp(line, "finish\n") == 0;
    if (!ends && strcmp(line, "copy\n") != 0) continue;
    /* While the machine runs, the other processors are its own. */
    size_t changed = mend(ends ? threads : 1);
    printf(ends ? "done %zu\n" : "ready %zu\n", changed);
    fflush(stdout);
    if (ends) return 0;
    touch();
  }
  return 1;
}
