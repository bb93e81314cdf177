/* Callbacks that an event library calls from its loop; the library is libevent, of which no header is needed. */
#include <sys/socket.h>
#include <unistd.h>

#include "box.h"

struct event {
  char opaque[128];
};
void event_init(void);
void event_set(struct event *event, int descriptor, short what, void (*callback)(int, short, void *), void *argument);
int event_add(struct event *event, const void *timeout);
int event_dispatch(void);

struct connection {
  int peer;
  uint64_t bytes;
  struct event event;
};

static struct event accepting; /* persistent */
static unsigned connections; /* top-level updated */
static uint64_t total; /* top-level updated */
static int peer = -1; /* top-level; to packets */

static void on_data(int descriptor, short what, void *argument) {
  char buffer[4096];
  struct connection *connection = argument;
  ssize_t length = recv(descriptor, buffer, sizeof(buffer), 0);
  (void)what;
  if (length <= 0) return;
  connection->bytes += (uint64_t)length;
  total += (uint64_t)length;
  send(connection->peer, buffer, (size_t)length, 0);
}

static void on_accept(int descriptor, short what, void *argument) {
  struct connection *connection = calloc(1, sizeof(*connection));
  (void)what;
  (void)argument;
  connections++;
  connection->peer = peer;
  event_set(&connection->event, accept(descriptor, NULL, NULL), 2, on_data, connection);
  event_add(&connection->event, NULL);
}

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  peer = dup(listener);
  event_init();
  event_set(&accepting, listener, 2, on_accept, NULL);
  event_add(&accepting, NULL);
  return event_dispatch();
}
