/*
 * PID 1 of a guest: runs boot.sh, keeps the guest agent alive, reaps orphans, and answers the host over a
 * virtio-serial port. It is native because the wake line is on the path of every first request after a sleep,
 * and whatever code runs first there pays for being cold.
 *
 * Host to guest, one line each; the answer is "ok SEQ" or "ok SEQ VALUES":
 *   wake SEQ UNIX_NS HOSTNAME MACHINE_ID BOOT_ID ENTROPY [new|copy]
 *                       set clock, identity and random numbers (hex). A machine whose host name is another one is a
 *                       copy: connections with the host, which were its source's, end first. The host says "copy" of
 *                       one that may have the same name, and "new" of one whose source had no connections
 *   still SEQ                                              programs stand still until "wake", or for half a second
 *   sync SEQ                                               flush file systems
 *   cpu SEQ                                                busy clock ticks since boot, all CPUs
 *   port SEQ PORT                                          1: listens where loopback reaches; 2: elsewhere; 0: no
 *   off SEQ                                                flush, freeze volumes, and power off
 * Volumes: disks with the serial "rouse-volume-SLOT". The value is 0 or an errno; answers come in any order:
 *   mount SEQ SLOT rw|ro PATH_HEX                          wait for the disk, make the folder, mount; twice is once
 *   unmount SEQ SLOT                                       from everywhere
 *   grow SEQ SLOT                                          file system to the size of the disk; value: exit status
 *   freeze SEQ SLOT                                        file system whole on the disk, until "thaw" or for 30 s
 *   thaw SEQ SLOT
 * Guest to host, unasked: "up" once boot.sh is done.
 */
#define _GNU_SOURCE
#include "rouse-init.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WIRE_NAME "rouse.wire"
#define LINE_MAX_BYTES 12288 /* a path of 4096 bytes, in hex, and some */
#define AGENT_PORT 10800
#define HEARD_MS 100 /* after a host agent's start its first line may come before the kernel knows that it listens */

static int wire = -1;
static pid_t agent = 0;
static int sync_asked[2]; /* pipe of numbers to answer */
static pthread_mutex_t lines;

/* Whole lines, whichever threads have something to say. */
static void say(const char *text) {
  size_t left = strlen(text);
  int tries = HEARD_MS;
  pthread_mutex_lock(&lines);
  while (left > 0) {
    ssize_t n = write(wire, text, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && tries-- > 0) {
      usleep(1000);
      continue;
    }
    if (n < 0) break; /* nobody listens; the host asks again */
    text += n;
    left -= (size_t)n;
  }
  pthread_mutex_unlock(&lines);
}

/* Threads of all priorities have something to say: whoever is about to say it must not be kept from it. */
static void prepare_saying(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&lines, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static void ok(const char *seq, const char *values) {
  char out[256];
  snprintf(out, sizeof out, values ? "ok %s %s\n" : "ok %s\n", seq, values);
  say(out);
}

static void put(const char *path, const char *text, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) { /* a read-only root is the user's choice */
  }
  close(fd);
}

static void seed(const char *hex) {
  struct {
    struct rand_pool_info info;
    unsigned char bytes[64];
  } pool;
  int size = 0;
  while (size < 64 && hex[0] && hex[1]) {
    unsigned int byte;
    if (sscanf(hex, "%2x", &byte) != 1) break;
    pool.bytes[size++] = (unsigned char)byte;
    hex += 2;
  }
  pool.info.entropy_count = size * 8;
  pool.info.buf_size = size;
  int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  ioctl(fd, RNDADDENTROPY, &pool);
  ioctl(fd, RNDRESEEDCRNG, 0);
  close(fd);
}

