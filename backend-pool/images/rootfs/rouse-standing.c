/*
 * Programs stand still while a state is saved, and until the run that goes on from it has drawn new random numbers: two
 * runs of one state would draw the same ones until then. The kernel hears of a copy by itself, but late, by a work queue.
 *
 * A thread of real-time priority keeps each CPU busy meanwhile. Programs notice nothing: to freeze them by a cgroup or a
 * signal would cut system calls short (EINTR), and one that waits for a disk can't be frozen.
 */
#define _GNU_SOURCE
#include "rouse-init.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Below what the kernel lets real-time threads have of each second (950 ms). */
#define LONGEST_NS 500000000ll
#define STACK_BYTES 65536
#define KEEPER_PRIORITY 1
#define FIRST_PRIORITY 2 /* the host's lines are heard while CPUs are kept */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static int keepers, arrived;
static unsigned int run; /* of the latest time that programs were to stand still */
static atomic_uint over; /* the latest of those runs that is at its end */
static char answer_to[SEQ_BYTES];
static void (*tell)(const char *seq);

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void *keeper(void *unused) {
  unsigned int kept = 0;
  for (;;) {
    pthread_mutex_lock(&lock);
    while (run == kept) pthread_cond_wait(&asked, &lock);
    kept = run;
    int is_last = ++arrived == keepers;
    pthread_mutex_unlock(&lock);
    long long end = now_ns() + LONGEST_NS;
    if (is_last) tell(answer_to);
    while ((int)(atomic_load(&over) - kept) < 0 && now_ns() < end) {
      for (int i = 0; i < 64; i++) __builtin_ia32_pause();
    }
  }
  return unused;
}

void standing_prepare(void) {
  struct sched_param first = {.sched_priority = FIRST_PRIORITY}, keeps = {.sched_priority = KEEPER_PRIORITY};
  /* What PID 1 starts is an ordinary program. */
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) < 0) return;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  for (long cpu = 0; cpu < cpus; cpu++) {
    pthread_t thread;
    pthread_attr_t attributes;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &keeps);
    if (pthread_create(&thread, &attributes, keeper, NULL) == 0) keepers++;
    pthread_attr_destroy(&attributes);
  }
}

void stand_still(const char *seq, void (*stands)(const char *seq)) {
  go_on();
  pthread_mutex_lock(&lock);
  snprintf(answer_to, sizeof answer_to, "%s", seq);
  tell = stands;
  arrived = 0;
  if (keepers > 0) run++;
  else stands(seq);
  pthread_cond_broadcast(&asked);
  pthread_mutex_unlock(&lock);
}

void go_on(void) {
  pthread_mutex_lock(&lock);
  atomic_store(&over, run);
  pthread_mutex_unlock(&lock);
}
