/* Balances UDP over servers with sockets: round robin for new clients, and a table of those that are known. */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "box.h"

#define CLIENTS 512

struct client {
  uint32_t address;
  unsigned server;
};

static struct sockaddr_in servers[4]; /* top-level; to packets */
static unsigned server_count; /* top-level; to packets logs */
static unsigned turn; /* top-level updated; to packets logs */
static struct client clients[CLIENTS]; /* top-level updated; key sockaddr_in.sin_addr; to packets logs */
static char text[64]; /* top-level overwritten; to logs */
static char buffer[2048]; /* top-level overwritten; to packets */
static int verbose; /* top-level; to logs */

static unsigned server_of(uint32_t address) {
  struct client *client = &clients[address % CLIENTS];
  if (client->address != address) {
    client->address = address;
    client->server = turn++ % server_count;
    if (verbose) {
      snprintf(text, sizeof(text), "%u: %u", address, client->server);
      puts(text);
    }
  }
  return client->server;
}

int main(int argc, char **argv) {
  struct sockaddr_in any = {.sin_family = AF_INET}; /* persistent: its address was given to the library */
  int listener = socket(AF_INET, SOCK_DGRAM, 0); /* top-level; to packets logs */
  verbose = argc > 5;
  for (int i = 1; i < argc && i < 5; i++) servers[server_count++].sin_addr.s_addr = (uint32_t)atoi(argv[i]);
  bind(listener, (struct sockaddr *)&any, sizeof(any));
  for (;;) {
    struct sockaddr_in from;
    socklen_t size = sizeof(from);
    ssize_t length = recvfrom(listener, buffer, sizeof(buffer), 0, (struct sockaddr *)&from, &size);
    if (length < 0) continue;
    struct sockaddr_in *to = &servers[server_of(from.sin_addr.s_addr)];
    sendto(listener, buffer, (size_t)length, 0, (struct sockaddr *)to, sizeof(*to));
  }
}