/* Clones share the boot of their golden machine; its id must not be shared, and the kernel makes only one. */
static void identify_boot(const char *hex) {
  char id[40];
  snprintf(id, sizeof id, "%.8s-%.4s-4%.3s-a%.3s-%.12s\n", hex, hex + 8, hex + 13, hex + 17, hex + 20);
  put("/run/rouse/boot_id", id, 0444);
  mount("/run/rouse/boot_id", "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL);
}

/* sethostname(2) takes no name the label rules would refuse; /etc files follow only when the name is new. */
static void identify(const char *hostname, const char *machine_id, const char *boot, const char *origin) {
  char now[256] = "";
  gethostname(now, sizeof now - 1);
  if (!origin[0] && strcmp(now, hostname) == 0) return;
  if (strcmp(origin, "new") != 0) end_connections(AGENT_PORT);
  sethostname(hostname, strlen(hostname));
  char text[512];
  snprintf(text, sizeof text, "%s\n", hostname);
  put("/etc/hostname", text, 0644);
  snprintf(text, sizeof text, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n", hostname);
  put("/etc/hosts", text, 0644);
  snprintf(text, sizeof text, "%s\n", machine_id);
  chmod("/etc/machine-id", 0644);
  put("/etc/machine-id", text, 0444);
  identify_boot(boot);
}

static void on_wake(char *seq, char *rest) {
  char hostname[128], machine_id[64], boot[64], entropy[132], origin[8] = "";
  long long ns;
  if (sscanf(rest, "%lld %127s %63s %63s %131s %7s", &ns, hostname, machine_id, boot, entropy, origin) < 5) return;
  if (strlen(boot) < 32) return;
  struct timespec clock = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  clock_settime(CLOCK_REALTIME, &clock);
  seed(entropy);
  identify(hostname, machine_id, boot, origin);
  go_on();
  ok(seq, NULL);
}

static void on_stand(const char *seq) {
  ok(seq, NULL);
}

static void on_cpu(char *seq) {
  unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
  char values[64] = "0";
  FILE *stat = fopen("/proc/stat", "re");
  if (stat) {
    if (fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait, &irq,
               &softirq, &steal) == 8)
      snprintf(values, sizeof values, "%llu", user + nice + system + irq + softirq);
    fclose(stat);
  }
  ok(seq, values);
}

/* State 0A in /proc/net/tcp is LISTEN; addresses are hex in network order of 32-bit host words. */
static int listens(const char *table, unsigned int port, int v6) {
  char line[512];
  int found = 0;
  FILE *tcp = fopen(table, "re");
  if (!tcp) return 0;
  while (fgets(line, sizeof line, tcp)) {
    char address[40];
    unsigned int local, state;
    if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", address, &local, &state) != 3) continue;
    if (state != 0x0A || local != port) continue;
    int reachable = v6 ? strcmp(address, "00000000000000000000000000000000") == 0
                       : strcmp(address, "00000000") == 0 || strcmp(address, "0100007F") == 0;
    found = reachable ? 1 : (found ? found : 2);
    if (found == 1) break;
  }
  fclose(tcp);
  return found;
}

static void on_port(char *seq, char *rest) {
  unsigned int port = (unsigned int)strtoul(rest, NULL, 10);
  int at = listens("/proc/net/tcp", port, 0);
  if (at != 1) {
    int six = listens("/proc/net/tcp6", port, 1);
    if (six == 1 || at == 0) at = six;
  }
  char value[8];
  snprintf(value, sizeof value, "%d", at);
  ok(seq, value);
}

/*
 * sync(2) can take long with much dirty data, and a wake line must never be late, so a thread does it. It waits ready
 * made: what a fork costs falls on every pause, most of all right after a wake, when all code is cold.
 */
static void *sync_thread(void *unused) {
  char seq[SEQ_BYTES];
  while (read(sync_asked[0], seq, sizeof seq) == sizeof seq) {
    sync();
    ok(seq, NULL);
  }
  return unused;
}

static void on_sync(const char *seq) {
  char asked[SEQ_BYTES] = "";
  snprintf(asked, sizeof asked, "%s", seq);
  if (write(sync_asked[1], asked, sizeof asked) < 0) { /* the host's limit covers it */
  }
}

struct volume_work {
  char seq[SEQ_BYTES], line[8];
  int slot, read_only;
  char path[]; /* of a mount */
};

/* Disks may be late and file systems busy, and PID 1 must not wait for them. */
static void *volume_thread(void *given) {
  struct volume_work *work = given;
  unsigned int run = 0;
  int is_freeze = strcmp(work->line, "freeze") == 0, value = EINVAL;
  if (is_freeze) value = volume_freeze(work->slot, &run);
  else if (strcmp(work->line, "thaw") == 0) value = volume_thaw(work->slot);
  else if (strcmp(work->line, "mount") == 0) value = volume_mount(work->slot, work->read_only, work->path);
  else if (strcmp(work->line, "unmount") == 0) value = volume_unmount(work->slot);
  else if (strcmp(work->line, "grow") == 0) value = volume_grow(work->slot);
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  ok(work->seq, text);
  if (is_freeze) volume_thaw_later(work->slot, run);
  free(work);
  return NULL;
}

static void on_volume(const char *line, const char *seq, const char *rest) {
  int slot = 0, at = 0;
  char mode[4] = "rw";
  size_t room = strlen(rest) + 1;
  struct volume_work *work = calloc(1, sizeof *work + room);
  pthread_t thread;
  if (!work) return;
  int fields = sscanf(rest, "%d %3s %n", &slot, mode, &at);
  snprintf(work->seq, sizeof work->seq, "%s", seq);
  snprintf(work->line, sizeof work->line, "%.7s", line);
  work->slot = slot;
  work->read_only = strcmp(mode, "ro") == 0;
  unsigned int byte;
  if (fields == 2)
    for (char *to = work->path; sscanf(rest + at, "%2x", &byte) == 1 && byte != 0; at += 2) *to++ = (char)byte;
  if (slot >= 1 && slot <= SLOTS && pthread_create(&thread, NULL, volume_thread, work) == 0) {
    pthread_detach(thread);
    return;
  }
  ok(seq, slot >= 1 && slot <= SLOTS ? "11" : "22"); /* EAGAIN, EINVAL */
  free(work);
}

static void off(const char *seq) {
  unsigned int run;
  sync();
  for (int slot = 1; slot <= SLOTS; slot++) volume_freeze(slot, &run);
  ok(seq, NULL);
  usleep(20000);
  reboot(RB_POWER_OFF);
}

static void on_line(char *line) {
  char *seq = strchr(line, ' ');
  if (!seq) return;
  *seq++ = 0;
  char *rest = strchr(seq, ' ');
  if (rest)
    *rest++ = 0;
  else
    rest = "";
  if (strcmp(line, "wake") == 0) on_wake(seq, rest);
  else if (strcmp(line, "still") == 0) stand_still(seq, on_stand);
  else if (strcmp(line, "sync") == 0) on_sync(seq);
  else if (strcmp(line, "cpu") == 0) on_cpu(seq);
  else if (strcmp(line, "port") == 0) on_port(seq, rest);
  else if (strcmp(line, "off") == 0) off(seq);
  else on_volume(line, seq, rest);
}

static pid_t start(char *const argv[]) {
  pid_t pid = fork();
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    execv(argv[0], argv);
    _exit(127);
  }
  return pid;
}

