/* Volumes: disks that the host plugs in. Each is known by its serial, and holds an ext4 file system of its own. */
#define _GNU_SOURCE
#include "rouse-init.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define APPEARS_MS 15000
#define THAWED_SECONDS 30

static pthread_mutex_t freezes = PTHREAD_MUTEX_INITIALIZER;
static unsigned int runs[SLOTS + 1];

/* The device of a slot's disk, as a path; 0 when there is none. */
static int find_device(int slot, char device[64], dev_t *number) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, "rouse-volume-%d", slot);
  DIR *blocks = opendir("/sys/block");
  if (!blocks) return 0;
  struct dirent *entry;
  int found = 0;
  while (!found && (entry = readdir(blocks))) {
    if (strncmp(entry->d_name, "vd", 2) != 0) continue;
    char path[320], serial[64] = "";
    snprintf(path, sizeof path, "/sys/block/%s/serial", entry->d_name);
    FILE *file = fopen(path, "re");
    if (!file) continue;
    struct stat info;
    if (fscanf(file, "%63s", serial) == 1 && strcmp(serial, wanted) == 0) {
      snprintf(device, 64, "/dev/%.50s", entry->d_name);
      found = stat(device, &info) == 0 && S_ISBLK(info.st_mode);
      if (found) *number = info.st_rdev;
    }
    fclose(file);
  }
  closedir(blocks);
  return found;
}

/* The kernel writes a space in a path as \040. */
static void unescape(char *text) {
  char *to = text;
  for (char *at = text; *at; to++) {
    unsigned int byte;
    if (at[0] == '\\' && sscanf(at + 1, "%3o", &byte) == 1) {
      *to = (char)byte;
      at += 4;
    } else {
      *to = *at++;
    }
  }
  *to = 0;
}

/* Where a device is mounted, the last one first, as an array that ends with NULL; `read_only` is the first one's. */
static char **mount_points(dev_t number, int *read_only) {
  static const size_t max = 64;
  char **points = calloc(max + 1, sizeof *points);
  size_t count = 0;
  FILE *table = points ? fopen("/proc/self/mountinfo", "re") : NULL;
  if (!table) return points;
  char *line = NULL;
  size_t room = 0;
  while (count < max && getline(&line, &room, table) > 0) {
    unsigned int major, minor;
    char *path = NULL, options[8] = "";
    if (sscanf(line, "%*d %*d %u:%u %*s %ms %7[^, ]", &major, &minor, &path, options) == 4 &&
        makedev(major, minor) == number) {
      unescape(path);
      memmove(points + 1, points, count * sizeof *points);
      points[0] = path;
      count++;
      if (read_only) *read_only = strcmp(options, "ro") == 0;
    } else {
      free(path);
    }
  }
  free(line);
  fclose(table);
  return points;
}

static void free_points(char **points) {
  for (char **at = points; at && *at; at++) free(*at);
  free(points);
}

/* Where the volume is mounted; NULL when it is not. For the caller to free. */
static char *mount_point(int slot) {
  char device[64];
  dev_t number;
  if (!find_device(slot, device, &number)) return NULL;
  char **points = mount_points(number, NULL);
  char *first = points && points[0] ? strdup(points[0]) : NULL;
  free_points(points);
  return first;
}

static int make_folders(const char *path) {
  char part[PATH_MAX];
  if (path[0] != '/' || strlen(path) >= sizeof part) return EINVAL;
  for (const char *at = path + 1; *at; at++) {
    if (at[1] && at[1] != '/') continue;
    snprintf(part, sizeof part, "%.*s", (int)(at + 1 - path), path);
    if (mkdir(part, 0755) < 0 && errno != EEXIST) return errno;
  }
  struct stat info;
  if (stat(path, &info) < 0) return errno;
  return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

int volume_mount(int slot, int read_only, const char *path) {
  char device[64];
  dev_t number;
  for (int waited = 0; !find_device(slot, device, &number); waited += 10) {
    if (waited >= APPEARS_MS) return ENODEV;
    usleep(10000);
  }
  unsigned long flags = MS_NOATIME | (read_only ? MS_RDONLY : 0);
  int fault = make_folders(path), is_read_only = 0, is_there = 0;
  if (fault) return fault;
  char **points = mount_points(number, &is_read_only);
  for (char **at = points; at && *at; at++) is_there |= strcmp(*at, path) == 0;
  free_points(points);
  if (is_there && is_read_only == read_only) return 0;
  if (is_there) return mount(NULL, path, NULL, MS_REMOUNT | flags, NULL) < 0 ? errno : 0;
  return mount(device, path, "ext4", flags, NULL) < 0 ? errno : 0;
}

int volume_unmount(int slot) {
  char device[64];
  dev_t number;
  if (!find_device(slot, device, &number)) return 0;
  volume_thaw(slot); /* what is frozen would be mounted for ever */
  char **points = mount_points(number, NULL);
  int fault = 0;
  for (char **at = points; at && *at && !fault; at++)
    if (umount2(*at, 0) < 0 && errno != EINVAL && errno != ENOENT) fault = errno;
  free_points(points);
  return fault;
}

int volume_grow(int slot) {
  char device[64];
  dev_t number;
  if (!find_device(slot, device, &number)) return ENODEV;
  char *argv[] = {"/usr/sbin/resize2fs", device, NULL};
  return run_program(argv);
}

/* Answers 0 where there is nothing to freeze or thaw, and where that was done already. */
static int control(int slot, unsigned long request, int done_already) {
  char *path = mount_point(slot);
  if (!path) return 0;
  int fault = 0, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ioctl(fd, request, 0) < 0) fault = errno == done_already ? 0 : errno;
  if (fd >= 0) close(fd);
  free(path);
  return fault;
}

/* Freezing waits for the disk, so the lock is not held meanwhile: a thaw must always get through. */
int volume_freeze(int slot, unsigned int *run) {
  pthread_mutex_lock(&freezes);
  *run = ++runs[slot];
  pthread_mutex_unlock(&freezes);
  return control(slot, FIFREEZE, EBUSY);
}

int volume_thaw(int slot) {
  pthread_mutex_lock(&freezes);
  runs[slot]++;
  pthread_mutex_unlock(&freezes);
  return control(slot, FITHAW, EINVAL);
}

void volume_thaw_later(int slot, unsigned int run) {
  sleep(THAWED_SECONDS);
  pthread_mutex_lock(&freezes);
  int is_last = runs[slot] == run;
  pthread_mutex_unlock(&freezes);
  if (is_last) volume_thaw(slot);
}
