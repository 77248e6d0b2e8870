/*
 * rouse-redirect PORT SOCKET: the way out of programs that know of no proxy.
 *
 * The guest's kernel sends their connections to 127.0.0.1:PORT. Here each is joined to one to the guest agent (a Unix
 * socket), which is first told in a line where the program meant to go: "203.0.113.7:443". An end of one direction is
 * passed on as one, a broken connection breaks its other half. It waits in epoll alone: nothing ticks.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST 4096 /* connections; the agent takes fewer */
#define BYTES 65536
#define EVENTS 64

struct joint;

struct end {
  struct joint *joint;
  struct end *other;
  int fd;
  unsigned int watched; /* the epoll events that are asked for */
  char *waiting;        /* read from the other end, not yet written here */
  size_t from, to;
  int reads_over, writes_over; /* this end has ended; it has been told that the other one has */
};

struct joint {
  struct end program, agent;
  struct joint *next; /* among those that are over */
  int is_over;
};

static char bytes[BYTES];
static int poller, joints;
static struct joint *over;
static struct sockaddr_un agent_address = {.sun_family = AF_UNIX};

static void fail(const char *what) {
  perror(what);
  exit(1);
}

/* Freed later: events of the same round may still name it. */
static void drop(struct joint *joint, int breaks) {
  if (joint->is_over) return;
  joint->is_over = 1;
  struct linger at_once = {.l_onoff = 1};
  if (breaks) setsockopt(joint->program.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(joint->program.fd);
  close(joint->agent.fd);
  joint->next = over;
  over = joint;
  joints--;
}

static void free_dropped(void) {
  while (over) {
    struct joint *joint = over;
    over = joint->next;
    free(joint->program.waiting);
    free(joint->agent.waiting);
    free(joint);
  }
}

static int watch(struct end *end) {
  /* What has come is read once the other end has taken what came before. */
  unsigned int wanted = (!end->reads_over && end->other->from == end->other->to ? EPOLLIN : 0) |
                        (end->from < end->to ? EPOLLOUT : 0);
  if (wanted == end->watched) return 0;
  /* An end of which nothing is wanted must be out of it: that its peer has gone is told again and again otherwise. */
  int change = !wanted ? EPOLL_CTL_DEL : !end->watched ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  struct epoll_event event = {.events = wanted, .data.ptr = end};
  end->watched = wanted;
  return epoll_ctl(poller, change, end->fd, &event);
}

static int is_later(void) { return errno == EAGAIN || errno == EINTR; }

/* It takes no more, and may still have something to say. */
static void give_up(struct end *to) {
  to->from = to->to = 0;
  to->writes_over = to->other->reads_over = 1;
}

static void pour(struct end *to) {
  while (to->from < to->to) {
    ssize_t size = send(to->fd, to->waiting + to->from, to->to - to->from, MSG_NOSIGNAL);
    if (size < 0 && is_later()) return;
    if (size < 0) give_up(to);
    else to->from += (size_t)size;
  }
  /* Memory is for those that wait. */
  free(to->waiting);
  to->waiting = NULL;
  to->from = to->to = 0;
}

/* Answers -1 when the connection is broken. */
static int take(struct end *from, int is_gone) {
  struct end *to = from->other;
  ssize_t size = recv(from->fd, bytes, sizeof bytes, 0);
  if (size < 0) return is_later() ? 0 : -1;
  if (size == 0) {
    from->reads_over = 1;
    /* One that went before it had heard the end of the other side broke off. */
    return is_gone && !from->writes_over ? -1 : 0;
  }
  ssize_t sent = send(to->fd, bytes, (size_t)size, MSG_NOSIGNAL);
  if (sent < 0 && !is_later()) {
    give_up(to);
    return 0;
  }
  if (sent < 0) sent = 0;
  if (sent == size) return 0;
  to->waiting = malloc((size_t)(size - sent));
  if (!to->waiting) return -1;
  memcpy(to->waiting, bytes + sent, (size_t)(size - sent));
  to->from = 0;
  to->to = (size_t)(size - sent);
  return 0;
}

static void serve(struct end *end, unsigned int events) {
  struct joint *joint = end->joint;
  struct end *other = end->other;
  if (joint->is_over) return;
  int broken = 0;
  if (end->from < end->to) pour(end);
  if (!end->reads_over && other->from == other->to) broken = take(end, events & EPOLLHUP);
  struct end *const both[] = {end, other};
  for (int i = 0; i < 2 && !broken; i++) {
    struct end *one = both[i];
    if (!one->other->reads_over || one->from < one->to || one->writes_over) continue;
    one->writes_over = 1;
    shutdown(one->fd, SHUT_WR);
  }
  int done = end->writes_over && other->writes_over;
  if (broken || done || watch(end) < 0 || watch(other) < 0) drop(joint, broken);
}

static int add(struct end *end) {
  struct epoll_event event = {.events = end->watched = EPOLLIN, .data.ptr = end};
  return epoll_ctl(poller, EPOLL_CTL_ADD, end->fd, &event);
}

static void join(int program, const struct sockaddr_in *meant) {
  char line[32], address[INET_ADDRSTRLEN];
  int agent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
  struct joint *joint = calloc(1, sizeof *joint);
  inet_ntop(AF_INET, &meant->sin_addr, address, sizeof address);
  int size = snprintf(line, sizeof line, "%s:%u\n", address, ntohs(meant->sin_port));
  if (!joint || agent < 0 || connect(agent, (const struct sockaddr *)&agent_address, sizeof agent_address) < 0 ||
      send(agent, line, (size_t)size, MSG_NOSIGNAL) != size) {
    struct linger at_once = {.l_onoff = 1};
    setsockopt(program, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(program);
    if (agent >= 0) close(agent);
    free(joint);
    return;
  }
  setsockopt(program, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  joint->program = (struct end){.joint = joint, .other = &joint->agent, .fd = program};
  joint->agent = (struct end){.joint = joint, .other = &joint->program, .fd = agent};
  joints++;
  if (add(&joint->program) < 0 || add(&joint->agent) < 0) drop(joint, 1);
}

static void greet(int listener) {
  for (int i = 0; i < EVENTS; i++) {
    int program = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (program < 0) {
      /* Without a file to spare the listener would be ready for ever: it is rested, not asked again and again. */
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) usleep(50000);
      return;
    }
    struct sockaddr_in meant, own;
    socklen_t size = sizeof meant, own_size = sizeof own;
    int known = getsockopt(program, SOL_IP, SO_ORIGINAL_DST, &meant, &size) == 0 &&
                getsockname(program, (struct sockaddr *)&own, &own_size) == 0;
    /* One that came here by itself meant nobody. */
    int is_own = known && meant.sin_addr.s_addr == own.sin_addr.s_addr && meant.sin_port == own.sin_port;
    if (!known || is_own || joints >= MOST) close(program);
    else join(program, &meant);
  }
}

int main(int argc, char **argv) {
  if (argc != 3 || strlen(argv[2]) >= sizeof agent_address.sun_path) return 2;
  /* It is of no use without the agent that started it. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) return 1;
  signal(SIGPIPE, SIG_IGN);
  strcpy(agent_address.sun_path, argv[2]);
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  here.sin_port = htons((unsigned short)atoi(argv[1]));
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (const struct sockaddr *)&here, sizeof here) < 0) fail("bind");
  if (listen(listener, 1024) < 0) fail("listen");
  if ((poller = epoll_create1(EPOLL_CLOEXEC)) < 0) fail("epoll");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
  if (epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) < 0) fail("epoll");
  for (;;) {
    int count = epoll_wait(poller, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      if (events[i].data.ptr == NULL) greet(listener);
      else serve(events[i].data.ptr, events[i].events);
    }
    free_dropped();
  }
}