/* Programs that a thread waits for: PID 1's loop reaps everything, and tells. */
static pthread_mutex_t children_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t children_ended = PTHREAD_COND_INITIALIZER;
static struct child {
  pid_t pid;
  int status, ended;
} children[SLOTS * 2];

int run_program(char *const argv[]) {
  int status = 127 << 8;
  pthread_mutex_lock(&children_lock);
  struct child *child = children, *end = children + SLOTS * 2;
  while (child < end && child->pid != 0) child++;
  pid_t pid = child < end ? start(argv) : -1;
  if (pid > 0) {
    *child = (struct child){.pid = pid};
    while (!child->ended) pthread_cond_wait(&children_ended, &children_lock);
    status = child->status;
    child->pid = 0;
  }
  pthread_mutex_unlock(&children_lock);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void note_end(pid_t pid, int status) {
  pthread_mutex_lock(&children_lock);
  for (struct child *child = children; child < children + SLOTS * 2; child++) {
    if (child->pid != pid) continue;
    child->status = status;
    child->ended = 1;
    pthread_cond_broadcast(&children_ended);
  }
  pthread_mutex_unlock(&children_lock);
}

static void start_agent(void) {
  static char *const argv[] = {"/bin/sh", "/usr/lib/rouse/agent.sh", NULL};
  agent = start(argv);
}

static int open_wire(void) {
  DIR *ports = opendir("/sys/class/virtio-ports");
  if (!ports) return -1;
  struct dirent *entry;
  int fd = -1;
  while (fd < 0 && (entry = readdir(ports))) {
    char path[320], name[64] = "";
    snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
    FILE *file = fopen(path, "re");
    if (!file) continue;
    if (fscanf(file, "%63s", name) == 1 && strcmp(name, WIRE_NAME) == 0) {
      snprintf(path, sizeof path, "/dev/%s", entry->d_name);
      fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    }
    fclose(file);
  }
  closedir(ports);
  return fd;
}

static void reap(void) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    note_end(pid, status);
    if (pid == agent) {
      usleep(200000); /* an agent that dies at once must not spin */
      start_agent();
    }
  }
}

int main(void) {
  static char *const boot[] = {"/bin/sh", "/usr/lib/rouse/boot.sh", NULL};
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  int signals = signalfd(-1, &mask, SFD_CLOEXEC);
  reboot(RB_DISABLE_CAD);

  pthread_t syncer;
  if (pipe2(sync_asked, O_CLOEXEC) < 0 || pthread_create(&syncer, NULL, sync_thread, NULL) != 0) return 1;

  int status;
  pid_t pid = start(boot);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  prepare_saying();
  standing_prepare();
  wire = open_wire();
  start_agent();
  say("up\n");

  static char buffer[LINE_MAX_BYTES];
  size_t used = 0;
  useconds_t alone = 20; /* milliseconds */
  for (;;) {
    struct pollfd fds[2] = {{.fd = signals, .events = POLLIN}, {.fd = wire, .events = POLLIN}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents) {
      struct signalfd_siginfo info;
      if (read(signals, &info, sizeof info) > 0) reap();
    }
    if (fds[1].revents & POLLIN) {
      ssize_t n = read(wire, buffer + used, sizeof buffer - 1 - used);
      if (n > 0) {
        alone = 20;
        used += (size_t)n;
        buffer[used] = 0;
        char *end;
        while ((end = strchr(buffer, '\n'))) {
          *end = 0;
          on_line(buffer);
          used -= (size_t)(end + 1 - buffer);
          memmove(buffer, end + 1, used + 1);
        }
        if (used == sizeof buffer - 1) used = 0; /* a line that long is not the host's */
      }
    } else if (fds[1].revents & POLLHUP) {
      /* The host's end is closed, and poll would return at once for ever: look again ever more rarely. */
      usleep(alone * 1000);
      if (alone < 640) alone *= 2;
    }
  }
}
