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
 *
 * What was copied is remembered by a fingerprint of each page, so that the last step reads one file and not two. NH, a
 * universal hash, with a random key of each process: two contents that don't know the key are taken for the same with a
 * probability of 2^-64.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define PAGE 4096UL
#define WORDS (PAGE / sizeof(uint32_t))
#define CHUNK_PAGES 256UL /* what a thread takes at a time: 1 MiB */
#define THREADS_MAX 4

struct fingerprint {
  uint64_t halves[2];
};

static int from, to;
static const unsigned char *source, *target;
static size_t size, pages;
static unsigned char *is_data;  /* by page: FROM may have something there */
static unsigned char *is_held;  /* by page: TO may have something there */
static unsigned char *is_known; /* by page: what TO has there is what the fingerprint says */
static struct fingerprint *fingerprints;
static uint32_t key[2][WORDS] __attribute__((aligned(64)));
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

#ifdef __x86_64__
__attribute__((target("avx2"))) static struct fingerprint fingerprint_avx2(const unsigned char *page) {
  __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (size_t at = 0; at < WORDS; at += 8) {
    __m256i words = _mm256_load_si256((const __m256i *)(page + at * 4));
    for (int half = 0; half < 2; half++) {
      __m256i keyed = _mm256_add_epi32(words, _mm256_load_si256((const __m256i *)(key[half] + at)));
      __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
      sums[half] = _mm256_add_epi64(sums[half], product);
    }
  }
  struct fingerprint all;
  for (int half = 0; half < 2; half++) {
    uint64_t lanes[4];
    _mm256_storeu_si256((__m256i *)lanes, sums[half]);
    all.halves[half] = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
  return all;
}
#endif

static struct fingerprint fingerprint_plain(const unsigned char *page) {
  const uint32_t *words = (const uint32_t *)page;
  struct fingerprint all = {{0, 0}};
  for (size_t at = 0; at < WORDS; at += 2)
    for (int half = 0; half < 2; half++)
      all.halves[half] +=
        (uint64_t)(uint32_t)(words[at] + key[half][at]) * (uint32_t)(words[at + 1] + key[half][at + 1]);
  return all;
}

static struct fingerprint (*fingerprint)(const unsigned char *page) = fingerprint_plain;

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

/* Write pages as they are in `bytes`, which nobody else writes to. */
static void put(size_t first, size_t end, const unsigned char *bytes) {
  size_t at = first * PAGE, stop = smaller(end * PAGE, size);
  while (at < stop) {
    ssize_t n = pwrite(to, bytes, stop - at, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("writing");
    at += (size_t)n;
    bytes += n;
  }
  memset(is_held + first, 1, end - first);
  written += end - first;
}

/* FROM has a hole where TO has something. */
static void clear(size_t first, size_t end) {
  off_t at = (off_t)(first * PAGE), bytes = (off_t)((end - first) * PAGE);
  if (fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes) < 0) {
    static const unsigned char zeros[PAGE];
    if (errno != EOPNOTSUPP) fail("making a hole");
    for (size_t page = first; page < end; page++) put(page, page + 1, zeros);
  }
  memset(is_held + first, 0, end - first);
  memset(is_known + first, 0, end - first);
  written += end - first;
}

static int is_same(struct fingerprint a, struct fingerprint b) {
  return a.halves[0] == b.halves[0] && a.halves[1] == b.halves[1];
}

/* Whether TO must be given a page that FROM has; then it is in `copy`, as it is at one instant. */
static int takes(size_t page, unsigned char *copy) {
  const unsigned char *at = source + page * PAGE;
  size_t bytes = smaller(PAGE, size - page * PAGE);
  if (bytes < PAGE) {
    /* The last page of a file that has no whole number of them. */
    memcpy(copy, at, bytes);
    return is_held[page] ? memcmp(copy, target + page * PAGE, bytes) != 0 : !is_zero(copy, bytes);
  }
  if (is_known[page] && is_same(fingerprint(at), fingerprints[page])) return 0;
  if (!is_held[page] && is_zero(at, PAGE)) return 0;
  memcpy(copy, at, PAGE);
  int differs = is_known[page] || !is_held[page] || memcmp(copy, target + page * PAGE, PAGE) != 0;
  fingerprints[page] = fingerprint(copy);
  is_known[page] = 1;
  return differs;
}

static void mend_chunk(size_t page, size_t end, unsigned char *copy) {
  while (page < end) {
    size_t first = page;
    if (is_data[page]) {
      while (page < end && is_data[page] && takes(page, copy + (page - first) * PAGE)) page++;
      if (page > first) put(first, page, copy);
      else page++;
    } else {
      while (page < end && !is_data[page] && is_held[page]) page++;
      if (page > first) clear(first, page);
      else page++;
    }
  }
}

static void *mend_chunks(void *unused) {
  unsigned char *copy = aligned_alloc(PAGE, CHUNK_PAGES * PAGE);
  if (!copy) fail("memory");
  for (;;) {
    size_t page = next_chunk++ * CHUNK_PAGES;
    if (page >= pages) break;
    mend_chunk(page, smaller(page + CHUNK_PAGES, pages), copy);
  }
  free(copy);
  return unused;
}

/* Make TO what FROM is; answers how many pages were written. */
static size_t mend(int threads) {
  /* Where the file system can share blocks there is nothing to compare. */
  static int can_share = 1;
  can_share = can_share && ioctl(to, FICLONE, from) == 0;
  if (can_share) return 0;
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

static void open_files(const char *from_path, const char *to_path) {
  struct stat info;
  from = open(from_path, O_RDONLY | O_CLOEXEC);
  if (from < 0 || fstat(from, &info) < 0) fail(from_path);
  to = open(to_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (to < 0) fail(to_path);
  size = (size_t)info.st_size;
  pages = (size + PAGE - 1) / PAGE;
  if (ftruncate(to, info.st_size) < 0) fail("setting the length");
  is_data = calloc(pages + 1, 1);
  is_held = calloc(pages + 1, 1);
  is_known = calloc(pages + 1, 1);
  fingerprints = calloc(pages + 1, sizeof *fingerprints);
  if (!is_data || !is_held || !is_known || !fingerprints) fail("memory");
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
  for (size_t got = 0; got < sizeof key;) {
    ssize_t n = getrandom((char *)key + got, sizeof key - got, 0);
    if (n < 0) fail("random numbers");
    got += (size_t)n;
  }
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) fingerprint = fingerprint_avx2;
#endif
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
    if (ends) _exit(0); /* nobody waits for the mappings to be taken apart */
  }
  return 1;
}
