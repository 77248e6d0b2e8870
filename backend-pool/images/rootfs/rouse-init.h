/* What the parts of PID 1 share. */
#pragma once

#define SEQ_BYTES 32

/* Volumes are numbered from 1, as the slots that their disks are plugged into. */
#define SLOTS 4

/* Run a program to its end, on any thread but the first: answers its exit status, 127 when it could not be run. */
int run_program(char *const argv[]);

/*
 * Programs stand still from `stand_still` on, which calls `stands` with `seq` once they do, until `go_on`, or for half a
 * second in which the virtual CPUs run. `standing_prepare` comes first, once, with PID 1's own priority above it all.
 */
void standing_prepare(void);
void stand_still(const char *seq, void (*stands)(const char *seq));
void go_on(void);

/* End what this machine takes for TCP connections with its host, but those of one local port. */
void end_connections(unsigned int kept_port);

/* Each answers 0 or an errno; they may wait, so they have threads of their own. */
int volume_mount(int slot, int read_only, const char *path);
int volume_unmount(int slot);
int volume_grow(int slot);
int volume_thaw(int slot);
/* The run of freezes that this one is, for `volume_thaw_later`, goes to `run`. */
int volume_freeze(int slot, unsigned int *run);
/* Thaws after half a minute unless there was a thaw or another freeze meanwhile. */
void volume_thaw_later(int slot, unsigned int run);
