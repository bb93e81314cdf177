/* A UDP relay with poll: a table of clients, and the structures of the loop. */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "box.h"

#define CLIENTS 64

struct client {
  struct sockaddr_in address;
  int socket;
  uint64_t bytes;
};

static struct client clients[CLIENTS]; /* top-level updated; key sockaddr_in.sin_port; to packets */
static struct sockaddr_in server; /* top-level; to packets */
static int listener; /* top-level; to packets */
static unsigned refused; /* top-level updated */

static int client_of(const struct sockaddr_in *address) {
  for (int i = 0; i < CLIENTS; i++)
    if (clients[i].address.sin_port == address->sin_port) return i;
  for (int i = 0; i < CLIENTS; i++)
    if (!clients[i].socket) {
      clients[i].address = *address;
      clients[i].socket = socket(AF_INET, SOCK_DGRAM, 0);
      return i;
    }
  refused++;
  return -1;
}

static void from_client(void) {
  char buffer[2048];
  struct sockaddr_in address;
  socklen_t size = sizeof(address);
  ssize_t length = recvfrom(listener, buffer, sizeof(buffer), 0, (struct sockaddr *)&address, &size);
  int client = length < 0 ? -1 : client_of(&address);
  if (client < 0) return;
  clients[client].bytes += (uint64_t)length;
  sendto(clients[client].socket, buffer, (size_t)length, 0, (struct sockaddr *)&server, sizeof(server));
}

static void from_server(struct client *client) {
  char buffer[2048];
  ssize_t length = recv(client->socket, buffer, sizeof(buffer), 0);
  if (length > 0)
    sendto(listener, buffer, (size_t)length, 0, (struct sockaddr *)&client->address, sizeof(client->address));
}

int main(void) {
  struct pollfd waiting[CLIENTS + 1]; /* top-level overwritten; to packets */
  int count;
  listener = socket(AF_INET, SOCK_DGRAM, 0);
  server.sin_port = htons(53);
  bind(listener, (struct sockaddr *)&server, sizeof(server));
  for (;;) {
    count = 0;
    waiting[count].fd = listener;
    waiting[count++].events = POLLIN;
    for (int i = 0; i < CLIENTS; i++) {
      waiting[count].fd = clients[i].socket;
      waiting[count++].events = POLLIN;
    }
    if (poll(waiting, (nfds_t)count, -1) < 0) continue;
    if (waiting[0].revents) from_client();
    for (int j = 0; j < CLIENTS; j++) /* top-level updated: its loop receives; to packets */
      if (waiting[j + 1].revents) from_server(&clients[j]);
  }
}
