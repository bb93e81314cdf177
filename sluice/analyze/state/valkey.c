/* Keeps exports in a list of Valkey, in their order: the first element has all state, the others the changes. */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel.h"

struct valkey {
  FILE *in, *out;
  char key[256];
  uint64_t next; /* element to read */
  uint8_t *bytes;
  size_t space;
};

struct valkey *valkey_open(const char *host, const char *port, const char *key) {
  const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  if (getaddrinfo(host, port, &wanted, &found) != 0) return NULL;
  int descriptor = -1;
  for (const struct addrinfo *one = found; one && descriptor < 0; one = one->ai_next) {
    descriptor = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (descriptor >= 0 && connect(descriptor, one->ai_addr, one->ai_addrlen) != 0) {
      close(descriptor);
      descriptor = -1;
    }
  }
  freeaddrinfo(found);
  /* each export waits for its reply: its last segment must not wait for the acknowledgement of those before (RFC 896) */
  const int at_once = 1;
  if (descriptor >= 0) setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  struct valkey *made = descriptor >= 0 ? calloc(1, sizeof(*made)) : NULL;
  if (made) {
    snprintf(made->key, sizeof(made->key), "%s", key);
    made->in = fdopen(descriptor, "rb");
    made->out = fdopen(dup(descriptor), "wb");
    if (made->in && made->out) return made;
    valkey_close(made);
  } else if (descriptor >= 0) {
    close(descriptor);
  }
  return NULL;
}

void valkey_close(struct valkey *valkey) {
  if (valkey->in) fclose(valkey->in);
  if (valkey->out) fclose(valkey->out);
  free(valkey->bytes);
  free(valkey);
}

/* A line of a reply without its end; NULL if there is none that fits. */
static const char *take_line(struct valkey *valkey, char *line, size_t space) {
  if (!fgets(line, (int)space, valkey->in)) return NULL;
  char *end = strstr(line, "\r\n");
  if (!end) return NULL;
  *end = 0;
  return line;
}

/* Replies that are numbers or statuses, or the array of them at the end of a transaction: 0 unless one is an error (RESP).
 * The commands sent here have no other answers. */
static int check(struct valkey *valkey, int is_element) {
  char line[512];
  if (!take_line(valkey, line, sizeof(line)) || !strchr(is_element ? "+:" : "+:*", line[0])) return -1;
  if (line[0] == '*')
    for (long left = strtol(line + 1, NULL, 10); left != 0; left--)
      if (left < 0 || check(valkey, 1) != 0) return -1; /* *-1: the transaction was not executed */
  return 0;
}

static void argument(struct valkey *valkey, const void *bytes, size_t size) {
  fprintf(valkey->out, "$%zu\r\n", size);
  fwrite(bytes, 1, size, valkey->out);
  fputs("\r\n", valkey->out);
}

int valkey_write(struct valkey *valkey, const uint8_t *bytes, size_t size, int first) {
  /* a reader never gets the list without its first element */
  if (first) {
    fputs("*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n", valkey->out);
    argument(valkey, valkey->key, strlen(valkey->key));
  }
  fputs("*3\r\n$5\r\nRPUSH\r\n", valkey->out);
  argument(valkey, valkey->key, strlen(valkey->key));
  argument(valkey, bytes, size);
  if (first) fputs("*1\r\n$4\r\nEXEC\r\n", valkey->out);
  if (fflush(valkey->out) != 0) return -1;
  for (int replies = first ? 4 : 1; replies > 0; replies--)
    if (check(valkey, 0) != 0) return -1;
  return 0;
}

int valkey_read(struct valkey *valkey, uint8_t **bytes, size_t *size) {
  char line[512], number[32];
  const int digits = snprintf(number, sizeof(number), "%llu", (unsigned long long)valkey->next++);
  fputs("*3\r\n$6\r\nLINDEX\r\n", valkey->out);
  argument(valkey, valkey->key, strlen(valkey->key));
  argument(valkey, number, (size_t)digits);
  if (fflush(valkey->out) != 0 || !take_line(valkey, line, sizeof(line)) || line[0] != '$') return CHANNEL_WRONG;
  const long long length = strtoll(line + 1, NULL, 10);
  if (length < 0) return 0; /* no such element */
  const int status = channel_take(valkey->in, (uint64_t)length + 2, &valkey->bytes, &valkey->space);
  if (status < 0) return status;
  *bytes = valkey->bytes;
  *size = (size_t)length;
  return 1;
}
