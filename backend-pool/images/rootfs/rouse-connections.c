/* Connections of a copied machine: all that it has with its host were its source's. */
#include "rouse-init.h"
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The host's address in every machine; what it forwards comes from there as well. */
#define HOST_ADDRESS 0x0a000202 /* 10.0.2.2 */

struct request {
  struct nlmsghdr header;
  struct inet_diag_req_v2 diag;
};

static int ask(int fd, unsigned short type, unsigned short flags, const struct inet_diag_req_v2 *diag) {
  struct request request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = type}, .diag = *diag};
  request.header.nlmsg_flags = NLM_F_REQUEST | flags;
  return send(fd, &request, sizeof request, 0) == (ssize_t)sizeof request;
}

static int is_with_host(const struct inet_diag_msg *socket) {
  const __be32 *peer = socket->id.idiag_dst;
  if (socket->idiag_family == AF_INET) return peer[0] == htonl(HOST_ADDRESS);
  return peer[0] == 0 && peer[1] == 0 && peer[2] == htonl(0xffff) && peer[3] == htonl(HOST_ADDRESS);
}

/* Answers whether the list goes on. */
static int end_some(const char *bytes, size_t size, int killer, unsigned int kept_port) {
  for (const struct nlmsghdr *at = (const void *)bytes; NLMSG_OK(at, size); at = NLMSG_NEXT(at, size)) {
    if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) return 0;
    if (at->nlmsg_type != SOCK_DIAG_BY_FAMILY || at->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg))) continue;
    const struct inet_diag_msg *socket = NLMSG_DATA(at);
    if (!is_with_host(socket) || ntohs(socket->id.idiag_sport) == kept_port) continue;
    struct inet_diag_req_v2 diag = {.sdiag_family = socket->idiag_family, .sdiag_protocol = IPPROTO_TCP};
    diag.id = socket->id;
    ask(killer, SOCK_DESTROY, 0, &diag); /* one that ends by itself meanwhile is as good */
  }
  return 1;
}

void end_connections(unsigned int kept_port) {
  static const unsigned char families[] = {AF_INET, AF_INET6};
  static char bytes[32768] __attribute__((aligned(8)));
  int lister = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  int killer = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  struct timeval limit = {.tv_sec = 1};
  setsockopt(lister, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  for (unsigned int i = 0; lister >= 0 && killer >= 0 && i < sizeof families; i++) {
    struct inet_diag_req_v2 all = {.sdiag_family = families[i], .sdiag_protocol = IPPROTO_TCP};
    all.idiag_states = ~(1U << TCP_LISTEN | 1U << TCP_CLOSE);
    if (!ask(lister, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &all)) continue;
    ssize_t size;
    while ((size = recv(lister, bytes, sizeof bytes, 0)) > 0)
      if (!end_some(bytes, (size_t)size, killer, kept_port)) break;
  }
  if (lister >= 0) close(lister);
  if (killer >= 0) close(killer);
}
